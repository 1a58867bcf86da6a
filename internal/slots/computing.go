package slots

import (
	"context"
	"runtime"
	"time"
)

// Computing divides what the host computes when owners read: of each owner one thing at a time, and of all on half of the processors. While
// others are active, an owner rests after a read for as long as it took. Its methods are safe for concurrent use; a nil Computing bounds nothing.
type Computing struct {
	slots  *Slots
	others func(owner string) bool
}

// restFrom is the time of a read from which on its owner rests after it: shorter ones cost less than the timer.
const restFrom = 200 * time.Microsecond

// NewComputing returns a Computing. others says whether an owner that is not this one computes, or did lately.
func NewComputing(others func(owner string) bool) *Computing {
	return &Computing{New(Limits{All: max(1, runtime.GOMAXPROCS(0)/2), Each: 1}, "reads", "answered"), others}
}

// Begin waits for an owner's turn. end ends it, and is to be called once; meanwhile the goroutine must not call Begin again. The error is ctx's
// cause, or names the bound of waiters. What waits for others than the processor belongs before Begin.
func (c *Computing) Begin(ctx context.Context, owner string) (end func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	release := c.slots.TryAcquire(owner, 1)
	if release == nil {
		if release, err = c.slots.Acquire(ctx, owner, 1); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	return func() {
		if took := time.Since(began); took >= restFrom && c.others(owner) {
			time.AfterFunc(took, release)
			return
		}
		release()
	}, nil
}
