package wiring_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/misbehave"
	"mcp-code-exec-harness/internal/testing/n8nfake"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/wiring"
)

// TestMain makes the test binary a worker, a supervisor, a demo server or a misbehaving server when the harness executes it with the arguments of one.
func TestMain(m *testing.M) {
	n8nfake.Main()
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	misbehave.Main()
	if dir := os.Getenv(cacheVar); dir != "" {
		cache = dir
		os.Exit(m.Run())
	}
	var err error
	if cache, err = os.MkdirTemp("", "harness-test-cache-"); err != nil {
		panic(err)
	}
	if err := os.Setenv(cacheVar, cache); err != nil {
		panic(err)
	}
	if os.Getenv(storeVar) == "postgres" {
		if postgres, err = postgrestest.Run(postgrestest.Fast...); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if postgres != nil {
		postgres.Close()
	}
	_ = os.RemoveAll(cache)
	os.Exit(code)
}

// cache is the cache directory of all tests and of the processes that they start. It is shared because compiling the engine takes half a second.
var cache string

// cacheVar is the environment variable that passes the directory to those processes.
const cacheVar = "HARNESS_TEST_CACHE"

// storeVar is the environment variable with the kind of store: postgres, instead of files.
const storeVar = "HARNESS_TEST_STORE"

// postgres is the server with the stores of tests, which have a schema for each directory; nil if the stores are files.
var postgres *postgrestest.Server

// storeURL returns the URL of a test's store. With PostgreSQL, it writes the URL to a file in the directory, where processes that the test starts read it.
func storeURL(t testing.TB, dir string) string {
	t.Helper()
	name := filepath.Join(dir, ".store-url")
	if url, err := os.ReadFile(name); err == nil {
		return string(url)
	}
	if postgres == nil {
		return "sqlite:" + filepath.Join(dir, "harness.db")
	}
	url := postgres.Schema(t)
	if err := os.WriteFile(name, []byte(url), 0o600); err != nil {
		t.Fatal(err)
	}
	return url
}

// tierVar is the environment variable with the tier in which programs run, instead of wasm.
const tierVar = "HARNESS_TEST_TIER"

// fixture is a harness with its own directories.
type fixture struct {
	*wiring.Harness
	t   testing.TB
	cfg *config.Config
	dir string
}

// setup opens a harness with the given servers. flags are configuration keys and values.
func setup(t testing.TB, flags map[string]string, servers ...*config.MCPServer) *fixture {
	t.Helper()
	return open(t, t.TempDir(), flags, servers...)
}

// open does the same as setup, in a directory that may contain the state of an earlier harness.
func open(t testing.TB, dir string, flags map[string]string, servers ...*config.MCPServer) *fixture {
	t.Helper()
	return openIn(t, dir, flags, wiring.Outside{}, servers...)
}

// openIn does the same as open with the given parts of the outside world.
func openIn(t testing.TB, dir string, flags map[string]string, out wiring.Outside, servers ...*config.MCPServer) *fixture {
	t.Helper()
	all := map[string]string{
		"store.url": storeURL(t, dir), "skills.dir": filepath.Join(dir, "skills"),
		"workspace.dir": filepath.Join(dir, "workspace"),
	}
	if tier := os.Getenv(tierVar); tier != "" {
		all["sandbox.tier"] = tier
		if host := os.Getenv("DOCKER_HOST"); host != "" {
			all["sandbox.docker.host"] = host
		}
	}
	for key, value := range flags {
		all[key] = value
	}
	cfg, _, err := config.Load(config.Env{Flags: all, Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS})
	if err != nil {
		t.Fatal(err)
	}
	cfg.MCPServers = append(cfg.MCPServers, servers...)
	out.Environ, out.Executable, out.CacheDir, out.Now, out.Version = os.Environ(), self(t), cache, time.Now, "test"
	// The file of a tool list is named by the server's address, and a server of another test may get the same address. So each directory has its own lists.
	out.ToolCache = cmp.Or(out.ToolCache, filepath.Join(cache, "tools", url.QueryEscape(dir)))
	h, err := wiring.Open(t.Context(), cfg, out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if os.Getenv(tierVar) != "" && os.Getenv("CI") != "true" {
		if _, err := h.Tiers().Pool(""); err != nil {
			t.Skip(err)
		}
	}
	return &fixture{Harness: h, t: t, cfg: cfg, dir: dir}
}

func self(t testing.TB) string {
	t.Helper()
	return child.Executable(t)
}

// demoServer returns the configuration entry of a demo server, which runs as a child process.
func demoServer(t testing.TB, name, dir string) *config.MCPServer {
	return &config.MCPServer{Name: name, Command: self(t), Args: []string{"__demo-server", name, dir}, StartupTimeout: patience}
}

// exec runs a program. If the program succeeds, exec also replays it from its journal, and the results must be the same.
func (f *fixture) exec(req runs.Request) *run.Outcome {
	f.t.Helper()
	out, err := f.Runs().Execute(f.t.Context(), req)
	if err != nil {
		f.t.Fatalf("exec: %v", err)
	}
	if out.Error == nil {
		f.replay(out)
	}
	return out
}

func (f *fixture) replay(out *run.Outcome) {
	f.t.Helper()
	records, err := f.Runs().Journal(f.t.Context(), out.RunID)
	if err != nil {
		f.t.Fatalf("read the journal: %v", err)
	}
	again, err := f.Runs().Replay(f.t.Context(), records, runs.Replay{})
	if err != nil {
		f.t.Fatalf("replay: %v", err)
	}
	if again.Error != nil || string(again.Output) != string(out.Output) {
		f.t.Fatalf("replay differs: output %s, error %+v; recorded output %s", again.Output, again.Error, out.Output)
	}
}

// value runs a program that must succeed and decodes its output.
func (f *fixture) value(code string, into any) *run.Outcome {
	f.t.Helper()
	out := f.exec(runs.Request{Code: code})
	if out.Error != nil {
		f.t.Fatalf("program failed: %s %s (line %d, hint %q)\n%s", out.Error.Kind, out.Error.Message, out.Error.Line, out.Error.Hint, out.Error.Stack)
	}
	if into != nil {
		if err := json.Unmarshal(out.Output, into); err != nil {
			f.t.Fatalf("output %s: %v", out.Output, err)
		}
	}
	return out
}

func TestReturn(t *testing.T) {
	f := setup(t, nil)
	var n int
	if f.value("return 1+1", &n); n != 2 {
		t.Errorf("got %d", n)
	}
}
