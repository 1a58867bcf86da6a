package task

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// paced is a pace of two processors in a bubble, where each task in work computes a given share of the time.
type paced struct {
	*pace
	share float64
	spent time.Duration
	since time.Time
}

func newPaced(most int, share float64) *paced {
	p := &paced{share: share, since: time.Now()}
	p.pace = newPace(most, func() time.Duration { return p.spent })
	p.cores = 2
	return p
}

// pass lets time pass.
func (p *paced) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		p.mu.Lock()
		p.spent += time.Duration(float64(p.in) * p.share * float64(time.Millisecond))
		p.mu.Unlock()
		time.Sleep(time.Millisecond) // the bubble's time
		synctest.Wait()
	}
}

func (p *paced) working() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.in
}

// crowd has tasks come, each of which is in work until left is closed.
func (p *paced) crowd(t *testing.T, n int, left chan struct{}) {
	for range n {
		go func() {
			if err := p.enter(t.Context()); err != nil {
				t.Error(err)
				return
			}
			<-left
			p.leave()
		}()
	}
	synctest.Wait()
}

func TestPaceGrowsWhileThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaced(64, 0.001) // of a slow model
		left := make(chan struct{})
		p.crowd(t, 100, left)
		if n := p.working(); n != 6 {
			t.Errorf("%d tasks begin at once, want 6", n)
		}
		p.pass(2 * time.Second)
		if n := p.working(); n != 64 {
			t.Errorf("%d tasks are in work after 2s, want the most there may be", n)
		}
		close(left)
		synctest.Wait()
		if n := p.working(); n != 0 {
			t.Errorf("%d tasks are in work after the end", n)
		}
		p.pass(time.Second) // it stops looking: else the bubble would not end
	})
}

func TestPaceComesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaced(64, 0.01)
		left := make(chan struct{}, 100)
		p.crowd(t, 64, left)
		p.pass(2 * time.Second)
		before := p.working()
		p.share = 0.1 // now 8 tasks are as many as two processors take at ease
		for range 100 {
			p.pass(50 * time.Millisecond)
			if len(left) == 0 {
				left <- struct{}{} // one ends
				p.crowd(t, 1, left)
			}
		}
		if n := p.working(); before < 40 || n < 4 || n > 10 {
			t.Errorf("%d tasks were in work, %d are; want more than 40, and about 8", before, n)
		}
		p.share = 0
		p.pass(5 * time.Second)
		if n := p.working(); n != 64 {
			t.Errorf("%d tasks are in work when there is room again", n)
		}
		close(left)
		p.pass(time.Second)
	})
}

// Programs that compute all the time, of tasks or not, keep nobody out for ever.
func TestPaceLetsInAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaced(64, 1)
		left := make(chan struct{})
		p.crowd(t, 64, left)
		p.pass(10 * time.Second)
		if n := p.working(); n < 20 || n > 40 {
			t.Errorf("%d tasks are in work after 10s, want one more each half second", n)
		}
		p.pass(30 * time.Second)
		if n := p.working(); n != 64 {
			t.Errorf("%d tasks are in work after 40s", n)
		}
		p.share = 0
		close(left)
		p.pass(time.Second)
	})
}

func TestPaceBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaced(64, 0.001)
		for range 2 {
			left := make(chan struct{})
			p.crowd(t, 64, left)
			if n := p.working(); n != 6 {
				t.Errorf("%d tasks begin at once, want 6", n)
			}
			p.pass(2 * time.Second)
			close(left)
			p.pass(time.Second)
		}
	})
}

// Who leaves while it waits takes no place, and loses none that came at the same moment.
func TestPaceGivesPlacesBack(t *testing.T) {
	for range 50 { // the scheduler decides which comes first
		synctest.Test(t, func(t *testing.T) {
			p := newPaced(1, 0)
			if err := p.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			cause := errors.New("gone")
			ctx, cancel := context.WithCancelCause(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- p.enter(ctx) }()
			synctest.Wait()
			go func() { second <- p.enter(t.Context()) }()
			synctest.Wait()
			go cancel(cause)
			p.leave()
			if err := <-first; err == nil {
				p.leave()
			} else if !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
			if err := <-second; err != nil {
				t.Error(err)
			}
			p.leave()
			if n := p.working(); n != 0 {
				t.Errorf("%d are in work", n)
			}
			p.pass(time.Second)
		})
	}
}
