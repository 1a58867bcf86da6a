// Package sandboxtest holds what every tier of the sandbox does, and what none lets a program do. It is imported by tests only.
package sandboxtest

import (
	"bytes"
	"testing"

	"mcp-code-exec-harness/internal/sandbox"
)

// Tier is a tier to test.
type Tier struct {
	// Kind is the name under which attacks say what they want of it, where that is not the tier's own.
	Kind string
	// Open opens the tier; the suite closes it.
	Open func(t testing.TB) sandbox.Sandbox
	// Pool shapes the pools of its runners. Size is the suite's own.
	Pool sandbox.PoolOptions
	// Escaped opens the tier with a runner that is [Escaped]; nil: the tier's engine is no Node.js.
	Escaped func(t testing.TB) sandbox.Sandbox
	// Native opens the tier with machine code in place of the engine, or within it, that executes a [hostile.Program]; nil: not here.
	Native func(t testing.TB) sandbox.Sandbox
	// Shares says that the process tier executes the same runner with the same Node.js. Its tests, which CI does not let skip, then execute the
	// programs that meet no wall of this tier. The long tests execute all programs here too.
	Shares bool
	// Refuses says that the tier refuses each system call that it does not allow. Other tiers kill the process for some.
	Refuses bool
	// Runners counts what the tier's runners consist of, beyond processes that are descendants of this one: containers. Nil: nothing.
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

// Escaped is the runner of Node.js as a program meets it that has escaped from its realm: the variable outer has what the realm of the
// runner has. What such a program cannot do is due to the walls around the process.
func Escaped(t testing.TB, script []byte) []byte {
	t.Helper()
	const start = "guest.start(line);"
	escaped := bytes.Replace(script, []byte("  "+start), []byte("  vm.runInContext('globalThis', realm).outer = { require, process, Buffer, run: JSON.parse(run) };\n  "+start), 1)
	if len(escaped) == len(script) {
		t.Fatalf("the runner has no %q", start)
	}
	return escaped
}
