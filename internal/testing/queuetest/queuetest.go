// Package queuetest is the suite that every queue.Queue must pass.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/queue"
)

// Exercise runs the suite. run runs one test: synctest.Test for a queue in memory, t.Run's way for one that is elsewhere.
// open returns an empty queue.
func Exercise(t *testing.T, run func(*testing.T, func(*testing.T)), open func(*testing.T) queue.Queue) {
	for name, test := range map[string]func(*testing.T, queue.Queue){
		"order within a key":     orderWithinKey,
		"keys in parallel":       keysInParallel,
		"at most so many":        atMostSoMany,
		"push again":             pushAgain,
		"delayed":                delayed,
		"retry":                  retry,
		"retry keeps its place":  retryKeepsPlace,
		"cancel waiting":         cancelWaiting,
		"cancel running":         cancelRunning,
		"cancel a retry":         cancelRetry,
		"cancel and retry":       cancelAndRetry,
		"cancel what is not":     cancelUnknown,
		"shutdown":               shutdown,
		"panic":                  panics,
		"no workers":             noWorkers,
		"pushes from everywhere": concurrent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(t *testing.T) { test(t, open(t)) })
		})
	}
}

// delay is long enough to be told from none on a busy machine.
const delay = 50 * time.Millisecond

// working is a queue that is worked.
type working struct {
	t    *testing.T
	q    queue.Queue
	stop context.CancelCauseFunc
	done chan error
}

type handler = func(ctx context.Context, id string) error

func work(t *testing.T, q queue.Queue, workers int, handle handler) *working {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &working{t: t, q: q, stop: cancel, done: make(chan error, 1)}
	go func() { w.done <- q.Work(ctx, workers, handle) }()
	return w
}

// end stops the work and waits for it.
func (w *working) end() {
	w.t.Helper()
	w.stop(nil)
	w.wait()
}

func (w *working) wait() {
	w.t.Helper()
	if err := <-w.done; err != nil {
		w.t.Errorf("Work = %v", err)
	}
}

