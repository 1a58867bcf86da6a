package wasm

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/hostile"
	"mcp-code-exec-harness/internal/testing/sandboxtest"
)

// nativeRole makes the test binary a hostile build of the worker.
const nativeRole = "__native"

// The tier lets no program do harm.
func TestSandbox(t *testing.T) {
	dir := t.TempDir() // what workers start from is built once
	open := func(t testing.TB, args ...string) sandbox.Sandbox {
		s, err := Open(t.Context(), Options{Program: process.SelfAt(child.Executable(t), args...), Dir: dir, MaxMemory: 256 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	sandboxtest.Exercise(t, sandboxtest.Tier{
		Open:   func(t testing.TB) sandbox.Sandbox { return open(t) },
		Native: func(t testing.TB) sandbox.Sandbox { return open(t, nativeRole) },
	})
}

// hostileMain is the worker with one change: what its programs print may be a hostile.Program, whose attack it executes.
func hostileMain(args []string) int {
	if len(args) == 1 && args[0] != jail.LauncherCommand {
		return worker.Main(args, os.Stdin, &hijacked{}, os.Stderr)
	}
	return WorkerMain(args, os.Stdin, os.Stdout, os.Stderr)
}

// hijacked is the standard output of a worker. An attack happens where the worker writes the line that a program prints.
type hijacked struct {
	walled bool // the worker has said that it is behind all walls
	ended  bool // the run has ended in place of the program
}

func (h *hijacked) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		if err := h.line(line); err != nil {
			return 0, err
		}
	}
	return len(lines), nil
}

func (h *hijacked) line(line []byte) error {
	var f frame.Frame
	if err := json.Unmarshal(line, &f); err != nil {
		return err
	}
	switch {
	case f.T == frame.Ready && !h.ended:
		h.walled = h.walled || len(f.Missing) == 0
	case f.T == frame.Log && h.walled:
		got, found := hostile.Find(line)
		if !found {
			break
		}
		if got == "" {
			return nil // the program goes on, and says that it failed
		}
		h.ended = true
		f = frame.Frame{T: frame.Done, Run: f.Run}
		f.Value, _ = json.Marshal(got) // a text
		line, _ = json.Marshal(f)
		line = append(line, '\n')
	case f.T == frame.Done && h.ended:
		return nil
	}
	_, err := os.Stdout.Write(line)
	return err
}
