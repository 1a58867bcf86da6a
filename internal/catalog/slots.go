package catalog

import (
	"context"
	"fmt"
	"sync"
)

// slots bounds the expensive validations in progress: one for each owner and cap(all) in all. Owners take turns,
// because each has at most one validation waiting for a slot of all.
type slots struct {
	all chan struct{}

	mu     sync.Mutex
	owners map[string]*ownerSlot // of owners that hold or wait
}

type ownerSlot struct {
	taken chan struct{}
	users int // that hold it or wait for it
}

func newSlots(n int) *slots {
	return &slots{all: make(chan struct{}, n), owners: map[string]*ownerSlot{}}
}

// acquire waits for a slot of the owner until ctx ends; release gives it back and must be called once.
func (s *slots) acquire(ctx context.Context, owner string) (release func(), err error) {
	s.mu.Lock()
	own := s.owners[owner]
	if own == nil {
		own = &ownerSlot{taken: make(chan struct{}, 1)}
		s.owners[owner] = own
	}
	own.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(s.owners, owner)
		}
	}
	waited := func() error {
		return fmt.Errorf("wait for a slot to check the input (1 expensive check at a time for each user, %d in all): %w",
			cap(s.all), context.Cause(ctx))
	}
	select {
	case own.taken <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, waited()
	}
	select {
	case s.all <- struct{}{}:
	case <-ctx.Done():
		<-own.taken
		leave()
		return nil, waited()
	}
	return func() {
		<-s.all
		<-own.taken
		leave()
	}, nil
}
