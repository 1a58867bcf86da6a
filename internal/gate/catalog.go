package gate

import (
	"context"
	"encoding/json"

	"mcp-code-exec-harness/internal/frame"
)

// catalog answers what programs ask about tools.
func (r *Run) catalog(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, *frame.Error) {
	r.gate.opt.Servers.EnsureTools(ctx)
	answer, err := r.gate.opt.Catalog.Answer(ctx, name, args)
	if err != nil {
		return nil, toolError("", err.Error())
	}
	return encode(answer)
}
