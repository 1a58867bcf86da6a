package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// running is the status of a run that has not ended.
const running = "running"

// maxArgs is the maximum number of bytes of a waiting call's arguments that a result shows.
const maxArgs = 2000

// outcome is the form in which a client gets a run.
type outcome struct {
	RunID    string          `json:"runId"`
	Status   string          `json:"status"`
	Output   json.RawMessage `json:"output,omitempty"`
	Logs     []string        `json:"logs,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
	Error    *runError       `json:"error,omitempty"`
	Effects  []string        `json:"effects,omitempty"`
	Text     string          `json:"text,omitempty"`
	Approval *pending        `json:"approval,omitempty"`
}

type runError struct {
	Kind    string `json:"kind"`
	Name    string `json:"name,omitempty"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Source  string `json:"source,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// pending is the form in which a result contains the approval request of a waiting run or task.
type pending struct {
	ID      string        `json:"id"`
	Calls   []pendingCall `json:"calls"`
	Expires time.Time     `json:"expiresAt"`
	Decide  string        `json:"decide"` // text for a model about how a person decides
	Next    string        `json:"next"`   // advice for the client's model
}

type pendingCall struct {
	Tool   string `json:"tool"`
	Args   string `json:"args"`
	Reason string `json:"reason,omitempty"`
}

// execute answers execute_code.
func (s *Server) execute(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Code      string  `json:"code"`
		SessionID string  `json:"sessionId"`
		RunID     string  `json:"runId"`
		Timeout   float64 `json:"timeout"`
	}
	if err := decode(r, &in); err != nil {
		return refusal(err), nil
	}
	x := s.begin(ctx, r, false)
	defer x.end()
	switch {
	case r.Params.RequestState != "":
		out, left, err := x.again(ctx)
		return x.finish(ctx, out, !left, err)
	case in.RunID != "" && strings.TrimSpace(in.Code) != "":
		return refusal(errors.New("there are both code and runId; send runId alone to fetch the result of an earlier run")), nil
	case in.RunID != "":
		out, err := x.current(ctx, in.RunID)
		return x.finish(ctx, out, true, err)
	case strings.TrimSpace(in.Code) == "":
		return refusal(errors.New(`there is no program; send {"code": "return 1 + 1"}`)), nil
	case in.Timeout < 0 || in.Timeout > 1e6:
		return refusal(fmt.Errorf("timeout %v is not a number of seconds from 0", in.Timeout)), nil
	}
	out, err := x.create(ctx, runs.Request{Code: in.Code, Session: x.who.session(in.SessionID), Timeout: time.Duration(in.Timeout * float64(time.Second))})
	return x.finish(ctx, out, true, err)
}

// exchange is one call of a tool that executes or fetches a run or task.
type exchange struct {
	*notifier // tells the client what the run does
	s         *Server
	request   *mcp.CallToolRequest
	who       caller
}

// begin begins an exchange. direct means that its run is a single call. The caller must call end.
func (s *Server) begin(ctx context.Context, r *mcp.CallToolRequest, direct bool) *exchange {
	return &exchange{notifier: notify(ctx, r, direct), s: s, request: r, who: s.caller(r.Extra)}
}

// create executes a program for the caller. A program that the caller has sent before, and that waits for an approval, is not executed again:
// create returns the current outcome of its run. Once the run has ended, create returns its outcome one time; after that, the same program is
// executed again.
func (x *exchange) create(ctx context.Context, req runs.Request) (*run.Outcome, error) {
	same := sameProgram(x.who, req)
	if runID := x.s.waiting.find(same); runID != "" {
		out, err := x.current(ctx, runID)
		if err == nil && out.Status != run.WaitingApproval && out.Status != running || errors.Is(err, errNoRun) {
			x.s.waiting.forget(x.who.Caller(), same)
		}
		if !errors.Is(err, errNoRun) {
			return out, err
		}
	}
	req.ID, req.User, req.Observe, req.Progress = id.New("run"), x.who.user, x.observe, x.progress
	out, err := x.s.opt.Harness.Runs().Create(ctx, x.who.Identity, req)
	if err == nil && out.Status == run.WaitingApproval {
		x.s.waiting.add(x.who.Caller(), same, out.RunID)
	}
	return out, err
}

// finish returns the result with a run's outcome. If ask is set, it asks the client's user to decide what the run waits for.
func (x *exchange) finish(ctx context.Context, out *run.Outcome, ask bool, err error) (*mcp.CallToolResult, error) {
	var question *mcp.CallToolResult
	if err == nil && ask {
		out, question, err = x.settle(ctx, out)
	}
	if err != nil || question != nil {
		return question, err
	}
	info, err := x.find(ctx, out.RunID)
	if err != nil {
		return nil, err
	}
	return x.outcome(info.Session, out), nil
}

// errNoRun means that the caller has no such run.
var errNoRun = runs.InvalidError("you have no run with this runId")

// find returns a run of the caller's user.
func (x *exchange) find(ctx context.Context, runID string) (journal.RunInfo, error) {
	info, err := x.s.opt.Harness.Runs().Find(ctx, x.who.Identity, runID)
	if errors.Is(err, journal.ErrNotFound) || err == nil && info.User != x.who.user {
		return journal.RunInfo{}, errNoRun
	}
	return info, err
}

// current returns the outcome of a run, or its status so far. It resumes a run whose approval request is decided.
func (x *exchange) current(ctx context.Context, runID string) (*run.Outcome, error) {
	info, err := x.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	service := x.s.opt.Harness.Runs()
	out, err := service.Waiting(ctx, info.ID)
	if err != nil {
		return nil, err
	}
	if out != nil && out.Approval.Task == "" {
		out, err = service.Resume(ctx, info.ID, x.observe)
		if !errors.Is(err, journal.ErrBusy) && !errors.Is(err, journal.ErrEnded) {
			return out, err
		}
		out = nil
	}
	if out == nil {
		out, _, err = service.Recorded(ctx, info.ID)
	}
	if out == nil && err == nil {
		out = &run.Outcome{RunID: info.ID, Status: running, Output: json.RawMessage("null"), Sandbox: info.Tier}
	}
	return out, err
}

// outcome returns the result with a run's outcome.
func (x *exchange) outcome(session string, out *run.Outcome) *mcp.CallToolResult {
	data := outcome{RunID: out.RunID, Status: out.Status}
	switch out.Status {
	case run.WaitingApproval:
		data.Approval = newPending(out.Approval, fetchAdvice("runId", out.RunID))
		return result(data.Approval.text("run"), data, false)
	case running:
		return result("The run goes on. Fetch it later with runId "+out.RunID+".\n", data, false)
	}
	cut := false
	var saved []string
	text := modelview.View(out, 0, func(name string, all []byte) (string, error) {
		cut = true
		file, err := x.s.opt.Harness.Runs().SaveResult(x.who.user, session, out.RunID, name, all)
		if err == nil {
			saved = append(saved, file)
		}
		return file, err
	})
	if cut {
		data.Text = text
	} else {
		data.set(out)
	}
	if out.Error == nil {
		text += "\nrun: " + out.RunID + "\n"
	}
	answer := result(text, data, out.Status != run.Succeeded)
	answer.Content = append(answer.Content, x.attachments(session, out, saved)...)
	return answer
}

// set copies the warnings and console lines of a run to o, and its output or, if the run failed, its error and effects.
func (o *outcome) set(out *run.Outcome) {
	o.Warnings = out.Warnings
	for _, l := range out.Logs {
		o.Logs = append(o.Logs, modelview.Line(l))
	}
	if out.Error == nil {
		o.Output = out.Output
		return
	}
	e := out.Error
	o.Error = &runError{Kind: e.Kind, Name: e.Name, Message: e.Message, Line: e.Line, Column: e.Column, Source: clip.Text(e.Source, 200), Hint: e.Hint}
	for _, effect := range out.Effects {
		o.Effects = append(o.Effects, effect.Name+": "+effect.State)
	}
}

// fetchAdvice returns advice on how to fetch the result of a waiting run or task. key is the argument for its id.
func fetchAdvice(key, id string) string {
	return fmt.Sprintf("Tell the user. Do not send it again: fetch its result with {%q: %q} once it is decided.", key, id)
}

// newPending returns the form in which a client gets an approval request; next is advice for the client's model.
func newPending(r *approval.Request, next string) *pending {
	p := &pending{
		ID: r.ID, Next: next, Expires: r.Expires.UTC(),
		Decide: "A person decides, not you: nothing that you can call or execute is the decision.",
	}
	for _, c := range r.Calls {
		p.Calls = append(p.Calls, pendingCall{Tool: c.Tool, Args: clip.Text(string(c.Args), maxArgs), Reason: c.Reason})
	}
	return p
}

// list returns the waiting calls, one on each line.
func (p *pending) list() string {
	var b strings.Builder
	for _, c := range p.Calls {
		fmt.Fprintf(&b, "- %s %s\n", c.Tool, c.Args)
		if c.Reason != "" {
			fmt.Fprintf(&b, "  %s\n", c.Reason)
		}
	}
	return b.String()
}

// text returns the text for a model about a waiting run or task.
func (p *pending) text(what string) string {
	return fmt.Sprintf("%s: the %s has stopped before these calls, until a person has decided about them:\n%s%s It expires at %s.\n%s\n",
		run.WaitingApproval, what, p.list(), p.Decide, p.Expires.Format(time.RFC3339), p.Next)
}
