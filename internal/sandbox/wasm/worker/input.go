package worker

import (
	"bytes"
	"sync"
)

// input is the source of a worker's frames. It takes frames off the pipe even while the guest is busy, because the host must
// not wait for the guest. A cancel frame takes effect when it arrives.
type input interface {
	// take waits for the next frame.
	take() []byte
	// poll reads the frames that have arrived, without waiting. The engine's interrupt hook calls it.
	poll()
}

func isCancel(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"t":"cancel"`)) }

// inbox is an input that another goroutine fills. It needs no limit, because the host limits the calls in flight.
type inbox struct {
	mu    sync.Mutex
	lines [][]byte
	some  sync.Cond // signals that lines has an element
}

func newInbox() *inbox {
	q := &inbox{}
	q.some.L = &q.mu
	return q
}

func (q *inbox) put(line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(q.lines, line)
	q.some.Signal()
}

func (q *inbox) take() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lines) == 0 {
		q.some.Wait()
	}
	line := q.lines[0]
	q.lines = q.lines[1:]
	return line
}

func (q *inbox) poll() {}
