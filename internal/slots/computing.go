package slots

import (
	"context"
	"runtime"
	"time"
)

// Computing limits the processor time that the host spends on read-only requests of users, such as searches. Each owner has one read at a time,
// and all reads together use half of the processors. While other owners are active, an owner has to wait after a read for as long as the read
// took. The methods are safe for concurrent use; a nil Computing limits nothing.
type Computing struct {
	slots  *Slots
	others func(owner string) bool
}

// restFrom is the minimum duration of a read after which its owner has to wait. Shorter reads cost less than the timer.
const restFrom = 200 * time.Microsecond

// NewComputing returns a Computing. others reports whether a program of an owner other than the given one computes or did so recently.
func NewComputing(others func(owner string) bool) *Computing {
	return &Computing{New(Limits{All: max(1, runtime.GOMAXPROCS(0)/2), Each: 1}, "reads", "answered"), others}
}

// Begin waits for an owner's turn. The caller must call end once to end the turn; until then, the goroutine must not call Begin again. During its
// turn, the caller must not wait for anything but the processor. The error is the cause of ctx, or names the limit on waiters.
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
