package gate

import (
	"context"
	"encoding/json"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
)

// file prepares a file call. The run lets those that change files go on one at a time, in call order.
func (r *Run) file(c *journal.Call, intent *journal.Intent) run.Pending {
	if !files.Mutates(c.Name) {
		return answer(func(ctx context.Context) (json.RawMessage, *frame.Error) {
			value, failed := r.scope.Files.Call(ctx, c.Name, c.Args)
			if failed != nil {
				return nil, failed
			}
			value, err := r.scope.Privacy.HideFile(context.WithoutCancel(ctx), pii.FromFile, value)
			if err != nil {
				return nil, runtimeError("Error", "fs.%s: the answer cannot be shown: %v", c.Name, err)
			}
			return value, nil
		})
	}
	return func(ctx context.Context, intend run.Intend) (json.RawMessage, *frame.Error) {
		return r.change(ctx, c, intent, intend)
	}
}

// Serial implements run.Gate: calls that change files wait for each other.
func (r *Run) Serial(c *journal.Call) bool {
	return c.Kind == string(frame.FS) && files.Mutates(c.Name)
}

// change is the pending call. One that a dead process had begun is repeated: most give the same result twice, and
// append and rename are guarded by what was true before.
func (r *Run) change(ctx context.Context, c *journal.Call, intent *journal.Intent, intend run.Intend) (json.RawMessage, *frame.Error) {
	space := r.scope.Files
	if intent != nil {
		done, err := space.AlreadyDone(c.Name, c.Args, intent.Before)
		if err != nil {
			return nil, inDoubt("fs."+c.Name, err.Error())
		}
		if done {
			return json.RawMessage("true"), nil
		}
		return space.Call(ctx, c.Name, c.Args)
	}
	before, err := space.Precondition(c.Name, c.Args)
	if err != nil {
		return nil, runtimeError("Error", "%v", err)
	}
	err = intend(ctx, journal.Intent{N: c.N, Key: r.key(c), Retry: true, Time: r.gate.opt.Now().UnixMicro(), Before: before})
	if err != nil {
		return nil, runtimeError("Error", "fs.%s was not done: write the journal: %v", c.Name, err)
	}
	return space.Call(ctx, c.Name, c.Args)
}
