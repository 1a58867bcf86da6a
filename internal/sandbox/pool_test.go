package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/wasm"
	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
)

// TestMain makes the test binary a worker when the wasm tier re-executes it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		os.Exit(wasm.WorkerMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == deafRole {
		io.Copy(os.Stdout, strings.NewReader(`{"t":"ready"}`+"\n"))
		time.Sleep(time.Hour) // never reads its input
	}
	if len(os.Args) > 1 && os.Args[1] == echoRole {
		_, err := io.Copy(os.Stdout, os.Stdin)
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == brokenRole {
		os.Stdout.WriteString("{\"t\":\"done\",\"value\":\"\xed\xa0\x80\"}\n")
		os.Stderr.WriteString("fatal error: runtime: out of memory\n")
		os.Exit(2)
	}
	// The thread that starts processes lives as long as the test process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("mcp-code-exec-harness/internal/process.init.func1.1"))
}

// fakeTier starts runners that acknowledge resets, unless they are deaf.
type fakeTier struct {
	mu      sync.Mutex
	started []*fakeRunner
	fail    error
	deaf    bool          // runners do not acknowledge resets
	gate    chan struct{} // if not nil, each Start waits for a token
}

func (f *fakeTier) Start(ctx context.Context) (sandbox.Runner, error) {
	if f.gate != nil {
		select {
		case <-f.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	r := &fakeRunner{deaf: f.deaf, pid: len(f.started) + 1, frames: make(chan *frame.Frame, 8)}
	f.started = append(f.started, r)
	return r, nil
}

func (f *fakeTier) Info() sandbox.Info { return sandbox.Info{Tier: "fake"} }
func (f *fakeTier) Close() error       { return nil }

func (f *fakeTier) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.started)
}

func (f *fakeTier) runner(n int) *fakeRunner {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started[n-1]
}

type fakeRunner struct {
	pid    int
	deaf   bool
	frames chan *frame.Frame
	mu     sync.Mutex
	dead   bool
}

func (r *fakeRunner) Send(f *frame.Frame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return errors.New("dead")
	}
	if f.T == frame.Reset && !r.deaf {
		r.frames <- &frame.Frame{T: frame.Ready}
	}
	return nil
}

func (r *fakeRunner) Frames() <-chan *frame.Frame { return r.frames }
func (r *fakeRunner) Err() error                  { return errors.New("killed") }
func (r *fakeRunner) Pid() int                    { return r.pid }

func (r *fakeRunner) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dead {
		r.dead = true
		close(r.frames)
	}
}

func (r *fakeRunner) killed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead
}

// inBubble runs a test in a synctest bubble, where time advances only when all goroutines are blocked. synctest.Wait returns when the pool has done all its
// background work.
func inBubble(t *testing.T, tier *fakeTier, opt sandbox.PoolOptions, test func(t *testing.T, p *sandbox.Pool)) {
	t.Helper()
	if opt.PerOwner == 0 {
		opt.PerOwner = opt.Size
	}
	synctest.Test(t, func(t *testing.T) {
		p := sandbox.NewPool(tier, opt)
		test(t, p)
		p.Close()
		for n := range tier.count() {
			if !tier.runner(n + 1).killed() {
				t.Errorf("runner %d lives after Close", n+1)
			}
		}
	})
}

func acquire(t *testing.T, p *sandbox.Pool, owner string) *sandbox.Lease {
	t.Helper()
	l, err := p.Acquire(t.Context(), owner)
	if err != nil {
		t.Fatalf("acquire for %s: %v", owner, err)
	}
	return l
}

// release gives a lease back and waits until the runner is reset.
func release(l *sandbox.Lease, clean bool) {
	l.Release(clean)
	synctest.Wait()
}

// pause waits until an idle runner may be killed for an owner without a runner.
func pause() {
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
}

