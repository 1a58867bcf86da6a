package sqlstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/task"
)

// request contains the fields of a task's or schedule's request that are stored as JSON, because no query needs them.
type request struct {
	Task      string          `json:"task"`
	Context   json.RawMessage `json:"context,omitempty"` // only for a schedule; the context of a task has a column of its own
	Model     string          `json:"model,omitempty"`
	Budget    task.Budget     `json:"budget,omitzero"`
	From      pii.Origin      `json:"from,omitempty"`
	Principal string          `json:"principal,omitempty"`
	Roles     []auth.Role     `json:"roles,omitempty"`
	Callback  string          `json:"callback,omitempty"`
	Reveal    bool            `json:"reveal,omitempty"`
	Schedule  string          `json:"schedule,omitempty"`
	Trace     string          `json:"trace,omitempty"`
}

// outcome contains the fields of a task's outcome that are stored as JSON, because no query needs them. Their JSON names are those of task.Task.
type outcome struct {
	Message string          `json:"message,omitempty"`
	Text    string          `json:"text,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   *task.Error     `json:"error,omitempty"`
	Logs    []string        `json:"logs,omitempty"`
	Runs    []string        `json:"runs,omitempty"`
	Usage   task.Usage      `json:"usage"`
}

// taskRow is a task as it will be read back, with the JSON of its row.
type taskRow struct {
	task.Task
	request, outcome []byte
}

// The tasks of closed sessions are not selected. Lists select NULL for the context.
const (
	taskColumns = taskHeadColumns + ", t.context"
	listColumns = taskHeadColumns + ", NULL"

	taskHeadColumns = `SELECT t.num, t.id, s.id, t.user, t.status, t.owner, t.fence, t.cancel, t.cached, t.cache_key,
		t.created, t.run_at, t.started, t.ended, t.request, t.outcome, length(t.request) + length(t.outcome)`
	// With CROSS JOIN, SQLite reads the tasks first and then their sessions.
	taskTables = " FROM tasks t" + sessionOfTask
	// openTask selects the task ?1 by its id. The condition purged <> 1 keeps Postgres from reading the whole of an index of the rows with purged = 0.
	openTask      = " FROM tasks t CROSS JOIN sessions s ON s.num = t.session WHERE t.purged <> 1 AND s.closed IS NULL AND t.id = ?1"
	sessionOfTask = " CROSS JOIN sessions s ON s.num = t.session WHERE t.purged = 0 AND s.closed IS NULL"
)

// storedTask is a task with its tasks.num and the number of bytes of its JSON.
type storedTask struct {
	task.Task
	num   int64
	bytes int
}

func scanTask(row scanner) (t storedTask, err error) {
	var asked request
	var context []byte
	t.Logs, t.Runs = []string{}, []string{} // empty arrays, not null, in the JSON of the task
	if err := row.Scan(&t.num, &t.ID, &t.SessionID, &t.UserID, &t.Status, &t.Owner, &t.Fence, &t.CancelRequested, &t.Cached, &t.CacheKey,
		instant{&t.CreatedAt}, optional{&t.RunAt}, optional{&t.StartedAt}, optional{&t.EndedAt},
		object{&asked}, object{&t.Task}, &t.bytes, &context); err != nil {
		return t, fmt.Errorf("task %q as it is stored: %w", t.ID, err)
	}
	t.Task.Task, t.Context, t.Model, t.Budget = asked.Task, asked.Context, asked.Model, asked.Budget
	t.From, t.Principal, t.Roles, t.CallbackURL, t.Reveal = asked.From, asked.Principal, asked.Roles, asked.Callback, asked.Reveal
	t.Schedule, t.Trace = asked.Schedule, asked.Trace
	if context != nil {
		t.Context = context
	}
	return t, nil
}

// encodeTask returns the row of a task. The row shares only immutable memory with the task. now becomes the end of an ended task without
// EndedAt.
func encodeTask(t task.Task, now time.Time) (*taskRow, error) {
	if len(t.Context) > 0 && !json.Valid(t.Context) {
		return nil, fmt.Errorf("%w: context is not JSON", task.ErrInvalidInput)
	}
	asked, err := journal.Encode(request{
		Task: t.Task, Model: t.Model, Budget: t.Budget,
		From: t.From, Principal: t.Principal, Roles: t.Roles, Callback: t.CallbackURL, Reveal: t.Reveal, Schedule: t.Schedule, Trace: t.Trace,
	})
	if err != nil {
		return nil, err
	}
	came, err := journal.Encode(outcome{
		Message: t.Message, Text: t.Text, Output: t.Output, Error: t.Error, Logs: t.Logs, Runs: t.Runs, Usage: t.Usage,
	})
	if err != nil {
		return nil, err
	}
	switch {
	case !t.Status.Ended():
		t.EndedAt = nil // queries tell by the column ended whether a task has ended
	case t.EndedAt == nil:
		t.EndedAt = &now
	}
	t.CreatedAt = inMicros(t.CreatedAt)
	for _, at := range []**time.Time{&t.RunAt, &t.StartedAt, &t.EndedAt} {
		if *at != nil {
			when := inMicros(**at)
			*at = &when
		}
	}
	t.Logs, t.Runs = append([]string{}, t.Logs...), append([]string{}, t.Runs...)
	return &taskRow{t, asked, came}, nil
}

// inMicros returns a time in UTC with the precision of the store, microseconds.
func inMicros(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

// changeRows is a task.Change as it is stored. It shares no memory with the change.
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
		step.Seq = 0 // stored in a column of its own
		data, err := journal.Encode(step)
		if err != nil {
			return nil, fmt.Errorf("encode a step: %w", err)
		}
		r.steps = append(r.steps, data)
		r.bytes += len(data)
	}
	if ch.Task != nil {
		var err error
		if r.task, err = encodeTask(*ch.Task, now); err != nil {
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

// encodeEvents copies events, with their times as they will be read back.
func encodeEvents(events []task.Event) []task.Event {
	out := make([]task.Event, len(events))
	for i, e := range events {
		e.Time = inMicros(e.Time)
		e.Data = append([]byte{}, bytes.TrimSpace(e.Data)...)
		out[i] = e
	}
	return out
}
