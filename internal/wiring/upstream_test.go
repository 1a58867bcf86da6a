package wiring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/mcpclient/supervisor"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/generated"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// kill kills a process.
func kill(t testing.TB, pid int) {
	t.Helper()
	if pid <= 0 {
		t.Errorf("kill process %d", pid)
		return
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill process %d: %v", pid, err)
	}
}

// linked replaces the command of a server by a link. uninstall removes the link, so that the server cannot start before install is called.
func linked(t testing.TB, server *config.MCPServer) (uninstall, install func()) {
	t.Helper()
	program, link := server.Command, filepath.Join(t.TempDir(), "server")
	server.Command = link
	uninstall = func() {
		if err := os.Remove(link); err != nil {
			t.Error(err)
		}
	}
	install = func() {
		if err := os.Symlink(program, link); err != nil {
			t.Error(err)
		}
	}
	install()
	return uninstall, install
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// fifty is a program that calls the good server 50 times. Meanwhile, attempt calls the other server.
const fifty = `
let sum = 0
const good = Promise.all(Array.from({ length: 50 }, async (_, n) => {
  const [row] = await callMCPTool('database__query', { query: 'SELECT ' + n + ' AS n' })
  sum += row.n
}))
const attempt = async (f) => { try { return await f() } catch (e) { return e.name + ': ' + e.message } }
const got = await (async () => { %s })()
await good
return { sum, got }`

type fiftyResult struct {
	Sum int
	Got any
}

// TestUpstreamMisbehaves lets a server misbehave in every way while a program calls tools of another server. Only calls of the misbehaving server fail.
func TestUpstreamMisbehaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how, code string
		want      []string // texts that the program's result must contain
	}{
		"dies at start":       {misbehave.Dies, `return await attempt(() => tools.bad.echo({}))`, []string{"ToolError", "harness servers test bad"}},
		"hangs at start":      {misbehave.Hangs, `return await attempt(() => tools.bad.echo({}))`, []string{"ToolError", "bad"}},
		"floods at start":     {misbehave.Floods, `return await attempt(() => tools.bad.echo({}))`, []string{"ToolError", "bad"}},
		"dies of a discovery": {misbehave.DiesOnDiscover, `return (await tools.bad.echo({ alpha: 1 })).alpha`, []string{"1"}},
		"chats on stdout":     {misbehave.Chatty, `return (await tools.bad.echo({ alpha: 1 })).alpha`, []string{"1"}},
		"endless pages":       {misbehave.EndlessPages, `return await attempt(() => callMCPTool('bad__page-1', {}))`, []string{"ToolError"}},
		"bad tool":            {misbehave.BadTool, `return (await tools.bad.echo({ alpha: 1 })).alpha`, []string{"1"}},
		"no tools":            {misbehave.NoTools, `return await attempt(() => tools.bad.echo({}))`, []string{"ToolError", "echo"}},
		"dies in a call":      {misbehave.Normal, `return await attempt(() => tools.bad.exit({}))`, []string{"InDoubtError", "the connection was lost"}},
		"closes in a call":    {misbehave.Normal, `return await attempt(() => tools.bad.half({}))`, []string{"InDoubtError"}},
		"invalid JSON":        {misbehave.Normal, `return await attempt(() => tools.bad.broken({}))`, []string{"InDoubtError"}},
		"wrong shape":         {misbehave.Normal, `return await attempt(() => callMCPTool('bad__wrong-shape', {}))`, []string{"ToolError", "what the tool does is done"}},
		"wrong ids":           {misbehave.Normal, `return await callMCPTool('bad__wrong-ids', {})`, []string{"for you"}},
		"rpc error":           {misbehave.Normal, `return await attempt(() => callMCPTool('bad__rpc-error', {}))`, []string{"ToolError", "zeta is required"}},
		"an error":            {misbehave.Normal, `return await attempt(() => tools.bad.error({}))`, []string{"ToolError: no such customer: 42"}},
		"hangs in a call":     {misbehave.Normal, `return await attempt(() => tools.bad.hang({}))`, []string{"InDoubtError", "no answer within"}},
		"pings without end":   {misbehave.Normal, `return await attempt(() => tools.bad.pings({}))`, []string{"InDoubtError"}},
		"asks for input":      {misbehave.Normal, `return await attempt(() => tools.bad.input({}))`, []string{"ToolError", "input"}},
		"50 MB": {misbehave.Normal, `
const big = await callMCPTool('bad__big', { bytes: 50e6 })
const part = await fs.readFile(big.file, { offset: 49e6, length: 100 })
return JSON.stringify([big.bytes, part.length, new Set(part).size])`, []string{"[50000000,100,1]"}},
		"too large": {misbehave.Normal, `return await attempt(() => callMCPTool('bad__big', { bytes: 70e6 }))`, []string{"InDoubtError"}},
		"list_changed": {misbehave.Normal, `
await tools.bad.grow({})
for (;;) {
  if ((await list_mcp_tools()).includes('bad__extra-1')) return await attempt(() => callMCPTool('bad__extra-1', {}))
  await utils.sleep(20)
}`, []string{"ToolError", "unknown tool extra-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := badServer(t, "bad", c.how)
			if c.how == misbehave.Hangs || c.how == misbehave.Floods {
				bad.StartupTimeout = time.Second
			}
			if strings.Contains(c.code, "hang") || strings.Contains(c.code, "pings") {
				bad.Timeout = 5 * time.Second // longer than sending the call takes
			}
			f := setup(t, nil, bad, demoServer(t, "database", t.TempDir()))
			out := f.exec(runs.Request{Code: fmt.Sprintf(fifty, c.code)})
			got := decoded[fiftyResult](t, out)
			if got.Sum != 49*50/2 {
				t.Errorf("the other server's calls add up to %d", got.Sum)
			}
			for _, word := range c.want {
				if text := fmt.Sprint(got.Got); !strings.Contains(text, word) {
					t.Errorf("the program got %q, want %q", text, word)
				}
			}
			if state := f.status("database").State; state != mcpclient.StateReady {
				t.Errorf("the other server is %s", state)
			}
			switch c.how {
			case misbehave.Dies, misbehave.Hangs, misbehave.Floods, misbehave.EndlessPages:
				eventually(t, "the start of the bad server has failed", func() bool { return f.status("bad").State == mcpclient.StateFailed })
				if f.status("bad").Reason == "" {
					t.Error("the status of the bad server has no reason")
				}
				if c.how == misbehave.Dies && !strings.Contains(f.status("bad").StderrTail, "cannot open database") {
					t.Errorf("the end of its stderr is %q", f.status("bad").StderrTail)
				}
			}
		})
	}
}

