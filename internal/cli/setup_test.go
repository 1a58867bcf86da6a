package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

var update = flag.Bool("update", false, "write the golden files")

// shared is a directory with what all tests use: the compiled engine, which takes half a second to make, and the real binary.
var shared string

// TestMain makes the test binary a worker, a supervisor, a demo server, a misbehaving server or a conformance client if its arguments or variables ask for
// that.
func TestMain(m *testing.M) {
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	misbehave.Main()
	if len(os.Args) > 1 && os.Args[1] == renamedServer {
		if err := serveRenamed(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if cache := os.Getenv(conformanceVar); cache != "" {
		if err := conformanceClient(context.Background(), os.Args[len(os.Args)-1], cache); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if shared, err = os.MkdirTemp("", "harness-cli-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(shared)
	os.Exit(code)
}

// fixture is a user at a command line, in a separate directory.
type fixture struct {
	t       testing.TB
	dir     string
	now     time.Time // fixed time; zero: the real time
	environ []string
}

func setup(t testing.TB) *fixture {
	t.Helper()
	dir := t.TempDir()
	// HOME keeps out the configuration of the user who runs the tests.
	f := &fixture{t: t, dir: dir, environ: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "HARNESS_CACHE_DIR=" + filepath.Join(shared, "cache")}}
	if runtime.GOOS == "windows" {
		f.environ = append(f.environ, "USERPROFILE="+dir, "LOCALAPPDATA="+dir, "SystemRoot="+os.Getenv("SystemRoot"))
	}
	return f
}

// result is the result of a command.
type result struct {
	t              testing.TB
	args           []string
	code           int
	stdout, stderr string
}

// run executes a command in this process.
func (f *fixture) run(args ...string) *result {
	f.t.Helper()
	return f.runIn(f.t.Context(), "", args...)
}

func (f *fixture) runIn(ctx context.Context, stdin string, args ...string) *result {
	f.t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Main(ctx, f.world(args, stdin, &stdout, &stderr))
	return &result{f.t, args, code, stdout.String(), stderr.String()}
}

func (f *fixture) world(args []string, stdin string, stdout, stderr io.Writer) cli.World {
	w := cli.World{
		Args: args, Environ: f.environ, Dir: f.dir, Executable: self(f.t), Stdin: strings.NewReader(stdin), Stdout: stdout, Stderr: stderr, Now: time.Now,
	}
	if !f.now.IsZero() {
		w.Now = func() time.Time { return f.now }
	}
	return w
}

// want checks the exit code.
func (r *result) want(code int) *result {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("harness %q: exit code %d, want %d\nstdout: %s\nstderr: %s", r.args, r.code, code, r.stdout, r.stderr)
	}
	return r
}

// value decodes standard output, which must be exactly one JSON value.
func (r *result) value(into any) *result {
	r.t.Helper()
	dec := json.NewDecoder(strings.NewReader(r.stdout))
	if err := dec.Decode(into); err != nil {
		r.t.Fatalf("harness %q: standard output is not JSON: %v\nstdout: %q\nstderr: %s", r.args, err, r.stdout, r.stderr)
	}
	if _, err := dec.Token(); err != io.EOF {
		r.t.Fatalf("harness %q: standard output has more than one JSON value: %s", r.args, r.stdout)
	}
	return r
}

// outcome is the JSON result of harness exec --json.
type outcome struct {
	RunID  string
	Status string
	Output json.RawMessage
	Logs   []struct{ Level, Text string }
	Error  *struct {
		Kind, Message, File, Source, Hint string
		Line, Column                      int
	}
	Calls      int
	DurationMs float64
	Sandbox    string
}

func (f *fixture) write(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

func (f *fixture) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// addDemo configures the named demo servers.
func (f *fixture) addDemo(names ...string) {
	f.t.Helper()
	for _, name := range names {
		f.run("servers", "add", name, "--", self(f.t), "__demo-server", name, filepath.Join(f.dir, "demo")).want(0)
	}
}

func self(t testing.TB) string {
	t.Helper()
	return child.Executable(t)
}

// binary builds the real program once, and returns its path.
func binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(shared, "harness")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/harness")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // the same setting as for every build except the tests
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
})

// process returns a command that executes the real binary.
func (f *fixture) process(args ...string) *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command(binary(f.t), args...)
	cmd.Dir, cmd.Env = f.dir, f.environ
	return cmd
}

// patience is the time limit for events that should happen soon.
const patience = 2 * time.Minute

// eventually waits until holds returns true. what names the condition in the error.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: not %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