func TestPoolReusesForTheOwnerOnly(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 4}, func(t *testing.T, p *sandbox.Pool) {
		a := acquire(t, p, "a")
		release(a, true)
		b := acquire(t, p, "b")
		if b.Pid() == 1 {
			t.Fatal("b was given the runner of a")
		}
		again := acquire(t, p, "a")
		if again.Pid() != 1 {
			t.Errorf("a was given runner %d, its own was idle", again.Pid())
		}
		second := acquire(t, p, "a")
		if second.Pid() == 1 || second.Pid() == b.Pid() {
			t.Errorf("a was given the busy runner %d", second.Pid())
		}
		for _, l := range []*sandbox.Lease{b, again, second} {
			release(l, true)
		}
	})
}

// A full pool kills the least recently used idle runner. It never gives a runner to another owner.
func TestPoolEvictsIdleRunnersOfOthers(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 2}, func(t *testing.T, p *sandbox.Pool) {
		a, b := acquire(t, p, "a"), acquire(t, p, "b")
		release(b, true)
		release(a, true)
		c := acquire(t, p, "c")
		if c.Pid() != 3 || !tier.runner(2).killed() || tier.runner(1).killed() {
			t.Errorf("c has runner %d; of the others killed: %t, %t", c.Pid(), tier.runner(1).killed(), tier.runner(2).killed())
		}
		release(c, true)
		if got := acquire(t, p, "a"); got.Pid() != 1 {
			t.Errorf("a lost its runner and has %d", got.Pid())
		} else {
			release(got, true)
		}
	})
}

func TestPoolKillsWhatIsNotClean(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 1}, func(t *testing.T, p *sandbox.Pool) {
		l := acquire(t, p, "a")
		release(l, false)
		if !tier.runner(1).killed() {
			t.Error("the runner of a program that did not end lives")
		}
		release(acquire(t, p, "a"), true)
		if n := tier.count(); n != 2 {
			t.Errorf("%d runners were started, want 2", n)
		}
	})
}

func TestPoolKillsWhatDoesNotReset(t *testing.T) {
	tier := &fakeTier{deaf: true}
	inBubble(t, tier, sandbox.PoolOptions{Size: 1}, func(t *testing.T, p *sandbox.Pool) {
		acquire(t, p, "a").Release(true)
		next := acquire(t, p, "a") // waits until the reset has timed out, on the bubble's clock
		if next.Pid() != 2 || !tier.runner(1).killed() {
			t.Errorf("got runner %d; the one that was never reset is killed: %t", next.Pid(), tier.runner(1).killed())
		}
		release(next, false)
	})
}

func TestPoolReplacesIdleRunnersThatDied(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 1}, func(t *testing.T, p *sandbox.Pool) {
		release(acquire(t, p, "a"), true)
		tier.runner(1).Kill()
		if l := acquire(t, p, "a"); l.Pid() != 2 {
			t.Errorf("got the dead runner %d", l.Pid())
		} else {
			release(l, true)
		}
		// A runner that sends a frame without being asked is replaced too.
		tier.runner(2).frames <- &frame.Frame{T: frame.Log}
		if l := acquire(t, p, "a"); l.Pid() != 3 || !tier.runner(2).killed() {
			t.Errorf("got runner %d", l.Pid())
		} else {
			release(l, true)
		}
	})
}

func TestPoolRetiresRunners(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 1, MaxRuns: 3}, func(t *testing.T, p *sandbox.Pool) {
		var pids []int
		for range 7 {
			l := acquire(t, p, "a")
			pids = append(pids, l.Pid())
			release(l, true)
		}
		for i, pid := range pids {
			if want := i/3 + 1; pid != want {
				t.Errorf("program %d ran in runner %d, want %d; all: %v", i, pid, want, pids)
			}
		}
	})
}

