package queue_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/queue"
	"mcp-code-exec-harness/internal/testing/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLocal(t *testing.T) {
	t.Parallel()
	queuetest.Exercise(t, synctest.Test, func(*testing.T) queue.Queue { return queue.NewLocal(time.Now) })
}

// The same suite on the machine's clock and scheduler.
func TestLocalOutsideOfABubble(t *testing.T) {
	t.Parallel()
	queuetest.Exercise(t, func(t *testing.T, test func(*testing.T)) { test(t) },
		func(*testing.T) queue.Queue { return queue.NewLocal(time.Now) })
}

func push(t *testing.T, q queue.Queue, jobs ...queue.Job) {
	t.Helper()
	for _, j := range jobs {
		if err := q.Push(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
}

// start works a queue and returns how to stop.
func start(t *testing.T, q queue.Queue, workers int, handle func(ctx context.Context, id string) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- q.Work(ctx, workers, handle) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Keys take turns, so that a key with one job does not wait for a key with a hundred.
func TestFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := queue.NewLocal(time.Now)
		for i := range 5 {
			push(t, q, queue.Job{ID: fmt.Sprint("a", i), Key: "a"})
		}
		push(t, q, queue.Job{ID: "b0", Key: "b"}, queue.Job{ID: "b1", Key: "b"}, queue.Job{ID: "c0", Key: "c"}, queue.Job{ID: "alone"})
		var order []string
		stop := start(t, q, 1, func(_ context.Context, id string) error { order = append(order, id); return nil })
		synctest.Wait()
		stop()
		want := []string{"a0", "b0", "c0", "alone", "a1", "b1", "a2", "a3", "a4"}
		if !slices.Equal(order, want) {
			t.Errorf("worked in the order %q, want %q", order, want)
		}
	})
}

// Jobs are worked at their time exactly, by a timer that looks at the clock once a minute at least.
func TestOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := queue.NewLocal(time.Now)
		begin := time.Now()
		at := map[string]time.Duration{
			"now": 0, "second": time.Second, "minute": time.Minute, "hour": time.Hour + time.Millisecond, "week": 7 * 24 * time.Hour,
		}
		for id, d := range at {
			push(t, q, queue.Job{ID: id, Key: "k", At: begin.Add(d)})
		}
		got := map[string]time.Duration{}
		stop := start(t, q, 1, func(_ context.Context, id string) error { got[id] = time.Since(begin); return nil })
		time.Sleep(8 * 24 * time.Hour)
		stop()
		for id, want := range at {
			if d, ok := got[id]; !ok || d != want {
				t.Errorf("%s is worked after %v (%v), want %v", id, d, ok, want)
			}
		}
	})
}

// A clock that jumps, as after a machine's sleep, makes a job due within a minute of the timer.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var jump atomic.Int64
		q := queue.NewLocal(func() time.Time { return time.Now().Add(time.Duration(jump.Load())) })
		push(t, q, queue.Job{ID: "a", At: time.Now().Add(10 * time.Hour)})
		worked := make(chan time.Time, 1)
		stop := start(t, q, 1, func(context.Context, string) error { worked <- time.Now(); return nil })
		synctest.Wait()
		jump.Store(int64(10 * time.Hour))
		begin := time.Now()
		if took := (<-worked).Sub(begin); took > time.Minute {
			t.Errorf("worked %v after the jump, want a minute at most", took)
		}
		stop()
	})
}

// While a key's job is worked or waits to be retried, no other of the key is.
func TestKeyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := queue.NewLocal(time.Now)
		push(t, q, queue.Job{ID: "a", Key: "k"}, queue.Job{ID: "b", Key: "k"}, queue.Job{ID: "c", Key: "k", At: time.Now().Add(time.Second)})
		begin := time.Now()
		var log []string
		tries := 0
		stop := start(t, q, 4, func(_ context.Context, id string) error {
			log = append(log, fmt.Sprint(id, " ", time.Since(begin)))
			if id == "a" {
				time.Sleep(10 * time.Second)
				if tries++; tries == 1 {
					return queue.Retry(5 * time.Second)
				}
			}
			return nil
		})
		time.Sleep(time.Minute)
		stop()
		if want := []string{"a 0s", "a 15s", "b 25s", "c 25s"}; !slices.Equal(log, want) {
			t.Errorf("worked %q, want %q", log, want)
		}
	})
}

// Two Works share the jobs; the end of one does not strand what the other can do.
func TestTwoWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := queue.NewLocal(time.Now)
		started := make(chan string)
		handle := func(_ context.Context, id string) error { started <- id; return nil }
		stopA, stopB := start(t, q, 1, handle), start(t, q, 1, handle)
		synctest.Wait()
		push(t, q, queue.Job{ID: "a"}, queue.Job{ID: "b"})
		synctest.Wait() // both are worked
		push(t, q, queue.Job{ID: "c"})
		got := []string{<-started, <-started, <-started}
		slices.Sort(got)
		if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
			t.Errorf("worked %q, want %q", got, want)
		}
		synctest.Wait()
		stopA()
		push(t, q, queue.Job{ID: "d"})
		if id := <-started; id != "d" {
			t.Errorf("worked %s, want d", id)
		}
		stopB()
	})
}

func TestPanicIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		q := queue.NewLocal(time.Now)
		q.Log = slog.New(slog.NewTextHandler(&log, nil))
		push(t, q, queue.Job{ID: "task_1"})
		stop := start(t, q, 1, func(context.Context, string) error { panic("at the disco") })
		synctest.Wait()
		stop()
		for _, want := range []string{"task_1", "at the disco", "local_test.go"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, log.String())
			}
		}
	})
}

// BenchmarkLocal: one job from its push to its handler's return.
func BenchmarkLocal(b *testing.B) {
	q := queue.NewLocal(time.Now)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{}, 1024)
	go q.Work(ctx, 8, func(context.Context, string) error { done <- struct{}{}; return nil })
	n := 0
	for b.Loop() {
		n++
		if err := q.Push(ctx, queue.Job{ID: fmt.Sprint(n), Key: fmt.Sprint(n % 100)}); err != nil {
			b.Fatal(err)
		}
		if n > 500 {
			<-done
		}
	}
}
