package guest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/node"
	"mcp-code-exec-harness/internal/sandbox/wasm"
	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
	"mcp-code-exec-harness/internal/testing/child"
)

// TestMain makes the test binary a worker when the sandbox re-executes it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		os.Exit(wasm.WorkerMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	code := m.Run()
	if built.wasm != nil {
		built.wasm.Close()
	}
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// runner is a process that executes programs one after another.
type runner interface {
	send(*frame.Frame) error
	receive() (*frame.Frame, error)
	// reset makes the runner ready for the next program.
	reset() error
}

// engines runs a test in every engine. Each call of open is a new process.
func engines(t *testing.T, test func(t *testing.T, open func(*testing.T) runner)) {
	t.Run("wasm", func(t *testing.T) {
		t.Parallel()
		test(t, openWasm)
	})
	t.Run("node", func(t *testing.T) {
		needNode(t)
		t.Parallel()
		test(t, openNode)
	})
}

func needNode(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("node is not installed")
		}
		t.Skip("node is not installed: get it from https://nodejs.org or your package manager")
	}
	return path
}

// built holds what all tests of this process share, because building it takes half a second.
var built struct {
	once   sync.Once
	dir    string
	runner string
	wasm   *wasm.Sandbox
	err    error
}

func build(t *testing.T) {
	t.Helper()
	built.once.Do(func() {
		built.err = func() error {
			var err error
			if built.dir, err = os.MkdirTemp("", "guest-test-"); err != nil {
				return err
			}
			script, err := node.Script()
			if err != nil {
				return err
			}
			built.runner = filepath.Join(built.dir, "runner.cjs")
			return os.WriteFile(built.runner, script, 0o600)
		}()
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
}

type wasmRunner struct{ sandbox.Runner }

var wasmOnce sync.Once

func openWasm(t *testing.T) runner {
	t.Helper()
	build(t)
	wasmOnce.Do(func() {
		built.wasm, built.err = wasm.Open(t.Context(), wasm.Options{Program: process.SelfAt(child.Executable(t)), Dir: built.dir, MaxMemory: 256 << 20})
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	r, err := built.wasm.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Kill)
	return wasmRunner{r}
}

func (r wasmRunner) send(f *frame.Frame) error { return r.Send(f) }

func (r wasmRunner) receive() (*frame.Frame, error) {
	if f, ok := <-r.Frames(); ok {
		return f, nil
	}
	return nil, fmt.Errorf("the runner ended: %w", r.Err())
}

func (r wasmRunner) reset() error {
	if err := r.Send(&frame.Frame{T: frame.Reset}); err != nil {
		return err
	}
	for {
		if f, err := r.receive(); err != nil || f.T == frame.Ready {
			return err
		}
	}
}

// nodeRunner is the runner of the tiers with Node.js, without their walls. Each program gets its own process.
type nodeRunner struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.Writer
	out    *bufio.Reader
	stderr *bytes.Buffer
}

func openNode(t *testing.T) runner {
	t.Helper()
	build(t)
	r := &nodeRunner{t: t}
	t.Cleanup(r.end)
	if err := r.reset(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *nodeRunner) end() {
	if r.cmd != nil {
		r.cmd.Process.Kill()
		r.cmd.Wait()
	}
}

func (r *nodeRunner) reset() error {
	r.end()
	r.cmd = exec.Command(needNode(r.t), append(node.Options(128<<20), built.runner)...)
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	r.in, r.out, r.stderr = in, bufio.NewReader(out), &bytes.Buffer{}
	r.cmd.Stderr = r.stderr
	if err := r.cmd.Start(); err != nil {
		r.cmd = nil
		return err
	}
	_, err = r.receive() // reads the ready frame
	return err
}

func (r *nodeRunner) send(f *frame.Frame) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_, err = r.in.Write(append(text, '\n'))
	return err
}

func (r *nodeRunner) receive() (*frame.Frame, error) {
	line, err := r.out.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("node ended: %s", r.stderr)
	}
	if err != nil {
		return nil, err
	}
	f := new(frame.Frame)
	if err := json.Unmarshal(line, f); err != nil {
		return nil, fmt.Errorf("read frame %q: %w", line, err)
	}
	return f, nil
}

// wrap returns a program with the given body of an async function. The lines keep their numbers.
func wrap(body string) string { return "(async (_import) => {" + body + "\n})" }

// start returns a start frame with the default values of the tests.
func start(code string) *frame.Frame {
	return &frame.Frame{
		T: frame.Start, Run: "run_1", Now: startTime, Seed: strings.Repeat("00", 32),
		Program: &frame.Program{Code: code},
		Limits:  &frame.Limits{Memory: 128 << 20, InFlight: 100, MaxValue: 1 << 20},
	}
}

// startTime is 2023-11-14T22:13:20Z in microseconds. The time of each answer is one millisecond after that of the previous one.
const (
	startTime = 1_700_000_000_000_000
	step      = 1000
)

// run executes a program that makes no calls, and returns its log lines and its done frame.
func run(t *testing.T, r runner, f *frame.Frame) (logs []string, done *frame.Frame) {
	t.Helper()
	if err := r.send(f); err != nil {
		t.Fatal(err)
	}
	for {
		got, err := r.receive()
		if err != nil {
			t.Fatal(err)
		}
		switch got.T {
		case frame.Log:
			logs = append(logs, got.Text)
		case frame.Done:
			if err := r.reset(); err != nil {
				t.Fatal(err)
			}
			return logs, got
		case frame.Call:
			t.Fatalf("unexpected call %s %s %s", got.Kind, got.Name, got.Args)
		case frame.Idle:
			t.Fatal("the program waits for nothing that the test answers")
		}
	}
}

// value runs a program and decodes its return value.
func value(t *testing.T, r runner, code string, to any) {
	t.Helper()
	_, done := run(t, r, start(code))
	if done.Error != nil {
		t.Fatalf("%s: %s\n%s", done.Error.Name, done.Error.Message, done.Error.Stack)
	}
	if err := json.Unmarshal(done.Value, to); err != nil {
		t.Fatal(err)
	}
}

// inNode evaluates a script with this machine's Node.js and decodes the JSON that it prints.
func inNode(t *testing.T, script string, to any, args ...string) {
	t.Helper()
	cmd := exec.Command(needNode(t), append([]string{"-e", script, "--"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("node on %s: %v\n%s", runtime.GOOS, err, exit.Stderr)
		}
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, to); err != nil {
		t.Fatal(err)
	}
}
