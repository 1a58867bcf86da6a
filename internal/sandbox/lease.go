package sandbox

import (
	"container/list"
	"context"
	"time"

	"mcp-code-exec-harness/internal/frame"
)

// resetTimeout is the maximum time for a runner to acknowledge a reset; a slower runner is replaced.
const resetTimeout = 2 * time.Second

// Lease is a runner of the pool. The pool lends it to one program at a time.
type Lease struct {
	Runner
	pool  *Pool
	owner *owner // nil if the runner is unbound
	runs  int
	bound time.Time     // time at which the runner got its owner
	since time.Time     // time at which the runner became idle
	elem  *list.Element // element of pool.idle; nil while the runner is not idle
}

// Release ends the use of a runner. clean means that the runner has sent its done frame. A clean runner is reset and kept for its owner's next
// program, unless it has executed MaxRuns programs. Any other runner is killed.
func (l *Lease) Release(clean bool) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.wg.Done()
	if !clean {
		p.counts.Deaths++
	}
	if !clean || l.runs >= p.opt.MaxRuns || p.closed {
		p.kill(l)
		p.dispatch()
		return
	}
	l.owner.resetting++
	p.update(l.owner)
	p.wg.Go(func() {
		clean := l.reset(p.ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		l.owner.resetting--
		if clean {
			p.ready(l)
		} else {
			p.counts.Deaths++
			p.kill(l)
		}
		p.dispatch()
	})
}

// reset makes the runner forget its last program, and reports whether it did.
func (l *Lease) reset(ctx context.Context) bool {
	if l.Send(&frame.Frame{T: frame.Reset}) != nil {
		return false
	}
	timeout := time.After(resetTimeout)
	for {
		select {
		case f, ok := <-l.Frames():
			if !ok {
				return false
			}
			if f.T == frame.Ready {
				return true
			}
		case <-timeout:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// quiet reports whether an idle runner is alive and has sent nothing unexpected.
func (l *Lease) quiet() bool {
	select {
	case <-l.Frames():
		return false
	default:
		return true
	}
}

// turnOver reports whether the runner has served its owner long enough to be given up for an owner without a runner.
func (l *Lease) turnOver(now time.Time) bool {
	return l.runs >= turnRuns || now.Sub(l.bound) >= turnTime
}
