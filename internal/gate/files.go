package gate

import (
	"context"
	"encoding/json"
	"fmt"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
)

// fileCall is a prepared call that changes files. The run lets one at a time go on, in call order.
type fileCall struct {
	run    *Run
	call   *journal.Call
	intent *journal.Intent
}

func (r *Run) file(c *journal.Call, intent *journal.Intent) run.Pending {
	if !files.Mutates(c.Name) {
		return answer(func(ctx context.Context) (json.RawMessage, *frame.Error) {
			return r.scope.Files.Call(ctx, c.Name, c.Args)
		})
	}
	return (&fileCall{run: r, call: c, intent: intent}).do
}

// Serial implements run.Gate: calls that change files wait for each other.
func (r *Run) Serial(c *journal.Call) bool {
	return c.Kind == string(frame.FS) && files.Mutates(c.Name)
}

// do is the pending call. One that a dead process had begun is repeated: most give the same result twice, and
// append and rename are guarded by what was true before.
func (f *fileCall) do(ctx context.Context, intend run.Intend) (json.RawMessage, *frame.Error) {
	space := f.run.scope.Files
	if f.intent != nil {
		done, err := space.AlreadyDone(f.call.Name, f.call.Args, f.intent.Before)
		if err != nil {
			return nil, inDoubt("fs."+f.call.Name, err.Error())
		}
		if done {
			return json.RawMessage("true"), nil
		}
		return space.Call(ctx, f.call.Name, f.call.Args)
	}
	before, err := space.Precondition(f.call.Name, f.call.Args)
	if err != nil {
		return nil, runtimeError("Error", "%v", err)
	}
	err = intend(ctx, journal.Intent{
		N: f.call.N, Key: fmt.Sprintf("%s-%d", f.run.scope.Run, f.call.N), Retry: true,
		Time: f.run.gate.opt.Now().UnixMicro(), Before: before,
	})
	if err != nil {
		return nil, runtimeError("Error", "fs.%s was not done: write the journal: %v", f.call.Name, err)
	}
	return space.Call(ctx, f.call.Name, f.call.Args)
}
