package run_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/run"
)

// The error of a call that ends because its run ends is no answer: a run that is handed over makes the call again, and a program that is
// cancelled does not go on with it. Which of the two the run learns first, its end or the call's, is decided many times.
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
