package mcpclient_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

func TestToolsAreReportedAsSent(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	servers := m.EnsureTools(ctxFor(t), "")
	s := servers[0]
	if s.State != mcpclient.StateReady || !s.Known || s.Cached || s.PID == 0 || s.Conn == 0 {
		t.Fatalf("status %+v", s.Status)
	}
	if s.Instructions != "Expect the worst." || s.ServerInfo.Name != "misbehave" || s.Protocol != "2025-11-25" {
		t.Errorf("got instructions %q, info %+v, protocol %s", s.Instructions, s.ServerInfo, s.Protocol)
	}
	echo := s.Tools[0]
	const schema = `{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"integer"},"mid":{"type":"boolean"}}}`
	if string(echo.InputSchema) != schema {
		t.Errorf("the order of keys is lost: %s", echo.InputSchema)
	}
	a := echo.Annotations
	if a.ReadOnly == nil || !*a.ReadOnly || a.Destructive != nil || a.Idempotent == nil || a.OpenWorld != nil {
		t.Errorf("annotations %+v", a)
	}
	if i := slices.IndexFunc(s.Tools, func(t mcpclient.Tool) bool { return t.Name == "pid" }); s.Tools[i].Annotations != (mcpclient.Annotations{}) {
		t.Errorf("annotations that were not sent: %+v", s.Tools[i].Annotations)
	}
}

func TestFailedStarts(t *testing.T) {
	t.Parallel()
	quick := func(kind string) mcpclient.Config {
		cfg := bad(t, kind)
		cfg.StartupTimeout = 10 * time.Second
		return cfg
	}
	missing := mcpclient.Config{Name: "bad", Command: "no-such-program-anywhere"}
	nowhere := bad(t, misbehave.Normal)
	nowhere.Cwd = filepath.Join(t.TempDir(), "missing")
	for name, tc := range map[string]struct {
		cfg  mcpclient.Config
		want []string
	}{
		"dies":          {bad(t, misbehave.Dies), []string{"exited with code 3", "cannot open database"}},
		"deaf":          {bad(t, misbehave.Deaf), []string{"closed its stdin or stdout but did not exit before it answered the handshake"}},
		"hangs":         {quick(misbehave.Hangs), []string{"did not answer the handshake within 10s"}},
		"floods":        {bad(t, misbehave.Floods), []string{"floods stdout", "still flooding, line 0"}},
		"endless pages": {bad(t, misbehave.EndlessPages), []string{"the pages do not end"}},
		"missing":       {missing, []string{"no-such-program-anywhere", "was not found", "install it"}},
		"no directory":  {nowhere, []string{"missing", "no such file or directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := bad(t, misbehave.Normal)
			good.Name = "good"
			m := setup(t, mcpclient.Options{}, tc.cfg, good)
			ctx := ctxFor(t)
			servers := m.EnsureTools(ctx, "")
			if servers[0].State != mcpclient.StateFailed || servers[0].Known {
				t.Errorf("state %s", servers[0].State)
			}
			if servers[1].State != mcpclient.StateReady {
				t.Errorf("the other server suffers: %+v", servers[1].Status)
			}
			_, err := m.Call(ctx, "bad", "echo", nil, mcpclient.CallOptions{})
			callError(t, err, mcpclient.KindUnavailable, false)
			wantIn(t, "error", err.Error(), tc.want...)
			wantIn(t, "status", servers[0].Reason+servers[0].StderrTail, tc.want...)
		})
	}
}

func TestToleratedServers(t *testing.T) {
	t.Parallel()
	for kind, protocol := range map[string]string{
		misbehave.Chatty:          "2025-11-25",
		misbehave.DiesOnDiscover:  "2025-11-25",
		misbehave.IgnoresDiscover: "2025-11-25",
		misbehave.Old:             "2024-11-05",
		misbehave.BadTool:         "2025-11-25",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := setup(t, mcpclient.Options{}, bad(t, kind))
			res := mustCall(t, m, "echo", `{"big":12345678901234567890,"b":1,"a":2}`)
			if got := string(res.StructuredContent); got != `{"big":12345678901234567890,"b":1,"a":2}` {
				t.Errorf("numbers or order changed: %s", got)
			}
			s := m.Tools()[0]
			if s.Protocol != protocol {
				t.Errorf("protocol %s, want %s", s.Protocol, protocol)
			}
			odd := slices.IndexFunc(s.Tools, func(t mcpclient.Tool) bool { return t.Name == "bad" })
			if kind == misbehave.BadTool && (odd < 0 || s.Tools[odd].Description != "42") {
				t.Error("a tool whose description is a number is not offered")
			}
			if slices.ContainsFunc(s.Tools, func(t mcpclient.Tool) bool { return t.Name == "" }) {
				t.Error("an unusable tool is offered")
			}
		})
	}
}

