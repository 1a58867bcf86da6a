// Package slots divides what users share: an owner who wants much waits for itself, not the others for it.
package slots

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Limits are how many slots all owners and one owner may hold, and how many of them may wait.
type Limits struct {
	All, Each            int
	Alone                time.Duration // an owner may hold more if no other acquired any for so long; 0: it may not
	Waiting, EachWaiting int           // 5,000 and 500 if they are 0
}

// Slots bound what is done at the same time, for one owner and in all. A free slot goes to the owner that holds the fewest. Its
// methods are safe for concurrent use.
type Slots struct {
	things, purpose string // words for a wait: texts, compiled
	limits          Limits

	mu      sync.Mutex
	queue   Queue
	held    int
	waiting int
}

// New makes slots. In errors, things wait to be, for example, compiled.
func New(l Limits, things, purpose string) *Slots {
	l.Waiting, l.EachWaiting = cmp.Or(l.Waiting, 5000), cmp.Or(l.EachWaiting, 500)
	return &Slots{things: things, purpose: purpose, limits: l, queue: Queue{Each: l.Each, Alone: l.Alone}}
}

// Acquire waits for n slots; more than an owner can hold count as all that it can. release gives them back, and is to be called once.
// The error is ctx's cause, or names the bound of waiters that is reached.
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
		if !s.leave(w) { // granted before the wait ended
			w.release()
		}
		return nil, context.Cause(ctx)
	}
	return w.release, nil
}

// TryAcquire is Acquire without a wait; release is nil where there would be one.
func (s *Slots) TryAcquire(owner string, n int) (release func()) {
	w := s.waiter(n)
	if s.wait(owner, w) != nil || s.leave(w) {
		return nil
	}
	return w.release
}

// waiter waits for slots, or holds them.
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

// leave ends a wait. It reports false if the slots were granted before.
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

// grant gives free slots to those who come next.
func (s *Slots) grant() {
	for p := s.queue.First(); p != nil && s.held+p.size <= s.limits.All; p = s.queue.First() {
		s.queue.Take(p)
	}
}

// Held is how many slots an owner holds.
func (s *Slots) Held(owner string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Has(owner)
}
