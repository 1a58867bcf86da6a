package auth

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newTestLimiter(t *testing.T, max int, window time.Duration) *Limiter {
	t.Helper()
	l, err := NewLimiter(max, window)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newTestLimiter(t, 100, 15*time.Minute) // the default of the original system
		for i := range 100 {
			ok, _, remaining, reset := l.Allow("alice")
			if want := time.Duration(i+1) * 9 * time.Second; !ok || remaining != 99-i || reset != want {
				t.Fatalf("request %d: %t, %d remaining, reset in %s, want %s", i, ok, remaining, reset, want)
			}
		}
		for range 3 { // refused requests do not count
			if ok, _, remaining, after := l.Allow("alice"); ok || remaining != 0 || after != 9*time.Second {
				t.Fatalf("request 101: %t, %d remaining, again in %s", ok, remaining, after)
			}
		}
		if ok, _, _, _ := l.Allow("bob"); !ok {
			t.Error("another user is limited too")
		}
		time.Sleep(9*time.Second - 1)
		if ok, _, _, after := l.Allow("alice"); ok || after != 1 {
			t.Errorf("a nanosecond early: %t, again in %s", ok, after)
		}
		time.Sleep(time.Nanosecond)
		if ok, _, _, _ := l.Allow("alice"); !ok {
			t.Error("refused after the time it named")
		}
		if ok, _, _, _ := l.Allow("alice"); ok {
			t.Error("two at once after one interval")
		}
		time.Sleep(15 * time.Minute)
		if ok, _, remaining, _ := l.Allow("alice"); !ok || remaining != 99 {
			t.Errorf("after the window: %t, %d remaining", ok, remaining)
		}
	})
}

func TestLimiterOfOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newTestLimiter(t, 1, time.Second)
		if ok, _, remaining, _ := l.Allow("a"); !ok || remaining != 0 {
			t.Errorf("the first: %t, %d", ok, remaining)
		}
		if ok, _, _, after := l.Allow("a"); ok || after != time.Second {
			t.Errorf("the second: %t, %s", ok, after)
		}
	})
}

func TestLimiterUnderContention(t *testing.T) {
	t.Parallel()
	l := newTestLimiter(t, 500, time.Hour)
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			for range 50 {
				if ok, _, _, _ := l.Allow("alice"); ok {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := allowed.Load(); got != 500 {
		t.Errorf("%d requests were allowed, want 500", got)
	}
}

// The limiter forgets the callers whose last request is the oldest, and remembers the others.
func TestLimiterForgetsOldUsers(t *testing.T) {
	t.Parallel()
	l := newTestLimiter(t, 1, 24*time.Hour)
	for i := range limitedCallers + 1 {
		l.Allow(fmt.Sprint("user", i))
	}
	if ok, _, _, _ := l.Allow(fmt.Sprint("user", limitedCallers)); ok {
		t.Error("the last user was forgotten")
	}
	if ok, _, _, _ := l.Allow("user0"); !ok {
		t.Errorf("more than %d users are remembered", limitedCallers)
	}
}

func TestNewLimiterChecks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		max    int
		window time.Duration
	}{{0, time.Second}, {-1, time.Second}, {1, 0}, {100, -time.Second}, {100, 99}} {
		if _, err := NewLimiter(tt.max, tt.window); err == nil {
			t.Errorf("%d in %s is accepted", tt.max, tt.window)
		}
	}
}

func BenchmarkLimiter(b *testing.B) {
	l, err := NewLimiter(100, time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l.Allow("alice")
	}
}
