package task_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// soon is the maximum time from the cancellation of a task to its end.
const soon = time.Second

// cancelled checks that a task has ended as cancelled, and soon after began.
func cancelled(t *testing.T, p *process, id string, began time.Time) {
	t.Helper()
	got := p.wait(id)
	if got.Status != task.Cancelled || got.Error == nil || got.Error.Kind != task.KindCancelled || got.EndedAt == nil {
		t.Errorf("ended as %s: %+v, %s", got.Status, got.Error, got.Message)
	}
	if took := time.Since(began); took > soon {
		t.Errorf("it took %s", took)
	}
	if _, err := p.Cancel(t.Context(), id); !errors.Is(err, task.ErrEnded) {
		t.Errorf("cancelled again: %v", err)
	}
}

// A waiting task is cancelled at once, whatever it waits for. Its worker is never called, and the next task of its session is worked.
func TestCancelWaiting(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"in the queue", "behind its session", "until its time", "behind another process", "nobody works"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at := newPlace(t)
				g := newGated()
				p := at.open(g.work, func(o *task.Options) { o.Workers = 2 })
				r := task.Request{SessionID: "s"}
				switch where {
				case "in the queue":
					p.submit(task.Request{UserID: "eve"})
					p.submit(task.Request{UserID: "eve"})
				case "behind its session":
					p.submit(task.Request{SessionID: "s"})
				case "until its time":
					later := time.Now().Add(time.Hour)
					r.RunAt = &later
				case "behind another process":
					other := at.open(g.work, nil)
					first := other.submit(task.Request{SessionID: "s", Own: true})
					ctx, cancel := context.WithCancelCause(t.Context())
					done := make(chan struct{})
					go func() {
						defer close(done)
						other.Do(ctx, first.ID)
					}()
					defer func() { cancel(task.ErrCancelled); <-done; other.close() }()
					g.next(t)
				}
				if where != "nobody works" {
					p.work()
					time.Sleep(time.Minute)
				}
				in, next := p.submit(r), p.submit(task.Request{SessionID: "s", Task: "next"})
				time.Sleep(time.Minute)
				began := time.Now()
				got, err := p.Cancel(t.Context(), in.ID)
				if err != nil || got.Status != task.Cancelled || got.StartedAt != nil {
					t.Errorf("cancelled: %+v, %v", got, err)
				}
				cancelled(t, p, in.ID, began)
				if ended := p.tasksEnded(); len(ended) != 1 || ended[0].ID != in.ID {
					t.Errorf("OnEnd was told of %v", ended)
				}
				if where == "until its time" || where == "in the queue" {
					close(g.let)
					p.wait(next.ID)
				}
				until(began.Add(time.Hour)) // Tasks that were planned for a later time have begun by then too.
				for len(g.began) > 0 {
					if g.next(t).ID == in.ID {
						t.Error("its worker was called")
					}
				}
			})
		})
	}
}

// A task in work is cancelled by cancelling its context. This process and another process, which asks the store, can both cancel it.
func TestCancelWorking(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"this process", "another process", "this process, worked by Do", "another process, worked by Do"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at := newPlace(t)
				g := newGated()
				p := at.open(g.work, nil)
				in := p.submit(task.Request{Callback: "http://localhost/x"})
				by := p.Service
				switch who {
				case "another process", "another process, worked by Do":
					by = at.open(succeed, nil).Service
				}
				switch who {
				case "this process", "another process":
					defer p.work()()
				default:
					done := make(chan struct{})
					go func() {
						defer close(done)
						if got, err := p.Do(t.Context(), in.ID); err != nil || got.Status != task.Cancelled {
							t.Errorf("Do: %+v, %v", got, err)
						}
					}()
					defer func() { <-done }()
				}
				g.next(t)
				time.Sleep(10*time.Second + 17*time.Millisecond)
				began := time.Now()
				got, err := by.Cancel(t.Context(), in.ID)
				if err != nil || got.Status != task.Running {
					t.Errorf("cancelled: %+v, %v", got, err)
				}
				cancelled(t, p, in.ID, began)
				synctest.Wait() // waits for OnEnd
				if ended := p.tasksEnded(); len(ended) != 1 {
					t.Errorf("OnEnd was told of %v", ended)
				}
				events, err := p.Past(t.Context(), in.ID, 0)
				if got := kinds(events); err != nil || len(got) != 3 || got[2] != task.EventEnded {
					t.Errorf("events %q, %v", got, err)
				}
			})
		})
	}
}

// A task whose worker has failed and is about to be called again can be cancelled too.
func TestCancelFailed(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"this process", "another process"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at := newPlace(t)
				p := at.open(func(ctx context.Context, tk task.Task, _ []task.Past, _ []task.Step, _ task.Log) (task.Task, error) {
					if ctx.Err() != nil {
						return stopped(ctx, tk)
					}
					return tk, errors.New("it fails")
				}, nil)
				by := p.Service
				if who == "another process" {
					by = at.open(succeed, nil).Service
				}
				p.work()
				in := p.submit(task.Request{})
				time.Sleep(7 * time.Second) // The worker has failed twice by then.
				began := time.Now()
				if _, err := by.Cancel(t.Context(), in.ID); err != nil {
					t.Error(err)
				}
				cancelled(t, p, in.ID, began)
			})
		})
	}
}