func push(t *testing.T, q queue.Queue, jobs ...queue.Job) {
	t.Helper()
	for _, j := range jobs {
		if err := q.Push(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
}

func wantLen(t *testing.T, q queue.Queue, want int) {
	t.Helper()
	if n := q.Len(); n != want {
		t.Errorf("Len = %d, want %d", n, want)
	}
}

func wantIDs(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// receive takes n ids.
func receive(from <-chan string, n int) (ids []string) {
	for range n {
		ids = append(ids, <-from)
	}
	return ids
}

// orderWithinKey: jobs of one key are worked in the order of their pushes, one at a time, however many workers there are.
func orderWithinKey(t *testing.T, q queue.Queue) {
	const keys, each = 5, 40
	for i := range each {
		for k := range keys {
			push(t, q, queue.Job{ID: fmt.Sprintf("%d/%d", k, i), Key: fmt.Sprint(k)})
		}
	}
	wantLen(t, q, keys*each)
	var mu sync.Mutex
	busy := map[int]bool{}
	next := map[int]int{}
	var all sync.WaitGroup
	all.Add(keys * each)
	w := work(t, q, 8, func(_ context.Context, id string) error {
		defer all.Done()
		var k, i int
		if _, err := fmt.Sscanf(id, "%d/%d", &k, &i); err != nil {
			return err
		}
		mu.Lock()
		if busy[k] {
			t.Errorf("two jobs of key %d are worked at the same time", k)
		}
		if i != next[k] {
			t.Errorf("key %d: job %d is worked, want %d", k, i, next[k])
		}
		busy[k], next[k] = true, i+1
		mu.Unlock()
		time.Sleep(time.Microsecond) // others could come now
		mu.Lock()
		defer mu.Unlock()
		busy[k] = false
		return nil
	})
	all.Wait()
	w.end()
	wantLen(t, q, 0)
}

// keysInParallel: jobs of different keys, and those without a key, need not wait for each other.
func keysInParallel(t *testing.T, q queue.Queue) {
	push(t, q, queue.Job{ID: "a", Key: "1"}, queue.Job{ID: "b", Key: "2"}, queue.Job{ID: "c"}, queue.Job{ID: "d"})
	var together sync.WaitGroup
	together.Add(4)
	done := make(chan string)
	w := work(t, q, 4, func(_ context.Context, id string) error {
		together.Done()
		together.Wait() // for ever, if one waits for another
		done <- id
		return nil
	})
	ids := receive(done, 4)
	slices.Sort(ids)
	wantIDs(t, "worked", ids, "a", "b", "c", "d")
	w.end()
}

func atMostSoMany(t *testing.T, q queue.Queue) {
	const workers, jobs = 3, 60
	var mu sync.Mutex
	now, most := 0, 0
	var all sync.WaitGroup
	all.Add(jobs)
	w := work(t, q, workers, func(context.Context, string) error {
		defer all.Done()
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		now--
		return nil
	})
	for i := range jobs {
		push(t, q, queue.Job{ID: fmt.Sprint(i)})
	}
	all.Wait()
	w.end()
	if most != workers {
		t.Errorf("%d handlers at the same time, want %d", most, workers)
	}
}

// pushAgain: a job that waits or is worked is not added again; one that was settled is.
func pushAgain(t *testing.T, q queue.Queue) {
	started, leave := make(chan string), make(chan struct{})
	push(t, q, queue.Job{ID: "a", Key: "k"}, queue.Job{ID: "a", Key: "k"}, queue.Job{ID: "b", Key: "k"},
		queue.Job{ID: "later", At: time.Now().Add(time.Hour)}, queue.Job{ID: "later"})
	wantLen(t, q, 3)
	w := work(t, q, 2, func(_ context.Context, id string) error {
		started <- id
		<-leave
		return errors.New("this settles it too")
	})
	wantIDs(t, "first", receive(started, 1), "a")
	push(t, q, queue.Job{ID: "a", Key: "k"})
	wantLen(t, q, 2)
	leave <- struct{}{}
	wantIDs(t, "second", receive(started, 1), "b")
	push(t, q, queue.Job{ID: "a", Key: "k"})
	leave <- struct{}{}
	wantIDs(t, "settled and pushed again", receive(started, 1), "a")
	leave <- struct{}{}
	w.end()
	wantLen(t, q, 1)
}

// delayed: a job is worked at its time, and until then stands in nobody's way.
func delayed(t *testing.T, q queue.Queue) {
	begin := time.Now()
	push(t, q,
		queue.Job{ID: "third", Key: "k", At: begin.Add(3 * delay)},
		queue.Job{ID: "second", Key: "k", At: begin.Add(2 * delay)},
		queue.Job{ID: "first", Key: "k"},
		queue.Job{ID: "past", At: begin.Add(-time.Hour)})
	wantLen(t, q, 4)
	started := make(chan string)
	w := work(t, q, 1, func(_ context.Context, id string) error { started <- id; return nil })
	ids := receive(started, 2)
	slices.Sort(ids) // they are of different keys
	wantIDs(t, "at once", ids, "first", "past")
	for i, want := range []string{"second", "third"} {
		wantIDs(t, "delayed", receive(started, 1), want)
		if took, least := time.Since(begin), time.Duration(i+2)*delay; took < least {
			t.Errorf("%s is worked after %v, want %v", want, took, least)
		}
	}
	w.end()
}

// retry: a job is worked again after the time that its handler asked for, until it returns anything else.
func retry(t *testing.T, q queue.Queue) {
	push(t, q, queue.Job{ID: "a", Key: "k"})
	waits := []time.Duration{delay, 0, 2 * delay}
	var begins []time.Time
	settled := make(chan struct{})
	w := work(t, q, 2, func(context.Context, string) error {
		begins = append(begins, time.Now()) // one job: one handler after another
		if n := len(begins); n <= len(waits) {
			return fmt.Errorf("try %d: %w", n, queue.Retry(waits[n-1]))
		}
		close(settled)
		return nil
	})
	<-settled
	w.end()
	for i, want := range waits {
		if got := begins[i+1].Sub(begins[i]); got < want {
			t.Errorf("try %d came %v after the one before, want %v", i+2, got, want)
		}
	}
	wantLen(t, q, 0)
}

// retryKeepsPlace: a job that is to be retried comes before those of its key that were pushed later, and other keys do not
// wait for it.
func retryKeepsPlace(t *testing.T, q queue.Queue) {
	push(t, q, queue.Job{ID: "a", Key: "k"}, queue.Job{ID: "b", Key: "k"})
	started := make(chan string)
	tries := 0
	w := work(t, q, 2, func(_ context.Context, id string) error {
		started <- id
		if id == "a" {
			if tries++; tries < 3 {
				return queue.Retry(delay)
			}
		}
		return nil
	})
	wantIDs(t, "first", receive(started, 1), "a")
	push(t, q, queue.Job{ID: "c", Key: "other"})
	wantIDs(t, "another key", receive(started, 1), "c")
	wantIDs(t, "tried again", receive(started, 3), "a", "a", "b")
	w.end()
}

// cancelWaiting: a waiting job is gone, whether it is due or not.
func cancelWaiting(t *testing.T, q queue.Queue) {
	at := time.Now().Add(delay)
	push(t, q, queue.Job{ID: "a", Key: "k"}, queue.Job{ID: "b", Key: "k"}, queue.Job{ID: "c", Key: "k"},
		queue.Job{ID: "alone"}, queue.Job{ID: "later", At: at}, queue.Job{ID: "last", Key: "k", At: at})
	for _, id := range []string{"a", "b", "alone", "later"} {
		if !q.Cancel(id) {
			t.Errorf("Cancel(%s) = false", id)
		}
		if q.Cancel(id) {
			t.Errorf("the second Cancel(%s) = true", id)
		}
	}
	wantLen(t, q, 2)
	started := make(chan string)
	w := work(t, q, 2, func(_ context.Context, id string) error { started <- id; return nil })
	wantIDs(t, "worked", receive(started, 2), "c", "last")
	push(t, q, queue.Job{ID: "a", Key: "k"})
	wantIDs(t, "pushed again", receive(started, 1), "a")
	w.end()
}

// cancelRunning ends the handler's context, and no other's; its job is settled and the next of its key is worked.
func cancelRunning(t *testing.T, q queue.Queue) {
	push(t, q, queue.Job{ID: "a", Key: "k"}, queue.Job{ID: "b", Key: "k"}, queue.Job{ID: "c"})
	started := make(chan string)
	causes := make(chan error, 3)
	w := work(t, q, 2, func(ctx context.Context, id string) error {
		started <- id
		<-ctx.Done()
		causes <- fmt.Errorf("%s: %w", id, context.Cause(ctx))
		return ctx.Err()
	})
	receive(started, 2) // a and c
	if !q.Cancel("a") {
		t.Error("Cancel of a running job = false")
	}
	wantIDs(t, "next of the key", receive(started, 1), "b")
	if err := <-causes; !errors.Is(err, queue.ErrCancelled) || err.Error()[0] != 'a' {
		t.Errorf("the first context that ended is that of %v, want a, cancelled", err)
	}
	stopped := errors.New("stopped")
	w.stop(stopped)
	w.wait()
	for range 2 {
		if err := <-causes; !errors.Is(err, stopped) {
			t.Errorf("cause %v, want that of Work's context", err)
		}
	}
	wantLen(t, q, 0)
}

// cancelRetry: a job that waits to be retried is gone, and its key goes on.
func cancelRetry(t *testing.T, q queue.Queue) {
	push(t, q, queue.Job{ID: "a", Key: "k"})
	started := make(chan string)
	w := work(t, q, 1, func(_ context.Context, id string) error {
		started <- id
		if id == "a" {
			return queue.Retry(time.Hour)
		}
		return nil
	})
	receive(started, 1)
	push(t, q, queue.Job{ID: "b", Key: "k"}, queue.Job{ID: "free"})
	wantIDs(t, "while the key waits", receive(started, 1), "free") // so a's handler has returned
	if !q.Cancel("a") {
		t.Error("Cancel of a job that is to be retried = false")
	}
	wantIDs(t, "next of the key", receive(started, 1), "b")
	w.end()
	wantLen(t, q, 0)
}

// cancelAndRetry: a handler that was cancelled and asks to be called again is.
func cancelAndRetry(t *testing.T, q queue.Queue) {
	push(t, q, queue.Job{ID: "a"})
	started := make(chan string)
	tries := 0
	w := work(t, q, 1, func(ctx context.Context, id string) error {
		started <- id
		if tries++; tries > 1 {
			return ctx.Err()
		}
		<-ctx.Done()
		return queue.Retry(0)
	})
	receive(started, 1)
	q.Cancel("a")
	wantIDs(t, "again", receive(started, 1), "a")
	w.end()
	wantLen(t, q, 0)
}

func cancelUnknown(t *testing.T, q queue.Queue) {
	if q.Cancel("nobody") {
		t.Error("Cancel of an unknown job = true")
	}
	push(t, q, queue.Job{ID: "a", Key: "k"}, queue.Job{ID: "b", Key: "k"})
	started := make(chan string)
	w := work(t, q, 1, func(_ context.Context, id string) error { started <- id; return nil })
	receive(started, 2)
	w.end()
	if q.Cancel("a") {
		t.Error("Cancel of a settled job = true")
	}
}

// shutdown: Work waits for its handlers, which see its context end, and leaves what waits to the next Work.
func shutdown(t *testing.T, q queue.Queue) {
	push(t, q, queue.Job{ID: "a", Key: "k"}, queue.Job{ID: "b", Key: "k"}, queue.Job{ID: "c"},
		queue.Job{ID: "d", At: time.Now().Add(delay)})
	started, leave := make(chan string), make(chan struct{})
	w := work(t, q, 1, func(ctx context.Context, id string) error {
		started <- id
		<-ctx.Done()
		<-leave
		return queue.Retry(0) // it was not finished
	})
	wantIDs(t, "before", receive(started, 1), "a")
	w.stop(nil)
	select {
	case <-w.done:
		t.Error("Work returned before its handler")
	case leave <- struct{}{}:
		w.wait()
	}
	wantLen(t, q, 4)
	w = work(t, q, 1, func(_ context.Context, id string) error { started <- id; return nil })
	ids := receive(started, 4)
	if a, b := slices.Index(ids, "a"), slices.Index(ids, "b"); a < 0 || b < a {
		t.Errorf("the next Work worked %q, want a before b", ids)
	}
	w.end()

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	push(t, q, queue.Job{ID: "e"})
	if err := q.Work(ended, 1, func(context.Context, string) error { t.Error("a job is worked"); return nil }); err != nil {
		t.Errorf("Work with an ended context = %v", err)
	}
	wantLen(t, q, 1)
	if err := q.Push(ended, queue.Job{ID: "f"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Push with an ended context = %v", err)
	}
}

// panics: a handler's panic settles its job, and nothing else.
func panics(t *testing.T, q queue.Queue) {
	push(t, q, queue.Job{ID: "a", Key: "k"}, queue.Job{ID: "b", Key: "k"}, queue.Job{ID: "c"})
	started := make(chan string)
	w := work(t, q, 1, func(_ context.Context, id string) error {
		started <- id
		if id == "a" {
			panic("of a job")
		}
		return nil
	})
	ids := receive(started, 3)
	slices.Sort(ids)
	wantIDs(t, "worked", ids, "a", "b", "c")
	w.end()
	wantLen(t, q, 0)
}

func noWorkers(t *testing.T, q queue.Queue) {
	if err := q.Work(t.Context(), 0, nil); err == nil {
		t.Error("Work with 0 workers = nil")
	}
}

// concurrent: of jobs that many push and some cancel, none is lost and none is settled twice.
func concurrent(t *testing.T, q queue.Queue) {
	const pushers, each = 8, 100
	var mu sync.Mutex
	tries, settled, gone := map[string]int{}, map[string]int{}, map[string]bool{} // gone: settled or cancelled
	last := make(chan struct{})
	handle := func(_ context.Context, id string) error {
		mu.Lock()
		defer mu.Unlock()
		tries[id]++
		if len(id)%3 == 0 && tries[id] == 1 {
			return queue.Retry(time.Duration(len(tries)) * time.Microsecond)
		}
		settled[id]++
		if gone[id] = true; len(gone) == pushers*each+1 {
			close(last)
		}
		return nil
	}
	w := work(t, q, 4, handle)
	var all sync.WaitGroup
	for p := range pushers {
		all.Go(func() {
			for i := range each {
				j := queue.Job{ID: fmt.Sprintf("%d/%d", p, i), Key: fmt.Sprint(i % 7)}
				if i%5 == 0 {
					j.At = time.Now().Add(time.Duration(i) * time.Microsecond)
				}
				if err := q.Push(context.Background(), j); err != nil {
					t.Error(err)
				}
				if i%4 == 0 && q.Cancel(j.ID) {
					mu.Lock()
					gone[j.ID] = true
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	w.end()
	push(t, q, queue.Job{ID: "last"}) // in case that all others are gone
	w = work(t, q, 4, handle)
	<-last
	w.end()
	for p := range pushers {
		for i := range each {
			id := fmt.Sprintf("%d/%d", p, i)
			if !gone[id] || settled[id] > 1 {
				t.Errorf("job %s: gone %v, settled %d times", id, gone[id], settled[id])
			}
		}
	}
}
