package sqlstore

import (
	"sync"
	"sync/atomic"

	"mcp-code-exec-harness/internal/journal"
)

// Limits of a group of changes that are stored together, so that the first change of the group does not wait too long.
const (
	maxGroup      = 256
	maxGroupBytes = 8 << 20
)

// change is one caller's part of a transaction.
type change struct {
	apply   func(*conn) // leaves its error in conn.err
	settled func()      // called with err set, before done is closed; may be nil
	bytes   int
	done    chan struct{} // closed when err is set
	err     error
}

// writer stores changes, one transaction at a time. If no transaction is being executed, the caller of start stores its change in a transaction of
// its own, because two switches of goroutines would take as long as the transaction. Changes that arrive during a transaction are queued, and the
// goroutine of newWriter stores them together in the next one.
type writer struct {
	conn *conn

	mu      sync.Mutex
	busy    bool // true while conn is in use
	queue   []*change
	riders  []*change // changes that wait for the transaction of a submitted change (see ride)
	aboard  int       // number of riders in the group that is being stored
	err     error     // last error of a rider that is not stored yet
	closing bool
	changed *sync.Cond     // signals a change of busy, queue or closing
	stopped sync.WaitGroup // waits for the goroutine's end

	transactions atomic.Int64
	changes      atomic.Int64
}

func newWriter(c *conn) *writer {
	w := &writer{conn: c}
	w.changed = sync.NewCond(&w.mu)
	w.stopped.Go(func() {
		for group := w.next(); len(group) > 0; group = w.next() {
			w.commit(group) // commit leaves no changes, because the connection is patient
			w.rest()
		}
	})
	return w
}

// submit queues a change. The caller then calls start, so that the change is stored. submit returns false if the writer is closing.
func (w *writer) submit(ch *change) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return false
	}
	w.queue = append(w.queue, ch)
	return true
}

// start makes sure that a queued change is stored: in the caller's goroutine if no transaction is being executed and nothing else is queued, or
// else by the writer's goroutine. In the caller's goroutine, start may return after the caller's context has ended.
func (w *writer) start(ch *change) {
	w.mu.Lock()
	if w.busy || len(w.queue) != 1 || w.queue[0] != ch {
		if !w.busy {
			w.changed.Signal()
		}
		w.mu.Unlock()
		return
	}
	group := w.take()
	w.mu.Unlock()
	// A transaction may have to wait for another process or for the server. A caller may be cancelled, so the writer's own goroutine waits.
	w.conn.patient = false
	left := w.commit(group)
	w.conn.patient = true
	if len(left) > 0 {
		w.giveBack(left)
	}
	w.rest()
}

// giveBack queues the rest of a group again, before all other changes.
func (w *writer) giveBack(group []*change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.riders = append(group[:w.aboard:w.aboard], w.riders...)
	w.queue = append(group[w.aboard:], w.queue...)
	w.aboard = 0
}

// rest ends the use of the connection, and wakes the writer's goroutine if there is work.
func (w *writer) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy = false; len(w.queue) > 0 || w.closing {
		w.changed.Signal()
	}
}

// ride queues a change that is stored in one transaction with the next submitted change, before that change. A rider that fails is tried again.
func (w *writer) ride(ch *change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return journal.ErrClosed
	}
	if w.riders = append(w.riders, ch); len(w.riders) == maxGroup { // nothing was submitted for long: an empty change starts a transaction
		w.queue = append(w.queue, &change{apply: func(*conn) {}, done: make(chan struct{})})
		w.changed.Signal()
	}
	return nil
}

// riding reports whether a rider is not stored yet, and returns the last error of such a rider.
func (w *writer) riding() (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.riders)+w.aboard > 0, w.err
}

// close ends the goroutine once all queued changes are done.
func (w *writer) close() {
	w.mu.Lock()
	w.closing = true
	w.changed.Signal()
	w.mu.Unlock()
	w.stopped.Wait()
}

// next waits for changes and takes them. It returns an empty group when the writer is closing and no changes are left.
func (w *writer) next() []*change {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy || len(w.queue) == 0 && !w.closing {
		w.changed.Wait()
	}
	return w.take()
}

// take takes a group and with it the connection, which rest gives back.
func (w *writer) take() (group []*change) {
	w.busy = true
	n := min(len(w.queue), maxGroup)
	group = w.queue[:n:n]
	w.queue = w.queue[n:]
	if len(w.riders) > 0 && (len(group) > 0 || w.err == nil) {
		w.aboard = len(w.riders)
		group = append(w.riders, group...)
		w.riders = nil
	}
	if len(w.queue) == 0 {
		w.queue = nil // the array belongs to the group
	}
	return group
}

// commit stores a group in as few transactions as its size allows. It returns the changes that would have to wait (see waitError).
func (w *writer) commit(group []*change) (left []*change) {
	for len(group) > 0 {
		n, bytes := 0, 0
		for ; n < len(group) && bytes < maxGroupBytes; n++ {
			bytes += group[n].bytes
		}
		tried := w.store(group[:n])
		w.land(group[:tried])
		for _, ch := range group[:tried] {
			if ch.settled != nil {
				ch.settled()
			}
			close(ch.done)
		}
		if group = group[tried:]; tried < n {
			return group
		}
	}
	return nil
}

// land forgets the riders among changes that are stored. Riders that failed come first in the next group.
func (w *writer) land(changes []*change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var again []*change
	for _, ch := range changes[:min(w.aboard, len(changes))] {
		w.aboard--
		if ch.err != nil {
			w.err = ch.err
			again = append(again, &change{apply: ch.apply, bytes: ch.bytes, done: make(chan struct{})})
		}
	}
	if w.riders = append(again, w.riders...); len(w.riders)+w.aboard == 0 {
		w.err = nil
	}
}

// store applies changes in one transaction. If a change fails, the transaction is rolled back and each change gets a
// transaction of its own, so that a run that cannot be stored does not fail other runs. It returns how many changes have an outcome; the other changes
// would have to wait.
func (w *writer) store(changes []*change) (tried int) {
	w.changes.Add(int64(len(changes)))
	defer func() { w.changes.Add(int64(tried - len(changes))) }()
	err := w.transaction(changes)
	switch {
	case isWait(err):
		return 0
	case err == nil || len(changes) == 1 || isBusy(err):
		for _, ch := range changes {
			ch.err = err
		}
		return len(changes)
	}
	for i := range changes {
		if err = w.transaction(changes[i : i+1]); isWait(err) {
			return i
		}
		changes[i].err = err
	}
	return len(changes)
}

func (w *writer) transaction(changes []*change) error {
	w.transactions.Add(1)
	err := w.conn.transaction(func() {
		for i := 0; i < len(changes) && w.conn.err == nil; i++ {
			changes[i].apply(w.conn)
		}
	})
	if isWait(err) {
		w.transactions.Add(-1)
	}
	return explain(err)
}
