package sqlite

import (
	"sync"
	"sync/atomic"
)

// Groups are bounded so that one does not keep its first member waiting for too long.
const (
	maxGroup      = 256
	maxGroupBytes = 8 << 20
)

// change is something to be done in a transaction.
type change struct {
	apply func(*conn) error
	undo  func() // takes back what apply did to memory, when its transaction was rolled back; may be nil
	bytes int
	done  chan struct{} // closed when err counts
	err   error
}

// source is asked for its change when the writer gets to it, so that what came meanwhile rides along.
type source interface {
	take() *change
	settled(*change)
}

func (ch *change) take() *change   { return ch }
func (ch *change) settled(*change) {}

// writer is the one goroutine that writes. All changes that wait while it works share the next transaction; when
// nothing waits, a change is a transaction at once.
type writer struct {
	conn *conn

	mu      sync.Mutex
	queue   []source
	closing bool
	wake    chan struct{} // holds one token while the queue may not be empty
	stopped chan struct{} // closed when the goroutine has ended

	transactions atomic.Int64
	changes      atomic.Int64
}

func newWriter(c *conn) *writer {
	w := &writer{conn: c, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	go w.run()
	return w
}

// submit queues a source; false if the writer is closing. The queue holds a run at most once.
func (w *writer) submit(s source) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return false
	}
	w.queue = append(w.queue, s)
	w.signal()
	return true
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close ends the goroutine once everything queued is done.
func (w *writer) close() {
	w.mu.Lock()
	w.closing = true
	w.signal()
	w.mu.Unlock()
	<-w.stopped
}

func (w *writer) run() {
	defer close(w.stopped)
	for range w.wake {
		for {
			group, closing := w.next()
			if len(group) == 0 {
				if closing {
					return
				}
				break
			}
			w.commit(group)
		}
	}
}

func (w *writer) next() (group []source, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxGroup)
	group = w.queue[:n:n]
	w.queue = w.queue[n:]
	if len(w.queue) == 0 {
		w.queue = nil // the group owns the array
	}
	return group, w.closing
}

// commit stores a group in as few transactions as its size allows.
func (w *writer) commit(group []source) {
	for len(group) > 0 {
		var changes []*change
		for bytes := 0; len(changes) < len(group) && bytes < maxGroupBytes; {
			ch := group[len(changes)].take()
			changes = append(changes, ch)
			bytes += ch.bytes
		}
		w.store(changes)
		for i, ch := range changes {
			group[i].settled(ch)
			close(ch.done)
		}
		group = group[len(changes):]
	}
}

// store applies changes in one transaction. If one fails, nothing of the transaction is kept, and each gets one of its
// own: a run that cannot be stored does not take others with it.
func (w *writer) store(changes []*change) {
	w.changes.Add(int64(len(changes)))
	err := w.transaction(changes)
	if err == nil || len(changes) == 1 || isBusy(err) {
		for _, ch := range changes {
			ch.err = err
		}
		return
	}
	for i := range changes {
		changes[i].err = w.transaction(changes[i : i+1])
	}
}

func (w *writer) transaction(changes []*change) error {
	w.transactions.Add(1)
	applied := 0
	err := w.conn.transaction(func() error {
		for _, ch := range changes {
			applied++
			if err := ch.apply(w.conn); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for _, ch := range changes[:applied] {
			if ch.undo != nil {
				ch.undo()
			}
		}
		return explain(err)
	}
	return nil
}
