package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

const runTask = "run_task"

// taskDefinition returns the tool that lets the harness's own model do a task.
func (s *Server) taskDefinition() definition {
	return definition{
		name: runTask, title: "Have a task done",
		description: "Have another model do a whole task with the tools of all servers. It writes and runs the programs, in minutes and for money: use it only where the user wants that. " +
			"It knows what task says and the earlier tasks of its session.",
		input: `{"type":"object","properties":{` +
			`"task":{"type":"string","description":"What to do, in words."},` +
			`"sessionId":{"type":"string","description":"Whose /workspace and earlier tasks it uses; by default yours."},` +
			`"taskId":{"type":"string","description":"Instead of task: the task whose result to fetch."}}}`,
		output: `{"type":"object","properties":{` +
			`"taskId":{"type":"string"},` +
			`"status":{"enum":["succeeded","failed","cancelled","waiting_approval","running"]},` +
			`"text":{"type":"string","description":"The model's answer."},` +
			`"error":{"type":"object"},` +
			`"runs":{"type":"array","items":{"type":"string"},"description":"The runIds of its programs."},` +
			`"usage":{"type":"object"},` +
			`"approval":{"type":"object","description":"What a person is asked, and how to decide."}},` +
			`"required":["taskId","status"]}`,
		call: s.callTask,
	}
}

// taskOutcome is a task in the form that a client gets.
type taskOutcome struct {
	TaskID   string      `json:"taskId"`
	Status   task.Status `json:"status"`
	Text     string      `json:"text,omitempty"`
	Error    *task.Error `json:"error,omitempty"`
	Runs     []string    `json:"runs,omitempty"`
	Usage    *task.Usage `json:"usage,omitempty"`
	Approval *pending    `json:"approval,omitempty"`
}

// errNoTask means that the caller has no such task.
var errNoTask = runs.InvalidError("you have no task with this taskId")

// callTask answers run_task.
func (s *Server) callTask(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct{ Task, SessionID, TaskID string }
	if err := decode(r, &in); err != nil {
		return refusal(err), nil
	}
	x := s.begin(ctx, r, false)
	defer x.end()
	var t task.Task
	var err error
	ask := true
	switch {
	case r.Params.RequestState != "":
		t, ask, err = x.taskAgain(ctx)
	case in.TaskID != "" && strings.TrimSpace(in.Task) != "":
		return refusal(errors.New("there are both task and taskId; send taskId alone to fetch the result of an earlier task")), nil
	case in.TaskID != "":
		t, err = x.currentTask(ctx, in.TaskID)
	case strings.TrimSpace(in.Task) == "":
		return refusal(errors.New(`there is no task; send {"task": "what to do, in words"}`)), nil
	default:
		// The client's model has written the task. The model knows the session's tokens. A value that the model writes itself does not
		// share the token of an equal value from outside; the same holds for values that programs compose.
		t, _, err = s.opt.Tasks.Submit(ctx, task.Request{
			From: pii.FromProgram, UserID: x.who.user, Principal: x.who.Principal, Roles: x.who.Roles, Task: in.Task, SessionID: x.who.session(in.SessionID), Own: !s.queued(),
		})
		if err == nil {
			t, err = x.work(ctx, t.ID, task.ErrCancelled)
		}
	}
	var question *mcp.CallToolResult
	if err == nil && ask {
		t, question, err = x.settleTask(ctx, t)
	}
	if err != nil || question != nil {
		return question, err
	}
	return x.taskOutcome(ctx, t)
}

// queued reports whether this process works the queue, as harness serve does. If it does not, the request for a task executes the task.
func (s *Server) queued() bool { return s.opt.Tasks.Working() == nil }

// work executes a task, or waits while the queue executes it, until the task has ended or waits for an approval. If ctx ends and cause is
// task.ErrCancelled, the task is cancelled. If ctx ends with another cause, the task continues in the queue or when a client fetches it.
func (x *exchange) work(ctx context.Context, id string, cause error) (t task.Task, err error) {
	tasks := x.s.opt.Tasks
	watching, stop := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { x.watch(watching, id) })
	defer func() {
		if err != nil || !t.Status.Ended() {
			stop() // watch ends by itself only after the last event of a task that has ended
		}
		watched.Wait()
		stop()
	}()
	if x.s.queued() {
		return x.await(ctx, id, cause)
	}
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(cause) })()
	if t, err = tasks.Do(work, id); errors.Is(err, task.ErrNotOwner) { // another process or another request executes it
		return x.await(ctx, id, cause)
	}
	return t, err
}

