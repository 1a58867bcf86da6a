package docker

import (
	"testing"

	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/testing/sandboxtest"
)

// The tier lets no program do harm.
func TestSandbox(t *testing.T) {
	e := engine(t)
	var s *Sandbox
	open := func(t testing.TB) sandbox.Sandbox {
		var err error
		if s, err = Open(t.Context(), Options{Engine: e, Dir: t.TempDir(), Memory: sandboxtest.Memory, Runtime: testRuntime}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	tier := sandboxtest.Tier{
		Open: open,
		Escaped: func(t testing.TB) sandbox.Sandbox {
			open(t)
			s.first.Swap(nil).Kill()
			s.script = sandboxtest.Escaped(t, s.script)
			return s
		},
		Pool:    sandbox.PoolOptions{MaxRuns: 1},
		Runners: func(t testing.TB) int { return len(containers(t, s, s.owner.name)) },
	}
	if testRuntime != "" {
		tier.Escaped = nil // what happens within a container is another matter there: TestWalls
	}
	sandboxtest.Exercise(t, tier)
}