func TestPagesAndNoTools(t *testing.T) {
	t.Parallel()
	none := bad(t, misbehave.NoTools)
	none.Name = "none"
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Pages), none)
	servers := m.EnsureTools(ctxFor(t), "")
	var names []string
	for _, tool := range servers[0].Tools {
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "page-0 page-1 page-2" {
		t.Errorf("got %s", got)
	}
	if !servers[1].Known || len(servers[1].Tools) != 0 || servers[1].State != mcpclient.StateReady {
		t.Errorf("a server without tools: %+v", servers[1])
	}
}

func TestStartedOnce(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	ctx := ctxFor(t)
	var wg sync.WaitGroup
	pids := make([]string, 20)
	for i := range pids {
		wg.Go(func() {
			res, err := m.Call(ctx, "bad", "pid", nil, mcpclient.CallOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			pids[i] = res.Content[0].Text
		})
	}
	wg.Wait()
	slices.Sort(pids)
	if len(slices.Compact(pids)) != 1 {
		t.Errorf("several processes: %v", pids)
	}
}

func TestCallerLeavesStartGoesOn(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Call(ctx, "bad", "echo", nil, mcpclient.CallOptions{})
	callError(t, err, mcpclient.KindCancelled, false)
	mustCall(t, m, "echo", `{}`)
	if s := status(t, m, "bad"); s.Restarts != 0 {
		t.Errorf("the start was not waited for but repeated: %+v", s)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	cfg := bad(t, misbehave.Normal)
	cfg.Env["OWN"] = "mine"
	cfg.Env["LANG"] = "C.UTF-8"
	cfg.Inherit = []string{"AWS_PROFILE", "TF_*"}
	m := setup(t, mcpclient.Options{Environ: append(os.Environ(), "ANTHROPIC_API_KEY=sk-secret", "LANG=de_DE", "LC_TIME=C",
		"HTTPS_PROXY=http://p:1", "no_proxy=a", "NODE_EXTRA_CA_CERTS=", "npm_config_registry=https://r", "npm_config__authtoken=secret",
		"NPM_CONFIG_CACHE=/c", "UV_INDEX_X_PASSWORD=secret", "KUBECONFIG=/k", "DOCKER_HOST=unix:///d", "DISPLAY=:7",
		"AWS_PROFILE=p", "AWS_SECRET_ACCESS_KEY=secret", "TF_VAR_x=1")}, cfg)
	for name, want := range map[string]string{
		"ANTHROPIC_API_KEY": "false ",
		"OWN":               "true mine",
		"LANG":              "true C.UTF-8",
		"LC_TIME":           "true C",
		"HTTPS_PROXY":       "true http://p:1", "no_proxy": "true a", "NODE_EXTRA_CA_CERTS": "true ", "npm_config_registry": "true https://r",
		"npm_config__authtoken": "false ", "NPM_CONFIG_CACHE": "true /c", "UV_INDEX_X_PASSWORD": "false ", "KUBECONFIG": "true /k",
		"DOCKER_HOST": "true unix:///d", "DISPLAY": "true :7", "AWS_PROFILE": "true p", "AWS_SECRET_ACCESS_KEY": "false ", "TF_VAR_x": "true 1",
		"PATH": "true " + os.Getenv("PATH"),
	} {
		if got := mustCall(t, m, "env", `{"name":"`+name+`"}`).Content[0].Text; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestReasons: the reason why a server did not start quotes its output, and names variables that may have been missing.
func TestReasons(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the servers are scripts of a Unix shell")
	}
	for name, c := range map[string]struct {
		script string
		want   []string
		not    string
	}{
		"npm": {
			"echo 'npm error code E404' >&2; echo 'npm error 404 Not Found - GET https://r/x' >&2; echo 'npm error 404' >&2; echo 'npm error A complete log of this run can be found in: /x' >&2; exit 1",
			[]string{"exited with code 1", "npm error 404 Not Found - GET https://r/x"},
			"complete log",
		},
		"a variable that it does not get": {"echo 'GITHUB_TOKEN is required' >&2; exit 1", []string{"inherit: [GITHUB_TOKEN]"}, "value-of-it"},
		"a variable that is not set":      {"echo 'Error: the MY_API_KEY environment variable must be set' >&2; exit 1", []string{"MY_API_KEY, which it was not given", "env of its entry"}, "inherit"},
		"a variable that it gets":         {"echo 'HTTPS_PROXY is not set right' >&2; exit 1", []string{"exited with code 1"}, "HTTPS_PROXY, which"},
		"text on stdout":                  {"echo 'Server ready on port 3000'; exit 0", []string{"its stdout, where only messages of MCP may be, has", "Server ready on port 3000"}, "inherit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := setup(t, mcpclient.Options{Environ: append(os.Environ(), "GITHUB_TOKEN=value-of-it", "HTTPS_PROXY=http://p")},
				mcpclient.Config{Name: "bad", Command: "sh", Args: []string{"-c", c.script}, StartupTimeout: patience})
			m.Start(ctxFor(t))
			reason := status(t, m, "bad").Reason
			wantIn(t, "reason", reason, c.want...)
			if strings.Contains(reason, c.not) {
				t.Errorf("%q in %s", c.not, reason)
			}
		})
	}
}

func TestEnabledAndDisabled(t *testing.T) {
	t.Parallel()
	cfg := bad(t, misbehave.Normal)
	cfg.EnabledTools, cfg.DisabledTools = []string{"echo", "pid"}, []string{"pid"}
	off := bad(t, misbehave.Normal)
	off.Name, off.Disabled = "off", true
	m := setup(t, mcpclient.Options{}, cfg, off)
	servers := m.Start(ctxFor(t))
	if len(servers[0].Tools) != 1 || servers[0].Tools[0].Name != "echo" || servers[0].Status.Tools != 1 {
		t.Errorf("offered: %+v", servers[0].Tools)
	}
	_, err := call(t, m, "pid", `{}`)
	callError(t, err, mcpclient.KindUnavailable, false)
	if servers[1].State != mcpclient.StateDisabled || servers[1].Conn != 0 {
		t.Errorf("disabled server: %+v", servers[1].Status)
	}
	_, err = m.Call(ctxFor(t), "off", "echo", nil, mcpclient.CallOptions{})
	wantIn(t, "error", callError(t, err, mcpclient.KindUnavailable, false).Error(), "disabled in the configuration")
	_, err = m.Call(ctxFor(t), "crm", "echo", nil, mcpclient.CallOptions{})
	wantIn(t, "error", callError(t, err, mcpclient.KindUnavailable, false).Error(), "no server has this name; the servers are bad, off")
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, mcpclient.Config{Name: "a", Command: "x"})
	for want, cfg := range map[string]mcpclient.Config{
		"has no name":                       {Command: "x"},
		"neither command nor url":           {Name: "b"},
		"both command and url":              {Name: "b", Command: "x", URL: "http://x"},
		"transport http needs a url":        {Name: "b", Command: "x", Transport: "http"},
		"transport stdio needs a command":   {Name: "b", URL: "http://x", Transport: "stdio"},
		`unknown transport "ws"`:            {Name: "b", URL: "http://x", Transport: "ws"},
		"is not an http or https address":   {Name: "b", URL: "ftp://x"},
		"timeouts cannot be negative":       {Name: "b", Command: "x", Timeout: -1},
		"remove it first or choose another": {Name: "a", Command: "x"},
	} {
		if err := m.Add(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", cfg, err, want)
		}
	}
}

func TestCacheKnowsToolsBeforeTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := bad(t, misbehave.Normal)
	changes := make(chan mcpclient.Server, 10)
	opts := mcpclient.Options{CacheDir: dir, OnChange: func(s mcpclient.Server) { changes <- s }}

	first := setup(t, opts, cfg)
	listed := first.EnsureTools(ctxFor(t), "")[0]
	if s := <-changes; s.Cached || len(s.Tools) != len(listed.Tools) {
		t.Fatalf("first change: %+v", s.Status)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	second := setup(t, opts, cfg)
	s := second.EnsureTools(ctxFor(t), "")[0]
	if s.State != mcpclient.StateIdle || !s.Known || !s.Cached || s.Conn != 0 || s.Instructions != "Expect the worst." {
		t.Fatalf("not from the cache: %+v", s.Status)
	}
	if string(s.Tools[0].InputSchema) != string(listed.Tools[0].InputSchema) {
		t.Errorf("the cache changed the schema: %s", s.Tools[0].InputSchema)
	}
	if s := <-changes; !s.Cached {
		t.Errorf("the cached list was not reported: %+v", s.Status)
	}
	mustCall(t, second, "grow", `{}`)
	// The start itself found no change, so the next report is about the added tool.
	if s := <-changes; s.Cached || len(s.Tools) != len(listed.Tools)+1 {
		t.Errorf("change after start: cached %t, %d tools", s.Cached, len(s.Tools))
	}

	other := cfg
	other.Args = []string{"another"}
	third := setup(t, mcpclient.Options{CacheDir: dir}, other)
	if third.Tools()[0].Known {
		t.Error("the cache of another configuration was used")
	}
	if err := os.WriteFile(files[0], []byte(`{"version":1,"tools":[{"na`), 0o600); err != nil {
		t.Fatal(err)
	}
	fourth := setup(t, mcpclient.Options{CacheDir: dir}, cfg)
	if fourth.Tools()[0].Known {
		t.Error("a damaged cache was used")
	}
	if !fourth.EnsureTools(ctxFor(t), "")[0].Known {
		t.Error("a damaged cache is in the way")
	}
}