func TestPoolEndsIdleRunners(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 2, Idle: time.Minute}, func(t *testing.T, p *sandbox.Pool) {
		release(acquire(t, p, "a"), true)
		time.Sleep(time.Minute - time.Second) // on the bubble's clock
		synctest.Wait()
		if tier.runner(1).killed() {
			t.Error("killed too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !tier.runner(1).killed() {
			t.Error("an idle runner lives for ever")
		}
		if pids := p.Pids(); len(pids) != 0 {
			t.Errorf("idle: %v", pids)
		}
	})
}

// waiter is an Acquire in the queue of a full pool.
type waiter struct {
	lease chan *sandbox.Lease
	err   chan error
}

func wait(ctx context.Context, p *sandbox.Pool, owner string) waiter {
	return waitBy(ctx, p.Acquire, owner)
}

// waitBy waits with Acquire or Reacquire.
func waitBy(ctx context.Context, acquire func(context.Context, string) (*sandbox.Lease, error), owner string) waiter {
	w := waiter{make(chan *sandbox.Lease, 1), make(chan error, 1)}
	go func() {
		l, err := acquire(ctx, owner)
		w.lease <- l
		w.err <- err
	}()
	synctest.Wait() // The call waits in the queue by then.
	return w
}

func (w waiter) served() bool { return len(w.lease) > 0 }

func TestPoolQueueIsInOrder(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 1}, func(t *testing.T, p *sandbox.Pool) {
		busy := acquire(t, p, "x")
		for i, w := range []waiter{wait(t.Context(), p, "b"), wait(t.Context(), p, "a"), wait(t.Context(), p, "c")} {
			release(busy, true)
			pause()
			if !w.served() {
				t.Fatalf("after release %d, its waiter is not served", i)
			}
			busy = <-w.lease
		}
		release(busy, true)
	})
}

// In a full pool, an owner's runner serves the owner's own queue for a turn, and is then given up for an owner without a runner.
func TestPoolTurns(t *testing.T) {
	for name, c := range map[string]struct {
		took time.Duration // duration of each program
		want int           // number of programs until the other owner gets a runner
	}{"short programs": {time.Millisecond, 16}, "long programs": {time.Minute, 1}} {
		t.Run(name, func(t *testing.T) {
			tier := &fakeTier{}
			inBubble(t, tier, sandbox.PoolOptions{Size: 1}, func(t *testing.T, p *sandbox.Pool) {
				busy := acquire(t, p, "a")
				other := wait(t.Context(), p, "b")
				var own []waiter
				for range 20 {
					own = append(own, wait(t.Context(), p, "a"))
				}
				programs := 0
				for {
					time.Sleep(c.took)
					release(busy, true)
					if programs++; other.served() {
						break
					}
					busy = <-own[programs-1].lease
				}
				if programs != c.want || tier.count() != 2 {
					t.Errorf("%d programs before the other owner's, want %d; %d runners were started", programs, c.want, tier.count())
				}
				release(<-other.lease, true)
				for _, w := range own[programs-1:] {
					release(<-w.lease, true)
				}
			})
		})
	}
}

// An owner with many waiting programs gets its share. A program of another owner waits only until its runner has started.
func TestPoolHostileNeighbour(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 64, PerOwner: 32}, func(t *testing.T, p *sandbox.Pool) {
		ctx, cancel := context.WithCancel(t.Context())
		var greedy []waiter
		for range 1000 {
			greedy = append(greedy, wait(ctx, p, "greedy"))
		}
		if started, _ := p.Stats(); started != 32 {
			t.Errorf("the greedy owner has %d runners, want 32", started)
		}
		for i := range 40 { // The 32 runners of earlier owners are still in use.
			w := wait(t.Context(), p, fmt.Sprint("owner", i%32))
			if i < 32 && !w.served() {
				t.Fatalf("owner %d waits", i)
			}
			defer func() { release(<-w.lease, false) }()
		}
		cancel()
		for _, w := range greedy {
			if l := <-w.lease; l != nil {
				l.Release(false)
			}
		}
	})
}

