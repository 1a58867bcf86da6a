package process_test

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/process"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/sandboxtest"
)

// The tier lets no program do harm.
func TestSandbox(t *testing.T) {
	sandboxtest.Exercise(t, sandboxtest.Tier{Pool: sandbox.PoolOptions{MaxRuns: 1}, Open: open})
}

func open(t testing.TB) sandbox.Sandbox {
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
	s, err := process.Open(t.Context(), process.Options{Program: child.Executable(t), Dir: t.TempDir(), Memory: sandboxtest.Memory})
	if errors.Is(err, jail.ErrWalls) {
		t.Skip("package jail tests whether this is right: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
