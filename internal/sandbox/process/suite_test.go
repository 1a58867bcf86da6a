package process_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"mcp-code-exec-harness/internal/jail"
	osprocess "mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/node"
	"mcp-code-exec-harness/internal/sandbox/process"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/sandboxtest"
)

// TestSandbox runs the suite of all tiers.
func TestSandbox(t *testing.T) {
	sandboxtest.Exercise(t, sandboxtest.Tier{
		Pool:   sandbox.PoolOptions{MaxRuns: 1},
		Open:   func(t testing.TB) sandbox.Sandbox { return open(t, t.TempDir(), "") },
		Native: func(t testing.TB) sandbox.Sandbox { return open(t, t.TempDir(), sandboxtest.NativeNode(t)) },
		Escaped: func(t testing.TB) sandbox.Sandbox {
			dir := t.TempDir()
			s := open(t, dir, "")
			runners, err := filepath.Glob(filepath.Join(dir, "runner-*"))
			if err != nil || len(runners) != 1 {
				t.Fatalf("runners: %v, %v", runners, err)
			}
			script, err := node.Script()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(runners[0], sandboxtest.Escaped(t, script), 0o600); err != nil {
				t.Fatal(err)
			}
			return s
		},
	})
}

// open opens the tier. If program is not empty, it replaces the machine's Node.js.
func open(t testing.TB, dir, program string) sandbox.Sandbox {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has walls")
	}
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("node is not installed")
		}
		t.Skip("node is not installed: get it from https://nodejs.org or your package manager")
	}
	s, err := process.Open(t.Context(), process.Options{Program: osprocess.SelfAt(child.Executable(t)), Node: program, Dir: dir, Memory: sandboxtest.Memory})
	if errors.Is(err, jail.ErrWalls) {
		t.Skip("package jail tests whether this is right: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
