package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/wiring"
)

// TestMain makes the test binary also the worker, the supervisor and the demo server, because the harness executes its own binary for these.
func TestMain(m *testing.M) {
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("mcp-code-exec-harness/internal/process.init.func1.1")) // it starts processes
}

// patience bounds the waits of tests. Only a failing test reaches it.
const patience = 2 * time.Minute

// sandbox is a harness that executes real programs for an agent.
type sandbox struct {
	*wiring.Harness
	t       testing.TB
	model   model.Model
	onEvent func(n int) // called at the n-th event of a run, before the run continues

	mu    sync.Mutex
	steps []task.Step
}

// openSandbox opens a harness with the mail server of the demo, and returns it with a fake model that answers with replies.
func openSandbox(t testing.TB, replies ...fake.Reply) (*sandbox, *fake.Server) {
	t.Helper()
	dir := t.TempDir()
	cfg, _, err := config.Load(config.Env{Flags: map[string]string{
		"store.url": "sqlite:" + filepath.Join(dir, "harness.db"), "skills.dir": filepath.Join(dir, "skills"),
		"workspace.dir": filepath.Join(dir, "workspace"), "sandbox.timeout": "10m",
	}, Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS})
	if err != nil {
		t.Fatal(err)
	}
	self := child.Executable(t)
	cfg.MCPServers = []*config.MCPServer{{
		Name: "mailer", Command: self, Args: []string{"__demo-server", "mailer", dir}, StartupTimeout: patience,
	}}
	h, err := wiring.Open(context.Background(), cfg, wiring.Outside{
		Environ: os.Environ(), Executable: self, CacheDir: t.TempDir(), Now: time.Now, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := fake.Serve(fake.Replies(replies...))
	m, err := model.New(model.Config{Provider: model.Anthropic, Name: "claude-test", APIKey: "sk-test-0123456789", HTTPClient: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return &sandbox{Harness: h, t: t, model: m, onEvent: func(int) {}}, srv
}

func (s *sandbox) Execute(ctx context.Context, p agent.Program) (*run.Outcome, error) {
	events := 0
	return s.Harness.Runs().Continue(ctx, runs.Request{ID: p.RunID, Code: p.Code, User: p.User, Session: p.Session, Observe: func(e run.Event) {
		p.Observe(e)
		events++
		s.onEvent(events)
	}})
}

func (s *sandbox) Abandon(context.Context, agent.Program) (*run.Outcome, error) { return nil, nil }

func (s *sandbox) SaveFile(_ context.Context, user, session, name string, data []byte) (string, error) {
	return s.Runs().SaveResult(user, session, path.Dir(name), path.Base(name), data)
}

func (s *sandbox) Skills(context.Context, string, string) ([]modelview.Skill, int, error) {
	return nil, 0, nil
}

func (s *sandbox) Commit(_ context.Context, c task.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, c.Steps...)
	return nil
}

func (s *sandbox) Stream(json.RawMessage) {}

func (s *sandbox) Report(json.RawMessage) {}

// do carries out the task, or continues it from its recorded steps.
func (s *sandbox) do(ctx context.Context) (task.Task, error) {
	a := agent.New(agent.Options{
		Models: func(string) (model.Model, error) { return s.model, nil }, Runs: s, Catalog: agent.NewCatalog(s.Catalog(), s.EnsureTools),
		Now: time.Now, NewID: func() string { return id.New("run") },
	})
	return a.Do(ctx, task.Task{ID: "task_1", SessionID: "sess_1", UserID: "u", Task: "try it", Status: task.Running}, nil, slices.Clone(s.steps), s)
}

// executes returns a reply that runs a program.
func executes(code string) fake.Reply {
	input, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		panic(err)
	}
	return fake.Reply{Calls: []fake.Call{{Name: "execute_code", Input: string(input)}}, Usage: fake.Usage{Input: 100, Output: 20}}
}

// TestRealRuns carries out a task with real programs, most of which fail, and checks what the model gets.
func TestRealRuns(t *testing.T) {
	t.Parallel()
	s, srv := openSandbox(
		t,
		fake.Reply{Calls: []fake.Call{
			{Name: "search_tools", Input: `{"query":"send a message"}`}, {Name: "get_tool_details", Input: `{"names":["mailer__send"]}`},
		}},
		executes("const n = 1;\nawait callMCPTool('mailer__sendemial', {});"),
		executes("await fs.writeFile('/workspace/a.json', '{}');\n\n  return nothing.at.all"),
		executes("let x = ;"),
		executes("console.log('hello'); return {files: await fs.readdir('/workspace')}"),
		executes("return 'word '.repeat(20000)"),
		executes("return (await fs.readFile('/workspace/results/' + (await fs.readdir('/workspace/results'))[0] + '/output.json')).length"),
		fake.Reply{Text: "done"},
	)
	s.Servers().EnsureTools(t.Context(), "")
	ended, err := s.do(t.Context())
	if err != nil || ended.Status != task.Succeeded || string(ended.Output) != "100002" || len(srv.Refused()) > 0 {
		t.Fatalf("got %+v, %v; refused: %v", ended, err, srv.Refused())
	}
	for i, want := range [][]string{
		{"mailer__"},
		{"declare namespace tools.mailer"},
		{"Tool not found: mailer__sendemial", "Closest: mailer__send", "at program.js:2:7", "await callMCPTool('mailer__sendemial', {})", "had written nothing"},
		{"ReferenceError (runtime): ", "nothing", "at program.js:3:", "return nothing.at.all", "effect: call 1, fs writeFile /workspace/a.json: done", "do not repeat it"},
		{"SyntaxError (syntax): ", "at program.js:1:9"},
		{`"a.json"`, "hello"},
		{"bytes are left out here; the whole is in /workspace/results/run_"},
		{"100002"},
	} {
		var results []string
		for _, r := range srv.Requests()[7].Messages {
			for _, result := range r.Results {
				results = append(results, result.Text)
			}
		}
		for _, part := range want {
			if !strings.Contains(results[i], part) {
				t.Errorf("result %d does not say %q:\n%s", i, part, results[i])
			}
		}
	}
}

// TestRealRunGoesOn: a run that was handed over continues under its id, and its recorded calls are not repeated.
func TestRealRunGoesOn(t *testing.T) {
	t.Parallel()
	s, _ := openSandbox(t, executes(`
		await fs.appendFile('/workspace/log', 'once;');
		console.log('waiting');
		await utils.sleep(1500);
		return await fs.readFile('/workspace/log')`), fake.Reply{Text: "done"})
	ctx, handOver := context.WithCancelCause(t.Context())
	s.onEvent = func(n int) {
		if n == 3 { // a call, its answer and a console line
			handOver(run.ErrHandedOver)
		}
	}
	if _, err := s.do(ctx); !errors.Is(err, run.ErrHandedOver) {
		t.Fatal(err)
	}
	ended, err := s.do(t.Context())
	if err != nil || string(ended.Output) != `"once;"` || len(ended.Runs) != 1 || len(ended.Logs) != 1 {
		t.Errorf("got %+v, %v", ended, err)
	}
}

// TestRealRunIsCancelled: cancelling ends a run at once, even if the program computes without a pause.
func TestRealRunIsCancelled(t *testing.T) {
	t.Parallel()
	s, _ := openSandbox(t, executes(`await fs.writeFile('/workspace/a', 'x'); console.log('now'); for (;;);`))
	ctx, cancel := context.WithCancelCause(t.Context())
	var at time.Time
	s.onEvent = func(n int) {
		if n == 3 {
			at = time.Now()
			cancel(task.ErrCancelled)
		}
	}
	ended, err := s.do(ctx)
	if took := time.Since(at); took > patience { // without the cancellation, the program would compute for 10 minutes
		t.Errorf("it took %s", took)
	}
	if err != nil || ended.Status != task.Cancelled || !strings.Contains(ended.Message, "writeFile /workspace/a") {
		t.Errorf("got %+v, %v", ended, err)
	}
}