// await waits for a task that is executed elsewhere.
func (x *exchange) await(ctx context.Context, id string, cause error) (task.Task, error) {
	t, err := x.s.opt.Tasks.Wait(ctx, id)
	if err == nil || ctx.Err() == nil || !errors.Is(cause, task.ErrCancelled) || x.s.closing.Err() != nil {
		return t, err
	}
	if _, failed := x.s.opt.Tasks.Cancel(context.WithoutCancel(ctx), id); failed != nil && !errors.Is(failed, task.ErrEnded) {
		x.s.opt.Logger.ErrorContext(ctx, "cancel a task whose client has given up", "task", id, "error", failed)
	}
	return t, err
}

// watch tells the client what a task does, until the task or ctx ends.
func (x *exchange) watch(ctx context.Context, id string) {
	for e, err := range x.s.opt.Tasks.Events(ctx, id, 0) {
		if err != nil {
			return // the result has its own error
		}
		var d struct {
			Kind, Name, Level, Text string
			Args                    json.RawMessage
		}
		if e.Type != task.EventCall && e.Type != task.EventLog && e.Type != task.EventTurn || json.Unmarshal(e.Data, &d) != nil {
			continue
		}
		switch e.Type {
		case task.EventTurn:
			x.add("the model has answered")
		case task.EventLog:
			x.add(run.Log{Level: d.Level, Text: d.Text})
		case task.EventCall:
			if d.Kind == "tool" {
				x.add(toolOf(&journal.Call{Name: d.Name, Args: d.Args}))
			}
		}
	}
}

// findTask returns a task of the caller's user.
func (x *exchange) findTask(ctx context.Context, id string) (task.Task, error) {
	t, err := x.s.opt.Tasks.Task(ctx, id)
	if errors.Is(err, task.ErrNotFound) || err == nil && t.UserID != x.who.user {
		return task.Task{}, errNoTask
	}
	return t, err
}

// currentTask returns a task as it is now. It continues a task that no process executes, and waits for it.
func (x *exchange) currentTask(ctx context.Context, id string) (task.Task, error) {
	t, err := x.findTask(ctx, id)
	if err != nil || t.Status.Ended() || t.Status == task.Running || x.s.queued() {
		return t, err
	}
	if request, err := x.asked(ctx, id); request != nil || err != nil {
		return t, err
	}
	return x.work(ctx, id, run.ErrHandedOver)
}

// asked returns the request that a task waits for, or nil if the request is decided or has expired.
func (x *exchange) asked(ctx context.Context, id string) (*approval.Request, error) {
	all, _, err := x.s.opt.Harness.Runs().Approvals(ctx, x.who.Identity, approval.Filter{User: x.who.user, Task: id, Status: approval.Waiting, Limit: 1})
	if err != nil || len(all) == 0 || expired(&all[0]) {
		return nil, err
	}
	return &all[0], nil
}

// settleTask does for a task what settle does for a run.
func (x *exchange) settleTask(ctx context.Context, t task.Task) (task.Task, *mcp.CallToolResult, error) {
	for t.Status == task.WaitingApproval && x.s.opt.Local {
		request, err := x.asked(ctx, t.ID)
		if err != nil {
			return t, nil, err
		}
		if request != nil {
			question, decided, err := x.askOnce(ctx, request, t.ID)
			if question != nil || !decided || err != nil {
				return t, question, err
			}
		}
		if t, err = x.work(ctx, t.ID, task.ErrCancelled); err != nil {
			return t, nil, err
		}
	}
	return t, nil, nil
}

