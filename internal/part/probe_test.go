package part_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"mcp-code-exec-harness/internal/part"
)

// CheckAll waits ProbeTime for a check that hangs, and does not call it again before it has ended. The other parts are checked meanwhile.
func TestProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		errAway := errors.New("away")
		probes := []part.Probe{
			part.NewProbe("disk", "", func(context.Context) error { calls.Add(1); <-release; return nil }),
			part.NewProbe("store", "", func(context.Context) error { return errAway }),
		}
		for range 2 {
			errs := part.CheckAll(t.Context(), probes)
			if errs[0] == nil || errs[0].Error() != "disk has not answered within 2s" || !errors.Is(errs[1], errAway) {
				t.Errorf("got %v", errs)
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d checks hang", n)
		}
		close(release)
		synctest.Wait()
		if err := probes[0].Check(t.Context()); err != nil || calls.Load() != 2 {
			t.Errorf("after it has ended: %v, %d checks", err, calls.Load())
		}
	})
}
