package task

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	paceEvery = 50 * time.Millisecond // between two looks at the load
	paceKeeps = 0.5                   // how much of the load before goes into the next one
	// For each processor: how many tasks may be in work at the beginning, and always; and between which loads the bound
	// stays. A load of one for each would be the most work done; at half of that a program hardly waits for a processor.
	paceBegins, paceFloor = 3, 2
	paceLow, paceHigh     = 0.25, 0.4
	// paceLets is after how long without a place the first that waits gets one all the same, within the configured bound:
	// programs that compute for long, or that others run, do not keep every task out.
	paceLets = 500 * time.Millisecond
)

// pace bounds how many tasks are in work at the same time by what the processors can take. Models differ: of one that
// answers within seconds, any number of tasks leaves the processors idle; of a quick one, a few dozen keep so many
// programs waiting for a processor that all are slow and none ends sooner. So the bound begins low and grows quickly, up to
// the configured one, while the processors have room; when programs compete for them, it comes down to what they can take,
// and grows slowly from there. It is safe for concurrent use.
type pace struct {
	busy  func() time.Duration // Options.Busy
	most  int
	cores float64

	mu      sync.Mutex
	in      int
	bound   float64
	cut     bool            // it has come down
	waiting []chan struct{} // closed when their turn has come
	load    float64         // programs that compete, on average of late
	was     time.Duration   // busy when load was last looked at
	at      time.Time
	let     time.Time   // when one was last let in
	timer   *time.Timer // of the next look; nil while nothing is in work
}

func newPace(most int, busy func() time.Duration) *pace {
	return &pace{busy: busy, most: most, cores: float64(runtime.GOMAXPROCS(0))}
}

// enter waits until a task may be worked, in the order of the calls; leave must be called then. It fails only when ctx ends.
func (p *pace) enter(ctx context.Context) error {
	if p.busy == nil {
		return nil
	}
	p.mu.Lock()
	p.watch()
	if p.in < int(p.bound) && len(p.waiting) == 0 {
		p.in++
		p.let = time.Now()
		p.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, turn); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	} else {
		p.in--
		p.admit()
	}
	return context.Cause(ctx)
}

func (p *pace) leave() {
	if p.busy == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in--
	p.admit()
}

// admit lets in who waits. p.mu is held.
func (p *pace) admit() {
	for len(p.waiting) > 0 && p.in < int(p.bound) {
		p.letIn()
	}
}

// letIn lets in who waits longest.
func (p *pace) letIn() {
	p.in++
	p.let = time.Now()
	close(p.waiting[0])
	p.waiting = p.waiting[1:]
}

// watch begins to look at the load, when the first task comes. p.mu is held.
func (p *pace) watch() {
	if p.timer != nil {
		return
	}
	p.bound, p.cut, p.load = min(paceBegins*p.cores, float64(p.most)), false, 0
	p.was, p.at = p.busy(), time.Now()
	p.timer = time.AfterFunc(paceEvery, p.look)
}

// look sets the bound by the load.
func (p *pace) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	busy, now := p.busy(), time.Now()
	p.load = paceKeeps*p.load + (1-paceKeeps)*float64(busy-p.was)/float64(now.Sub(p.at))
	p.was, p.at = busy, now
	p.adapt()
	p.admit()
	if len(p.waiting) > 0 && p.in < p.most && now.Sub(p.let) >= paceLets {
		p.letIn()
	}
	if p.in == 0 {
		p.timer = nil
		return
	}
	p.timer.Reset(paceEvery)
}

// adapt moves the bound.
func (p *pace) adapt() {
	switch load := p.load / p.cores; {
	case load > paceHigh:
		p.bound, p.cut = min(p.bound, float64(p.in)*paceHigh/load), true
	case load < paceLow && p.cut:
		p.bound = max(p.bound, float64(p.in)) + 1
	case load < paceLow:
		p.bound += p.cores
	}
	p.bound = min(max(p.bound, paceFloor*p.cores), float64(p.most))
}