// In a full pool in which all owners wait, each owner gets the same number of runners, and then no further runner is killed.
func TestPoolSharesAreEqual(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 12, Starts: 2}, func(t *testing.T, p *sandbox.Pool) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		now, rounds := map[string]int{}, map[string]int{} // number of running programs and of ended programs, by owner
		var mu sync.Mutex
		for i := range 400 {
			owner := []string{"a", "a", "a", "a", "a", "b", "c", "d"}[i%8] // Owner a has five times as many programs as each other owner.
			wg.Go(func() {
				for {
					l, err := p.Acquire(ctx, owner)
					if err != nil {
						return
					}
					mu.Lock()
					now[owner]++
					mu.Unlock()
					time.Sleep(50 * time.Millisecond)
					mu.Lock()
					now[owner]--
					rounds[owner]++
					mu.Unlock()
					l.Release(true)
				}
			})
		}
		time.Sleep(10 * time.Second) // on the bubble's clock
		started := tier.count()
		mu.Lock()
		clear(rounds)
		mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		for _, owner := range []string{"a", "b", "c", "d"} {
			if rounds[owner] < 550 || rounds[owner] > 650 {
				t.Errorf("%s executed %d programs, want about 600", owner, rounds[owner])
			}
		}
		mu.Unlock()
		if n := tier.count(); n > started+4*3 { // each runner is retired after 500 programs
			t.Errorf("%d runners were started in ten seconds without a change", n-started)
		}
		cancel()
		wg.Wait()
	})
}

// A thousand waiters use the whole pool: a runner is never free while a program waits.
func TestPoolManyWaiters(t *testing.T) {
	for _, owners := range []int{1, 10, 64} {
		t.Run(fmt.Sprint(owners, " owners"), func(t *testing.T) {
			tier := &fakeTier{}
			inBubble(t, tier, sandbox.PoolOptions{Size: 64}, func(t *testing.T, p *sandbox.Pool) {
				const programs = 6400
				began := time.Now()
				var left atomic.Int64
				left.Store(programs)
				var wg sync.WaitGroup
				for i := range 1000 {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							l := acquire(t, p, fmt.Sprint("owner", i%owners))
							time.Sleep(50 * time.Millisecond) // on the bubble's clock
							l.Release(true)
						}
					})
				}
				wg.Wait()
				if took, ideal := time.Since(began), programs/64*50*time.Millisecond; took > ideal*11/10 {
					t.Errorf("it took %s, ideal are %s", took, ideal)
				}
			})
		})
	}
}

// The number of waiters is limited for each owner and for all owners. Refusing further waiters does not affect those that wait already.
func TestPoolBoundsWaiting(t *testing.T) {
	tier := &fakeTier{}
	opt := sandbox.PoolOptions{Size: 1, MaxWaiting: 5, MaxOwnerWaiting: 3}
	inBubble(t, tier, opt, func(t *testing.T, p *sandbox.Pool) {
		busy := acquire(t, p, "a")
		var waiting []waiter
		for range 3 {
			waiting = append(waiting, wait(t.Context(), p, "a"))
		}
		if _, err := p.Acquire(t.Context(), "a"); !errors.Is(err, sandbox.ErrOwnerFull) {
			t.Errorf("the fourth waiter of an owner: %v", err)
		}
		waiting = append(waiting, wait(t.Context(), p, "b"), wait(t.Context(), p, "c"))
		if _, err := p.Acquire(t.Context(), "d"); !errors.Is(err, sandbox.ErrPoolFull) {
			t.Errorf("the sixth waiter: %v", err)
		}
		for range 10 { // These are Reacquires, which are never refused.
			waiting = append(waiting, waitBy(t.Context(), p.Reacquire, "e"))
		}
		for _, w := range waiting {
			go func() { (<-w.lease).Release(false) }()
		}
		release(busy, false)
		release(acquire(t, p, "d"), true)
	})
}

