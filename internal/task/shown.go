package task

import (
	"context"
	"encoding/json"

	"mcp-code-exec-harness/internal/pii"
)

// Shown returns a task as its owner sees it, with values in place of the tokens in the request and the answer. Console lines and errors keep the
// tokens.
func Shown(ctx context.Context, privacy *pii.Filter, t Task) (Task, error) {
	p := privacy.In(t.UserID, t.SessionID)
	var err error
	for _, text := range []*string{&t.Task, &t.Text} {
		if err == nil {
			*text, err = p.Restore(ctx, *text)
		}
	}
	for _, raw := range []*json.RawMessage{&t.Context, &t.Output} {
		if err == nil {
			*raw, _, err = p.RestoreJSON(ctx, *raw)
		}
	}
	return t, err
}
