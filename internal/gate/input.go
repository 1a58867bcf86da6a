package gate

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/input"
	"mcp-code-exec-harness/internal/origin"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
)

// input answers a call for the next page of the run's input. The answer, which the journal stores, has only the byte range of the page and the
// changes that hide personal data in the page. The run makes rows of the answer (run.Spec.Input).
func (r *Run) input(ctx context.Context, args json.RawMessage, call run.InFlight) (json.RawMessage, *frame.Error) {
	var in struct {
		Offset int64 `json:"offset"`
		Row    int64 `json:"row"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	if r.scope.Input == nil {
		return nil, runtimeError("TypeError", "the run has no input")
	}
	began := time.Now()
	page, err := r.scope.Input.Read(in.Offset, in.Row, func(rows json.RawMessage) (json.RawMessage, error) {
		hidden, err := r.scope.Privacy.HideJSON(context.WithoutCancel(ctx), r.scope.InputFrom, rows)
		if err == nil {
			r.tell(call, "input", hidden, r.scope.Input.Prefix(), nil)
			if s := r.said(ctx); s != nil && ofUser(r.scope.InputFrom) {
				s.Said(origin.User, hidden)
			}
		}
		return hidden, err
	})
	if spent := call.Charge(time.Since(began)); err == nil {
		err = spent
	}
	if _, full := errors.AsType[*pii.LimitError](err); full {
		return nil, &frame.Error{
			Kind: frame.KindCallLimit, Name: "LimitError",
			Message: "the input has more personal data than tokens can stand for: " + err.Error() + "; give the program fewer rows or columns, or raise the limit",
		}
	}
	if wrong, ok := errors.AsType[*input.Error](err); ok {
		return nil, runtimeError("Error", "%v", wrong)
	}
	if err != nil {
		return nil, runtimeError("Error", "the input cannot be shown: %v", err)
	}
	return encode(page)
}
