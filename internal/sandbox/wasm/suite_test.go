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

// TestSandbox runs the suite of all tiers.
func TestSandbox(t *testing.T) {
	dir := t.TempDir() // The files that workers start from are built once.
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

// hostileMain is a worker with one change: if its program prints a hostile.Program, the worker executes the attack.
func hostileMain(args []string) int {
	if len(args) == 1 && args[0] != jail.LauncherCommand {
		return worker.Main(args, os.Stdin, &hijacked{}, os.Stderr)
	}
	return WorkerMain(args, os.Stdin, os.Stdout, os.Stderr)
}

// hijacked is the standard output of a worker. It executes an attack when the worker writes a line that the program printed.
type hijacked struct {
	walled bool // reports that the worker is behind all walls
	ended  bool // reports that the run has ended with the result of the attack
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
			return nil // The program continues, and reports that the attack failed.
		}
		h.ended = true
		f = frame.Frame{T: frame.Done, Run: f.Run}
		f.Value, _ = json.Marshal(got) // a JSON string
		line, _ = json.Marshal(f)
		line = append(line, '\n')
	case f.T == frame.Done && h.ended:
		return nil
	}
	_, err := os.Stdout.Write(line)
	return err
}
