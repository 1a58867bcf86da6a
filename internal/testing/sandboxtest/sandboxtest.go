// Package sandboxtest holds what every tier of the sandbox does, and what none lets a program do. It is imported by tests only.
package sandboxtest

import (
	"testing"

	"mcp-code-exec-harness/internal/sandbox"
)

// Tier is a tier to test.
type Tier struct {
	// Open opens the tier; the suite closes it.
	Open func(t testing.TB) sandbox.Sandbox
	// Pool shapes the pools of its runners. Size is the suite's own.
	Pool sandbox.PoolOptions
	// Runners counts what the tier's runners consist of, beyond processes that are descendants of this one: containers. Nil: nothing.
	Runners func(t testing.TB) int
}

// Exercise tests a tier: programs that attack it, and programs whose outcome is the same in all tiers. Each runs in a harness with a real
// journal, gate and MCP server, beside a run of another user.
func Exercise(t *testing.T, tier Tier) {
	w := open(t, tier)
	t.Run("Attacks", w.attacks)
}
