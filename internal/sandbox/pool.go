package sandbox

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// PoolOptions configures a pool. A zero value stands for the default after the semicolon.
type PoolOptions struct {
	Size            int           // maximum number of runners, busy ones included; DefaultSize
	PerOwner        int           // maximum number of runners of one owner; half of Size, at least 2
	Warm            int           // number of unbound runners kept ready for new owners; 0 starts each runner when it is needed
	Starts          int           // maximum number of runners that start at the same time; as many as there are processors
	MaxRuns         int           // number of programs that a runner executes before it is retired; 500
	Idle            time.Duration // time that a runner waits for its owner's next program; 5 minutes
	MaxWaiting      int           // maximum number of Acquires that wait at the same time; 8,192
	MaxOwnerWaiting int           // maximum number of waiters of one owner; 1,024
	AcquireTimeout  time.Duration // maximum wait of an Acquire, including the start of a runner; 0 waits until the context ends
	FailFast        bool          // Acquire fails at once if no runner is ready and none can be started, instead of waiting
}

// Counts counts what has happened in a pool since it was created.
type Counts struct {
	Claims uint64 // runners lent to programs
	Waits  uint64 // Acquires that found no runner ready, including those that were refused
	Cold   uint64 // waits that ended with a runner that had executed no program yet
	Starts uint64 // runners started
	Failed uint64 // starts that failed
	Deaths uint64 // runners that ended while they were idle, or that did not end their program cleanly
}

const (
	// runnerMemory is the private memory of a runner with a small program, in bytes, rounded up.
	runnerMemory = 16 << 20
	minSize      = 4
	maxSize      = 1024
)

// DefaultSize returns the number of runners that take a quarter of the memory which this process may use, between 4 and 1,024. It returns 64 if the
// memory is unknown.
func DefaultSize() int {
	memory, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil || memory == 0 {
		return 64
	}
	return int(min(max(memory/4/runnerMemory, minSize), maxSize))
}

// Pool keeps runners warm and shares them between owners. All methods are safe for concurrent use.
//
// A runner belongs to one owner from its first program on, and no other owner ever gets it. In a full pool, a runner of one owner is killed to
// make room for a new runner of another owner. Each owner has a queue and at most PerOwner runners. A new runner goes to the owner that has the
// fewest runners among those that want one. Starting a runner costs as much as ten programs or more. So at most Starts runners start at once, a
// waiter takes the first runner of its owner that becomes ready, and an owner keeps a runner for a turn of several programs before it has to give
// it up. The time of an operation grows at most with the logarithm of the number of owners.
type Pool struct {
	sandbox Sandbox
	opt     PoolOptions

	mu       sync.Mutex
	owners   map[string]*owner
	needy    needy     // owners with want > 0
	wanted   int       // sum of want of all owners
	sequence uint64    // number of times that an owner became needy
	idle     list.List // *Lease values: bound runners that are ready, least recently used first
	spare    []*Lease  // unbound runners that are ready
	count    int       // runners alive or starting
	starting int       // runners that are starting
	failing  bool      // reports that the last start failed; then only waiters cause another start
	waiting  int       // number of Acquires that wait, without Reacquires
	counts   Counts
	timer    *time.Timer
	closed   bool
	wg       sync.WaitGroup
	ctx      context.Context // context of starts and resets; it ends with the pool
	cancel   context.CancelFunc
}

const (
	// A turn is how long an owner may keep a runner in a full pool while owners without a runner wait: turnRuns programs, or as many as begin within
	// turnTime.
	turnRuns = 16
	turnTime = 250 * time.Millisecond
	// pause is the idle time after which the turn of a runner ends early. Until then, the owner's next program may come.
	pause = 20 * time.Millisecond
	// coldAfter is the minimum idle time of a runner before it is killed for an owner that is not poorer than the owner of the runner; see
	// Pool.poorer.
	coldAfter = time.Second
)

