package api

import (
	"fmt"
	"testing"

	"mcp-code-exec-harness/internal/sandbox"
)

// Full queues are the caller's or the server's, and both say when to try again.
func TestFullQueues(t *testing.T) {
	a := &API{}
	for err, status := range map[error]int{sandbox.ErrOwnerFull: 429, sandbox.ErrPoolFull: 503} {
		p := a.fail(t.Context(), fmt.Errorf("get a runner: %w", err))
		if p.Status != status || p.GetHeaders().Get("Retry-After") == "" || p.Detail != err.Error() {
			t.Errorf("%v: got %+v", err, p)
		}
	}
}