// The wait of an Acquire ends after AcquireTimeout. The wait of a Reacquire does not. The pool counts the waits.
func TestPoolAcquireTimeout(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 1, AcquireTimeout: time.Minute}, func(t *testing.T, p *sandbox.Pool) {
		busy := acquire(t, p, "a")
		began := time.Now()
		if _, err := p.Acquire(t.Context(), "b"); !errors.Is(err, sandbox.ErrPoolBusy) || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		again := waitBy(t.Context(), p.Reacquire, "b")
		time.Sleep(time.Hour)
		release(busy, false)
		release(<-again.lease, true)
		synctest.Wait()
		if diff := cmp.Diff(sandbox.Counts{Claims: 2, Waits: 3, Cold: 2, Starts: 2, Deaths: 1}, p.Counts()); diff != "" {
			t.Error(diff)
		}
	})
}

// With FailFast, an Acquire fails if no runner can be started because the pool is full or the owner has its maximum. It waits for a runner that starts or is
// being reset. An Acquire that gets a runner that was ready does not count as a wait.
func TestPoolFailsFast(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 3, PerOwner: 2, Warm: 1, FailFast: true}, func(t *testing.T, p *sandbox.Pool) {
		refused := func(owner string) {
			t.Helper()
			if _, err := p.Acquire(t.Context(), owner); !errors.Is(err, sandbox.ErrPoolInUse) {
				t.Errorf("%s got %v", owner, err)
			}
		}
		synctest.Wait() // One runner is ready by then.
		first := acquire(t, p, "a")
		second := acquire(t, p, "a")
		refused("a")
		third := acquire(t, p, "b")
		refused("b")
		refused("c")
		again := waitBy(t.Context(), p.Reacquire, "c") // A Reacquire waits.
		release(third, true)                           // The runner becomes idle, and is replaced by a runner for c.
		release(<-again.lease, true)
		release(acquire(t, p, "b"), true)
		release(first, true)
		release(second, true)
		synctest.Wait()
		c := p.Counts()
		if c.Claims != 5 || c.Waits != c.Cold+3 || c.Cold >= c.Claims {
			t.Errorf("counted %+v", c)
		}
	})
}

// An owner that has its maximum of runners waits for one of its own runners, even if others are free.
func TestPoolCapsOwners(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 8, PerOwner: 2, Warm: 2}, func(t *testing.T, p *sandbox.Pool) {
		first, second := acquire(t, p, "a"), acquire(t, p, "a")
		third := wait(t.Context(), p, "a")
		if third.served() {
			t.Fatal("an owner has three runners, two are allowed")
		}
		release(second, true)
		if !third.served() {
			t.Fatal("an owner's waiter does not get its runner")
		}
		release(first, true)
		release(<-third.lease, true)
	})
}

// Starting a runner is expensive, so a waiter takes a runner of its owner that becomes idle in the meantime.
func TestPoolStartsAFewAtATime(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 8, Starts: 2}, func(t *testing.T, p *sandbox.Pool) {
		tier.gate = make(chan struct{}, 8) // The channel belongs to the bubble, so waiting for it counts as being blocked.
		tier.gate <- struct{}{}
		busy := acquire(t, p, "a")
		starting := []waiter{wait(t.Context(), p, "b"), wait(t.Context(), p, "c")}
		own, other := wait(t.Context(), p, "a"), wait(t.Context(), p, "d")
		if started, _ := p.Stats(); started != 3 {
			t.Errorf("%d runners are alive or starting, want 3", started)
		}
		release(busy, true)
		if !own.served() || other.served() {
			t.Errorf("served: the owner %t, the other %t", own.served(), other.served())
		}
		for range 3 {
			tier.gate <- struct{}{}
			synctest.Wait()
		}
		for _, w := range append(starting, own, other) {
			release(<-w.lease, true)
		}
		if n := tier.count(); n != 4 {
			t.Errorf("%d runners were started, want 4", n)
		}
	})
}

