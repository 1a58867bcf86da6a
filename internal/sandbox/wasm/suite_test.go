package wasm

import (
	"testing"

	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/sandboxtest"
)

// The tier lets no program do harm.
func TestSandbox(t *testing.T) {
	sandboxtest.Exercise(t, sandboxtest.Tier{Open: func(t testing.TB) sandbox.Sandbox {
		s, err := Open(t.Context(), Options{Executable: child.Executable(t), Dir: t.TempDir(), MaxMemory: 256 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}})
}