func TestToolsChange(t *testing.T) {
	t.Parallel()
	changes := make(chan mcpclient.Server, 10)
	m := setup(t, mcpclient.Options{OnChange: func(s mcpclient.Server) { changes <- s }}, bad(t, misbehave.Normal))
	mustCall(t, m, "grow", `{}`)
	before := <-changes
	after := <-changes
	if len(after.Tools) != len(before.Tools)+1 || after.Tools[len(before.Tools)].Name != "extra-1" {
		t.Errorf("%d tools, then %d", len(before.Tools), len(after.Tools))
	}
}

// TestEnsureToolsWaitsForTheReport: EnsureTools does not return while OnChange is running for the tools of a server.
func TestEnsureToolsWaitsForTheReport(t *testing.T) {
	t.Parallel()
	var reported atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	m := setup(t, mcpclient.Options{OnChange: func(mcpclient.Server) {
		close(entered)
		<-release
		reported.Store(true)
	}}, bad(t, misbehave.Normal))
	first := make(chan struct{})
	go func() {
		defer close(first)
		m.EnsureTools(ctxFor(t), "")
	}()
	<-entered
	time.AfterFunc(50*time.Millisecond, func() { close(release) }) // later than a second call of EnsureTools that does not wait would return
	if m.EnsureTools(ctxFor(t), ""); !reported.Load() {
		t.Error("EnsureTools returned before the tools were reported")
	}
	<-first
}

// TestSlowServers: a server that is not ready in time delays only one EnsureTools, also across processes, until it has listed its tools.
func TestSlowServers(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	slow := bad(t, misbehave.Hangs)
	slow.StartupTimeout = patience
	good := bad(t, misbehave.Normal)
	good.Name = "good"
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	m := setup(t, mcpclient.Options{CacheDir: cache}, slow)
	m.EnsureTools(ctx, "")
	began := time.Now()
	m.EnsureTools(t.Context(), "")
	again := setup(t, mcpclient.Options{CacheDir: cache}, slow, good)
	if servers := again.EnsureTools(t.Context(), ""); !servers[1].Known {
		t.Errorf("the other server suffers: %+v", servers[1].Status)
	}
	if waited := time.Since(began); waited > patience/2 {
		t.Errorf("later calls waited %s", waited)
	}
	marks := func() []string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(cache, "slow-*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := marks(); len(all) != 1 {
		t.Fatalf("files %v", all)
	}
	// EnsureTools marks a server as slow if it is not ready at the deadline, which has passed here. The mark goes once the server has listed its tools.
	quick := bad(t, misbehave.Normal)
	ended, cancelled := context.WithDeadline(t.Context(), time.Now())
	defer cancelled()
	other := setup(t, mcpclient.Options{CacheDir: cache}, quick)
	other.EnsureTools(ended, "")
	if all := marks(); len(all) != 2 {
		t.Fatalf("files %v", all)
	}
	if _, err := other.Connect(t.Context(), "", "bad"); err != nil {
		t.Fatal(err)
	}
	if all := marks(); len(all) != 1 {
		t.Errorf("the server still counts as slow: %v", all)
	}
}
