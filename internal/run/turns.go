package run

import (
	"container/list"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/slots"
)

const (
	// maxTurn is the time that a program may compute while others wait for a processor.
	maxTurn = 50 * time.Millisecond
	// minTurn replaces maxTurn while a waiting owner has at least two processors fewer than the program's owner.
	minTurn = 5 * time.Millisecond
	// keptFor is the time for which an owner must leave one processor free after a program of another owner has computed.
	keptFor = 100 * time.Millisecond
)

// Turns shares the processors between programs: at most n programs compute at the same time. A free processor goes to the owner that has the
// fewest. Owners that have equally many take turns, and so do the programs of one owner. An owner that has all other processors gets the last
// one only if no program of another owner has computed within keptFor, because the host needs a processor to work for the others. A program
// whose turn is over is frozen while others compute; if the system cannot freeze a process, the program continues to compute. Waiting does not
// count as computing. All methods are safe for concurrent use.
type Turns struct {
	n int

	mu    sync.Mutex
	busy  list.List // *Turn values of programs that compute, in the order in which their turns began
	queue slots.Queue
	timer *time.Timer // fires when admit has to run again

	latest string    // owner of the program that last began or ended computing
	at     time.Time // time when that program began or ended computing
	before time.Time // last time when a program of another owner began or ended computing
}

// freezer is a runner whose process can be frozen and thawed. Freeze reports whether it succeeded.
type freezer interface{ Freeze(stop bool) bool }

// NewTurns returns a Turns with n processors.
func NewTurns(n int) *Turns {
	t := &Turns{n: n}
	t.timer = alarm(&t.mu, t.admit)
	return t
}

// Turn records whether the program of one run has a processor, waits for one or rests. A program whose Turn is nil may always compute. Only one
// goroutine at a time may use a Turn.
type Turn struct {
	turns   *Turns
	owner   string
	place   slots.Place
	granted chan struct{} // receives a value when the processor that Compute requested is granted
	runner  freezer       // nil if the runner cannot be frozen
	elem    *list.Element // element of turns.busy; nil if the program does not compute, or computes beyond its turn because it cannot be frozen
	waits   bool          // reports that the program waits for the processor that Compute requested
	frozen  bool          // reports that the program is frozen until its next turn
	since   time.Time     // beginning of the turn, or time of freezing
	lost    time.Duration // total frozen time
	spent   time.Duration // computing time that the program has used of the turn
}

// Join returns a Turn for a run of an owner.
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

// Bind sets the runner that executes the run.
func (turn *Turn) Bind(runner any) {
	if turn != nil {
		turn.runner, _ = runner.(freezer)
	}
}

// Granted returns a channel that receives a value for each Compute that returned false, once the program may compute.
func (turn *Turn) Granted() <-chan struct{} {
	if turn == nil {
		return nil
	}
	return turn.granted
}

// Compute requests a processor, and reports whether the program has one now.
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

// Rest gives back the processor, or ends the wait for one.
func (turn *Turn) Rest() {
	if turn == nil {
		return
	}
	t := turn.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-turn.granted: // a processor was granted, but no one has received the value
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

// Frozen returns the total time that the program has been frozen.
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

// thaw lets a frozen runner continue. turns.mu must be held for thaw, and for each method below except Others.
func (turn *Turn) thaw() {
	if turn.frozen {
		turn.runner.Freeze(false)
		turn.frozen, turn.lost = false, turn.lost+time.Since(turn.since)
	}
}

// end takes the processor away from a program.
func (t *Turns) end(turn *Turn) {
	t.busy.Remove(turn.elem)
	turn.elem = nil
	turn.spent += time.Since(turn.since)
	t.queue.Return(&turn.place)
}

// wait queues a program. A program that rested before its turn was over keeps the place in the queue that it had for that turn.
func (t *Turns) wait(turn *Turn) {
	if turn.spent >= maxTurn || turn.frozen || turn.place.Since.IsZero() {
		turn.place.Since, turn.spent = time.Now(), 0
	}
	t.queue.Wait(turn.owner, 1, &turn.place)
}

// admit gives waiting programs the free processors, and takes processors for them from programs whose turn is over.
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

// active records that a program of an owner begins or ends computing.
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

// keptUntil returns the time until which an owner may not get the last processor. It returns the zero time if there is only one processor, or if
// the owner does not have all the others.
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

// firstOver returns the computing program that has to give its processor to the owner of waiting, and the time at which it has to. It returns nil
// if no program has to give its processor.
func (t *Turns) firstOver(waiting *slots.Place) (first *Turn, at time.Time) {
	for e := t.busy.Front(); e != nil; e = e.Next() {
		turn := e.Value.(*Turn)
		over := turn.since.Add(maxTurn)
		switch more, same := turn.place.More(waiting); {
		case more <= 0 && !same:
			continue // taking this processor would not make the shares more equal
		case more > 1:
			over = turn.since.Add(minTurn)
		}
		if first == nil || over.Before(at) {
			first, at = turn, over
		}
	}
	return first, at
}
