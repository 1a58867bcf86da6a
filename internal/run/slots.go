package run

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/slots"
)

const (
	// maxBurst is the maximum time for which a run holds a slot while it computes without a pause. After that time the next run may begin, and
	// both runs share the processors by Turns.
	maxBurst = 50 * time.Millisecond
	// maxPause is the maximum time for which a run keeps its slot while it waits for an answer. So a run that calls quick tools keeps its slot
	// until the run ends. A run that calls a slow tool loses its slot, and the next run begins.
	maxPause = 10 * time.Millisecond
	// maxWait is the time since the last grant after which a waiting run begins although no slot is free.
	maxWait = 250 * time.Millisecond
)

// Slots limits how many runs of tasks begin at the same time, so that started tasks end before others slow them down. A new run needs a
// slot to begin. It holds the slot while it computes or waits for less than maxPause. A run that lost its slot continues without one until
// it next begins to compute: then it gets a slot even if none is free. A free slot goes to the owner with the fewest slots, then to the
// oldest task. All methods are safe for concurrent use.
type Slots struct {
	n int

	mu     sync.Mutex
	busy   list.List // *Slot values whose runs compute, in the order of since
	paused list.List // *Slot values whose runs wait, in the order of since
	queue  slots.Queue
	timer  *time.Timer
	last   time.Time // time of the last grant, or the time when the queue was last empty
}

// NewSlots returns a Slots with n slots.
func NewSlots(n int) *Slots {
	s := &Slots{n: n, queue: slots.Queue{Earliest: true}}
	s.timer = alarm(&s.mu, s.admit)
	return s
}

// alarm returns a stopped timer that calls f with the lock held when it fires.
func alarm(mu *sync.Mutex, f func()) *time.Timer {
	timer := time.AfterFunc(time.Hour, func() {
		mu.Lock()
		defer mu.Unlock()
		f()
	})
	timer.Stop()
	return timer
}

// Slot records whether one run holds a slot. A nil Slot belongs to a run that needs no slot. Only one goroutine at a time may use a Slot.
type Slot struct {
	place slots.Place
	owner string
	slots *Slots
	since time.Time     // time when the run began to compute or to wait
	list  *list.List    // slots.busy or slots.paused; nil if the slot is not held
	elem  *list.Element // element of the slot in list
}

// Acquire waits for a slot, which must be released. Among the waiting runs of an owner, the run with the earliest value of began gets a slot first. Acquire
// fails only if ctx ends.
func (s *Slots) Acquire(ctx context.Context, owner string, began time.Time) (*Slot, error) {
	ready := make(chan struct{})
	slot := &Slot{owner: owner, slots: s}
	slot.place = slots.Place{Since: began, Grant: func() {
		s.put(slot, &s.busy)
		close(ready)
	}}
	s.mu.Lock()
	if s.queue.First() == nil {
		s.last = time.Now()
	}
	s.queue.Wait(owner, 1, &slot.place)
	s.admit()
	s.mu.Unlock()
	select {
	case <-ready:
		return slot, nil
	case <-ctx.Done():
		slot.Release()
		return nil, fmt.Errorf("wait for a processor: %w", context.Cause(ctx))
	}
}

// admit lets the next runs begin. s.mu must be held for admit, put and lose.
func (s *Slots) admit() {
	now := time.Now()
	next := now.Add(maxBurst)
	for _, of := range []struct {
		list *list.List
		most time.Duration
	}{{&s.busy, maxBurst}, {&s.paused, maxPause}} {
		for of.list.Len() > 0 {
			first := of.list.Front().Value.(*Slot)
			if until := first.since.Add(of.most); until.After(now) {
				if until.Before(next) {
					next = until
				}
				break
			}
			s.lose(first)
		}
	}
	for p := s.queue.First(); p != nil && (s.busy.Len()+s.paused.Len() < s.n || !now.Before(s.last.Add(maxWait))); p = s.queue.First() {
		s.queue.Take(p)
		s.last = now
	}
	if s.queue.First() != nil {
		s.timer.Reset(next.Sub(now))
	} else {
		s.timer.Stop()
	}
}

// put moves a slot to a list, or to no list if to is nil.
func (s *Slots) put(slot *Slot, to *list.List) {
	if slot.list != nil {
		slot.list.Remove(slot.elem)
	}
	slot.list, slot.since = to, time.Now()
	if to != nil {
		slot.elem = to.PushBack(slot)
	}
}

// lose takes the slot away from its run, if the run holds it.
func (s *Slots) lose(slot *Slot) {
	if slot.list != nil {
		s.put(slot, nil)
		s.queue.Return(&slot.place)
	}
}

// Compute records whether the run computes or waits from now on.
func (slot *Slot) Compute(computes bool) {
	if slot == nil {
		return
	}
	s := slot.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case computes && slot.list == nil:
		s.queue.Hold(slot.owner, 1, &slot.place)
		s.put(slot, &s.busy)
	case computes && slot.list == &s.paused:
		s.put(slot, &s.busy)
	case !computes && slot.list == &s.busy:
		s.put(slot, &s.paused)
		s.admit()
	}
}

// Release gives back the slot, or ends the wait for it.
func (slot *Slot) Release() {
	s := slot.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.Leave(&slot.place)
	s.lose(slot)
	s.admit()
}
