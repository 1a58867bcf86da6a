package docker

import (
	"bytes"
	"testing"

	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/node"
	"mcp-code-exec-harness/internal/testing/sandboxtest"
)

// TestSandbox runs the suite of all tiers.
func TestSandbox(t *testing.T) {
	e := engine(t)
	var s *Sandbox
	var instances []string
	openImage := func(t testing.TB, image string) sandbox.Sandbox {
		var err error
		if s, err = Open(t.Context(), Options{Engine: e, Dir: t.TempDir(), Memory: sandboxtest.Memory, Runtime: testRuntime, Image: image}); err != nil {
			t.Fatal(err)
		}
		instances = append(instances, s.owner.name)
		return s
	}
	open := func(t testing.TB) sandbox.Sandbox { return openImage(t, "") }
	tier := sandboxtest.Tier{
		Open: open,
		Escaped: func(t testing.TB) sandbox.Sandbox {
			open(t)
			s.first.Swap(nil).Kill()
			s.script = sandboxtest.Escaped(t, s.script)
			return s
		},
		Native: func(t testing.TB) sandbox.Sandbox {
			return openImage(t, programImage(t, e, sandboxtest.NativeNode(t), 0o755))
		},
		Pool:    sandbox.PoolOptions{MaxRuns: 1},
		Shares:  testRuntime == "" && sharesRunner(t),
		Refuses: testRuntime == "",
		Runners: func(t testing.TB) (n int) {
			for _, instance := range instances {
				n += len(containers(t, s, instance))
			}
			return n
		},
	}
	if testRuntime == "runsc" {
		tier.Kind = "gvisor" // What seccomp refuses happens inside the container, which has its own kernel.
	}
	sandboxtest.Exercise(t, tier)
}

// sharesRunner reports whether containers execute the same as the process tier: this machine's Node.js with the runner of package node.
func sharesRunner(t *testing.T) bool {
	t.Helper()
	machine, err := node.Find(t.Context(), "")
	if err != nil {
		return false
	}
	s := open(t, t.TempDir())
	script, err := node.Script()
	if err != nil {
		t.Fatal(err)
	}
	return s.Info().Engine == machine.Engine() && bytes.Equal(s.script, script)
}
