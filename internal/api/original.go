package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/task"
)

// The original's endpoints, whose clients must go on working: fields and messages are theirs.
func (a *API) addOriginal(r *routes) {
	request := &huma.RequestBody{Required: true, Content: content("application/json", &huma.Schema{
		Type: huma.TypeObject, Required: []string{"userId", "task"}, AdditionalProperties: true,
		Properties: map[string]*huma.Schema{
			"userId":    {Type: huma.TypeString, Description: "At most 100 characters."},
			"task":      {Type: huma.TypeString, Description: "At most 10,000 characters."},
			"context":   {Description: "What the model is told besides, any JSON."},
			"sessionId": {Type: huma.TypeString, Description: "The conversation that it goes on with."},
			"model":     {Type: huma.TypeString, Description: "Another model than the configured one."},
		},
	})}
	key := []*huma.Param{param("header", "Idempotency-Key", "A repeated request with the same key returns the first one's task.")}
	r.add(&huma.Operation{
		OperationID: "task", Method: http.MethodPost, Path: "/task", Tags: []string{"original"}, Summary: "Work a task and wait for it",
		Parameters: key, RequestBody: request,
		Responses: answers("200", "How it ended, also where it failed", content("application/json", a.schemaOf(OriginalAnswer{}))),
	}, a.runTask)
	r.add(&huma.Operation{
		OperationID: "taskStream", Method: http.MethodPost, Path: "/task/stream", Tags: []string{"original"},
		Summary: "The same, with the answer as it is written", Parameters: key, RequestBody: request,
		Responses: answers("200", `Lines of data: {"chunk": text}, or {"error": text} where it failed; at the end data: [DONE]`,
			content("text/event-stream", &huma.Schema{Type: huma.TypeString})),
	}, a.streamTask)
}

// maxTask is the most characters of a task that the original's documents allow.
const maxTask = 10_000

// originalRequest reads the body of /task. The messages are the original's.
func originalRequest(r *http.Request) (TaskRequest, error) {
	bad := func(message string) (TaskRequest, error) {
		return TaskRequest{}, problem(http.StatusBadRequest, message)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return TaskRequest{}, err
	}
	var fields map[string]json.RawMessage
	if len(text) > 0 && json.Unmarshal(text, &fields) != nil {
		return bad("the body is not a JSON object")
	}
	var t TaskRequest
	for _, f := range []struct {
		name string
		to   *string
	}{{"userId", &t.UserID}, {"task", &t.Task}, {"sessionId", &t.SessionID}, {"model", &t.Model}} {
		if raw, there := fields[f.name]; there && json.Unmarshal(raw, f.to) != nil {
			return bad("Invalid input types")
		}
	}
	if raw, there := fields["context"]; there {
		if err := json.Unmarshal(raw, &t.Context); err != nil {
			return bad("Invalid input types")
		}
	}
	if t.UserID == "" {
		t.UserID = identity(r.Context()).User
	}
	switch {
	case t.UserID == "" || t.Task == "":
		return bad("userId and task are required")
	case utf8.RuneCountInString(t.UserID) > auth.MaxUser || utf8.RuneCountInString(t.Task) > maxTask:
		return bad("Input too long")
	}
	return t, nil
}

// OriginalAnswer is what /task answers.
type OriginalAnswer struct {
	Message   string          `json:"message" doc:"A sentence on how it ended."`
	Logs      []string        `json:"logs" doc:"Console lines of its programs."`
	Output    json.RawMessage `json:"output,omitempty" doc:"What the last program returned; empty if it failed, absent if none ran."`
	Text      string          `json:"text,omitempty" doc:"The model's answer."`
	Error     string          `json:"error,omitempty" doc:"Why it failed."`
	TaskID    string          `json:"taskId"`
	SessionID string          `json:"sessionId"`
	Runs      []string        `json:"runs" doc:"Ids of its programs' runs."`
	Usage     task.Usage      `json:"usage"`
}

