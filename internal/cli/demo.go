package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/demo"
	demoservers "mcp-code-exec-harness/internal/demo/servers"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
)

type demoCmd struct {
	Keep string `help:"Keep what the demo writes (mails, skills, journal) in this directory." placeholder:"DIR"`
}

func (demoCmd) Help() string {
	return `Real demo MCP servers run as child processes; programs run in the real sandbox. The programs are recorded:
no model is asked, no key and no network are needed.

Example:
  harness demo`
}

func (c *demoCmd) Run(ctx context.Context, a *app) error {
	dir, remove, err := c.directory(a)
	if err != nil {
		return err
	}
	defer remove()
	cfg, err := demoConfig(a, dir)
	if err != nil {
		return err
	}
	h, err := a.openWith(ctx, cfg, filepath.Join(dir, "tools"))
	if err != nil {
		return err
	}
	defer a.close(h)
	progress := a.progress("starting the demo servers")
	h.EnsureTools(ctx)
	progress.stop()
	var tools []json.RawMessage
	for _, server := range h.Servers().Tools() {
		if !server.Known {
			return fmt.Errorf("%w: demo server %s: %s", harness.ErrUnavailable, server.Name, server.Reason)
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
	show := a.stdout
	if a.flags.JSON {
		show = a.stderr
	}
	out := show.raw // the demo's own servers and programs are trusted with the terminal
	began := time.Now()
	executor := &demoExecutor{h: h}
	if err := demo.Run(ctx, demo.Deps{Executor: executor, Tools: tools, Color: show.color, Unicode: show.terminal}, out); err != nil {
		return err
	}
	if c.Keep != "" {
		fmt.Fprintf(out, "Kept in %s: outbox, skills, journal.\n", dir)
	}
	if a.flags.JSON {
		return a.json(map[string]any{"status": run.Succeeded, "runs": executor.runs, "durationMs": run.Millis(time.Since(began))})
	}
	return nil
}

// directory is where the demo works: a temporary one, unless it is to be kept.
func (c *demoCmd) directory(a *app) (dir string, remove func(), err error) {
	if c.Keep != "" {
		dir = a.path(c.Keep)
		return dir, func() {}, os.MkdirAll(dir, 0o700)
	}
	dir, err = os.MkdirTemp("", "harness-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for the demo: %w", err)
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

// demoConfig is the default configuration with the demo servers and nothing of the user's.
func demoConfig(a *app, dir string) (*config.Config, error) {
	source := a.configSource()
	cfg, _, err := config.Load(config.Env{
		Flags: map[string]string{
			"store.url": "sqlite:" + filepath.Join(dir, "harness.db"), "skills.dir": filepath.Join(dir, "skills"),
			"workspace.dir": filepath.Join(dir, "workspace"),
		},
		Cwd: dir, HomeDir: dir, GOOS: source.GOOS,
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

// demoExecutor runs the demo's programs in the harness.
type demoExecutor struct {
	h    *harness.Harness
	runs []string
}

var _ demo.Executor = (*demoExecutor)(nil)

const demoSession = "demo"

// Exec implements demo.Executor.
func (e *demoExecutor) Exec(ctx context.Context, code string) (demo.Result, error) {
	out, err := e.h.Exec(ctx, harness.Request{Code: code, File: "program.ts", Session: demoSession})
	if err != nil {
		return demo.Result{}, err
	}
	if out.Error != nil {
		return demo.Result{}, fmt.Errorf("%s", modelview.Failure(out))
	}
	e.runs = append(e.runs, out.RunID)
	result := demo.Result{RunID: out.RunID, Output: out.Output, Duration: time.Duration(out.Duration)}
	for _, line := range out.Logs {
		result.Logs = append(result.Logs, line.Text)
	}
	result.Calls, err = e.calls(ctx, out.RunID)
	return result, err
}

// calls reads a run's tool calls from its journal.
func (e *demoExecutor) calls(ctx context.Context, id string) ([]demo.Call, error) {
	records, err := e.h.Journal(ctx, id)
	if err != nil {
		return nil, err
	}
	var calls []demo.Call
	at := map[int]int{}
	for _, r := range records {
		switch {
		case r.Call != nil && r.Call.Kind == "tool":
			var args struct {
				Server string
				Input  json.RawMessage
			}
			if err := json.Unmarshal(r.Call.Args, &args); err != nil {
				return nil, fmt.Errorf("read call %d: %w", r.Call.N, err)
			}
			name := r.Call.Name
			if tool, err := e.h.Catalog().ResolveIn(args.Server, name); args.Server != "" && err == nil {
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
	records, err := e.h.Journal(ctx, id)
	if err != nil {
		return false, err
	}
	out, err := e.h.Replay(ctx, records, "", false)
	if err != nil {
		return false, err
	}
	return out.Error == nil, nil
}

// CallTool implements demo.Executor.
func (e *demoExecutor) CallTool(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	args, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	out, err := e.h.Exec(ctx, harness.Request{Code: fmt.Sprintf("return await callMCPTool(%q, %s)", tool, args), Session: demoSession})
	if err != nil {
		return nil, err
	}
	if out.Error != nil {
		return nil, fmt.Errorf("%s", modelview.Failure(out))
	}
	return out.Output, nil
}