var (
	// ErrPoolClosed is returned by Acquire after Close.
	ErrPoolClosed = errors.New("the sandbox is shutting down")
	// ErrPoolFull reports that the maximum number of programs already wait for a runner.
	ErrPoolFull = errors.New("too many programs wait for a runner: try again later")
	// ErrPoolBusy reports that no runner became free in time.
	ErrPoolBusy = errors.New("no runner became free in time (sandbox.acquireTimeout): try again later")
	// ErrPoolInUse reports that all runners are in use and that programs do not wait for one.
	ErrPoolInUse = errors.New("all runners are in use, and programs do not wait for one (sandbox.whenFull): try again later")
	// ErrOwnerFull reports that the maximum number of programs of one owner already wait for a runner.
	ErrOwnerFull = errors.New("too many programs of this user wait for a runner: wait until some have ended")
)

// NewPool returns a pool of runners of the given tier. Close the pool before the sandbox.
func NewPool(s Sandbox, opt PoolOptions) *Pool {
	opt.Size = cmp.Or(opt.Size, DefaultSize())
	opt.PerOwner = cmp.Or(opt.PerOwner, max(2, opt.Size/2))
	opt.Starts = cmp.Or(opt.Starts, runtime.GOMAXPROCS(0))
	opt.MaxRuns = cmp.Or(opt.MaxRuns, 500)
	opt.Idle = cmp.Or(opt.Idle, 5*time.Minute)
	opt.MaxWaiting = cmp.Or(opt.MaxWaiting, 8192)
	opt.MaxOwnerWaiting = cmp.Or(opt.MaxOwnerWaiting, 1024)
	p := &Pool{sandbox: s, opt: opt, owners: map[string]*owner{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(opt.Idle, p.expire)
	p.dispatch()
	return p
}

// KeepWarm changes how many unbound runners are kept ready.
func (p *Pool) KeepWarm(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opt.Warm = n
	p.dispatch()
}

// Stats returns how many runners are alive or starting, and how many of them wait for a program.
func (p *Pool) Stats() (started, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count, p.idle.Len() + len(p.spare)
}

// Counts returns what has happened so far.
func (p *Pool) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Acquire returns a runner that is ready for a program of the owner. It waits until there is one. Every lease must be released. The error is the
// error of a failed start, wraps the cause of ctx, or wraps ErrPoolClosed, ErrPoolFull, ErrPoolBusy, ErrPoolInUse or ErrOwnerFull.
func (p *Pool) Acquire(ctx context.Context, name string) (*Lease, error) {
	return p.acquire(ctx, name, false)
}

// Reacquire does the same as Acquire for a program that had a runner before and gave it up. It waits behind earlier waiters of its owner.
// MaxWaiting and MaxOwnerWaiting do not count it and never refuse it.
func (p *Pool) Reacquire(ctx context.Context, name string) (*Lease, error) {
	return p.acquire(ctx, name, true)
}

func (p *Pool) acquire(ctx context.Context, name string, again bool) (*Lease, error) {
	w, l, err := p.request(name, again)
	if w == nil {
		return l, err
	}
	if p.opt.AcquireTimeout > 0 && !again {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, p.opt.AcquireTimeout, ErrPoolBusy)
		defer stop()
	}
	select {
	case a := <-w.answer:
		return a.lease, a.err
	case <-ctx.Done():
		p.leave(w)
		return nil, fmt.Errorf("wait for a free runner: %w", context.Cause(ctx))
	}
}

// request returns an idle runner of the owner, or a waiter for the next one.
func (p *Pool) request(name string, again bool) (*waiter, *Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrPoolClosed
	}
	o := p.owner(name)
	w, l, err := p.enqueue(o, again)
	p.update(o)
	p.dispatch()
	switch {
	case l != nil || w != nil && w.elem == nil: // a runner of the owner or an unbound one was ready
		return w, l, nil
	case err == nil && p.opt.FailFast && !again && !p.hasRoom(o):
		p.drop(w)
		p.dispatch()
		w, err = nil, ErrPoolInUse
	case err == nil:
		w.waited = true
	}
	p.counts.Waits++
	return w, nil, err
}