// A runner that is being reset is ready before a new one has started.
func TestPoolWaitsForAReset(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 4}, func(t *testing.T, p *sandbox.Pool) {
		l := acquire(t, p, "a")
		for range 5 {
			l.Release(true)
			l = acquire(t, p, "a")
		}
		l.Release(true)
		first, second := wait(t.Context(), p, "a"), wait(t.Context(), p, "a") // The runner that is being reset serves the first waiter.
		release(<-first.lease, true)
		release(<-second.lease, true)
		if n := tier.count(); n != 2 {
			t.Errorf("%d runners were started, want 2", n)
		}
	})
}

// An owner whose programs follow each other takes one spare runner, so that one runner serves it while the other is reset. It takes no further spare runners,
// which other owners may need.
func TestPoolPrefersAResetToASpareRunner(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 8, Warm: 2}, func(t *testing.T, p *sandbox.Pool) {
		synctest.Wait()
		l := acquire(t, p, "a")
		for range 5 {
			l.Release(true)
			l = acquire(t, p, "a")
		}
		release(l, true)
		if n := tier.count(); n != 4 {
			t.Errorf("%d runners were started, want 4", n)
		}
	})
}

// In a full pool, an owner that has runners gets a runner's place only from an owner with at least two runners more, or from an owner that does not use the
// runner.
func TestPoolSharesItsRoom(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 4}, func(t *testing.T, p *sandbox.Pool) {
		many := []*sandbox.Lease{acquire(t, p, "many"), acquire(t, p, "many"), acquire(t, p, "many")}
		few := acquire(t, p, "few")
		release(many[0], true)
		second := acquire(t, p, "few") // The owners have two runners each instead of three and one.
		release(many[1], true)
		third := wait(t.Context(), p, "few")
		if third.served() {
			t.Fatal("a runner was killed that its owner needs")
		}
		release(many[2], true)
		time.Sleep(time.Second - time.Millisecond) // on the bubble's clock
		synctest.Wait()
		if third.served() {
			t.Fatal("a runner was killed that was used a moment ago")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if !third.served() {
			t.Fatal("nobody is given the room of a runner that nobody uses")
		}
		waits := wait(t.Context(), p, "few")
		release(few, true)
		if !waits.served() {
			t.Error("who waits for room does not get a runner of its own")
		}
		for _, l := range []*sandbox.Lease{second, <-third.lease, <-waits.lease} {
			release(l, true)
		}
	})
}

// A new waiter does not overtake a waiter that is just being woken, even if the free runner belongs to the new waiter's owner.
func TestPoolNewcomersDoNotPassTheQueue(t *testing.T) {
	for range 50 { // The scheduler decides which of them comes first.
		tier := &fakeTier{}
		inBubble(t, tier, sandbox.PoolOptions{Size: 1}, func(t *testing.T, p *sandbox.Pool) {
			busy := acquire(t, p, "a")
			first := wait(t.Context(), p, "b")
			busy.Release(false) // makes room at once, and wakes the first waiter
			late := wait(t.Context(), p, "a")
			if !first.served() || late.served() {
				t.Fatalf("served: first %t, newcomer %t", first.served(), late.served())
			}
			release(<-first.lease, true)
			release(<-late.lease, true)
		})
	}
}

func TestPoolWaitEndsWithItsContext(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 1}, func(t *testing.T, p *sandbox.Pool) {
		busy := acquire(t, p, "a")
		ctx, cancel := context.WithCancel(t.Context())
		gone, stays := wait(ctx, p, "b"), wait(t.Context(), p, "c")
		cancel()
		if err := <-gone.err; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		release(busy, true)
		pause()
		if !stays.served() {
			t.Fatal("the runner of a waiter that left is lost")
		}
		release(<-stays.lease, true)
	})
}