// TestUpstreamKilled kills a server with SIGKILL in each phase of its life. The run continues with the other server, the status names the reason, and the
// server is started again.
func TestUpstreamKilled(t *testing.T) {
	t.Parallel()
	const program = `
const attempt = async (f) => { try { return await f() } catch (e) { return e.name } }
const first = await attempt(() => tools.bad.echo({ alpha: 1 }))
const second = await attempt(() => tools.bad.hang({}))
const third = await attempt(() => tools.bad.echo({ alpha: 3 }))
const other = (await callMCPTool('database__query', { query: 'SELECT 7 AS n' }))[0].n
let back
for (let i = 0; i < 500 && !back; i++) { back = (await attempt(() => tools.bad.echo({ alpha: 9 }))).alpha; await utils.sleep(20) }
return { names: [first, second, third].map((v) => v.alpha ?? v), other, back, listed: (await list_mcp_tools()).filter((n) => n.endsWith('__echo')) }`
	for name, c := range map[string]struct {
		at   func(e run.Event) bool // reports whether the server is killed at an event; nil: in the second call
		want string                 // expected results of the first three calls
	}{
		"in the first call":  {func(e run.Event) bool { return e.Call != nil && e.Call.N == 1 }, "[ToolError ToolError ToolError]"},
		"between calls":      {func(e run.Event) bool { return e.Answer != nil && e.Answer.N == 1 }, "[1 ToolError ToolError]"},
		"in the second call": {nil, "[1 InDoubtError ToolError]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := badServer(t, "bad", misbehave.Normal)
			uninstall, install := linked(t, bad)
			f := setup(t, nil, bad, demoServer(t, "database", t.TempDir()))
			f.EnsureTools(t.Context(), "")
			first := f.status("bad").PID
			var why string
			struck := make(chan struct{})
			strike := func() {
				uninstall()
				kill(t, first)
				eventually(t, "the connection's end is noticed", func() bool { return f.status("bad").PID != first })
				why = f.status("bad").Reason
				close(struck)
			}
			if c.at == nil {
				go func() { // waits until the server has received the second call
					for {
						res, err := f.Servers().Call(t.Context(), "bad", "received", nil, mcpclient.CallOptions{})
						if err != nil {
							t.Error(err)
							break
						}
						if strings.Contains(string(res.StructuredContent), `"hang `) {
							break
						}
					}
					strike()
				}()
			}
			calls := 0
			out := f.exec(runs.Request{Code: program, Observe: func(e run.Event) {
				if c.at != nil && c.at(e) {
					strike()
				}
				if e.Answer != nil && e.Answer.N == 2 {
					<-struck // before the program makes the third call
				}
				if e.Call != nil && e.Call.Kind == string(frame.Tool) {
					if calls++; calls == 4 {
						install()
					}
				}
			}})
			got := decoded[struct {
				Names       []any
				Other, Back int
				Listed      []string
			}](t, out)
			if names := fmt.Sprint(got.Names); names != c.want {
				t.Errorf("the calls got %s, want %s", names, c.want)
			}
			if got.Other != 7 || got.Back != 9 || len(got.Listed) != 1 {
				t.Errorf("got %+v", got)
			}
			if !strings.Contains(why, "killed") {
				t.Errorf("the reason is %q", why)
			}
			st := f.status("bad")
			if st.State != mcpclient.StateReady || st.Restarts == 0 || st.PID == first {
				t.Errorf("the server is %+v", st)
			}
			eventually(t, "the killed process is gone", func() bool { return !alive(first) })
		})
	}
}