// askOnce asks the client's user to decide about a request. question is not nil if the client has to ask the user and then call again. decided
// is false if the user cannot be asked or does not decide now.
func (x *exchange) askOnce(ctx context.Context, request *approval.Request, of string) (question *mcp.CallToolResult, decided bool, err error) {
	ask, err := x.question(request)
	if ask == nil || err != nil {
		return nil, false, err
	}
	if x.request.ProtocolVersion() >= inputs {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{inputName: ask}, RequestState: of + "/" + request.ID}, false, nil
	}
	answer, err := x.request.Session.Elicit(ctx, ask)
	if err != nil {
		x.s.opt.Logger.WarnContext(ctx, "ask the client's user", "error", err)
		return nil, false, nil
	}
	if decided, err = x.accepted(ctx, request.ID, ask.Mode, answer); decided && err == nil {
		err = x.untilDecided(ctx, request.ID)
	}
	return nil, decided, err
}

// taskAgain continues the task of a call that a client repeats with its user's answer. ask is true if the user may be asked again.
func (x *exchange) taskAgain(ctx context.Context) (t task.Task, ask bool, err error) {
	id, was, _ := strings.Cut(x.request.Params.RequestState, "/")
	if t, err = x.findTask(ctx, id); err != nil || t.Status.Ended() {
		return t, false, err
	}
	request, err := x.asked(ctx, id) // request is nil if it was decided in the meantime
	if err != nil || request != nil && request.ID != was {
		return t, err == nil, err
	}
	if request != nil {
		question, err := x.question(request)
		answer, _ := x.request.Params.InputResponses[inputName].(*mcp.ElicitResult)
		if question == nil || answer == nil || err != nil {
			return t, err == nil, err
		}
		if decided, err := x.accepted(ctx, was, question.Mode, answer); !decided || err != nil {
			return t, false, err
		}
		if err := x.untilDecided(ctx, was); err != nil {
			return t, false, err
		}
	}
	t, err = x.work(ctx, id, task.ErrCancelled)
	return t, true, err
}

// taskOutcome returns the result with a task.
func (x *exchange) taskOutcome(ctx context.Context, t task.Task) (*mcp.CallToolResult, error) {
	data := taskOutcome{TaskID: t.ID, Status: t.Status, Runs: t.Runs}
	if t.Status == task.WaitingApproval {
		request, err := x.asked(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		if request != nil {
			data.Approval = newPending(request, fetchAdvice("taskId", t.ID))
			return result(data.Approval.text("task"), data, false), nil
		}
	}
	if !t.Status.Ended() {
		data.Status = running
		return result("The task goes on. Fetch it later with taskId "+t.ID+".\n", data, false), nil
	}
	usage := t.Usage
	usage.Direct = nil
	data.Error, data.Usage = t.Error, &usage
	said, err := x.s.opt.Harness.Privacy().In(x.who.user, t.SessionID).Hide(ctx, pii.FromProgram, t.Text) // a model may write personal data that it knows itself
	if err != nil {
		return nil, x.s.shown(ctx, err)
	}
	var saved []string
	data.Text = modelview.Fit(said, 0, "answer.txt", func(name string, all []byte) (string, error) {
		file, err := x.s.opt.Harness.Runs().SaveResult(x.who.user, t.SessionID, t.ID, name, all)
		if err == nil {
			saved = append(saved, file)
		}
		return file, err
	})
	text := data.Text
	if t.Status != task.Succeeded {
		text = strings.TrimSpace(t.Message + "\n" + text)
		if t.Error != nil && !strings.Contains(text, t.Error.Message) {
			text += "\n" + t.Error.Kind + ": " + t.Error.Message
		}
	}
	answer := result(text+"\ntask: "+t.ID+"\n", data, t.Status != task.Succeeded)
	answer.Content = append(answer.Content, x.links(t.SessionID, saved)...)
	return answer, nil
}

// resumeTask is called when a request of a task was decided after the client had given up. It continues the task.
func (s *Server) resumeTask(id string) {
	if s.queued() {
		return
	}
	_, err := s.opt.Tasks.Do(s.closing, id)
	if err != nil && !errors.Is(err, task.ErrNotOwner) && !errors.Is(err, task.ErrEnded) && s.closing.Err() == nil {
		s.opt.Logger.Warn("work an approved task", "task", id, "error", err)
	}
}
