package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/demo"
	demoservers "mcp-code-exec-harness/internal/demo/servers"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/wiring"
)

type demoCmd struct {
	Keep     string `help:"Keep what the demo writes (mails, skills, journal) in this directory." placeholder:"DIR"`
	Recorded bool   `help:"Use the recorded model although a real one is configured."`
}

func (demoCmd) Help() string {
	return `Real demo MCP servers run as child processes; programs run in the real sandbox. What the model says is recorded:
no key and no network are needed. Where a model is configured, it is asked instead, and may go other ways.

Examples:
  harness demo
  harness demo --recorded`
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
	h, err := a.openWith(ctx, cfg, wiring.Outside{Logger: a.logger(cfg), ToolCache: filepath.Join(dir, "tools")})
	if err != nil {
		return err
	}
	defer a.close() // before the directory is removed
	a.ensureTools(ctx, h)
	var tools []json.RawMessage
	for _, server := range h.Servers().Tools() {
		if !server.Known {
			return fmt.Errorf("%w: demo server %s: %s", wiring.ErrUnavailable, server.Name, server.Reason)
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
				fmt.Fprintf(a.Stderr, "%s of %s works the task; --recorded shows the recorded demo\n\n%s\n\n", choice.Name, choice.Provider, demo.Task)
				return (&runCmd{Task: demo.Task, User: runs.DefaultUser}).submit(ctx, a, h, wiring.TaskOptions{})
			}
		}
	}
	show := a.stdout
	if a.flags.JSON {
		show = a.stderr
	}
	out := show.raw // the demo's servers and programs are trusted, so control characters are not replaced
	began := time.Now()
	executor, err := newDemoExecutor(ctx, h)
	if err != nil {
		return err
	}
	err = demo.Run(ctx, demo.Deps{Executor: executor, Tools: tools, Color: show.color, Unicode: show.terminal != nil}, out)
	t, ended := executor.end()
	if err = errors.Join(err, ended); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s The model was a recording; harness run \"...\" asks a real one.\n", t.Message)
	if c.Keep != "" {
		fmt.Fprintf(out, "Kept in %s: outbox, skills, journal.\n", dir)
	}
	if a.flags.JSON {
		return a.json(map[string]any{"status": run.Succeeded, "runs": executor.runs, "durationMs": run.Millis(time.Since(began))})
	}
	return nil
}

// demoConfig is the default configuration with the demo servers; it has none of the user's settings.
func demoConfig(a *app, dir string) (*config.Config, error) {
	cfg, _, err := config.Load(config.Env{
		Flags: map[string]string{
			"store.url": "sqlite:" + filepath.Join(dir, "harness.db"), "skills.dir": filepath.Join(dir, "skills"),
			"workspace.dir": filepath.Join(dir, "workspace"),
		},
		Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS,
	})
	if err != nil {
		return nil, err
	}
	for _, name := range demoservers.Names() {
		cfg.MCPServers = append(cfg.MCPServers, &config.MCPServer{
			Name: name, Command: a.Executable, Args: []string{demoServerCommand, name, filepath.Join(dir, "servers")},
		})
	}
	return cfg, nil
}

// demoExecutor executes the demo's programs in a task: the agent loop works it with a model that answers with these programs.
type demoExecutor struct {
	h        *wiring.Harness
	programs chan string // the model's next programs; when it is closed, the model answers
	outcomes chan *run.Outcome
	ended    chan struct{} // closed when the task has ended
	t        task.Task
	err      error
	runs     []string
}

var (
	_ demo.Executor = (*demoExecutor)(nil)
	_ model.Model   = (*demoModel)(nil)
	_ agent.Runs    = (*demoRuns)(nil)
)

const demoSession = "demo"

func newDemoExecutor(ctx context.Context, h *wiring.Harness) (*demoExecutor, error) {
	e := &demoExecutor{h: h, programs: make(chan string, 1), outcomes: make(chan *run.Outcome, 1), ended: make(chan struct{})}
	opt := wiring.TaskOptions{Models: func(string) (model.Model, error) { return &demoModel{e.programs}, nil }}
	opt.Runs = &demoRuns{Runs: h.Runs().ForTasks(), outcomes: e.outcomes}
	tasks, err := h.Tasks(opt)
	if err != nil {
		return nil, err
	}
	t, _, err := tasks.Submit(ctx, task.Request{
		Own: true, UserID: runs.DefaultUser, Principal: "local", Task: demo.Task, SessionID: demoSession,
	})
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(e.ended)
		e.t, e.err = do(ctx, tasks, t.ID)
	}()
	return e, nil
}

// end makes the model answer and returns the ended task.
func (e *demoExecutor) end() (task.Task, error) {
	close(e.programs)
	<-e.ended
	if e.err == nil && e.t.Error != nil {
		e.err = e.t.Error
	}
	return e.t, e.err
}

// Exec implements demo.Executor.
func (e *demoExecutor) Exec(ctx context.Context, code string) (demo.Result, error) {
	var out *run.Outcome
	e.programs <- code // its buffer is empty: the program before has ended
	select {
	case out = <-e.outcomes:
	case <-e.ended:
		return demo.Result{}, errors.Join(errors.New("the task has ended"), context.Cause(ctx), e.err)
	}
	if out.Error != nil {
		return demo.Result{}, fmt.Errorf("%s", modelview.Failure(out))
	}
	e.runs = append(e.runs, out.RunID)
	result := demo.Result{RunID: out.RunID, Output: out.Output, Duration: time.Duration(out.Duration)}
	for _, line := range out.Logs {
		result.Logs = append(result.Logs, line.Text)
	}
	calls, err := e.calls(ctx, out.RunID)
	result.Calls = calls
	return result, err
}

// demoModel answers with the programs that it receives.
type demoModel struct{ programs <-chan string }

// Info implements model.Model.
func (*demoModel) Info() model.Info {
	return model.Info{Provider: "recorded", Name: "demo", NativeTools: true}
}

// Generate implements model.Model.
func (m *demoModel) Generate(ctx context.Context, _ *model.Request) (*model.Turn, error) {
	turn := &model.Turn{Provider: "recorded", Model: "demo", Raw: json.RawMessage("{}"), Stop: model.StopEnd}
	select {
	case code, ok := <-m.programs:
		if !ok {
			turn.Text = demo.Answer
			return turn, nil
		}
		input, err := json.Marshal(map[string]string{"code": code})
		if err != nil {
			return nil, err
		}
		turn.Calls, turn.Stop = []model.ToolCall{{ID: id.New("call"), Name: "execute_code", Input: input}}, model.StopTools
		return turn, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// demoRuns sends the outcomes of runs to the executor.
type demoRuns struct {
	agent.Runs
	outcomes chan<- *run.Outcome
}

func (r *demoRuns) Execute(ctx context.Context, p agent.Program) (*run.Outcome, error) {
	out, err := r.Runs.Execute(ctx, p)
	if err == nil {
		r.outcomes <- out
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
			var args toolArgs
			if err := json.Unmarshal(r.Call.Args, &args); err != nil {
				return nil, fmt.Errorf("read call %d: %w", r.Call.N, err)
			}
			name := r.Call.Name
			if tool, err := e.h.Catalog().ResolveIn(args.Server, name); err == nil {
				name = tool.FullName()
			}
			at[r.Call.N] = len(calls)
			calls = append(calls, demo.Call{Tool: name, Args: args.Input})
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
	out, err := e.h.Runs().Replay(ctx, records, "", false, nil)
	return err == nil && out.Error == nil, err
}

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
