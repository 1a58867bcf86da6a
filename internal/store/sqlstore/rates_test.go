package sqlstore

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/testing/postgrestest"
)

func sharedLimiter(t testing.TB, s *Store, most int, window time.Duration) *auth.Limiter {
	t.Helper()
	l, err := auth.NewLimiter(most, window)
	if err != nil {
		t.Fatal(err)
	}
	l.Share(s, "work", slog.New(slog.DiscardHandler))
	return l
}

// allowedOf returns how many of n requests of a caller to each limiter, all at the same time, are allowed.
func allowedOf(caller string, n int, limiters ...*auth.Limiter) (allowed int64) {
	var count atomic.Int64
	var all sync.WaitGroup
	for _, l := range limiters {
		for range n {
			all.Go(func() {
				if ok, _, _, _ := l.Allow(caller); ok {
					count.Add(1)
				}
			})
		}
	}
	all.Wait()
	return count.Load()
}

// The rate limit of a caller applies to all processes of a store together.
func TestRatesOfProcesses(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Fast...)
	url := server.Schema(t)
	a, b := openServer(t, url, Options{}), openServer(t, url, Options{})
	here, there := sharedLimiter(t, a, 100, time.Hour), sharedLimiter(t, b, 100, time.Hour)
	if got := allowedOf("user:ann", 90, here, there); got != 100 {
		t.Errorf("%d of 180 requests at the same time are allowed, want 100", got)
	}
	if got := allowedOf("user:ben", 30, here); got != 30 {
		t.Errorf("%d of 30 requests are allowed, want all", got)
	}
	ok, limit, remaining, after := there.Allow("user:ben")
	if reset := 31 * 36 * time.Second; !ok || limit != 100 || remaining != 69 || after > reset || after < reset-time.Minute {
		t.Errorf("request 31, at the other process: %t, %d, %d remaining, reset in %s, want %s", ok, limit, remaining, after, reset)
	}
	if ok, _, remaining, after := there.Allow("user:ann"); ok || remaining != 0 || after > 36*time.Second || after < 20*time.Second {
		t.Errorf("request 101: %t, %d remaining, again in %s", ok, remaining, after)
	}

	t.Run("rows", func(t *testing.T) {
		short := sharedLimiter(t, a, 10, 10*time.Millisecond)
		for i := range 50 {
			short.Allow(fmt.Sprint("user:", i))
		}
		for i := 0; ; i++ {
			short.Allow("user:last")
			rows, err := one(t.Context(), a, nil, value[int64], "SELECT count(*) FROM counts")
			if err != nil {
				t.Fatal(err)
			}
			if rows == 3 { // the rows of ann, ben and last
				break
			}
			if i == 2000 {
				t.Fatalf("%d rows are left after the window", rows)
			}
		}
	})
	t.Run("away", func(t *testing.T) {
		c := openServer(t, url, Options{})
		alone := sharedLimiter(t, c, 5, time.Hour)
		if got := allowedOf("user:eve", 3, alone); got != 3 {
			t.Errorf("%d of 3 requests are allowed", got)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if got := allowedOf("user:eve", 9, alone); got != 2 {
			t.Errorf("%d further requests are allowed while the store is away, want 2", got)
		}
	})
}

func BenchmarkRate(b *testing.B) {
	server := postgrestest.Start(b)
	s := openServer(b, server.Schema(b), Options{})
	l := sharedLimiter(b, s, 1_000_000, time.Hour)
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			l.Allow("user:ann")
		}
	})
	b.Run("concurrent", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				l.Allow("user:ben")
			}
		})
	})
}