// TestUpstreamKilledAtStart kills servers that are starting, before they have answered anything.
func TestUpstreamKilledAtStart(t *testing.T) {
	t.Parallel()
	bad := badServer(t, "bad", misbehave.Hangs)
	f := setup(t, nil, bad, demoServer(t, "database", t.TempDir()))
	done := make(chan *run.Outcome, 1)
	go func() {
		out, err := f.Runs().Execute(t.Context(), runs.Request{Code: fmt.Sprintf(fifty, `return await attempt(() => tools.bad.echo({}))`)})
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	// The status of a starting server has no process id. A server that dies before its first answer is started once more with the older handshake. A call
	// that is made after the start has failed starts it again.
	eventually(t, "the program has ended", func() bool {
		if pid := serverOf(os.Getpid(), "MISBEHAVE_PIDS="+bad.Env["MISBEHAVE_PIDS"]); pid != 0 {
			kill(t, pid)
		}
		return len(done) > 0
	})
	got := decoded[fiftyResult](t, <-done)
	if text := fmt.Sprint(got.Got); got.Sum != 49*50/2 || !strings.Contains(text, "ToolError") || strings.Contains(text, "killed") {
		t.Errorf("got %+v", got)
	}
	if st := f.status("bad"); st.State != mcpclient.StateFailed || !strings.Contains(st.Reason, "killed") {
		t.Errorf("the server is %s: %s", st.State, st.Reason)
	}
}

// TestUpstreamFirstUse makes the first calls of a server concurrently. All of them wait until its tools are known.
func TestUpstreamFirstUse(t *testing.T) {
	t.Parallel()
	for range generated.Count(5, 20) {
		f := setup(t, nil, newUpstream(t, "up").entry)
		var n int
		f.value(`return (await Promise.all(Array.from({ length: 30 }, (_, n) => tools.up.read({ n })))).length`, &n)
		if n != 30 {
			t.Errorf("%d calls", n)
		}
	}
}

// TestUpstreamLeavesNothing: after the harness is closed, no process is left that a server started.
func TestUpstreamLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{misbehave.Grandchild, misbehave.Escapee, misbehave.Orphan} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			bad := badServer(t, "bad", how)
			var f *fixture
			var server int
			t.Run("", func(t *testing.T) { // The end of this subtest closes the harness.
				f = setup(t, nil, bad, demoServer(t, "database", t.TempDir()))
				got := decoded[fiftyResult](t, f.exec(runs.Request{Code: fmt.Sprintf(fifty, `return (await tools.bad.echo({ alpha: 5 })).alpha`)}))
				if got.Sum != 49*50/2 || fmt.Sprint(got.Got) != "5" {
					t.Errorf("got %+v", got)
				}
				server = f.status("bad").PID
				eventually(t, "its child is as bad as it gets", func() bool { return len(pidsOf(t, bad)) > 0 })
			})
			for _, pid := range append(pidsOf(t, bad), server) {
				if alive(pid) {
					t.Errorf("process %d is left", pid)
				}
			}
		})
	}
}