// enqueue takes an idle runner of the owner, or adds a waiter to its queue. p.mu must be held.
func (p *Pool) enqueue(o *owner, again bool) (*waiter, *Lease, error) {
	for len(o.idle) > 0 {
		// The most recently used runner comes first, because its memory is the warmest.
		l := p.take(o, len(o.idle)-1)
		if l.quiet() {
			p.lend(l)
			return nil, l, nil
		}
		p.counts.Deaths++
		p.kill(l)
	}
	switch {
	case again:
	case p.waiting >= p.opt.MaxWaiting:
		return nil, nil, fmt.Errorf("%w (%d do)", ErrPoolFull, p.waiting)
	case o.fresh >= p.opt.MaxOwnerWaiting:
		return nil, nil, fmt.Errorf("%w (%d do)", ErrOwnerFull, o.fresh)
	}
	p.owners[o.name] = o // kill may have removed the owner
	w := &waiter{owner: o, again: again, answer: make(chan answer, 1)}
	w.elem = o.waiting.PushBack(w)
	p.counted(w, 1)
	if o.runners == 1 && o.resetting == 1 && p.opt.PerOwner > 1 {
		p.bindSpare(o) // a second runner serves the owner while the first is reset
	}
	return w, nil, nil
}

// hasRoom reports whether every waiter of an owner has a runner on its way, or room for one.
func (p *Pool) hasRoom(o *owner) bool {
	return o.waiting.Len() <= o.resetting+o.want && p.wanted <= p.starting+p.opt.Size-p.count+p.idle.Len()
}

// leave ends a wait whose context has ended. If the waiter got a runner at the same moment, the runner goes to the owner's next waiter.
func (p *Pool) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.elem != nil {
		p.drop(w)
	} else if a := <-w.answer; a.lease != nil {
		a.lease.runs--
		p.ready(a.lease)
		p.wg.Done()
	}
	p.dispatch()
}

// drop removes a waiter from its owner's queue.
func (p *Pool) drop(w *waiter) {
	w.owner.waiting.Remove(w.elem)
	w.elem = nil
	p.counted(w, -1)
	p.update(w.owner)
}

// lend counts a program that gets the runner of a lease. The lease must be released. p.mu must be held for lend and for the methods from here to
// kill, except expire.
func (p *Pool) lend(l *Lease) {
	l.runs++
	p.counts.Claims++
	p.wg.Add(1)
}

// dispatch gives unbound runners to needy owners, and starts as many further runners as are needed.
func (p *Pool) dispatch() {
	if p.closed {
		return
	}
	for len(p.needy) > 0 && p.bindSpare(p.needy[0]) {
	}
	warm := p.opt.Warm
	if p.failing {
		warm = 0
	}
	starts := p.opt.Starts
	if len(p.needy) < 2 {
		starts = max(1, starts-1) // a single owner leaves a processor to the others
	}
	for p.starting < starts && p.starting+len(p.spare) < p.wanted+warm {
		if p.count >= p.opt.Size && (p.starting >= p.wanted || !p.evict()) {
			break
		}
		p.start()
	}
	p.schedule()
}

// bindSpare gives an unbound runner to the first waiter of an owner, and reports whether there was such a runner.
func (p *Pool) bindSpare(o *owner) bool {
	for len(p.spare) > 0 {
		last := len(p.spare) - 1
		l := p.spare[last]
		p.spare = p.spare[:last]
		if !l.quiet() {
			p.counts.Deaths++
			p.kill(l)
			continue
		}
		l.owner, l.bound = o, time.Now()
		o.runners++
		p.answer(o.first(), answer{lease: l})
		p.update(o)
		return true
	}
	return false
}