func originalOf(t task.Task) OriginalAnswer {
	out := OriginalAnswer{
		Message: t.Message, Logs: list(t.Logs), Output: t.Output, Text: t.Text, TaskID: t.ID, SessionID: t.SessionID,
		Runs: list(t.Runs), Usage: t.Usage,
	}
	if len(t.Runs) > 0 && len(t.Output) == 0 {
		out.Output = json.RawMessage("null") // the field is there whenever code ran
	}
	if t.Error != nil {
		out.Error = t.Error.Message
	}
	return out
}

// runTask works a task while the caller waits. A task whose caller goes away is cancelled, unless an idempotency key
// lets the caller ask again.
func (a *API) runTask(w http.ResponseWriter, r *http.Request) error {
	t, err := a.begin(r)
	if err != nil {
		return err
	}
	ctx, stop := a.streamContext(r.Context())
	defer stop()
	id := t.ID
	t, err = a.opt.Tasks.Wait(ctx, id)
	switch {
	case err != nil && a.closing.Err() != nil:
		return problem(http.StatusServiceUnavailable, "the server stops; the task goes on when it is back, as "+id)
	case err != nil:
		a.abandon(r, id)
		return err
	case t.Error != nil && t.Error.Kind == task.KindInternal:
		return problem(http.StatusInternalServerError, t.Error.Message)
	}
	answer(w, http.StatusOK, originalOf(t))
	return nil
}

// begin adds the task of a request to /task.
func (a *API) begin(r *http.Request) (task.Task, error) {
	request, err := originalRequest(r)
	if err != nil {
		return task.Task{}, err
	}
	return a.submit(r.Context(), request, r.Header.Get("Idempotency-Key"))
}

// abandon cancels the task of a caller who went away.
func (a *API) abandon(r *http.Request, id string) {
	if r.Header.Get("Idempotency-Key") != "" {
		return
	}
	ctx := context.WithoutCancel(r.Context())
	if _, err := a.opt.Tasks.Cancel(ctx, id); err != nil && !errors.Is(err, task.ErrEnded) && !errors.Is(err, task.ErrNotFound) {
		a.opt.Logger.ErrorContext(logged(ctx), "cancel an abandoned task", "error", err)
	}
}

// streamTask is /task with the answer as it is written.
func (a *API) streamTask(w http.ResponseWriter, r *http.Request) error {
	t, err := a.begin(r)
	if err != nil {
		return err
	}
	ctx, stop := a.streamContext(r.Context())
	defer stop()
	s := startStream(ctx, w)
	out := chunks{send: func(text string) error { return s.data(map[string]string{"chunk": text}) }}
	last, err := a.forward(ctx, t.ID, 0, out.event, func() error { return s.raw(": still there\n\n") })
	switch {
	case a.closing.Err() != nil:
		return nil // without the end, so that the client sees that there is more
	case err != nil:
		a.abandon(r, t.ID)
		return nil
	}
	if err := json.Unmarshal(last.Data, &t); err == nil && t.Error != nil {
		s.data(map[string]string{"error": t.Error.Message})
	}
	s.raw("data: [DONE]\n\n")
	return nil
}

// chunks makes of the events of a task a text that only grows: what was sent cannot be taken back, and a watcher that was
// slow has missed pieces.
type chunks struct {
	send func(text string) error
	turn string // what the model has written in this turn
	sent string // and what of that the client has
}

func (c *chunks) event(e task.Event) error {
	var d struct {
		Text  string `json:"text"`
		Reset bool   `json:"reset"`
	}
	if e.Type != task.EventDelta && e.Type != task.EventTurn {
		return nil
	}
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return err
	}
	switch {
	case e.Type == task.EventTurn:
		c.turn = d.Text
	case d.Reset:
		c.turn = ""
	default:
		c.turn += d.Text
	}
	rest, grows := strings.CutPrefix(c.turn, c.sent)
	if e.Type == task.EventTurn {
		if !grows && c.turn != "" {
			rest = "\n\n" + c.turn // another answer than the one that it began with
		}
		c.turn, c.sent = "", ""
	} else if grows {
		c.sent = c.turn
	} else {
		return nil
	}
	if rest == "" {
		return nil
	}
	return c.send(rest)
}