// pidsOf returns the ids of the processes that a misbehaving server has recorded.
func pidsOf(t *testing.T, server *config.MCPServer) []int {
	t.Helper()
	text, err := os.ReadFile(server.Env["MISBEHAVE_PIDS"])
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// serverOf returns the id of a descendant of a process that has the variable in its environment and has no child.
func serverOf(root int, variable string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !isBelow(pid, root) {
			continue
		}
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !strings.Contains("\x00"+string(environ), "\x00"+variable+"\x00") {
			continue
		}
		if cmdline, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && !strings.Contains(string(cmdline), supervisor.Command) {
			return pid
		}
	}
	return 0
}

// mentioned reports whether the command line of a process contains a text.
func mentioned(text string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, _ := os.ReadFile(file); strings.Contains(string(line), text) { // The process may have ended.
			return true
		}
	}
	return false
}

func isBelow(pid, root int) bool {
	for range 5 {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return false
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil || pid <= 1 {
			return false
		}
		if pid == root {
			return true
		}
	}
	return false
}

// TestUpstreamToldOfTheEnd: when a run is ended early, by its limit or by its user, servers get cancellations for their calls in flight.
func TestUpstreamToldOfTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code  string
		flags map[string]string
		kind  string
	}{
		"timeout": {`
tools.bad.hang({})
while (!JSON.stringify(await tools.bad.received()).includes('"hang ')) await utils.sleep(10)
for (;;) {}`, map[string]string{"sandbox.timeout": "2s"}, frame.KindTimeout},
		// long enough for the server to get the call
		"maxWall":   {`await tools.bad.hang({})`, map[string]string{"sandbox.timeout": "10s", "sandbox.maxWall": "10s"}, frame.KindTimeout},
		"cancelled": {`console.log('now'); await tools.bad.hang({})`, nil, frame.KindCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, c.flags, badServer(t, "bad", misbehave.Normal))
			f.EnsureTools(t.Context(), "")
			received := func() string {
				res, err := f.Servers().Call(t.Context(), "bad", "received", nil, mcpclient.CallOptions{})
				if err != nil {
					t.Error(err)
					return ""
				}
				return string(res.StructuredContent)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "cancelled" {
				go func() {
					eventually(t, "the server has the call", func() bool { return strings.Contains(received(), `"hang `) })
					cancel()
				}()
			}
			out, err := f.Runs().Execute(ctx, runs.Request{Code: c.code})
			if err != nil || kind(out) != c.kind {
				t.Fatalf("ended %+v, %v", out, err)
			}
			eventually(t, "the server is told", func() bool { return strings.Contains(received(), "notifications/cancelled") })
		})
	}
}
