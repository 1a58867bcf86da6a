package worker

import (
	"bytes"
	"sync"
)

// input is where a worker's frames come from. However busy the guest is, frames are taken off the pipe: the host must
// not wait for it. A cancel frame acts when it arrives.
type input interface {
	// take waits for the next frame.
	take() []byte
	// poll takes in what has arrived, without waiting. The engine's interrupt hook calls it.
	poll()
}

func isCancel(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"t":"cancel"`)) }

// inbox is an input that somebody else fills. It has no limit of its own: the host limits what is under way.
type inbox struct {
	mu    sync.Mutex
	lines [][]byte
	some  chan struct{} // holds a token while lines has any
}

func newInbox() *inbox { return &inbox{some: make(chan struct{}, 1)} }

func (q *inbox) put(line []byte) {
	q.mu.Lock()
	q.lines = append(q.lines, line)
	q.mu.Unlock()
	select {
	case q.some <- struct{}{}:
	default:
	}
}

func (q *inbox) take() []byte {
	for {
		q.mu.Lock()
		if len(q.lines) > 0 {
			line := q.lines[0]
			q.lines = q.lines[1:]
			q.mu.Unlock()
			return line
		}
		q.mu.Unlock()
		<-q.some
	}
}

func (q *inbox) poll() {}