// If a waiter leaves at the moment at which it gets a runner, the runner goes to the next waiter.
func TestPoolWakeUpIsNotLost(t *testing.T) {
	for range 50 { // The scheduler decides which comes first.
		tier := &fakeTier{}
		inBubble(t, tier, sandbox.PoolOptions{Size: 1}, func(t *testing.T, p *sandbox.Pool) {
			busy := acquire(t, p, "a")
			ctx, cancel := context.WithCancel(t.Context())
			first, second := wait(ctx, p, "b"), wait(t.Context(), p, "c")
			go cancel()
			busy.Release(false)
			synctest.Wait()
			if l := <-first.lease; l != nil {
				release(l, false)
			}
			pause()
			if !second.served() {
				t.Fatal("nobody has the runner and somebody waits")
			}
			release(<-second.lease, false)
		})
	}
}

func TestPoolGivesRoomBackWhenAStartFails(t *testing.T) {
	tier := &fakeTier{fail: errors.New("no memory")}
	inBubble(t, tier, sandbox.PoolOptions{Size: 1}, func(t *testing.T, p *sandbox.Pool) {
		for range 3 {
			if _, err := p.Acquire(t.Context(), "a"); err == nil || err.Error() != "no memory" {
				t.Fatalf("got %v", err)
			}
		}
		tier.fail = nil
		release(acquire(t, p, "a"), true)
	})
}

func TestPoolWarm(t *testing.T) {
	tier := &fakeTier{}
	inBubble(t, tier, sandbox.PoolOptions{Size: 4, Warm: 2, Idle: time.Minute}, func(t *testing.T, p *sandbox.Pool) {
		synctest.Wait()
		if n := tier.count(); n != 2 {
			t.Fatalf("%d runners are warm, want 2", n)
		}
		a := acquire(t, p, "a")
		if a.Pid() > 2 {
			t.Error("a new owner was not given a warm runner")
		}
		synctest.Wait()
		if n := tier.count(); n != 3 {
			t.Errorf("%d runners, want the used one replaced", n)
		}
		time.Sleep(2 * time.Minute) // on the bubble's clock
		synctest.Wait()
		if n := len(p.Pids()); n != 2 {
			t.Errorf("%d runners are warm after they were idle for long, want 2", n)
		}
		release(a, true)
		p.KeepWarm(3)
		synctest.Wait()
		if n := tier.count(); n != 4 {
			t.Errorf("%d runners were started, want one more to be warm", n)
		}
	})
}

// Close ends runners that start, idle runners and waiting calls.
func TestPoolClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier := &fakeTier{gate: make(chan struct{}, 1)}
		p := sandbox.NewPool(tier, sandbox.PoolOptions{Size: 2, Warm: 1})
		tier.gate <- struct{}{}
		synctest.Wait() // One runner is ready by then.
		tier.gate <- struct{}{}
		a := acquire(t, p, "a")
		synctest.Wait()
		b := acquire(t, p, "b") // the ready runner or its replacement
		queued := wait(t.Context(), p, "c")
		closed := make(chan struct{})
		go func() { p.Close(); close(closed) }()
		synctest.Wait()
		if err := <-queued.err; !errors.Is(err, sandbox.ErrPoolClosed) {
			t.Errorf("the one that waits got %v", err)
		}
		select {
		case <-closed:
			t.Error("Close did not wait for busy runners")
		default:
		}
		a.Release(true)
		b.Release(false)
		<-closed
		for n := range tier.count() {
			if !tier.runner(n + 1).killed() {
				t.Errorf("runner %d lives", n+1)
			}
		}
		if _, err := p.Acquire(t.Context(), "a"); !errors.Is(err, sandbox.ErrPoolClosed) {
			t.Errorf("acquire after Close: %v", err)
		}
	})
}

