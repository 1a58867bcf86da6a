package slots

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An owner whose compilations never end leaves a slot to the other owners, who take turns.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Limits{All: 3, Each: 2}, "texts", "compiled")
		hostile, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		for range 100 {
			go func() {
				release, err := s.Acquire(hostile, "hostile", 1)
				if err == nil {
					<-hostile.Done()
					release()
				}
				ended <- err
			}()
		}
		synctest.Wait()
		if s.Held("hostile") != 2 || s.queue.Waiting("hostile") != 98 {
			t.Errorf("the hostile owner holds %d slots, %d wait", s.Held("hostile"), s.queue.Waiting("hostile"))
		}
		var order []string
		for range 2 {
			for _, owner := range []string{"a", "a", "b", "c"} {
				go func() {
					release, err := s.Acquire(t.Context(), owner, 1)
					if err != nil {
						t.Error(err)
						return
					}
					order = append(order, owner)
					time.Sleep(time.Second)
					release()
				}()
				synctest.Wait()
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Join(order, ""); got != "abcabcaa" {
			t.Errorf("order %s", got)
		}
		stop()
		for range 100 {
			<-ended
		}
		if !s.idle() {
			t.Errorf("left are %+v", s)
		}
	})
}

func TestSlotsBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Limits{All: 1, Each: 1}, "texts", "compiled")
		ctx, cancel := context.WithCancel(t.Context())
		fill := func(owner string, n int) {
			for range n {
				go func() { _, _ = s.Acquire(ctx, owner, 1) }()
			}
			synctest.Wait()
		}
		fill("a", 1+500)
		if _, err := s.Acquire(ctx, "a", 1); err == nil || !strings.Contains(err.Error(), "more than 500 texts of this user") {
			t.Errorf("beyond the bound of an owner: %v", err)
		}
		for i := range 10 - 1 {
			fill(fmt.Sprint("b", i), 500)
		}
		if _, err := s.Acquire(ctx, "c", 1); err == nil || !strings.Contains(err.Error(), "more than 5000 texts wait") {
			t.Errorf("beyond the bound of all: %v", err)
		}
		cancel()
		synctest.Wait()
		if s.waiting != 0 {
			t.Errorf("%d wait", s.waiting)
		}
	})
}

// A place may take several slots. An owner whose next place does not fit into its limit is passed over. A place that is larger than the limit takes the whole
// limit.
func TestSlotsOfSeveral(t *testing.T) {
	t.Parallel()
	s := New(Limits{All: 100, Each: 10}, "calls", "made")
	large := s.TryAcquire("a", 1000)
	if large == nil || s.Held("a") != 10 {
		t.Fatalf("a holds %d", s.Held("a"))
	}
	if s.TryAcquire("a", 1) != nil {
		t.Error("more than its share")
	}
	small := s.TryAcquire("b", 9)
	if small == nil || s.TryAcquire("b", 2) != nil {
		t.Error("b gets its share, and no more")
	}
	large()
	if again := s.TryAcquire("a", 10); again == nil {
		t.Error("what was released is not free")
	} else {
		again()
	}
	small()
	if !s.idle() {
		t.Errorf("left: %+v", s)
	}
}

// An owner that has been the only one for some time may hold more than its limit, until another owner comes.
func TestSlotsOfALonelyOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Limits{All: 1000, Each: 2, Alone: time.Second}, "calls", "made")
		take := func(owner string, want int) (releases []func()) {
			t.Helper()
			for range 10 {
				if release := s.TryAcquire(owner, 1); release != nil {
					releases = append(releases, release)
				}
			}
			if len(releases) != want {
				t.Errorf("%s gets %d, want %d", owner, len(releases), want)
			}
			return releases
		}
		first := take("a", 10)
		other := take("b", 2)
		take("a", 0)
		time.Sleep(2 * time.Second)
		for _, release := range append(first, other...) {
			release()
		}
		again := take("a", 2) // b got the last place
		time.Sleep(time.Second)
		take("a", 10)
		take("b", 2)
		again[0]()
		take("a", 0)
	})
}

// An owner with several waiting places gets its share beside owners that return again and again with one place each.
func TestSlotsOfASteadyOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Limits{All: 2, Each: 2}, "texts", "compiled")
		ctx, cancel := context.WithCancel(t.Context())
		var got atomic.Int32
		use := func(owner string, count *atomic.Int32) {
			for {
				release, err := s.Acquire(ctx, owner, 1)
				if err != nil {
					return
				}
				count.Add(1)
				time.Sleep(100 * time.Millisecond)
				release()
			}
		}
		for i := range 4 {
			go use(fmt.Sprint("one", i), new(atomic.Int32))
		}
		for range 5 {
			go use("several", &got)
		}
		time.Sleep(time.Minute)
		if n := got.Load(); n < 200 {
			t.Errorf("it got %d of 1,200", n)
		}
		cancel()
		time.Sleep(time.Second)
		synctest.Wait()
	})
}

// idle reports that no slot is held and that no place waits.
func (s *Slots) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue.owners) == 0 && s.held == 0 && s.waiting == 0
}
