package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/frame"
)

// resetTimeout bounds the wait for a runner to acknowledge a reset; a slower one is replaced.
const resetTimeout = 2 * time.Second

// PoolOptions shape a pool. Zero values take the defaults given.
type PoolOptions struct {
	Size    int           // runners at most, busy ones included; 64
	Warm    int           // unbound runners kept ready for new owners; 0 starts each when it is needed
	MaxRuns int           // programs a runner executes before it is retired; 500
	Idle    time.Duration // how long a runner waits for its owner's next program; 5 minutes
}

// Pool keeps runners warm. A runner belongs to one owner from its first program on and is never given to another: when
// the pool is full, an idle runner of another owner is killed and replaced. All methods are safe for concurrent use.
type Pool struct {
	sandbox Sandbox
	opt     PoolOptions

	mu      sync.Mutex
	idle    []*Lease  // ready for the next program, least recently used first
	count   int       // runners alive or starting
	warming int       // runners being started for nobody yet
	waiting []*waiter // Acquires, the longest waiting first
	woken   int       // taken off waiting, and not yet trying again
	closed  bool
	wg      sync.WaitGroup
	ctx     context.Context // ends with the pool: owns background starts and resets
	cancel  context.CancelFunc
}

// waiter is an Acquire that waits.
type waiter struct {
	owner  string
	wake   chan struct{} // closed when it may try again
	passed int           // how often another one was woken before it
}

// maxPassed is how many may pass the one that waits longest because a runner of their own is idle: to give it a runner
// means to kill that one, and a new one costs as much as twenty programs.
const maxPassed = 16

// ErrPoolClosed is returned by Acquire after Close.
var ErrPoolClosed = errors.New("the sandbox is shutting down")

// NewPool keeps runners of the given tier. Close the pool before the sandbox.
func NewPool(s Sandbox, opt PoolOptions) *Pool {
	if opt.Size <= 0 {
		opt.Size = 64
	}
	if opt.MaxRuns <= 0 {
		opt.MaxRuns = 500
	}
	if opt.Idle <= 0 {
		opt.Idle = 5 * time.Minute
	}
	p := &Pool{sandbox: s, opt: opt}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	p.warm()
	p.mu.Unlock()
	return p
}

// Stats says how many runners are alive or starting, and how many of them wait for a program.
func (p *Pool) Stats() (started, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count, len(p.idle)
}

// Lease is the use of one runner for one program.
type Lease struct {
	Runner
	pool  *Pool
	owner string // empty: unbound
	runs  int
	timer *time.Timer // ends the runner when it stays idle
}

// Acquire returns a runner that is ready for a program of the owner, waiting while the pool is full. Every lease must
// be released.
func (p *Pool) Acquire(ctx context.Context, owner string) (*Lease, error) {
	w := &waiter{owner: owner}
	p.mu.Lock()
	for woken := false; ; woken = true {
		if p.closed {
			p.mu.Unlock()
			return nil, ErrPoolClosed
		}
		if woken || len(p.waiting)+p.woken == 0 { // nobody passes who waits
			l, room := p.take(owner), false
			if l == nil {
				room = p.count < p.opt.Size || p.evict()
			}
			if l != nil || room {
				return p.lease(ctx, owner, l)
			}
		}
		place := len(p.waiting)
		if woken {
			place = 0 // in vain: it stays first
		}
		w.wake = make(chan struct{})
		p.waiting = slices.Insert(p.waiting, place, w)
		p.mu.Unlock()
		select {
		case <-w.wake:
		case <-ctx.Done():
			p.leave(w)
			return nil, fmt.Errorf("wait for a free runner: %w", context.Cause(ctx))
		}
		p.mu.Lock()
		p.woken--
	}
}

// lease hands out an idle runner, or starts one if it is nil. p.mu is held, and released.
func (p *Pool) lease(ctx context.Context, owner string, l *Lease) (*Lease, error) {
	p.wg.Add(1)
	if l == nil {
		p.count++
	} else {
		p.warm()
	}
	if p.count < p.opt.Size || len(p.idle) > 0 {
		p.wake() // who came while this one was woken has not been told of the room
	}
	p.mu.Unlock()
	if l == nil {
		var err error
		if l, err = p.start(ctx); err != nil {
			p.wg.Done()
			return nil, err
		}
	}
	l.owner = owner
	l.runs++
	return l, nil
}

// take removes an idle runner of the owner, or else an unbound one. The most recently used comes first: its memory is
// the warmest.
func (p *Pool) take(owner string) *Lease {
	for _, want := range []string{owner, ""} {
		for i := len(p.idle) - 1; i >= 0; i-- {
			if p.idle[i].owner != want {
				continue
			}
			l := p.remove(i)
			if l.quiet() {
				return l
			}
			p.discard(l)
		}
	}
	return nil
}

