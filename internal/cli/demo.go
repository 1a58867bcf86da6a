package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/demo"
	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

type demoCmd struct {
	Keep     string `help:"Keep what the demo writes in this directory: configuration, mails, journal." placeholder:"DIR"`
	Recorded bool   `help:"Use the recorded model although a real one is configured."`
	Yes      bool   `help:"Approve the mail without asking."`
}

func (demoCmd) Help() string {
	return `Real demo MCP servers run as child processes; programs run in the real sandbox. What the model says is recorded:
no key and no network are needed. Where a model is configured, it is asked instead, and may go other ways.

At a terminal you are asked whether a mail may be sent; elsewhere, and with --yes, the demo approves it and says so.
Mails are files. --keep DIR keeps them, with the demo's harness.yaml, to read and to copy.

Examples:
  harness demo
  harness demo --yes --keep demo
  harness --config demo/harness.yaml runs list`
}

func (c *demoCmd) Run(ctx context.Context, a *app) error {
	dir := a.path(c.Keep)
	if c.Keep == "" {
		temporary, err := os.MkdirTemp("", "harness-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		dir = temporary
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	cfg, err := demoConfig(a, dir)
	if err != nil {
		return err
	}
	h, err := a.openWith(ctx, cfg, outside{Logger: a.logger(cfg), ToolCache: filepath.Join(dir, "data", "tools")})
	if err != nil {
		return err
	}
	defer a.close() // runs before the directory is removed
	a.ensureTools(ctx, h)
	var tools []json.RawMessage
	for _, server := range h.Servers().Tools() {
		if !server.Known {
			return fmt.Errorf("%w: demo server %s: %s", part.ErrUnavailable, server.Name, server.Reason)
		}
		for _, tool := range server.Tools {
			tool.Name = server.Name + "__" + tool.Name
			definition, err := json.Marshal(tool)
			if err != nil {
				return fmt.Errorf("encode tool %s: %w", tool.Name, err)
			}
			tools = append(tools, definition)
		}
	}
	if !c.Recorded {
		if user, err := a.load(); err == nil {
			if choice, err := user.Model.Choose(); err == nil {
				cfg.Model = user.Model
				a.approves = c.Yes || !a.asks()
				fmt.Fprintf(a.Stderr, "%s of %s works the task; --recorded shows the recorded demo\n\n%s\n\n", choice.Name, choice.Provider, demo.Task)
				return (&runCmd{Task: demo.Task, User: runs.DefaultUser}).submit(ctx, a, h, taskOptions{})
			}
		}
	}
	show := a.stdout
	if a.flags.JSON {
		show = a.stderr
	}
	began := time.Now()
	executor, err := newDemoExecutor(ctx, h)
	if err != nil {
		return err
	}
	err = demo.Run(ctx, demo.Deps{
		Executor: executor, Tools: tools, Files: os.DirFS(filepath.Join(dir, "servers")),
		Approve: func(ctx context.Context) (bool, string, error) { return c.approve(ctx, a, show) },
		Width:   show.width() - 1, Color: show.color, Unicode: show.signs,
	}, show.raw) // control characters are not replaced, because the servers and programs of the demo are trusted
	executor.end()
	if err != nil {
		return err
	}
	kept := "harness demo --keep DIR keeps its harness.yaml, to copy, with mails and journal."
	if c.Keep != "" {
		kept = fmt.Sprintf("Kept in %s: harness.yaml, mails (servers), journal (data).", c.Keep)
	}
	fmt.Fprintf(show.raw, "\nThe model was a recording; harness run \"...\" asks a real one.\n%s\n", kept)
	if a.flags.JSON {
		return a.json(map[string]any{"status": run.Succeeded, "runs": executor.runs, "durationMs": run.Millis(time.Since(began))})
	}
	return nil
}

// approve asks the user at a terminal whether the demo sends the mail. With --yes, or without a terminal, the demo sends it without asking.
func (c *demoCmd) approve(ctx context.Context, a *app, show *console) (approve bool, by string, err error) {
	switch {
	case c.Yes:
		return true, "--yes", nil
	case show.terminal == nil || !a.asks():
		return true, "the demo itself, which finds no terminal to ask at", nil
	}
	for {
		answer, err := a.prompt(ctx, "  Send the mail? y: yes, n: no: ")
		switch {
		case err != nil:
			return false, "", err
		case answer == "y" || answer == "yes":
			return true, "you", nil
		case answer == "n" || answer == "no":
			return false, "you", nil
		}
	}
}

// demoConfig writes the demo's harness.yaml and reads it. No setting of the user applies.
func demoConfig(a *app, dir string) (*config.Config, error) {
	path := filepath.Join(dir, "harness.yaml")
	text, err := os.ReadFile(path)
	switch {
	case err == nil && string(text) != demo.Configuration():
		return nil, usage(fmt.Errorf("%s is not the demo's; give --keep another directory", path))
	case errors.Is(err, fs.ErrNotExist):
		err = disk.Replace(path, []byte(demo.Configuration()), 0o600)
	}
	if err != nil {
		return nil, err
	}
	cfg, _, err := config.Load(config.Env{Environ: []string{"HARNESS=" + a.Executable}, Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS})
	return cfg, err
}

// demoExecutor executes the demo's programs in a task. The agent loop works the task with a model whose answers are these programs.
type demoExecutor struct {
	h        harness
	sent     chan *model.Request // requests to the model; each shows that the previous program has ended
	says     chan demoSaid       // answers of the model
	asks     chan approval.Request
	decided  chan bool
	last     *run.Outcome            // outcome of the last program
	outcomes map[string]*run.Outcome // outcomes by run
	runs     []string
	text     strings.Builder // everything that was sent to the model
	stop     func()
	ended    chan struct{} // closed when the task has ended
	t        task.Task
	err      error
}

// demoSaid is an answer of the model. It has either a program or the final answer.
type demoSaid struct{ code, answer string }

var (
	_ demo.Executor = (*demoExecutor)(nil)
	_ model.Model   = (*demoModel)(nil)
	_ agent.Runs    = (*demoRuns)(nil)
)

const demoSession = "demo"

func newDemoExecutor(ctx context.Context, h harness) (*demoExecutor, error) {
	e := &demoExecutor{
		h: h, sent: make(chan *model.Request), says: make(chan demoSaid), asks: make(chan approval.Request), decided: make(chan bool),
		outcomes: map[string]*run.Outcome{}, ended: make(chan struct{}),
	}
	opt := taskOptions{Models: func(string) (model.Model, error) { return &demoModel{e}, nil }}
	opt.Runs = &demoRuns{Runs: h.Runs().ForTasks(), e: e}
	tasks, err := h.Tasks(opt)
	if err != nil {
		return nil, err
	}
	t, _, err := tasks.Submit(ctx, task.Request{
		Own: true, UserID: runs.DefaultUser, Principal: auth.Local().Principal, Roles: auth.Local().Roles, Task: demo.Task, SessionID: demoSession,
	})
	if err != nil {
		return nil, err
	}
	ctx, e.stop = context.WithCancel(ctx)
	go func() {
		defer close(e.ended)
		for {
			e.t, e.err = do(ctx, tasks, t.ID)
			if e.err != nil || e.t.Status != task.WaitingApproval {
				return
			}
			if e.err = e.decide(ctx, t.ID); e.err != nil {
				return
			}
		}
	}()
	if _, err := e.next(ctx, nil); err != nil {
		e.end()
		return nil, err
	}
	return e, nil
}

// end ends the task unless it has already ended.
func (e *demoExecutor) end() {
	e.stop()
	<-e.ended
}

// decide asks the demo about each approval that the task waits for, and records the decision.
func (e *demoExecutor) decide(ctx context.Context, taskID string) error {
	all, _, err := e.h.Runs().Approvals(ctx, auth.Local(), approval.Filter{Task: taskID, Status: approval.Waiting})
	if err != nil {
		return err
	}
	for _, r := range all {
		select {
		case e.asks <- r:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case approve := <-e.decided:
			if _, err := e.h.Runs().Decide(ctx, auth.Local(), r.ID, approval.Decision{Approve: approve}); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// next waits for the next request to the model, and returns the last message in it.
func (e *demoExecutor) next(ctx context.Context, decide func(approval.Request) (bool, error)) (model.Message, error) {
	for {
		select {
		case req := <-e.sent:
			text, err := journal.Encode([]any{req.System, req.Messages, req.Tools})
			e.text.Write(text)
			return req.Messages[len(req.Messages)-1], err
		case r := <-e.asks:
			approve, err := decide(r)
			if err != nil {
				return model.Message{}, err
			}
			select {
			case e.decided <- approve:
			case <-e.ended:
			}
		case <-e.ended:
			err := e.err
			if err == nil && e.t.Error != nil {
				err = e.t.Error
			}
			return model.Message{}, errors.Join(errors.New("the task has ended"), context.Cause(ctx), err)
		}
	}
}

// Exec implements demo.Executor.
func (e *demoExecutor) Exec(ctx context.Context, code string, decide func(approval.Request) (bool, error)) (demo.Result, error) {
	e.says <- demoSaid{code: code}
	sent, err := e.next(ctx, decide)
	if err != nil {
		return demo.Result{}, err
	}
	out := e.last
	e.runs, e.outcomes[out.RunID] = append(e.runs, out.RunID), out
	result := demo.Result{RunID: out.RunID, Output: out.Output, Failed: out.Error != nil, Duration: time.Duration(out.Duration)}
	for _, r := range sent.Results {
		result.Read += r.Text
	}
	result.Calls, err = e.calls(ctx, out.RunID)
	return result, err
}

// Finish implements demo.Executor.
func (e *demoExecutor) Finish(ctx context.Context, answer string) (string, error) {
	e.says <- demoSaid{answer: answer}
	<-e.ended
	if e.err == nil && e.t.Error != nil {
		e.err = e.t.Error
	}
	if e.err != nil {
		return "", e.err
	}
	shown, err := task.Shown(ctx, e.h.Privacy(), e.t)
	return shown.Text, err
}

// demoModel is a model that gives the answers of its executor.
type demoModel struct{ e *demoExecutor }

// Info implements model.Model.
func (*demoModel) Info() model.Info {
	return model.Info{Provider: "recorded", Name: "demo", NativeTools: true}
}

// Generate implements model.Model.
func (m *demoModel) Generate(ctx context.Context, req *model.Request) (*model.Turn, error) {
	turn := &model.Turn{Provider: "recorded", Model: "demo", Raw: json.RawMessage("{}"), Stop: model.StopEnd}
	select {
	case m.e.sent <- req:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case said := <-m.e.says:
		if said.code == "" {
			turn.Text = said.answer
			return turn, nil
		}
		input, err := json.Marshal(map[string]string{"code": said.code})
		if err != nil {
			return nil, err
		}
		turn.Calls, turn.Stop = []model.ToolCall{{ID: id.New("call"), Name: "execute_code", Input: input}}, model.StopTools
		return turn, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// demoRuns executes runs and keeps the outcome of the last one.
type demoRuns struct {
	agent.Runs
	e *demoExecutor
}

func (r *demoRuns) Execute(ctx context.Context, p agent.Program) (*run.Outcome, error) {
	out, err := r.Runs.Execute(ctx, p)
	if err == nil {
		r.e.last = out // Exec reads it after the next call of Generate
	}
	return out, err
}

// calls reads a run's tool calls from its journal.
func (e *demoExecutor) calls(ctx context.Context, id string) ([]demo.Call, error) {
	records, err := e.h.Runs().Journal(ctx, id)
	if err != nil {
		return nil, err
	}
	var calls []demo.Call
	at := map[int]int{}
	for _, r := range records {
		switch {
		case r.Call != nil && r.Call.Kind == "tool":
			name, args := runs.Called(r.Call.Kind, r.Call.Name, r.Call.Args)
			if tool, err := e.h.Catalog().Resolve(name); err == nil {
				name = tool.FullName()
			}
			at[r.Call.N] = len(calls)
			calls = append(calls, demo.Call{Tool: name, Args: args})
		case r.Answer != nil:
			if i, ok := at[r.Answer.N]; ok {
				calls[i].Result = r.Answer.Value
			}
		}
	}
	return calls, nil
}

// Replay implements demo.Executor.
func (e *demoExecutor) Replay(ctx context.Context, id string) (bool, error) {
	records, err := e.h.Runs().Journal(ctx, id)
	if err != nil {
		return false, err
	}
	out, err := e.h.Runs().Replay(ctx, records, runs.Replay{})
	if err != nil {
		return false, err
	}
	made := e.outcomes[id]
	return out.Status == made.Status && bytes.Equal(out.Output, made.Output) && out.Calls == made.Calls && failure(out) == failure(made), nil
}

// failure returns the error message of a run, or "".
func failure(out *run.Outcome) string {
	if out.Error == nil {
		return ""
	}
	return out.Error.Name + ": " + out.Error.Message
}

// Sent implements demo.Executor.
func (e *demoExecutor) Sent() string { return e.text.String() }

// CallTool implements demo.Executor.
func (e *demoExecutor) CallTool(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	args, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	out, err := e.h.Runs().Execute(ctx, runs.Request{Code: fmt.Sprintf("return await callMCPTool(%q, %s)", tool, args), Session: demoSession})
	if err != nil {
		return nil, err
	}
	if out.Error != nil {
		return nil, fmt.Errorf("%s", modelview.Failure(out))
	}
	return out.Output, nil
}
