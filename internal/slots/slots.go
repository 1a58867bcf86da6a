// Package slots divides a shared resource among users: an owner with many requests waits for its own work and does not delay the others.
package slots

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Limits are the maximum numbers of held slots and of waiters, for all owners together and for each owner.
type Limits struct {
	All, Each            int
	Alone                time.Duration // an owner may hold more than Each if no other owner acquired a slot for this long; 0 means never
	Waiting, EachWaiting int           // 0 means 5,000 and 500
}

// Slots limits the number of things done at the same time, in total and for each owner. A free slot goes to the owner that holds the
// fewest. Its methods are safe for concurrent use.
type Slots struct {
	things, purpose string // words that describe a wait in errors, such as "texts" and "compiled"
	limits          Limits

	mu      sync.Mutex
	queue   Queue
	held    int
	waiting int
}

// New returns slots with limits. Errors describe a wait with things and purpose, for example that texts wait to be compiled.
func New(l Limits, things, purpose string) *Slots {
	l.Waiting, l.EachWaiting = cmp.Or(l.Waiting, 5000), cmp.Or(l.EachWaiting, 500)
	return &Slots{things: things, purpose: purpose, limits: l, queue: Queue{Each: l.Each, Alone: l.Alone}}
}

// Acquire waits for n slots, or for as many as one owner may hold if n is higher. The caller must call release once to return them. The
// error is the cause of ctx, or names the limit on waiters that was reached.
func (s *Slots) Acquire(ctx context.Context, owner string, n int) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := s.waiter(n)
	if err := s.wait(owner, w); err != nil {
		return nil, err
	}
	select {
	case <-w.granted:
	case <-ctx.Done():
		if !s.leave(w) { // the slots were granted before the wait ended
			w.release()
		}
		return nil, context.Cause(ctx)
	}
	return w.release, nil
}

// TryAcquire does the same as Acquire, but does not wait. release is nil if Acquire would wait or fail.
func (s *Slots) TryAcquire(owner string, n int) (release func()) {
	w := s.waiter(n)
	if s.wait(owner, w) != nil || s.leave(w) {
		return nil
	}
	return w.release
}

// waiter waits for slots or holds them.
type waiter struct {
	Place
	granted chan struct{}
	release func()
}

func (s *Slots) waiter(n int) *waiter {
	w := &waiter{granted: make(chan struct{})}
	w.Place = Place{Since: time.Now(), size: min(n, s.limits.Each, s.limits.All), Grant: func() {
		s.held += w.size
		s.waiting--
		close(w.granted)
	}}
	w.release = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held -= w.size
		s.queue.Return(&w.Place)
		s.grant()
	}
	return w
}

// leave ends a wait. It returns false if the slots were already granted.
func (s *Slots) leave(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.queue.Leave(&w.Place) {
		return false
	}
	s.waiting--
	s.grant()
	return true
}

func (s *Slots) wait(owner string, w *waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.queue.Waiting(owner) >= s.limits.EachWaiting:
		return fmt.Errorf("more than %d %s of this user wait to be %s: do less at once", s.limits.EachWaiting, s.things, s.purpose)
	case s.waiting >= s.limits.Waiting:
		return fmt.Errorf("more than %d %s wait to be %s: try again later", s.limits.Waiting, s.things, s.purpose)
	}
	s.queue.Wait(owner, w.size, &w.Place)
	s.waiting++
	s.grant()
	return nil
}

// grant gives free slots to the waiters that come next.
func (s *Slots) grant() {
	for p := s.queue.First(); p != nil && s.held+p.size <= s.limits.All; p = s.queue.First() {
		s.queue.Take(p)
	}
}

// Held returns the number of slots that an owner holds.
func (s *Slots) Held(owner string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Has(owner)
}
