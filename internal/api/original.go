package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// The original's endpoints, whose clients must go on working: fields and messages are theirs.
func (a *API) addOriginal(mux *http.ServeMux) {
	mux.HandleFunc("POST /task", a.runTask)
	mux.HandleFunc("POST /task/stream", a.streamTask)
	if a.opt.Health {
		mux.HandleFunc("GET /health", a.health)
	}
	if !a.opt.InternalElsewhere {
		mux.HandleFunc("POST /internal/mcp-call", a.mcpCall)
	}
}

// The most characters that the original's documents allow.
const (
	mostUser = 100
	mostTask = 10_000
)

// originalRequest reads the body of /task. The messages are the original's.
func originalRequest(r *http.Request) (TaskRequest, error) {
	bad := func(message string) (TaskRequest, error) {
		return TaskRequest{}, problem(http.StatusBadRequest, message)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return TaskRequest{}, tooLarge(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
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
	if raw, ok := fields["context"]; ok && string(raw) != "null" {
		if json.Unmarshal(raw, &t.Context) != nil {
			return bad("Invalid input types")
		}
	}
	if t.UserID == "" {
		t.UserID = identity(r.Context()).User
	}
	switch {
	case t.UserID == "" || t.Task == "":
		return bad("userId and task are required")
	case utf8.RuneCountInString(t.UserID) > mostUser || utf8.RuneCountInString(t.Task) > mostTask:
		return bad("Input too long")
	}
	return t, nil
}

// tooLarge explains a body that could not be read.
func tooLarge(err error) error {
	var limit *http.MaxBytesError
	if errors.As(err, &limit) {
		return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes (server.bodyLimit)", limit.Limit))
	}
	return problem(http.StatusBadRequest, "the body could not be read")
}

// originalAnswer is what /task answers.
type originalAnswer struct {
	Message   string          `json:"message"`
	Logs      []string        `json:"logs"`
	Output    json.RawMessage `json:"output,omitempty"`
	Text      string          `json:"text,omitempty"`
	Error     string          `json:"error,omitempty"`
	TaskID    string          `json:"taskId"`
	SessionID string          `json:"sessionId"`
	Runs      []string        `json:"runs"`
	Usage     task.Usage      `json:"usage"`
}

func originalOf(t task.Task) originalAnswer {
	out := originalAnswer{
		Message: t.Message, Logs: list(t.Logs), Output: t.Output, Text: t.Text, TaskID: t.ID, SessionID: t.SessionID,
		Runs: list(t.Runs), Usage: t.Usage,
	}
	if t.Error != nil {
		out.Error = t.Error.Message
	}
	return out
}

// runTask works a task while the caller waits. A task whose caller goes away is cancelled, unless an idempotency key
// lets the caller ask again.
func (a *API) runTask(w http.ResponseWriter, r *http.Request) {
	t, err := a.begin(r)
	if err == nil {
		ctx, stop := a.streamContext(r)
		defer stop()
		id := t.ID
		t, err = a.opt.Tasks.Wait(ctx, id)
		a.abandon(r, id, err)
		if err != nil && a.closing.Err() != nil {
			err = problem(http.StatusServiceUnavailable, "the server stops; task "+id+" goes on when it is back")
		}
	}
	switch {
	case err != nil:
		a.refuse(w, r, err)
	case t.Error != nil && t.Error.Kind == task.KindInternal:
		a.refuse(w, r, problem(http.StatusInternalServerError, t.Error.Message))
	default:
		answer(w, http.StatusOK, originalOf(t))
	}
}

// begin adds the task of a request to /task.
func (a *API) begin(r *http.Request) (task.Task, error) {
	request, err := originalRequest(r)
	if err != nil {
		return task.Task{}, err
	}
	t, _, err := a.submit(r.Context(), request, r.Header.Get("Idempotency-Key"))
	return t, err
}

// abandon cancels the task of a caller who went away.
func (a *API) abandon(r *http.Request, id string, err error) {
	if err == nil || r.Context().Err() == nil || id == "" || r.Header.Get("Idempotency-Key") != "" {
		return
	}
	if _, err := a.opt.Tasks.Cancel(context.WithoutCancel(r.Context()), id); err != nil && !errors.Is(err, task.ErrEnded) {
		a.opt.Logger.ErrorContext(r.Context(), "cancel an abandoned task", "task", id, "error", err)
	}
}

// streamTask is /task with the answer as it is written.
func (a *API) streamTask(w http.ResponseWriter, r *http.Request) {
	t, err := a.begin(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	s := startStream(w)
	ctx, stop := a.streamContext(r)
	defer stop()
	streamed := "" // of the turn under way
	for e, err := range a.opt.Tasks.Events(ctx, t.ID, 0) {
		if err != nil {
			a.abandon(r, t.ID, err)
			return
		}
		var d struct {
			Text string `json:"text"`
		}
		switch e.Type {
		case task.EventDelta:
			if json.Unmarshal(e.Data, &d) == nil && d.Text != "" {
				streamed += d.Text
				s.data(map[string]string{"chunk": d.Text})
			}
		case task.EventTurn:
			// A model that does not stream, or an answer of which a watcher missed pieces.
			if json.Unmarshal(e.Data, &d) == nil && d.Text != "" && streamed == "" {
				s.data(map[string]string{"chunk": d.Text})
			}
			streamed = ""
		}
	}
	if t, err = a.opt.Tasks.Task(ctx, t.ID); err == nil && t.Error != nil {
		s.data(map[string]string{"error": t.Error.Message})
	}
	s.raw("data: [DONE]\n\n")
}

func (a *API) health(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"status": "ok", "timestamp": a.opt.Now().UTC().Format("2006-01-02T15:04:05.000Z")})
}

// mcpCall calls a tool for somebody who holds a run capability. It is a program of one call: it passes the same gate and
// has a journal of its own.
func (a *API) mcpCall(w http.ResponseWriter, r *http.Request) {
	var in struct {
		AuthToken string          `json:"authToken"`
		ToolName  string          `json:"toolName"`
		Input     json.RawMessage `json:"input"`
		Params    json.RawMessage `json:"params"` // a form in the original's guides
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.refuse(w, r, tooLarge(err))
		return
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		in.AuthToken = bearer
	}
	if json.Unmarshal(body, &in) != nil || in.AuthToken == "" || in.ToolName == "" {
		a.refuse(w, r, problem(http.StatusBadRequest, "authToken and toolName are required"))
		return
	}
	capability, err := a.opt.Capabilities.Check(in.AuthToken)
	if err != nil {
		a.opt.Metrics.AuthFailed()
		a.refuse(w, r, problem(http.StatusForbidden, "Invalid auth token"))
		return
	}
	input := in.Input
	if len(input) == 0 {
		input = in.Params
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	name, _ := json.Marshal(in.ToolName)
	text, _ := json.Marshal(string(input))
	out, err := a.opt.Harness.Exec(r.Context(), harness.Request{
		Code: fmt.Sprintf("return await callMCPTool(%s, JSON.parse(%s))", name, text), User: capability.User, Session: capability.Session,
	})
	switch {
	case err != nil:
		a.refuse(w, r, err)
	case out.Error != nil && out.Error.Kind == run.KindCancelled:
		a.refuse(w, r, problem(499, "the client went away"))
	case out.Error != nil:
		a.refuse(w, r, problem(http.StatusInternalServerError, out.Error.Message))
	default:
		answer(w, http.StatusOK, out.Output)
	}
}

// ready checks what tasks need.
func (a *API) ready(w http.ResponseWriter, r *http.Request) {
	checks, ok := map[string]string{}, true
	for _, part := range []struct {
		name string
		open func() error
	}{
		{"store", func() error {
			_, _, err := a.opt.Tasks.Tasks(r.Context(), task.Filter{Limit: 1})
			return err
		}},
		{"sandbox", func() error { _, err := a.opt.Harness.Pool(); return err }},
		{"skills", func() error { _, err := a.opt.Harness.Skills(); return err }},
		{"queue", func() error { return a.opt.Tasks.Working() }},
	} {
		checks[part.name] = "ok"
		if err := part.open(); err != nil {
			a.opt.Logger.ErrorContext(r.Context(), "not ready", "part", part.name, "error", err)
			checks[part.name], ok = "failed", false
		}
	}
	status, word := http.StatusOK, "ready"
	if !ok {
		status, word = http.StatusServiceUnavailable, "not ready"
	}
	answer(w, status, map[string]any{"status": word, "checks": checks, "timestamp": a.opt.Now().UTC().Format(time.RFC3339)})
}
