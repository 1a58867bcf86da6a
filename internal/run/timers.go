package run

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// Bounds of a timer's delay. The minimum is that of Node; the maximum is longer than any run may take.
const (
	minDelay = time.Millisecond
	maxDelay = 30 * 24 * time.Hour
)

// timers are the pending timers of one run, in the order in which they fire: by due time, then by call number. The run's
// goroutine owns them.
type timers struct {
	pending timerHeap
	alarm   *time.Timer // fires when the first timer is due
	// base is the time from which all delays of one step of the guest count, so that timers with equal delays are due at the
	// same time. It is zero until the step's first timer. No timer fires before the step has ended, because the step may still
	// start one that is due earlier.
	base time.Time
}

type timer struct {
	due  time.Time
	call int
}

func newTimers() timers {
	alarm := time.NewTimer(maxDelay)
	alarm.Stop()
	return timers{alarm: alarm}
}

// add starts the timer of a call. left holds the remaining times of timers that were pending when the run suspended.
func (t *timers) add(c *journal.Call, left map[int]time.Duration) error {
	var args struct{ MS float64 }
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return fmt.Errorf("read the delay of timer %d: %w", c.N, err)
	}
	if t.base.IsZero() {
		t.base = time.Now()
	}
	ms := min(args.MS, float64(maxDelay.Milliseconds())) // keeps the conversion in range
	delay := max(time.Duration(ms*float64(time.Millisecond)), minDelay)
	if rest, waited := left[c.N]; waited {
		delay = min(rest, delay)
	}
	heap.Push(&t.pending, timer{t.base.Add(delay), c.N})
	if t.pending[0].call == c.N {
		t.alarm.Reset(time.Until(t.pending[0].due))
	}
	return nil
}

// step records that the guest has ended a step. Later timers count from a later time.
func (t *timers) step() { t.base = time.Time{} }

// due removes the timers whose time has come and returns their answers in the order in which they fire.
func (t *timers) due() []result {
	if !t.base.IsZero() {
		return nil
	}
	var fired []result
	for now := time.Now(); len(t.pending) > 0 && !t.pending[0].due.After(now); {
		fired = append(fired, result{n: heap.Pop(&t.pending).(timer).call})
	}
	if len(t.pending) > 0 {
		t.alarm.Reset(time.Until(t.pending[0].due))
	}
	return fired
}

// timerHeap implements heap.Interface.
type timerHeap []timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	return cmp.Or(h[i].due.Compare(h[j].due), h[i].call-h[j].call) < 0
}

func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(t any)   { *h = append(*h, t.(timer)) }

func (h *timerHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
