package runs

import (
	"context"
	"encoding/json"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
)

// numbered is a gate that puts the number of a call into the context of its answer.
type numbered struct{ run.Gate }

type numberKey struct{}

// Prepare implements run.Gate.
func (g numbered) Prepare(c *journal.Call, intent *journal.Intent) run.Pending {
	return numberedCall{g.Gate.Prepare(c, intent), c.N}
}

type numberedCall struct {
	run.Pending
	n int
}

// Do implements run.Pending.
func (c numberedCall) Do(ctx context.Context, intend func(context.Context, journal.Intent) error) (json.RawMessage, *frame.Error) {
	return c.Pending.Do(context.WithValue(ctx, numberKey{}, c.n), intend)
}

// CallNumber is the number of the host call that a context belongs to; 0 if it belongs to none.
func CallNumber(ctx context.Context) int {
	n, _ := ctx.Value(numberKey{}).(int)
	return n
}
