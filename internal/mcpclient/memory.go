package mcpclient

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	// freeResult is the maximum size in bytes of an answer that is not charged to a budget.
	freeResult = 64 << 10
	// firstCharge is the charge in bytes of an answer of unknown size. If the answer becomes larger, it is
	// charged the maximum size of an answer.
	firstCharge = 1 << 20
	// ownerResults is the number of answers of maximum size that one owner may hold. allResults is the number that all owners together may hold.
	ownerResults = 4
	allResults   = 8
)

// memory is the budget for the bytes of answers that are being read or used, for each owner and in total. It is safe for
// concurrent use.
type memory struct {
	limit int64 // maximum size of an answer in bytes
	total *semaphore.Weighted

	mu     sync.Mutex
	owners map[string]*share
}

// share is the budget of one owner. It exists while a charge uses it.
type share struct {
	left *semaphore.Weighted
	refs int
}

func newMemory(limit int) *memory {
	m := &memory{limit: int64(limit), owners: map[string]*share{}}
	m.total = semaphore.NewWeighted(allResults * m.limit)
	return m
}

// charge is the part of the budgets that one answer takes; a nil charge takes nothing. It is safe for concurrent use: a transport may
// still read an answer whose call has ended.
type charge struct {
	memory *memory
	owner  string

	// waits is the error for a used-up budget. It is set while grow waits for this budget, and stays set if the context of grow ends during the wait.
	waits atomic.Pointer[fault]

	// mu is also held while grow waits for a budget. This does not delay free, because the context of grow ends before free is called.
	mu    sync.Mutex
	share *share
	size  int64
	over  bool // reports that free was called
}

// usedUp returns the error for a used-up budget of limit bytes.
func usedUp(limit int64, of string) *fault {
	return newFault(KindProtocol, "the answers that are held for %s take up to %d bytes already; make fewer calls with large "+
		"answers at a time", of, limit)
}

// grow charges an answer that now has size bytes. most is the maximum of its final size, 0 if unknown. If a budget is used up,
// grow waits until the budget suffices or ctx ends; with a nil ctx it fails at once. The error is a *fault.
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
		return nil // the answer exceeds the limit, which the transport enforces
	}
	c.drop() // A charge that kept its part of the budget could wait for bytes that it holds itself.
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

// acquire takes n bytes of a budget. It returns err if the budget is used up.
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

// shrink gives back the part of the charge that a complete answer of size bytes does not need.
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

// free gives back the charge. Later calls of grow fail.
func (c *charge) free() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	c.over = true
}

// drop gives back the charge. The caller holds c.mu.
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