// start starts an unbound runner in the background.
func (p *Pool) start() {
	p.count++
	p.starting++
	p.wg.Go(func() {
		runner, err := p.sandbox.Start(p.ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.starting--
		if p.failing = err != nil; p.failing {
			p.counts.Failed++
		} else {
			p.counts.Starts++
		}
		switch l := (&Lease{Runner: runner, pool: p}); {
		case err == nil && p.closed:
			p.kill(l)
		case err == nil:
			p.spare = append(p.spare, l)
		default:
			p.count--
			if len(p.needy) > 0 {
				o := p.needy[0]
				p.answer(o.first(), answer{err: err})
				p.update(o)
			}
		}
		p.dispatch()
	})
}

// ready takes back a runner that is ready for its owner's next program.
func (p *Pool) ready(l *Lease) {
	o := l.owner
	switch {
	case p.closed || o.waiting.Len() > 0 && p.yields(l):
		p.kill(l)
		return
	case o.waiting.Len() > 0:
		p.answer(o.first(), answer{lease: l})
	default:
		l.since = time.Now()
		l.elem = p.idle.PushBack(l)
		o.idle = append(o.idle, l)
	}
	p.update(o)
}

// yields reports whether a runner has to be replaced although its owner could use it.
func (p *Pool) yields(l *Lease) bool {
	return p.count >= p.opt.Size && p.starting < min(p.wanted, p.opt.Starts) && p.poorer(l.owner) && l.turnOver(time.Now())
}

// poorer reports whether the neediest owner is poorer than o: it is not o, and has no runner or at least two runners fewer than o.
func (p *Pool) poorer(o *owner) bool {
	first := p.needy[0]
	return first != o && (first.runners == 0 || o.runners > first.runners+1)
}

// evict kills the least recently used idle runner to make room for the neediest owner, if that runner may be killed now. It reports whether it did.
func (p *Pool) evict() bool {
	if p.idle.Len() == 0 || p.evictable().After(time.Now()) {
		return false
	}
	p.kill(p.take(p.idle.Front().Value.(*Lease).owner, 0))
	return true
}

// evictable returns the time from which the least recently used idle runner may be killed for the neediest owner.
func (p *Pool) evictable() time.Time {
	l := p.idle.Front().Value.(*Lease)
	switch {
	case !p.poorer(l.owner):
		return l.since.Add(coldAfter)
	case l.turnOver(l.since):
		return l.since
	}
	return l.since.Add(pause)
}

// schedule sets the timer to the time at which expire next has a runner to kill.
func (p *Pool) schedule() {
	if p.idle.Len() == 0 {
		p.timer.Stop()
		return
	}
	next := p.idle.Front().Value.(*Lease).since.Add(p.opt.Idle)
	if p.count >= p.opt.Size && p.starting < min(p.wanted, p.opt.Starts) {
		if at := p.evictable(); at.Before(next) {
			next = at
		}
	}
	p.timer.Reset(time.Until(next))
}

// expire kills runners that have been idle for too long. Then it calls dispatch, which kills further idle runners if needy owners may now get
// their places.
func (p *Pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.idle.Len() > 0 {
		l := p.idle.Front().Value.(*Lease)
		if time.Since(l.since) < p.opt.Idle {
			break
		}
		p.kill(p.take(l.owner, 0))
	}
	p.dispatch()
}

// take removes an idle runner from the idle runners of the pool and of its owner. i is the index of the first or of the last idle runner of the
// owner.
func (p *Pool) take(o *owner, i int) *Lease {
	l := o.idle[i]
	if i == 0 {
		o.idle = o.idle[1:]
	} else {
		o.idle = o.idle[:i]
	}
	p.idle.Remove(l.elem)
	l.elem = nil
	return l
}

// kill ends a runner that is not among the idle ones, and frees its place in the pool. Close waits until the runner has ended.
func (p *Pool) kill(l *Lease) {
	p.count--
	if l.owner != nil {
		l.owner.runners--
		p.update(l.owner)
	}
	l.Kill()
	p.wg.Go(func() {
		for range l.Frames() {
		}
	})
}

// Info describes the tier.
func (p *Pool) Info() Info { return p.sandbox.Info() }

// Pids lists the processes of idle runners, for tests and diagnosis.
func (p *Pool) Pids() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pids []int
	for e := p.idle.Front(); e != nil; e = e.Next() {
		pids = append(pids, e.Value.(*Lease).Pid())
	}
	for _, l := range p.spare {
		pids = append(pids, l.Pid())
	}
	return pids
}

// Close kills idle runners and waits until all runners have ended. So every busy runner must be released.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.timer.Stop()
	for p.idle.Len() > 0 {
		p.kill(p.take(p.idle.Front().Value.(*Lease).owner, 0))
	}
	for _, l := range p.spare {
		p.kill(l)
	}
	p.spare = nil
	for _, o := range p.owners {
		for o.waiting.Len() > 0 {
			p.answer(o.first(), answer{err: ErrPoolClosed})
		}
		p.update(o)
	}
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}
