package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// uploads tracks the uploads that are being received.
type uploads struct {
	mu  sync.Mutex
	all map[string]*upload
}

type upload struct {
	stop  func()
	ended chan struct{}
}

// takeOverWait is the maximum time that a request which takes over an upload waits for the previous request to write the bytes that it has received.
const takeOverWait = 10 * time.Second

// begin registers a request as the only one of an upload until end is called. If another request is registered for the upload, takeOver decides:
// if it is set, begin first stops that request; if not, begin returns a nil end.
func (u *uploads) begin(ctx context.Context, id string, takeOver bool, stop func()) (end func(), err error) {
	late := time.NewTimer(takeOverWait)
	defer late.Stop()
	for {
		u.mu.Lock()
		other := u.all[id]
		if other == nil {
			if u.all == nil {
				u.all = map[string]*upload{}
			}
			own := &upload{stop, make(chan struct{})}
			u.all[id] = own
			u.mu.Unlock()
			return func() {
				u.mu.Lock()
				defer u.mu.Unlock()
				delete(u.all, id)
				close(own.ended)
			}, nil
		}
		if takeOver {
			other.stop() // called under the lock, so that stop cannot end a later request on the same connection
		}
		u.mu.Unlock()
		if !takeOver {
			return nil, nil
		}
		select {
		case <-other.ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late.C:
			return nil, problem(http.StatusConflict, "another request is sending this file: try again later")
		}
	}
}

// paced is a body whose client has to keep up: each read may take writeTimeout, and the rate must not fall below leastRate.
type paced struct {
	body io.Reader
	rc   *http.ResponseController
	pace pace

	mu    sync.Mutex
	ended bool
}

func newPaced(w http.ResponseWriter, r *http.Request) *paced {
	return &paced{body: r.Body, rc: http.NewResponseController(w)}
}

var errStopped = errors.New("the upload was stopped")

// Read implements io.Reader.
func (p *paced) Read(to []byte) (int, error) {
	if err := p.allow(); err != nil {
		return 0, err
	}
	n, err := p.body.Read(to)
	p.pace.bytes += int64(n)
	return n, err
}

func (p *paced) allow() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errStopped
	}
	return ignoreUnsupported(p.rc.SetReadDeadline(p.pace.deadline(time.Now())))
}

// stop ends the current read and all later ones.
func (p *paced) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	_ = p.rc.SetReadDeadline(time.Unix(1, 0)) // if the connection has no deadlines, the next read fails
}

func (p *paced) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// ignoreUnsupported ignores the error of a connection without deadlines, as in tests.
func ignoreUnsupported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
