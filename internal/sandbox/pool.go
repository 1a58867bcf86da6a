package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	Starts  int           // runners that start at the same time, unbound ones not counted; as many as there are processors
	MaxRuns int           // programs a runner executes before it is retired; 500
	Idle    time.Duration // how long a runner waits for its owner's next program; 5 minutes
}

// Pool keeps runners warm. A runner belongs to one owner from its first program on and is never given to another: when
// the pool is full, an idle runner of another owner is killed and replaced. To start a runner costs the processor time of
// twenty programs, so only a few start at a time, and who waits for that takes a runner of its own that becomes idle
// meanwhile. All methods are safe for concurrent use.
type Pool struct {
	sandbox Sandbox
	opt     PoolOptions

	mu       sync.Mutex
	idle     []*Lease       // ready for the next program, least recently used first
	count    int            // runners alive or starting
	owned    map[string]int // of them, by owner
	resets   map[string]int // of them, those that will be ready for their owner in a moment
	starting int            // runners being started for an owner
	warming  int            // runners being started for nobody yet
	waiting  []*waiter      // Acquires, the longest waiting first
	cold     *time.Timer    // serves those that wait when another idle runner may be killed for them; nil while none is wanted
	closed   bool
	wg       sync.WaitGroup
	ctx      context.Context // ends with the pool: owns background starts and resets
	cancel   context.CancelFunc

	busy meter // programs that wait for a runner or compute
}

// waiter is an Acquire that waits.
type waiter struct {
	owner  string
	lease  chan *Lease // buffered; without a runner it is the room to start one; closed with the pool
	passed int         // how often another one was served before it
}

const (
	// maxPassed is how many may pass the one that waits longest while the pool is full, because a runner of their own is
	// idle and would have to be killed for it.
	maxPassed = 16
	// coldAfter is how long a runner must have been idle to be killed for an owner that has runners itself.
	coldAfter = time.Second
)

// ErrPoolClosed is returned by Acquire after Close.
var ErrPoolClosed = errors.New("the sandbox is shutting down")

// NewPool keeps runners of the given tier. Close the pool before the sandbox.
func NewPool(s Sandbox, opt PoolOptions) *Pool {
	if opt.Size <= 0 {
		opt.Size = 64
	}
	if opt.Starts <= 0 {
		opt.Starts = runtime.GOMAXPROCS(0)
	}
	if opt.MaxRuns <= 0 {
		opt.MaxRuns = 500
	}
	if opt.Idle <= 0 {
		opt.Idle = 5 * time.Minute
	}
	p := &Pool{sandbox: s, opt: opt, owned: map[string]int{}, resets: map[string]int{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	p.warm()
	p.mu.Unlock()
	return p
}

// KeepWarm changes how many unbound runners are kept ready. More are started at once; those that are there stay.
func (p *Pool) KeepWarm(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opt.Warm = n
	p.warm()
}

// Stats says how many runners are alive or starting, and how many of them wait for a program.
func (p *Pool) Stats() (started, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count, len(p.idle)
}

// Busy is the time that programs have spent waiting for a runner and computing, waits for a processor included: over a
// while, the growth of it is how many compete for the processors.
func (p *Pool) Busy() time.Duration { return p.busy.total() }

// Lease is the use of one runner for one program.
type Lease struct {
	Runner
	pool  *Pool
	owner string // empty: unbound
	runs  int
	since time.Time   // when it became idle
	timer *time.Timer // ends the runner when it stays idle
	busy  bool        // it computes
}

// Acquire returns a runner that is ready for a program of the owner, waiting while there is none and none can be started.
// Every lease must be released.
func (p *Pool) Acquire(ctx context.Context, owner string) (*Lease, error) {
	p.busy.add(1)
	defer p.busy.add(-1)
	w := &waiter{owner: owner, lease: make(chan *Lease, 1)}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrPoolClosed
	}
	p.waiting = append(p.waiting, w)
	p.serve()
	p.mu.Unlock()
	select {
	case l, open := <-w.lease:
		switch {
		case !open:
			return nil, ErrPoolClosed
		case l.Runner != nil:
			return l, nil
		}
		return p.start(ctx, l)
	case <-ctx.Done():
		p.leave(w)
		return nil, fmt.Errorf("wait for a free runner: %w", context.Cause(ctx))
	}
}

// start fills a lease of room with a runner.
func (p *Pool) start(ctx context.Context, l *Lease) (*Lease, error) {
	runner, err := p.sandbox.Start(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	defer p.serve()
	if err != nil {
		p.gone(l)
		p.wg.Done()
		return nil, err
	}
	l.Runner = runner
	return l, nil
}

// leave gives up a place in the queue, or what came at the same moment.
func (p *Pool) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	} else if l, open := <-w.lease; open {
		defer p.wg.Done()
		if l.Runner != nil {
			l.runs--
			p.park(l)
			return
		}
		p.starting--
		p.gone(l)
	}
	p.serve() // who was behind it may be served
}

// serve gives runners, and room for runners, to those that wait, in their order. p.mu is held, here and below.
func (p *Pool) serve() {
	for count := p.count + 1; p.count < count; { // runners found dead make room for those before
		count = p.count
		p.serveOnce()
	}
	p.warm()
}