// Under concurrent use, no runner ever serves two owners, and none is lent twice at the same time.
func TestPoolUnderLoad(t *testing.T) {
	tier := &fakeTier{}
	p := sandbox.NewPool(tier, sandbox.PoolOptions{Size: 3, Warm: 1, MaxRuns: 5})
	var mu sync.Mutex
	owners, busy := map[int]string{}, map[int]bool{}
	var wg sync.WaitGroup
	for _, owner := range []string{"a", "b", "c", "d", "e"} {
		for range 2 {
			wg.Go(func() {
				for i := range 100 {
					l, err := p.Acquire(t.Context(), owner)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if was, bound := owners[l.Pid()]; bound && was != owner || busy[l.Pid()] {
						t.Errorf("runner %d of %q was given to %q, busy: %t", l.Pid(), was, owner, busy[l.Pid()])
					}
					owners[l.Pid()], busy[l.Pid()] = owner, true
					mu.Unlock()
					mu.Lock()
					busy[l.Pid()] = false
					mu.Unlock()
					l.Release(i%7 != 0)
				}
			})
		}
	}
	wg.Wait()
	p.Close()
	for n := range tier.count() {
		if !tier.runner(n + 1).killed() {
			t.Errorf("runner %d lives", n+1)
		}
	}
}

// With the wasm tier, a worker serves its owner again without any remains of the last program, another owner gets another process, and a killed worker is
// replaced.
func TestPoolOfWorkers(t *testing.T) {
	tier, err := wasm.Open(t.Context(), wasm.Options{Dir: t.TempDir(), MaxMemory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p := sandbox.NewPool(tier, sandbox.PoolOptions{Size: 2})
	execute := func(l *sandbox.Lease, code string) string {
		t.Helper()
		err := l.Send(&frame.Frame{
			T: frame.Start, Run: "run_x", Seed: "00", Program: &frame.Program{Code: "(async () => { " + code + " })"},
			Limits: &frame.Limits{Memory: 32 << 20, InFlight: 10, MaxValue: 1 << 20},
		})
		if err != nil {
			t.Fatal(err)
		}
		for f := range l.Frames() {
			if f.T == frame.Done {
				return string(f.Value)
			}
		}
		t.Fatalf("the runner ended: %v", l.Err())
		return ""
	}
	a := acquire(t, p, "a")
	b := acquire(t, p, "b")
	if b.Pid() == a.Pid() {
		t.Error("two owners share a process")
	}
	b.Release(false)
	// On a busy machine, a worker may exceed the time limit of its reset and is replaced. Then the next worker is tried.
	pid, again := 0, a
	for try := 0; again.Pid() != pid; try++ {
		if try == 5 {
			t.Fatal("no worker comes back")
		}
		pid = again.Pid()
		if got := execute(again, "globalThis.left = 1; Array.prototype.left = 1; return 1"); got != "1" {
			t.Errorf("got %s", got)
		}
		again.Release(true)
		// The worker acknowledges its reset in the background. Waiting in the queue is the only way to wait for that.
		again = acquireRunner(t, p, "a", pid)
	}
	if got := execute(again, "return [typeof left, [].left === undefined]"); got != `["undefined",true]` {
		t.Errorf("of the last program is left: %s", got)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range again.Frames() {
	}
	again.Release(false)
	fresh := acquire(t, p, "a")
	if fresh.Pid() == pid || execute(fresh, "return 2") != "2" {
		t.Error("a killed worker was not replaced")
	}
	fresh.Release(true)
	p.Close()
	if err := tier.Close(); err != nil {
		t.Error(err)
	}
}

// acquireRunner acquires runners until it gets the runner with the given pid, and releases the others. If the runner does not come, it returns another one.
func acquireRunner(t *testing.T, p *sandbox.Pool, owner string, pid int) *sandbox.Lease {
	t.Helper()
	var others []*sandbox.Lease
	defer func() {
		for _, l := range others {
			l.Release(false)
		}
	}()
	for range 2 {
		l := acquire(t, p, owner)
		if l.Pid() == pid {
			return l
		}
		others = append(others, l)
	}
	last := others[1]
	others = others[:1]
	return last
}