// claims is a store that calls a function after a task has been claimed.
type claims struct {
	task.Store
	then func()
}

func (c *claims) ClaimNext(ctx context.Context, after string, except []string, now time.Time) (task.Task, time.Time, error) {
	t, next, err := c.Store.ClaimNext(ctx, after, except, now)
	if t.ID != "" {
		c.then()
	}
	return t, next, err
}

// A task that is cancelled between its claim and its work ends as cancelled. So does a task that was cancelled in a process that died before it ended the
// task.
func TestCancelBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newPlace(t)
		var in task.Task
		hook := &claims{}
		work := func(ctx context.Context, tk task.Task, _ []task.Past, _ []task.Step, _ task.Log) (task.Task, error) {
			<-ctx.Done() // The service looks for cancellations twice a second.
			return stopped(ctx, tk)
		}
		p := at.open(work, func(o *task.Options) {
			hook.Store = o.Store
			o.Store = hook
		})
		hook.then = func() {
			if _, err := p.Cancel(t.Context(), in.ID); err != nil {
				t.Error(err)
			}
		}
		in = p.submit(task.Request{})
		began := time.Now()
		stop := p.work()
		cancelled(t, p, in.ID, began)

		stop() // stops the process, because it would claim the next task first
		dead := at.open(succeed, nil)
		left := dead.submit(task.Request{})
		if _, err := dead.store.Claim(t.Context(), left.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := dead.Cancel(t.Context(), left.ID); err != nil {
			t.Fatal(err)
		}
		dead.close()
		hook.then = func() {}
		p.work()
		cancelled(t, p, left.ID, time.Now())
	})
}

// Cancelling the context of Do cancels its task, even while the task waits for its session.
func TestCancelDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newPlace(t)
		g := newGated()
		p := at.open(g.work, nil)
		first, second := p.submit(task.Request{SessionID: "s"}), p.submit(task.Request{SessionID: "s"})
		type result struct {
			task.Task
			err error
		}
		done := make(chan result)
		ctx, cancel := context.WithCancelCause(t.Context())
		do := func(ctx context.Context, id string) {
			got, err := p.Do(ctx, id)
			done <- result{got, err}
		}
		go do(ctx, first.ID)
		g.next(t)
		for _, cause := range []error{task.ErrCancelled, errors.New("another reason")} {
			waits, leave := context.WithCancelCause(t.Context())
			go do(waits, second.ID)
			time.Sleep(time.Minute)
			leave(cause)
			got := <-done
			if errors.Is(cause, task.ErrCancelled) {
				if got.err != nil || got.Status != task.Cancelled {
					t.Errorf("cancelled while it waits: %+v, %v", got.Task, got.err)
				}
				second = p.submit(task.Request{SessionID: "s"})
				continue
			}
			if !errors.Is(got.err, cause) || p.task(second.ID).Status != task.Queued {
				t.Errorf("left while it waits: %v, it is %s", got.err, p.task(second.ID).Status)
			}
		}
		cancel(task.ErrCancelled)
		if got := <-done; got.err != nil || got.Status != task.Cancelled {
			t.Errorf("cancelled while it is worked: %+v, %v", got.Task, got.err)
		}
	})
}

// Each of many tasks that are submitted, worked and cancelled at the same time ends once.
func TestCancelAtOnce(t *testing.T) {
	t.Parallel()
	const n = 50
	ends := make(chan string, 2*n)
	p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
		if err := log.Commit(ctx, task.Change{Events: []task.Event{{Type: task.EventNote, Data: data(1)}}}); err != nil {
			return stopped(ctx, tk)
		}
		return succeed(ctx, tk, h, steps, log)
	}, func(o *task.Options) { o.OnEnd = func(t task.Task) { ends <- t.ID } })
	stop := p.work()
	done := make(chan error, n)
	for range n {
		go func() {
			in, _, err := p.Submit(t.Context(), task.Request{UserID: "ann", Task: "x"})
			if err == nil {
				_, err = p.Cancel(t.Context(), in.ID)
			}
			if err == nil || errors.Is(err, task.ErrEnded) {
				var got task.Task
				if got, err = p.Wait(t.Context(), in.ID); !got.Status.Ended() {
					t.Errorf("it is %s", got.Status)
				}
			}
			done <- err
		}()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	ended := map[string]int{}
	for range n {
		ended[<-ends]++ // after the commit that ends the task
	}
	stop()
	if len(ended) != n || len(ends) > 0 {
		t.Errorf("OnEnd was called for %d of %d tasks, and %d times more", len(ended), n, len(ends))
	}
}
