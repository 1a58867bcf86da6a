package task_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// lossy is a store that claims a task at the first claim, but loses the answer.
type lossy struct {
	task.Store
	claims atomic.Int32
}

func (l *lossy) ClaimNext(ctx context.Context, after string, except []string, now time.Time) (task.Task, time.Time, error) {
	t, next, err := l.Store.ClaimNext(ctx, after, except, now)
	if t.ID != "" && l.claims.Add(1) == 1 {
		return task.Task{}, next, errors.New("the connection broke")
	}
	return t, next, err
}

// TestIdleClaims: a task whose claim was stored although the answer was lost is worked soon afterwards. A task that is in work for a long time is not claimed
// again.
func TestIdleClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		p := newPlace(t).open(g.work, func(o *task.Options) { o.Store = &lossy{Store: o.Store} })
		in := p.submit(task.Request{})
		stop := p.work()
		time.Sleep(time.Minute)
		if began := g.next(t); began.ID != in.ID || began.Fence != 2 {
			t.Errorf("%s has begun by claim %d", began.ID, began.Fence)
		}
		time.Sleep(time.Hour)
		g.none(t)
		g.let <- struct{}{}
		synctest.Wait()
		if got := p.task(in.ID); got.Status != task.Succeeded {
			t.Errorf("it is %s: %s", got.Status, got.Message)
		}
		stop()
	})
}

// TestOrderAfterFailure: a task that could not begin keeps its place before the next task of its session.
func TestOrderAfterFailure(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*task.Options){
		"the answer to the claim is lost": func(o *task.Options) { o.Store = &lossy{Store: o.Store} },
		"the beginning cannot be stored":  func(o *task.Options) { o.Store = &reluctant{Store: o.Store} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
					time.Sleep(time.Second)
					return succeed(ctx, tk, h, steps, log)
				}, change)
				first, second := p.submit(task.Request{SessionID: "s"}), p.submit(task.Request{SessionID: "s"})
				p.work()
				time.Sleep(time.Minute)
				one, two := p.task(first.ID), p.task(second.ID)
				if one.Status != task.Succeeded || two.Status != task.Succeeded || two.StartedAt.Before(*one.EndedAt) {
					t.Errorf("the first one is %s, ended at %v, the second one is %s, begun at %v", one.Status, one.EndedAt, two.Status, two.StartedAt)
				}
			})
		})
	}
}

// reluctant is a store that refuses the first commit.
type reluctant struct {
	task.Store
	commits atomic.Int32
}

func (r *reluctant) Commit(ctx context.Context, id string, fence int64, c task.Change) ([]task.Event, error) {
	if r.commits.Add(1) == 1 {
		return nil, errors.New("the connection broke")
	}
	return r.Store.Commit(ctx, id, fence, c)
}

// TestDoOfQueue: Do refuses a task that the queue of the same process works, and the work continues.
func TestDoOfQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		p := newPlace(t).open(g.work, nil)
		in := p.submit(task.Request{})
		stop := p.work()
		g.next(t)
		if _, err := p.Do(t.Context(), in.ID); !errors.Is(err, task.ErrNotOwner) {
			t.Errorf("work it too: %v", err)
		}
		g.let <- struct{}{}
		synctest.Wait()
		if got := p.task(in.ID); got.Status != task.Succeeded || got.Fence != 1 {
			t.Errorf("it is %s by claim %d: %s", got.Status, got.Fence, got.Message)
		}
		stop()
	})
}

// wire is a bus that wakes the processes of a test.
type wire struct {
	task.Bus
	mu        sync.Mutex
	listeners []func()
	wakes     int
}

func (w *wire) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakes++
	for _, f := range w.listeners {
		f()
	}
}

func (w *wire) Woken(ctx context.Context, f func()) error {
	w.mu.Lock()
	w.listeners = append(w.listeners, f)
	w.mu.Unlock()
	<-ctx.Done()
	return nil
}

// TestWakes: a process that cannot take a task wakes the other processes, which take it at once. A process that can take the task wakes no other.
func TestWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at, g := newPlace(t), newGated()
		var w *wire
		options := func(o *task.Options) {
			if w == nil {
				w = &wire{Bus: o.Bus}
			}
			o.Bus, o.Workers = w, 1
		}
		front, server := at.open(succeed, options), at.open(g.work, options)
		stop := server.work()
		synctest.Wait()
		began := time.Now()
		begins := func(in task.Task, wakes int) {
			t.Helper()
			if got := g.next(t); got.ID != in.ID || w.wakes != wakes || !time.Now().Equal(began) {
				t.Errorf("%s begins after %s and %d wakes, want %s at once after %d", got.ID, time.Since(began), w.wakes, in.ID, wakes)
			}
		}
		begins(front.submit(task.Request{}), 1)
		second := server.submit(task.Request{}) // The server's process has no free worker for the second task.
		g.let <- struct{}{}
		begins(second, 2)
		g.let <- struct{}{}
		synctest.Wait()
		begins(server.submit(task.Request{}), 2)
		g.let <- struct{}{}
		stop()
	})
}
