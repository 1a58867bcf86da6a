package sqlite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// request is what was asked for, as far as no query asks for it.
type request struct {
	Task      string          `json:"task"`
	Context   json.RawMessage `json:"context,omitempty"` // of schedules; that of tasks has a column of its own
	Model     string          `json:"model,omitempty"`
	Budget    task.Budget     `json:"budget,omitzero"`
	Principal string          `json:"principal,omitempty"`
	Callback  string          `json:"callback,omitempty"`
	Schedule  string          `json:"schedule,omitempty"`
	Trace     string          `json:"trace,omitempty"`
}

// outcome is what came of a task, as far as no query asks for it.
type outcome struct {
	Message string          `json:"message,omitempty"`
	Text    string          `json:"text,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   *task.Error     `json:"error,omitempty"`
	Logs    []string        `json:"logs,omitempty"`
	Runs    []string        `json:"runs,omitempty"`
	Usage   task.Usage      `json:"usage"`
}

// taskRow is a task as its table keeps it.
type taskRow struct {
	num, fence                                 int64
	id, session, user, status, owner, cacheKey string
	cancel, cached                             bool
	created                                    int64
	runAt, started, ended                      *int64
	context, request, outcome                  []byte
}

// taskColumns are what scan reads; a task of a closed session is gone. A list has NULL for the context.
const (
	taskColumns = taskHeadColumns + ", t.context"
	listColumns = taskHeadColumns + ", NULL"

	taskHeadColumns = `t.num, t.id, s.id, t.user, t.status, t.owner, t.fence, t.cancel, t.cached, t.cache_key,
		t.created, t.run_at, t.started, t.ended, t.request, t.outcome`
	// CROSS keeps SQLite from beginning with the sessions.
	taskTables = " FROM tasks t CROSS JOIN sessions s ON s.num = t.session WHERE t.purged = 0 AND s.closed IS NULL"
)

func (r *taskRow) scan(rows scanner) error {
	return rows.Scan(&r.num, &r.id, &r.session, &r.user, &r.status, &r.owner, &r.fence, &r.cancel, &r.cached, &r.cacheKey,
		&r.created, &r.runAt, &r.started, &r.ended, &r.request, &r.outcome, &r.context)
}

// encodeTask makes a task's row. now is the end of a task that has ended and does not say when.
func encodeTask(t *task.Task, now time.Time) (*taskRow, error) {
	r := &taskRow{
		id: t.ID, session: t.SessionID, user: t.UserID, status: string(t.Status), cacheKey: t.CacheKey, cached: t.Cached, context: t.Context,
		created: t.CreatedAt.UnixMicro(), runAt: micros(t.RunAt), started: micros(t.StartedAt),
	}
	if t.Status.Ended() { // ended says for every query whether a task has
		if r.ended = micros(t.EndedAt); r.ended == nil {
			r.ended = micros(&now)
		}
	}
	if len(t.Context) > 0 && !json.Valid(t.Context) {
		return nil, fmt.Errorf("%w: context is not JSON", task.ErrInvalidInput)
	}
	var err error
	if r.request, err = encodeJSON(request{
		Task: t.Task, Model: t.Model, Budget: t.Budget,
		Principal: t.Principal, Callback: t.CallbackURL, Schedule: t.Schedule, Trace: t.Trace,
	}); err != nil {
		return nil, err
	}
	r.outcome, err = encodeJSON(outcome{
		Message: t.Message, Text: t.Text, Output: t.Output, Error: t.Error, Logs: t.Logs, Runs: t.Runs, Usage: t.Usage,
	})
	return r, err
}

func (r *taskRow) task() (task.Task, error) {
	var asked request
	var came outcome
	for _, part := range []struct {
		data []byte
		into any
	}{{r.request, &asked}, {r.outcome, &came}} {
		if err := json.Unmarshal(part.data, part.into); err != nil {
			return task.Task{}, fmt.Errorf("task %q as it is stored: %w", r.id, err)
		}
	}
	t := task.Task{
		ID: r.id, SessionID: r.session, UserID: r.user, Status: task.Status(r.status), Owner: r.owner, CacheKey: r.cacheKey,
		Fence: r.fence, CancelRequested: r.cancel, Cached: r.cached,
		CreatedAt: instant(r.created), RunAt: instantOrNil(r.runAt), StartedAt: instantOrNil(r.started), EndedAt: instantOrNil(r.ended),
		Task: asked.Task, Context: asked.Context, Model: asked.Model, Budget: asked.Budget,
		Principal: asked.Principal, CallbackURL: asked.Callback, Schedule: asked.Schedule, Trace: asked.Trace,
		Message: came.Message, Text: came.Text, Output: came.Output, Error: came.Error, Usage: came.Usage,
		Logs: came.Logs, Runs: came.Runs,
	}
	if r.context != nil {
		t.Context = r.context
	}
	if t.Logs == nil {
		t.Logs = []string{} // callers are shown an empty array
	}
	if t.Runs == nil {
		t.Runs = []string{}
	}
	return t, nil
}

// changeRows is a task.Change as it is stored. It shares nothing with the change.
type changeRows struct {
	steps   [][]byte
	events  []task.Event
	task    *taskRow
	webhook *task.Webhook
	bytes   int
}

func encodeChange(ch *task.Change, now time.Time) (*changeRows, error) {
	r := &changeRows{events: encodeEvents(ch.Events)}
	for _, step := range ch.Steps {
		step.Seq = 0 // the row has it
		data, err := encodeJSON(step)
		if err != nil {
			return nil, fmt.Errorf("encode a step: %w", err)
		}
		r.steps = append(r.steps, data)
		r.bytes += len(data)
	}
	if ch.Task != nil {
		var err error
		if r.task, err = encodeTask(ch.Task, now); err != nil {
			return nil, fmt.Errorf("encode the task: %w", err)
		}
		r.bytes += len(r.task.outcome)
	}
	if ch.Webhook != nil {
		hook := *ch.Webhook
		r.webhook = &hook
	}
	for _, e := range r.events {
		r.bytes += len(storedData(e))
	}
	return r, nil
}

// encodeEvents copies events, with the times that they will have when they are read.
func encodeEvents(events []task.Event) []task.Event {
	out := make([]task.Event, len(events))
	for i, e := range events {
		e.Time = instant(e.Time.UnixMicro())
		e.Data = append([]byte{}, bytes.TrimSpace(e.Data)...)
		out[i] = e
	}
	return out
}
