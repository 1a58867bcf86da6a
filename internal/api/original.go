package api

import (
	"cmp"
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

const (
	taskPath       = "/task"
	taskStreamPath = "/task/stream"
)

// addOriginal adds the original system's endpoints. Their fields and messages are part of the contract with the clients of that system.
func (a *API) addOriginal(r *routes) {
	request := &huma.RequestBody{Required: true, Content: content("application/json", &huma.Schema{
		Type: huma.TypeObject, Required: []string{"userId", "task"}, AdditionalProperties: true,
		Properties: map[string]*huma.Schema{
			"userId":    {Type: huma.TypeString, Description: "At most 100 characters."},
			"task":      {Type: huma.TypeString, Description: "At most 10,000 characters."},
			"context":   {Description: "More information for the model, any JSON."},
			"sessionId": {Type: huma.TypeString, Description: "The session that the task continues."},
			"model":     {Type: huma.TypeString, Description: "A model other than the configured one."},
		},
	})}
	key := []*huma.Param{param("header", "Idempotency-Key", "A repeated request with the same key returns the first one's task.")}
	r.add(&huma.Operation{
		OperationID: "task", Method: http.MethodPost, Path: taskPath, Tags: []string{"original"}, Summary: "Work a task and wait for it",
		Parameters: key, RequestBody: request,
		Responses: answers("200", "The outcome of the task, also of one that failed", content("application/json", a.schemaOf(OriginalAnswer{}))),
	}, a.runTask)
	r.add(&huma.Operation{
		OperationID: "taskStream", Method: http.MethodPost, Path: taskStreamPath, Tags: []string{"original"},
		Summary: "The same, with the answer as it is written", Parameters: key, RequestBody: request,
		Responses: answers("200", `Lines of data: {"chunk": text}; {"error": text} if the task failed; at the end data: [DONE]`,
			content("text/event-stream", &huma.Schema{Type: huma.TypeString})),
	}, a.streamTask)
}

// maxTask is the maximum number of characters of a task.
const maxTask = 10_000

// originalRequest reads the body of /task. Its error messages are those of the original system.
func originalRequest(r *http.Request) (TaskRequest, error) {
	bad := func(message string) (TaskRequest, error) {
		return TaskRequest{}, problem(http.StatusBadRequest, message)
	}
	defer visitOf(r.Context()).decoded()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return TaskRequest{}, err
	}
	var fields map[string]json.RawMessage
	if len(text) > 0 && json.Unmarshal(text, &fields) != nil {
		return bad("the body is not a JSON object")
	}
	var t TaskRequest
	for name, to := range map[string]any{
		"userId": &t.UserID, "task": &t.Task, "sessionId": &t.SessionID, "model": &t.Model, "context": &t.Context,
	} {
		if raw, there := fields[name]; there && json.Unmarshal(raw, to) != nil {
			return bad("Invalid input types")
		}
	}
	t.UserID = cmp.Or(t.UserID, identity(r.Context()).User)
	switch {
	case t.UserID == "" || t.Task == "":
		return bad("userId and task are required")
	case utf8.RuneCountInString(t.UserID) > auth.MaxUser || utf8.RuneCountInString(t.Task) > maxTask:
		return bad("Input too long")
	}
	return t, nil
}

// OriginalAnswer is the answer of /task.
type OriginalAnswer struct {
	Message   string          `json:"message" doc:"A sentence on how the task ended."`
	Logs      []string        `json:"logs" doc:"Console lines of its programs."`
	Output    json.RawMessage `json:"output,omitempty" doc:"The value of the last program; empty if it failed, absent if none ran."`
	Text      string          `json:"text,omitempty" doc:"The model's answer."`
	Error     string          `json:"error,omitempty" doc:"Why the task failed."`
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
		out.Output = json.RawMessage("null") // the field is present whenever a program ran
	}
	if t.Status == task.WaitingApproval {
		out.Message = "The task waits for an approval: GET /v1/approvals shows what it asks, and GET /v1/tasks/" + t.ID + " how it ends."
	}
	if t.Error != nil {
		out.Error = t.Error.Message
	}
	return out
}

// addOriginalTask submits the task of a request to /task or /task/stream.
func (a *API) addOriginalTask(r *http.Request) (t task.Task, err error) {
	request, err := originalRequest(r)
	if err == nil {
		t, err = a.submit(r.Context(), request, r.Header.Get("Idempotency-Key"))
	}
	return t, err
}

// runTask submits a task and answers when it has ended. If the caller disconnects, it cancels the task unless the request has an idempotency key.
func (a *API) runTask(w http.ResponseWriter, r *http.Request) error {
	t, err := a.addOriginalTask(r)
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
	if t, err = a.shownTask(ctx, t); err != nil {
		return err
	}
	answer(w, http.StatusOK, originalOf(t))
	return nil
}

// abandon cancels the task of a caller who has disconnected, unless the request has an idempotency key.
func (a *API) abandon(r *http.Request, id string) {
	if r.Header.Get("Idempotency-Key") != "" {
		return
	}
	ctx := context.WithoutCancel(r.Context())
	if _, err := a.opt.Tasks.Cancel(ctx, id); err != nil && !errors.Is(err, task.ErrEnded) && !errors.Is(err, task.ErrNotFound) {
		a.opt.Logger.ErrorContext(logged(ctx), "cancel an abandoned task", "error", err)
	}
}

// streamTask does the same as runTask, but sends the answer while the model writes it.
func (a *API) streamTask(w http.ResponseWriter, r *http.Request) error {
	t, err := a.addOriginalTask(r)
	if err != nil {
		return err
	}
	ctx, stop := a.streamContext(r.Context())
	defer stop()
	s := startStream(ctx, w)
	out := chunks{send: func(text string) error { return s.data(map[string]string{"chunk": text}) }}
	last, err := a.forward(ctx, t, 0, out.event, s.heartbeat)
	switch {
	case a.closing.Err() != nil:
		return nil // ends without [DONE], so that the client sees that the stream is incomplete
	case err != nil:
		a.abandon(r, t.ID)
		return nil
	}
	if err := json.Unmarshal(last.Data, &t); err == nil && t.Error != nil {
		s.data(map[string]string{"error": t.Error.Message})
	}
	s.raw([]byte("data: [DONE]\n\n"))
	return nil
}

// chunks turns the events of a task into a text that only grows, because text that was sent cannot be taken back. It allows for missing deltas:
// a slow watcher misses some, and the final text of each turn completes what was sent.
type chunks struct {
	send func(text string) error
	turn string // text of the model in this turn
	sent string // beginning of turn that was sent to the client
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
			rest = "\n\n" + c.turn // the final text of the turn does not continue what was sent
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