// quiet says that an idle runner is still there and has sent nothing that was not asked for.
func (l *Lease) quiet() bool {
	select {
	case <-l.Frames():
		return false
	default:
		return true
	}
}

func (p *Pool) remove(i int) *Lease {
	l := p.idle[i]
	p.idle = append(p.idle[:i], p.idle[i+1:]...)
	l.timer.Stop()
	return l
}

// evict kills the idle runner that was used least recently, to make room.
func (p *Pool) evict() bool {
	if len(p.idle) == 0 {
		return false
	}
	p.kill(p.remove(0))
	p.count-- // the caller takes the room
	return true
}

// start starts a runner for which room has been counted.
func (p *Pool) start(ctx context.Context) (*Lease, error) {
	runner, err := p.sandbox.Start(ctx)
	if err != nil {
		p.mu.Lock()
		p.count--
		p.wake()
		p.mu.Unlock()
		return nil, err
	}
	return &Lease{Runner: runner, pool: p}, nil
}

// warm starts unbound runners in the background until enough are ready.
func (p *Pool) warm() {
	unbound := p.warming
	for _, l := range p.idle {
		if l.owner == "" {
			unbound++
		}
	}
	for ; unbound < p.opt.Warm && p.count < p.opt.Size && !p.closed; unbound++ {
		p.count++
		p.warming++
		p.wg.Go(func() {
			l, err := p.start(p.ctx)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.warming--
			if err == nil {
				p.park(l)
			}
		})
	}
}

// Release ends the use of a runner. A clean one has sent its done frame: it is reset and kept for the owner's next
// program. Any other is killed.
func (l *Lease) Release(clean bool) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.wg.Done()
	if !clean || l.runs >= p.opt.MaxRuns || p.closed {
		p.discard(l)
		p.warm()
		return
	}
	p.wg.Go(func() {
		clean := l.reset(p.ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if !clean {
			p.discard(l)
			p.warm()
			return
		}
		p.park(l)
	})
}

// reset makes the runner forget its last program.
func (l *Lease) reset(ctx context.Context) bool {
	if l.Send(&frame.Frame{T: frame.Reset}) != nil {
		return false
	}
	timeout := time.NewTimer(resetTimeout)
	defer timeout.Stop()
	for {
		select {
		case f, ok := <-l.Frames():
			if !ok {
				return false
			}
			if f.T == frame.Ready {
				return true
			}
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// park keeps a ready runner until it is wanted, idle for too long or dead.
func (p *Pool) park(l *Lease) {
	if p.closed {
		p.discard(l)
		return
	}
	l.timer = time.AfterFunc(p.opt.Idle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, other := range p.idle {
			// The last unbound runners stay: keeping them is what they are for.
			if other == l && l.owner != "" {
				p.discard(p.remove(i))
				return
			}
		}
	})
	p.idle = append(p.idle, l)
	p.wake()
}

// discard kills a runner and gives its room away.
func (p *Pool) discard(l *Lease) {
	p.kill(l)
	p.count--
	p.wake()
}

// kill ends a runner; Close waits until it is gone.
func (p *Pool) kill(l *Lease) {
	l.Kill()
	p.wg.Go(func() {
		for range l.Frames() {
		}
	})
}

// wake lets a waiting Acquire try again: the longest waiting one, or one that has a runner idle, as long as the first has
// not been passed too often.
func (p *Pool) wake() {
	if len(p.waiting) == 0 {
		return
	}
	next := 0
	if first := p.waiting[0]; first.passed < maxPassed {
		own := func(w *waiter) bool {
			return slices.ContainsFunc(p.idle, func(l *Lease) bool { return l.owner == w.owner })
		}
		if i := slices.IndexFunc(p.waiting, own); i > 0 {
			next = i
			first.passed++
		}
	}
	close(p.waiting[next].wake)
	p.waiting = slices.Delete(p.waiting, next, next+1)
	p.woken++
}

// leave gives up a place in the queue; a wake-up that came at the same moment goes to the next.
func (p *Pool) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		return
	}
	p.woken--
	p.wake()
}

// Info describes the tier.
func (p *Pool) Info() Info { return p.sandbox.Info() }

// Pids lists the processes of idle runners, for tests and diagnosis.
func (p *Pool) Pids() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	pids := make([]int, len(p.idle))
	for i, l := range p.idle {
		pids[i] = l.Pid()
	}
	return pids
}

// Close kills idle runners and waits until all are gone; busy ones must be released for that.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for len(p.idle) > 0 {
		p.discard(p.remove(len(p.idle) - 1))
	}
	for len(p.waiting) > 0 {
		p.wake()
	}
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}
