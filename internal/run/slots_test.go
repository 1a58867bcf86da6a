package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/run"
)

// requests requests slots, each in its own goroutine, and records the order in which they are granted.
type requests struct {
	t     *testing.T
	slots *run.Slots

	mu       sync.Mutex
	admitted []string
	held     map[string]*run.Slot
}

func (r *requests) ask(owner string, began int) {
	name := fmt.Sprint(owner, began)
	go func() {
		slot, err := r.slots.Acquire(r.t.Context(), owner, time.Unix(int64(began), 0))
		if err != nil {
			r.t.Error(err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.admitted = append(r.admitted, name)
		r.held[name] = slot
	}()
	synctest.Wait()
}

// want checks which runs were admitted since the last call, in order.
func (r *requests) want(names ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.admitted, names) {
		r.t.Errorf("%v are admitted, want %v", r.admitted, names)
	}
	r.admitted = nil
}

func slotsOf(t *testing.T, n int, f func(*requests)) {
	synctest.Test(t, func(t *testing.T) {
		f(&requests{t: t, slots: run.NewSlots(n), held: map[string]*run.Slot{}})
	})
}

// The owner with the fewest slots goes first. Among its tasks, the oldest goes first.
func TestSlotsOrder(t *testing.T) {
	t.Parallel()
	slotsOf(t, 2, func(r *requests) {
		r.ask("ann", 1)
		r.want("ann1")
		r.ask("ann", 2)
		r.want("ann2")
		for _, began := range []int{5, 3, 4} {
			r.ask("ann", began)
		}
		r.ask("bob", 9)
		r.want()
		r.held["ann1"].Release()
		r.want("bob9")
		r.held["ann2"].Release()
		r.want("ann3")
		r.held["bob9"].Release()
		r.want("ann4")
		r.held["ann3"].Release()
		r.want("ann5")
	})
}

// A run that waits holds no slot, and does not wait for one when it continues.
func TestSlotsPause(t *testing.T) {
	t.Parallel()
	slotsOf(t, 1, func(r *requests) {
		r.ask("ann", 1)
		r.ask("ann", 2)
		r.want("ann1")
		r.held["ann1"].Compute(false)
		r.want()
		time.Sleep(10 * time.Millisecond)
		r.want("ann2")
		r.held["ann1"].Compute(true)
		r.ask("ann", 3)
		r.held["ann2"].Release()
		r.want()
		r.held["ann1"].Release()
		r.want("ann3")
	})
}

// Runs that compute for a long time do not keep other runs from beginning.
func TestSlotsLongBurst(t *testing.T) {
	t.Parallel()
	slotsOf(t, 2, func(r *requests) {
		for n := range 4 {
			r.ask("greedy", n)
		}
		r.ask("bob", 9)
		r.want("greedy0", "greedy1")
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		slices.Sort(r.admitted) // Both are admitted at the same time.
		r.want("bob9", "greedy2")
		time.Sleep(50 * time.Millisecond)
		r.want("greedy3")
	})
}

// A request that is cancelled while it waits leaves no trace in the queue.
func TestSlotsCancelled(t *testing.T) {
	t.Parallel()
	slotsOf(t, 1, func(r *requests) {
		r.ask("ann", 1)
		ctx, cancel := context.WithCancelCause(r.t.Context())
		why := errors.New("why")
		done := make(chan error)
		go func() {
			_, err := r.slots.Acquire(ctx, "bob", time.Unix(0, 0))
			done <- err
		}()
		synctest.Wait()
		cancel(why)
		if err := <-done; !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		r.ask("cid", 3)
		r.held["ann1"].Release()
		r.want("ann1", "cid3")
	})
}

// Runs that wait for short times, or compute again after they lost their slots, do not keep others from beginning for ever.
func TestSlotsAreGivenInTheEnd(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]time.Duration{"kept": 9 * time.Millisecond, "lost and taken again": 25 * time.Millisecond} {
		slotsOf(t, 2, func(r *requests) {
			ctx, cancel := context.WithCancel(r.t.Context())
			for i := range 12 {
				r.ask("greedy", i)
				r.mu.Lock()
				slot := r.held[fmt.Sprint("greedy", i)]
				r.mu.Unlock()
				if slot != nil {
					go func() {
						defer slot.Release()
						for ctx.Err() == nil {
							slot.Compute(false)
							time.Sleep(pause)
							slot.Compute(true)
							time.Sleep(100 * time.Microsecond)
						}
					}()
				}
				time.Sleep(3 * time.Millisecond)
			}
			r.ask("bob", 0)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			r.mu.Lock()
			if !slices.Contains(r.admitted, "bob0") {
				r.t.Errorf("%s: bob has not begun after 10 s: %v", name, r.admitted)
			}
			r.mu.Unlock()
			cancel()
			time.Sleep(time.Second)
			synctest.Wait()
			for range 2 { // The first round admits the waiting runs, the second one releases their slots.
				synctest.Wait()
				r.mu.Lock()
				for _, slot := range r.held {
					slot.Release()
				}
				r.mu.Unlock()
			}
			synctest.Wait()
		})
	}
}
