package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/sandbox"
)

// A full queue of the caller is answered with 429 and a full queue of the server with 503. Both answers say when to try again.
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

// A replay holds one of the few slots only at its beginning, so two users with long replays do not lock others out.
func TestReplaySlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &API{heavy: newBound("replays", 1, 16, slotWait), loading: newBound("replays that begin", 1, 2, slotWait)}
		enter := func(caller string, want int) (leave func()) {
			t.Helper()
			leave, err := a.enterReplay(t.Context(), caller)
			var p *Problem
			if errors.As(err, &p); err != nil && p.Status != want || err == nil && want != 0 {
				t.Errorf("%s: %v, want %d", caller, err, want)
			}
			return leave
		}
		first, second := enter("ann", 0), enter("bob", 0)
		begin := time.Now()
		third := enter("cid", 0)
		if waited := time.Since(begin); waited != replayTurn {
			t.Errorf("another user waits %s", waited)
		}
		enter("ann", http.StatusTooManyRequests)
		first()
		enter("ann", 0)()
		second()
		third()
		time.Sleep(time.Minute)
		for _, b := range []*bound{a.heavy, a.loading} {
			for _, caller := range []string{"ann", "bob", "cid"} {
				if b.Held(caller) != 0 {
					t.Errorf("%s still has a slot of %s", caller, b.what)
				}
			}
		}
	})
}
