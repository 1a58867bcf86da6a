package mcpclient

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	// freeResult is the size in bytes up to which an answer is charged to no budget.
	freeResult = 64 << 10
	// firstCharge is what an answer of unknown size is charged, in bytes, until it is larger than that; then it is
	// charged the largest size an answer may have.
	firstCharge = 1 << 20
	// ownerResults and allResults are how many answers of the largest size an owner, and all owners, may hold.
	ownerResults = 4
	allResults   = 8
)

// memory bounds the bytes of answers that are being read or used: for each owner and for all. It is safe for
// concurrent use.
type memory struct {
	limit int64 // largest answer in bytes
	total *semaphore.Weighted

	mu     sync.Mutex
	owners map[string]*share
}

// share is the budget of one owner, kept while a charge uses it.
type share struct {
	left *semaphore.Weighted
	refs int
}

func newMemory(limit int) *memory {
	m := &memory{limit: int64(limit), owners: map[string]*share{}}
	m.total = semaphore.NewWeighted(allResults * m.limit)
	return m
}

// charge is what one answer takes of the budgets; nil takes nothing. It is safe for concurrent use: a transport may still
// read an answer whose call has ended.
type charge struct {
	memory *memory
	owner  string

	// waits is the budget that the charge waits for, or that it waited for until its context ended.
	waits atomic.Pointer[fault]

	mu    sync.Mutex // held while waiting: the context that ends the wait ends before free is called
	share *share
	size  int64
	over  bool // freed for good
}

// usedUp is the error of a budget, in bytes.
func usedUp(limit int64, of string) *fault {
	return newFault(KindProtocol, "the answers that are held for %s take up to %d bytes already; make fewer calls with large "+
		"answers at a time", of, limit)
}

// grow charges an answer that now takes size bytes and will take most in all (0 is unknown). Where a budget is used up
// it waits until ctx ends; with a nil ctx it fails at once. The error is a *fault.
func (c *charge) grow(ctx context.Context, size, most int64) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if size <= max(c.size, freeResult) {
		return nil
	}
	m := c.memory
	want := m.limit
	switch {
	case most >= size:
		want = min(most, want)
	case size <= firstCharge:
		want = min(firstCharge, want)
	}
	if want <= c.size {
		return nil // above the limit, which the transport enforces
	}
	c.drop() // holding a part while waiting for the rest could wait for itself
	if c.over {
		return usedUp(ownerResults*m.limit, "this user")
	}
	m.mu.Lock()
	s := m.owners[c.owner]
	if s == nil {
		s = &share{left: semaphore.NewWeighted(ownerResults * m.limit)}
		m.owners[c.owner] = s
	}
	s.refs++
	m.mu.Unlock()
	if err := c.acquire(ctx, s.left, want, usedUp(ownerResults*m.limit, "this user")); err != nil {
		m.release(c.owner, s)
		return err
	}
	if err := c.acquire(ctx, m.total, want, usedUp(allResults*m.limit, "all users")); err != nil {
		s.left.Release(want)
		m.release(c.owner, s)
		return err
	}
	c.share, c.size = s, want
	return nil
}

// acquire takes n bytes of a budget; err is for one that is used up.
func (c *charge) acquire(ctx context.Context, s *semaphore.Weighted, n int64, err *fault) error {
	if s.TryAcquire(n) {
		return nil
	}
	if ctx == nil {
		return err
	}
	c.waits.Store(err)
	if s.Acquire(ctx, n) != nil {
		return err
	}
	c.waits.Store(nil)
	return nil
}

// shrink returns what a complete answer of size bytes does not need.
func (c *charge) shrink(size int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if less := c.size - size; less > 0 {
		c.share.left.Release(less)
		c.memory.total.Release(less)
		c.size = size
	}
}

// free returns the charge for good.
func (c *charge) free() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	c.over = true
}

// drop returns what is charged; c.mu is held.
func (c *charge) drop() {
	if c.share == nil {
		return
	}
	c.share.left.Release(c.size)
	c.memory.total.Release(c.size)
	c.memory.release(c.owner, c.share)
	c.share, c.size = nil, 0
}

func (m *memory) release(owner string, s *share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.refs--; s.refs == 0 {
		delete(m.owners, owner)
	}
}
