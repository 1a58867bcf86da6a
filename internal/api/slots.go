package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// slotWait is how long a request waits for a slot.
const slotWait = 10 * time.Second

// slots bounds how many requests of a kind are served at the same time: of each caller, and of all.
type slots struct {
	what string
	each int64
	wait time.Duration // for a slot; 0 refuses at once
	most int64
	all  *semaphore.Weighted

	mu      sync.Mutex
	callers map[string]*callerSlots
}

// callerSlots is the share of one caller, for as long as it has or wants a slot.
type callerSlots struct {
	*semaphore.Weighted
	users int
}

func newSlots(what string, each, all int64, wait time.Duration) *slots {
	return &slots{what: what, each: each, most: all, wait: wait, all: semaphore.NewWeighted(all), callers: map[string]*callerSlots{}}
}

// enter takes a slot until leave is called. The error names the bound: 429 for the caller's own, 503 for that of all.
func (s *slots) enter(ctx context.Context, caller string) (leave func(), err error) {
	s.mu.Lock()
	own := s.callers[caller]
	if own == nil {
		own = &callerSlots{Weighted: semaphore.NewWeighted(s.each)}
		s.callers[caller] = own
	}
	own.users++
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(s.callers, caller)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	if !s.take(ctx, own.Weighted) {
		forget()
		return nil, problem(http.StatusTooManyRequests, fmt.Sprintf("more than %d %s at the same time: wait until one has ended", s.each, s.what))
	}
	if !s.take(ctx, s.all) {
		own.Release(1)
		forget()
		return nil, problem(http.StatusServiceUnavailable, fmt.Sprintf("the server is busy with %d %s: try again later", s.most, s.what))
	}
	return func() {
		s.all.Release(1)
		own.Release(1)
		forget()
	}, nil
}

func (s *slots) take(ctx context.Context, from *semaphore.Weighted) bool {
	return from.TryAcquire(1) || s.wait > 0 && from.Acquire(ctx, 1) == nil
}
