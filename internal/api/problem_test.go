package api

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"mcp-code-exec-harness/internal/sandbox"
)

// Full queues are the caller's or the server's, and both say when to try again.
func TestFullQueues(t *testing.T) {
	a := &API{}
	for err, status := range map[error]int{sandbox.ErrOwnerFull: 429, sandbox.ErrPoolFull: 503, sandbox.ErrPoolBusy: 503, sandbox.ErrPoolInUse: 503} {
		w := httptest.NewRecorder()
		ctx := context.WithValue(t.Context(), visitKey{}, &visit{answer: &recorder{ResponseWriter: w}})
		p := a.fail(ctx, fmt.Errorf("get a runner: %w", err))
		if p.Status != status || w.Header().Get("Retry-After") == "" || p.Detail != err.Error() {
			t.Errorf("%v: got %+v", err, p)
		}
	}
}