func (p *Pool) serveOnce() {
	waiting := map[string]int{} // by owner, those that were not served
	for i := 0; i < len(p.waiting); {
		w := p.waiting[i]
		l := p.offer(w, waiting[w.owner])
		if l == nil {
			if i == 0 && w.passed >= maxPassed && p.count >= p.opt.Size {
				break // the next runner that becomes idle makes room for it
			}
			waiting[w.owner]++
			i++
			continue
		}
		p.bind(l, w.owner)
		p.wg.Add(1)
		p.waiting = slices.Delete(p.waiting, i, i+1)
		w.lease <- l
		if i > 0 && p.count >= p.opt.Size {
			p.waiting[0].passed++
		}
	}
}

// offer is what one that waits can have now, nil for nothing. before is how many of the same owner wait before it.
func (p *Pool) offer(w *waiter, before int) *Lease {
	if l := p.take(w.owner); l != nil {
		return l
	}
	soon := p.resets[w.owner] > before
	if soon && p.owned[w.owner] > 1 { // with two, one is used while the other is reset
		return nil
	}
	if l := p.take(""); l != nil {
		return l
	}
	if soon || p.starting >= p.opt.Starts || p.count >= p.opt.Size && !p.evict(w) {
		return nil
	}
	p.count++
	p.starting++
	return &Lease{pool: p}
}

// take removes an idle runner of the owner; "" is of nobody. The most recently used comes first: its memory is the
// warmest.
func (p *Pool) take(owner string) *Lease {
	for i := len(p.idle) - 1; i >= 0; i-- {
		if p.idle[i].owner != owner {
			continue
		}
		l := p.remove(i)
		if l.quiet() {
			return l
		}
		p.kill(l)
	}
	return nil
}

// evict kills an idle runner for w, the one that was used least recently of those that may be. Its owner must not be
// waiting itself; and if w's owner has runners, which will be idle before a new one has started, it must have two more, or
// not use this one.
func (p *Pool) evict(w *waiter) bool {
	wanted := map[string]bool{}
	for _, other := range p.waiting {
		wanted[other.owner] = true
	}
	mine, now := p.owned[w.owner], time.Now()
	var next time.Duration // until another may be
	for i, l := range p.idle {
		cold := coldAfter - now.Sub(l.since)
		fair := !wanted[l.owner] && (mine == 0 || p.owned[l.owner] > mine+1 || cold <= 0)
		if fair || w.passed >= maxPassed {
			p.kill(p.remove(i))
			return true
		}
		if !wanted[l.owner] && (next == 0 || cold < next) {
			next = cold
		}
	}
	if next > 0 && p.cold == nil {
		p.cold = time.AfterFunc(next, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.cold = nil
			p.serve()
		})
	}
	return false
}

// bind gives a runner to an owner.
func (p *Pool) bind(l *Lease, owner string) {
	if l.owner != owner {
		l.owner = owner
		p.owned[owner]++
	}
	l.runs++
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
	p.idle = slices.Delete(p.idle, i, i+1)
	l.timer.Stop()
	return l
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
			l := &Lease{pool: p}
			runner, err := p.sandbox.Start(p.ctx)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.warming--
			if err != nil {
				p.count--
				if len(p.waiting) > 0 { // else the next that comes tries again
					p.serve()
				}
				return
			}
			l.Runner = runner
			p.park(l)
		})
	}
}

// Computes says whether the program computes from now on, or waits for the host. One goroutine calls it, as it does
// Release, which ends that too.
func (l *Lease) Computes(busy bool) {
	switch {
	case busy && !l.busy:
		l.pool.busy.add(1)
	case !busy && l.busy:
		l.pool.busy.add(-1)
	}
	l.busy = busy
}

// Release ends the use of a runner. A clean one has sent its done frame: it is reset and kept for the owner's next
// program. Any other is killed.
func (l *Lease) Release(clean bool) {
	l.Computes(false)
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.wg.Done()
	if !clean || l.runs >= p.opt.MaxRuns || p.closed {
		p.kill(l)
		p.serve()
		return
	}
	p.resets[l.owner]++
	p.wg.Go(func() {
		clean := l.reset(p.ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		less(p.resets, l.owner)
		if clean {
			p.park(l)
			return
		}
		p.kill(l)
		p.serve()
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
		p.kill(l)
		return
	}
	l.since = time.Now()
	l.timer = time.AfterFunc(p.opt.Idle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		// The last unbound runners stay: keeping them is what they are for.
		if i := slices.Index(p.idle, l); i >= 0 && l.owner != "" {
			p.kill(p.remove(i))
			p.serve()
		}
	})
	p.idle = append(p.idle, l)
	p.serve()
}

// kill ends a runner and gives up its room; Close waits until it is gone.
func (p *Pool) kill(l *Lease) {
	p.gone(l)
	l.Kill()
	p.wg.Go(func() {
		for range l.Frames() {
		}
	})
}

// gone forgets a runner.
func (p *Pool) gone(l *Lease) {
	p.count--
	if l.owner != "" {
		less(p.owned, l.owner)
	}
}

// less counts one less.
func less(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
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
		p.kill(p.remove(len(p.idle) - 1))
	}
	for _, w := range p.waiting {
		close(w.lease)
	}
	p.waiting = nil
	if p.cold != nil {
		p.cold.Stop()
	}
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}
