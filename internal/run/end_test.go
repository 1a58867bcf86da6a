package run_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/run"
)

// The error of a call that was cancelled with its run is not an answer: a run that is handed over makes the call again, and a cancelled program does not
// continue with the error. Many rounds cover both orders: the run learns of its own end first, or of the call's end first.
func TestCallsEndAfterTheirRun(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"handed over": run.ErrHandedOver, "cancelled": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 50 {
				bubble(t, new(gate).on("hang", hang), func(t *testing.T, w *world) {
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					time.AfterFunc(time.Second, func() { cancel(cause) })
					w.ctx = ctx
					spec := w.spec()
					var err error
					if spec.Journal, err = w.store.Create(t.Context(), "run_x"); err != nil {
						t.Fatal(err)
					}
					spec.Observe = func(e run.Event) {
						if e.Answer != nil && !e.Answer.Undelivered() {
							t.Errorf("an answer was recorded: %s", e.Answer.Error)
						}
					}
					out, err := w.execute(func(g *guest) *frame.Frame {
						g.takeOf(g.call(frame.Tool, "hang", `{}`))
						return value(`1`)
					}, spec)
					if cause != nil && !errors.Is(err, cause) || cause == nil && kindOf(out) != frame.KindCancelled {
						t.Errorf("ended as %+v, %v", out, err)
					}
				})
			}
		})
	}
}
