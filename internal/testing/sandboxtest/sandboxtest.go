// Package sandboxtest tests what every tier of the sandbox must do, and what no tier may let a program do. It is imported by tests only.
package sandboxtest

import (
	"bytes"
	"testing"

	"mcp-code-exec-harness/internal/sandbox"
)

// Tier is a tier to test.
type Tier struct {
	// Kind is the name by which attacks state their result for the tier, if this is not the tier's own name.
	Kind string
	// Open opens the tier; the suite closes it.
	Open func(t testing.TB) sandbox.Sandbox
	// Pool configures the pools of its runners. The suite sets Size itself.
	Pool sandbox.PoolOptions
	// Escaped opens the tier with a runner that is [Escaped]; nil if the tier's engine is not Node.js.
	Escaped func(t testing.TB) sandbox.Sandbox
	// Native opens the tier with machine code in place of the engine, or within it, that executes a [hostile.Program]; nil if that is not possible
	// here.
	Native func(t testing.TB) sandbox.Sandbox
	// Shares is true if the process tier executes the same runner with the same Node.js. The programs that meet no wall of this tier are then left to
	// the tests of the process tier, which CI does not let skip. The long tests execute all programs here too.
	Shares bool
	// Refuses is true if the tier refuses each system call that it does not allow. Other tiers kill the process for some of them.
	Refuses bool
	// Runners counts parts of the tier's runners, such as containers, that are not descendants of this process; nil if there are none.
	Runners func(t testing.TB) int
}

// Exercise tests a tier: programs that attack it, and programs whose outcome is the same in all tiers. Each runs in a harness with a real
// journal, gate and MCP server, beside a run of another user.
func Exercise(t *testing.T, tier Tier) {
	t.Run("Attacks", func(t *testing.T) {
		w := open(t, tier, tier.Open)
		w.attacks(t, w.guestAttacks(t))
	})
	t.Run("Same", func(t *testing.T) { open(t, tier, tier.Open).alike(t) })
	t.Run("Volume", func(t *testing.T) { open(t, tier, tier.Open).volume(t) })
	if tier.Escaped != nil {
		t.Run("Escaped", func(t *testing.T) { open(t, tier, tier.Escaped).attacks(t, readAttacks(t, "escaped")) })
	}
	if tier.Native != nil {
		t.Run("Native", func(t *testing.T) { open(t, tier, tier.Open).natively(t) })
	}
}

// Escaped returns the runner of Node.js as a program sees it that has escaped from its realm: the variable outer has the objects of the runner's
// realm. Only the walls around the process stop such a program.
func Escaped(t testing.TB, script []byte) []byte {
	t.Helper()
	const start = "guest.start(line);"
	escaped := bytes.Replace(script, []byte("  "+start), []byte("  vm.runInContext('globalThis', realm).outer = { require, process, Buffer, run: JSON.parse(run) };\n  "+start), 1)
	if len(escaped) == len(script) {
		t.Fatalf("the runner has no %q", start)
	}
	return escaped
}
