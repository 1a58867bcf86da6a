package program

import (
	"context"
	"fmt"
	"sync"
)

// Bounds of the compilations that wait for a slot.
const (
	maxOwnerWaiting = 500
	maxWaiting      = 5000
)

// slots bound how many compilations are under way. Waiting owners take turns, and one owner leaves a slot to the others.
// It is safe for concurrent use.
type slots struct {
	mu      sync.Mutex
	free    int
	share   int // slots that one owner can hold
	waiting int
	held    map[string]int
	queues  map[string][]chan struct{} // owner -> its waiters, oldest first
	turns   []string                   // owners with waiters, the next first
}

func newSlots(size int) *slots {
	return &slots{free: size, share: max(1, size-1), held: map[string]int{}, queues: map[string][]chan struct{}{}}
}

// acquire waits for a slot. The error wraps ctx's, or names the bound of waiters that is reached.
func (s *slots) acquire(ctx context.Context, owner string) error {
	granted, err := s.enqueue(owner)
	if err != nil {
		return err
	}
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	if !s.leave(owner, granted) {
		s.release(owner) // granted meanwhile
	}
	return ctx.Err()
}

func (s *slots) enqueue(owner string) (chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.queues[owner]) >= maxOwnerWaiting:
		return nil, fmt.Errorf("more than %d texts of this user wait to be compiled: import less at once", maxOwnerWaiting)
	case s.waiting >= maxWaiting:
		return nil, fmt.Errorf("more than %d texts wait to be compiled: try again later", maxWaiting)
	}
	granted := make(chan struct{})
	if len(s.queues[owner]) == 0 {
		s.turns = append(s.turns, owner)
	}
	s.queues[owner] = append(s.queues[owner], granted)
	s.waiting++
	s.grant()
	return granted, nil
}

// leave removes a waiter; false if it holds a slot by now.
func (s *slots) leave(owner string, waiter chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.queues[owner] {
		if w == waiter {
			s.remove(owner, i)
			return true
		}
	}
	return false
}

// remove takes a waiter out of its owner's queue.
func (s *slots) remove(owner string, i int) {
	queue := s.queues[owner]
	s.waiting--
	if queue = append(queue[:i], queue[i+1:]...); len(queue) > 0 {
		s.queues[owner] = queue
		return
	}
	delete(s.queues, owner)
	for i, of := range s.turns {
		if of == owner {
			s.turns = append(s.turns[:i], s.turns[i+1:]...)
			return
		}
	}
}

func (s *slots) release(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.held[owner]--; s.held[owner] == 0 {
		delete(s.held, owner)
	}
	s.grant()
}

// grant gives free slots to the owners whose turn it is. Those that hold their share are passed over; they are fewer than
// there are slots.
func (s *slots) grant() {
	for i := 0; s.free > 0 && i < len(s.turns); {
		owner := s.turns[i]
		if s.held[owner] >= s.share {
			i++
			continue
		}
		s.free--
		s.held[owner]++
		close(s.queues[owner][0])
		s.remove(owner, 0)
		if len(s.queues[owner]) > 0 { // to the end of the line
			s.turns = append(append(s.turns[:i], s.turns[i+1:]...), owner)
		}
	}
}
