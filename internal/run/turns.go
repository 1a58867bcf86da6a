package run

import (
	"container/list"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/slots"
)

const (
	// maxTurn is how long a program computes while others wait for a processor.
	maxTurn = 50 * time.Millisecond
	// minTurn is how long a program computes while an owner waits who has at least two processors fewer than the program's owner.
	minTurn = 5 * time.Millisecond
	// keptFor is how long an owner leaves one processor free after the program of another has computed.
	keptFor = 100 * time.Millisecond
)

// Turns share the processors between programs: at most n compute at the same time. A free processor goes to the owner that has the
// fewest; owners that have as many take turns, and so do the programs of one owner. An owner gets the last one only if no other's
// program has computed lately: what the host does for the others needs it. A program whose turn is over is frozen while others have theirs; where the
// system cannot freeze a process it computes on. The wait counts as no computing. All methods are safe for concurrent use.
type Turns struct {
	n int

	mu    sync.Mutex
	busy  list.List // *Turn values, the longest first
	queue slots.Queue
	timer *time.Timer // rings when the first turn is over

	latest string    // the owner whose program began or ended to compute last
	at     time.Time // when latest began or ended to compute
	before time.Time // when another owner's program last did
}

// freezer is a runner whose process can be stopped for a while. Freeze reports whether that was done.
type freezer interface{ Freeze(stop bool) bool }

// NewTurns shares n processors.
func NewTurns(n int) *Turns {
	t := &Turns{n: n}
	t.timer = alarm(&t.mu, t.admit)
	return t
}

// Turn is the part of one run. A nil Turn may always compute. One goroutine at a time uses it.
type Turn struct {
	turns   *Turns
	owner   string
	place   slots.Place
	granted chan struct{} // gets a token when a wait ends that Compute began
	runner  freezer       // nil: it cannot be frozen
	elem    *list.Element // element of turns.busy; nil: it does not compute, or its turn is over and it could not be frozen
	waits   bool          // for the processor that Compute asked for
	frozen  bool          // reports that it waits for its next turn
	since   time.Time     // beginning of its turn, or of its freezing
	lost    time.Duration // frozen time
	spent   time.Duration // used time of its turn
}

// Join returns the turn of a run.
func (t *Turns) Join(owner string) *Turn {
	turn := &Turn{turns: t, owner: owner, granted: make(chan struct{}, 1)}
	turn.place.Grant = func() {
		turn.thaw()
		turn.elem, turn.since = t.busy.PushBack(turn), time.Now()
		if turn.waits {
			turn.waits = false
			turn.granted <- struct{}{}
		}
	}
	return turn
}

// Bind says which runner executes the run.
func (turn *Turn) Bind(runner any) {
	if turn != nil {
		turn.runner, _ = runner.(freezer)
	}
}

// Granted yields once for each Compute that has returned false, when the program may compute.
func (turn *Turn) Granted() <-chan struct{} {
	if turn == nil {
		return nil
	}
	return turn.granted
}

// Compute asks for a processor, and reports whether the program has one now.
func (turn *Turn) Compute() bool {
	if turn == nil {
		return true
	}
	t := turn.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn.elem == nil && !turn.waits {
		t.active(turn.owner)
		turn.waits = true
		t.wait(turn)
		if t.admit(); !turn.waits {
			<-turn.granted
		}
	}
	return !turn.waits
}

// Rest gives the processor back, or gives up the wait for one.
func (turn *Turn) Rest() {
	if turn == nil {
		return
	}
	t := turn.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-turn.granted: // a turn was granted and not taken
	default:
	}
	switch {
	case turn.elem != nil:
		t.active(turn.owner)
		t.end(turn)
	case turn.waits || turn.frozen:
		t.queue.Leave(&turn.place)
		turn.thaw()
		turn.waits = false
	default:
		return
	}
	t.admit()
}

// Frozen is how long the program has been frozen.
func (turn *Turn) Frozen() time.Duration {
	if turn == nil {
		return 0
	}
	turn.turns.mu.Lock()
	defer turn.turns.mu.Unlock()
	if turn.frozen {
		return turn.lost + time.Since(turn.since)
	}
	return turn.lost
}

// thaw lets a frozen runner go on. turns.mu is held, here and below.
func (turn *Turn) thaw() {
	if turn.frozen {
		turn.runner.Freeze(false)
		turn.frozen, turn.lost = false, turn.lost+time.Since(turn.since)
	}
}

// end takes a program's processor away.
func (t *Turns) end(turn *Turn) {
	t.busy.Remove(turn.elem)
	turn.elem = nil
	turn.spent += time.Since(turn.since)
	t.queue.Return(&turn.place)
}

// wait queues a program: one that rested before its turn was over waits since it got that turn.
func (t *Turns) wait(turn *Turn) {
	if turn.spent >= maxTurn || turn.frozen || turn.place.Since.IsZero() {
		turn.place.Since, turn.spent = time.Now(), 0
	}
	t.queue.Wait(turn.owner, 1, &turn.place)
}

// admit gives processors that are free, and those of programs whose turn is over, to programs that wait.
func (t *Turns) admit() {
	now := time.Now()
	for first := t.queue.First(); first != nil; first = t.queue.First() {
		free := t.busy.Len() < t.n
		kept := t.keptUntil(first.Owner())
		if free && !kept.After(now) {
			t.queue.Take(first)
			continue
		}
		turn, at := t.firstOver(first)
		if free && (turn == nil || kept.Before(at)) {
			at = kept
		} else if turn == nil {
			break
		}
		if at.After(now) {
			t.timer.Reset(at.Sub(now))
			return
		}
		t.end(turn)
		if turn.frozen = turn.runner != nil && turn.runner.Freeze(true); turn.frozen {
			turn.since = now
			t.wait(turn)
		}
		t.queue.Take(first)
	}
	t.timer.Stop()
}

// active notes that an owner's program begins or ends to compute.
func (t *Turns) active(owner string) {
	if owner != t.latest {
		t.latest, t.before = owner, t.at
	}
	t.at = time.Now()
}

// Others reports whether a program of another owner computes, or has computed within keptFor.
func (t *Turns) Others(owner string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := t.busy.Front(); e != nil; e = e.Next() {
		if e.Value.(*Turn).owner != owner {
			return true
		}
	}
	at := t.at
	if owner == t.latest {
		at = t.before
	}
	return time.Since(at) < keptFor
}

// keptUntil is until when the last processor is not for an owner that has all the others.
func (t *Turns) keptUntil(owner string) time.Time {
	switch {
	case t.n == 1 || t.queue.Has(owner) < t.n-1:
		return time.Time{}
	case owner == t.latest:
		return t.before.Add(keptFor)
	default:
		return t.at.Add(keptFor)
	}
}

// firstOver returns the program that has to make room for the one that waits, and when.
func (t *Turns) firstOver(waiting *slots.Place) (first *Turn, at time.Time) {
	for e := t.busy.Front(); e != nil; e = e.Next() {
		turn := e.Value.(*Turn)
		over := turn.since.Add(maxTurn)
		switch more, same := turn.place.More(waiting); {
		case more <= 0 && !same:
			continue // a swap would change nothing
		case more > 1:
			over = turn.since.Add(minTurn)
		}
		if first == nil || over.Before(at) {
			first, at = turn, over
		}
	}
	return first, at
}
