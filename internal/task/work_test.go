package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// A task is queued, claimed, worked with its steps, and ended, and its events report each of these changes.
func TestWork(t *testing.T) {
	t.Parallel()
	p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
		if len(steps) != 0 || len(h) != 0 {
			t.Errorf("%d steps and %d earlier tasks", len(steps), len(h))
		}
		if err := log.Commit(ctx, task.Change{Steps: []task.Step{{Ask: &task.Ask{Turn: 1}}}}); err != nil {
			return tk, err
		}
		if err := log.Commit(ctx, task.Change{
			Steps:  []task.Step{{Turn: &task.Turn{}}},
			Events: []task.Event{{Type: task.EventTurn, Key: "turn/1", Data: data("hello")}},
		}); err != nil {
			return tk, err
		}
		return succeed(ctx, tk, h, steps, log)
	}, nil)
	stop := p.work()
	in := p.submit(task.Request{Task: "Say hello.", Context: data(map[string]int{"n": 1}), Budget: task.Budget{Turns: 3}})
	if in.Status != task.Queued || in.StartedAt != nil || !strings.HasPrefix(in.SessionID, "sess_") {
		t.Errorf("queued as %+v", in)
	}
	got := p.wait(in.ID)
	if got.Status != task.Succeeded || got.Text != "Done: Say hello." || got.StartedAt == nil || got.EndedAt == nil ||
		string(got.Context) != `{"n":1}` || got.Budget.Turns != 3 {
		t.Errorf("ended as %+v", got)
	}
	events, err := p.Past(t.Context(), in.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{task.EventQueued, task.EventStarted, task.EventTurn, task.EventEnded}
	if !slices.Equal(kinds(events), want) {
		t.Errorf("events %q, want %q", kinds(events), want)
	}
	if steps, err := p.Steps(t.Context(), in.ID); err != nil || len(steps) != 2 || steps[1].Seq != 2 {
		t.Errorf("steps %+v, %v", steps, err)
	}
	stop() // OnEnd is called after the commit that wait sees, so the test waits for the end of the work.
	if ended := p.tasksEnded(); len(ended) != 1 || ended[0].ID != in.ID {
		t.Errorf("OnEnd was told of %+v", ended)
	}
}

// The tasks of a session are worked one at a time and in order, each with the earlier tasks as history. Sessions are worked at the same time.
func TestSessionOrder(t *testing.T) {
	t.Parallel()
	g, others := newGated(), newGated()
	others.began = g.began
	var histories [3]atomic.Int32
	p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
		if tk.SessionID != "s1" {
			return others.work(ctx, tk, h, steps, log)
		}
		histories[tk.Task[0]-'0'].Store(int32(len(h)))
		return g.work(ctx, tk, h, steps, log)
	}, nil)
	for i := range 3 {
		p.submit(task.Request{SessionID: "s1", Task: fmt.Sprint(i)})
	}
	for _, session := range []string{"s2", "s3"} {
		p.submit(task.Request{SessionID: session, Task: "other"})
	}
	p.work()
	var order []string
	for range 3 {
		order = append(order, g.next(t).SessionID)
	}
	if slices.Sort(order); !slices.Equal(order, []string{"s1", "s2", "s3"}) {
		t.Fatalf("at the same time: %q", order)
	}
	close(others.let)
	g.let <- struct{}{}
	for i := 1; i < 3; i++ {
		if next := g.next(t); next.SessionID != "s1" || next.Task != fmt.Sprint(i) {
			t.Errorf("then came %q of %s", next.Task, next.SessionID)
		}
		g.none(t)
		g.let <- struct{}{}
	}
	all, _, err := p.Tasks(t.Context(), task.Filter{SessionID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tk := range all {
		p.wait(tk.ID)
	}
	for i := range histories {
		if n := histories[i].Load(); n != int32(i) {
			t.Errorf("task %d had %d earlier tasks", i, n)
		}
	}
}

// A worker that fails is called again with the steps that it recorded, for any time. Meanwhile the next task of the session waits. After three panics or a
// lasting error, the task ends with an internal error.
func TestWorkerFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failures int
		fail     func() error
		want     task.Status
	}{
		"twenty times":    {20, func() error { return errors.New("it fails") }, task.Succeeded},
		"two panics":      {2, func() error { panic("it panics") }, task.Succeeded},
		"panics":          {3, func() error { panic("it panics") }, task.Failed},
		"a lasting one":   {1, func() error { return fmt.Errorf("x: %w", task.ErrLasting) }, task.Failed},
		"a used up quota": {1, func() error { return fmt.Errorf("x: %w", task.ErrQuota) }, task.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
					if tk.Task == "next" {
						return succeed(ctx, tk, h, steps, log)
					}
					if len(steps) != calls {
						t.Errorf("call %d has %d steps", calls+1, len(steps))
					}
					calls++
					if err := log.Commit(ctx, task.Change{Steps: []task.Step{{Ask: &task.Ask{Turn: calls}}}}); err != nil {
						t.Error(err)
					}
					if calls > c.failures {
						return succeed(ctx, tk, h, steps, log)
					}
					return tk, c.fail()
				}, nil)
				p.work()
				first, second := p.submit(task.Request{SessionID: "s"}), p.submit(task.Request{SessionID: "s", Task: "next"})
				if c.failures == 20 {
					time.Sleep(2 * time.Hour) // The pauses take two hours.
				}
				got := p.wait(first.ID)
				if got.Status != c.want || got.Error != nil && strings.Contains(got.Error.Message, "it fails") {
					t.Errorf("ended as %s: %s %+v", got.Status, got.Message, got.Error)
				}
				if next := p.wait(second.ID); next.Status != task.Succeeded || next.StartedAt.Before(*got.EndedAt) {
					t.Errorf("the next task: %+v", next)
				}
			})
		})
	}
}

// away is a store that fails for a time.
type away struct {
	task.Store
	gone atomic.Bool
}

var errAway = errors.New("the store is read-only")

func (a *away) Commit(ctx context.Context, id string, fence int64, c task.Change) ([]task.Event, error) {
	if a.gone.Load() {
		return nil, errAway
	}
	return a.Store.Commit(ctx, id, fence, c)
}

func (a *away) ClaimNext(ctx context.Context, after string, except []string, now time.Time) (task.Task, time.Time, error) {
	if a.gone.Load() {
		return task.Task{}, time.Time{}, errAway
	}
	return a.Store.ClaimNext(ctx, after, except, now)
}

func (a *away) Release(ctx context.Context, id string, fence int64, due time.Time) error {
	if a.gone.Load() {
		return errAway
	}
	return a.Store.Release(ctx, id, fence, due)
}

// Tasks survive a time in which the store cannot be written: all of them continue from their steps afterwards.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hook := &away{}
		p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
			for n := len(steps); n < 10; n++ {
				time.Sleep(10 * time.Second)
				if err := log.Commit(ctx, task.Change{Steps: []task.Step{{Ask: &task.Ask{Turn: n + 1}}}}); err != nil {
					return tk, err
				}
			}
			return succeed(ctx, tk, h, steps, log)
		}, func(o *task.Options) {
			hook.Store = o.Store
			o.Store = hook
			o.Workers = 64
		})
		p.work()
		var all []task.Task
		for range 20 {
			all = append(all, p.submit(task.Request{}))
		}
		time.Sleep(45 * time.Second)
		hook.gone.Store(true)
		time.Sleep(time.Minute)
		hook.gone.Store(false)
		for _, in := range all {
			got := p.wait(in.ID)
			if got.Status != task.Succeeded {
				t.Errorf("ended as %s: %s", got.Status, got.Message)
			}
			if steps, err := p.Steps(t.Context(), in.ID); err != nil || len(steps) != 10 {
				t.Errorf("%d steps, %v, want each once", len(steps), err)
			}
		}
	})
}

// Users take turns: 600 waiting tasks of one user delay the task of another user by at most one task.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
			time.Sleep(time.Second)
			return succeed(ctx, tk, h, steps, log)
		}, func(o *task.Options) { o.Workers = 1 })
		for range 100 {
			p.submit(task.Request{UserID: "flood"})
		}
		p.work()
		time.Sleep(10*time.Second + time.Millisecond)
		for _, user := range []string{"ann", "zoe"} {
			began := time.Now()
			in := p.submit(task.Request{UserID: user})
			p.wait(in.ID)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("the task of %s took %s", user, took)
			}
		}
	})
}

// One user never takes all workers: the task of a new user begins at once.
func TestUserShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		p := newPlace(t).open(g.work, func(o *task.Options) { o.Workers = 60 })
		p.work()
		for _, user := range []string{"a", "b", "c"} {
			for range 60 {
				p.submit(task.Request{UserID: user})
			}
			synctest.Wait()
		}
		in := p.submit(task.Request{UserID: "newcomer"})
		synctest.Wait()
		if got := p.task(in.ID); got.Status != task.Running {
			t.Errorf("the newcomer's task is %s", got.Status)
		}
		if n := p.Running(); n > 60 {
			t.Errorf("%d tasks are in work", n)
		}
		close(g.let)
		p.wait(in.ID)
	})
}

// Tasks of a dead process continue with their steps, before later tasks. Tasks of a live process do not.
func TestOrphans(t *testing.T) {
	t.Parallel()
	at := newPlace(t)
	g := newGated()
	dead := at.open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
		if err := log.Commit(ctx, task.Change{Steps: []task.Step{{Ask: &task.Ask{Turn: 1}}}}); err != nil {
			return tk, err
		}
		return g.work(ctx, tk, h, steps, log)
	}, nil)
	stop := dead.work()
	orphan := dead.submit(task.Request{SessionID: "s", Task: "orphan"})
	waiting := dead.submit(task.Request{SessionID: "s", Task: "waiting"})
	g.next(t)
	stop()

	var steps atomic.Int32
	var order []string
	next := at.open(func(ctx context.Context, tk task.Task, h []task.Past, have []task.Step, log task.Log) (task.Task, error) {
		order = append(order, tk.Task) // Only one worker at a time appends, because the tasks belong to one session.
		if tk.Task == "orphan" {
			steps.Store(int32(len(have)))
		}
		return succeed(ctx, tk, h, have, log)
	}, nil)
	dead.close()
	next.work()
	if got := next.wait(waiting.ID); got.Status != task.Succeeded {
		t.Errorf("the waiting one ended as %s", got.Status)
	}
	if got := next.wait(orphan.ID); got.Status != task.Succeeded || steps.Load() != 1 {
		t.Errorf("the orphan ended as %s, from %d steps", got.Status, steps.Load())
	}
	if !slices.Equal(order, []string{"orphan", "waiting"}) {
		t.Errorf("worked in the order %q", order)
	}
}

// A task whose process dies while another process works the queue is taken over by the other process.
func TestOrphanOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newPlace(t)
		g := newGated()
		server, command := at.open(succeed, nil), at.open(g.work, nil)
		server.work()
		in := command.submit(task.Request{Own: true})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := command.Do(ctx, in.ID)
			done <- err
		}()
		g.next(t)
		time.Sleep(5 * time.Minute)
		if got := server.task(in.ID); got.Status != task.Running {
			t.Fatalf("it is %s", got.Status)
		}
		cancel() // hands the task over
		if err := <-done; !errors.Is(err, errHandedOver) {
			t.Errorf("handed over: %v", err)
		}
		command.close()
		began := time.Now()
		if got := server.wait(in.ID); got.Status != task.Succeeded {
			t.Errorf("it ended as %s", got.Status)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it was taken over after %s", took)
		}
	})
}

// If a process works the queue of a store, a second process is refused, and the error names the first.
func TestOneWorks(t *testing.T) {
	t.Parallel()
	at := newPlace(t)
	first, second := at.open(succeed, nil), at.open(succeed, nil)
	stop := first.work()
	first.wait(first.submit(task.Request{}).ID) // The first process works the queue by then.
	if err := first.Working(); err != nil {
		t.Error(err)
	}
	err := second.Work(t.Context())
	if !errors.Is(err, task.ErrQueueLocked) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("the second was told %v", err)
	}
	if second.Working() == nil {
		t.Error("the second says that it works")
	}
	stop()
	if first.Working() == nil {
		t.Error("the first says that it works")
	}
	second.work()
	second.wait(second.submit(task.Request{}).ID)
}

// When Work ends, the tasks in work may continue for the grace period. Then they are handed over, and another process continues them. Waiting tasks are not
// begun.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newPlace(t)
		g := newGated()
		p := at.open(g.work, func(o *task.Options) { o.Grace = time.Minute; o.Workers = 2 })
		stop := p.work()
		a, b, c := p.submit(task.Request{}), p.submit(task.Request{}), p.submit(task.Request{})
		g.next(t)
		g.next(t)
		began := time.Now()
		go func() {
			time.Sleep(59 * time.Second)
			g.let <- struct{}{} // One task ends within the grace period.
		}()
		stop()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %s", took)
		}
		var ended, left int
		for _, in := range []task.Task{a, b} {
			switch got := p.task(in.ID); got.Status {
			case task.Succeeded:
				ended++
			case task.Running:
				left++
			}
		}
		if ended != 1 || left != 1 || p.task(c.ID).Status != task.Queued {
			t.Errorf("%d ended, %d handed over, the one that waited is %s", ended, left, p.task(c.ID).Status)
		}
		p.close()
		next := at.open(succeed, nil)
		next.work()
		for _, in := range []task.Task{a, b, c} {
			if got := next.wait(in.ID); got.Status != task.Succeeded {
				t.Errorf("%s ended as %s", got.ID, got.Status)
			}
		}
		next.close()
	})
}

// If another process takes a task that waits for its session in Do, Do waits until that process has ended the task. Cancelling Do cancels the task there.
func TestDoTaken(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"ends", "is cancelled", "is left by a process that dies"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at := newPlace(t)
				g := newGated()
				command, server := at.open(succeed, nil), at.open(g.work, nil)
				first, second := command.submit(task.Request{SessionID: "s"}), command.submit(task.Request{SessionID: "s"})
				stop := server.work()
				if began := g.next(t); began.ID != first.ID {
					t.Fatalf("%s has begun", began.ID)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				done := make(chan task.Task)
				go func() {
					got, err := command.Do(ctx, second.ID)
					if err != nil {
						t.Error(err)
					}
					done <- got
				}()
				time.Sleep(time.Second + 10*time.Millisecond)
				g.let <- struct{}{}
				if began := g.next(t); began.ID != second.ID { // Do looks only at intervals whether its task can begin.
					t.Fatalf("%s has begun", began.ID)
				}
				want := task.Succeeded
				switch how {
				case "ends":
					g.let <- struct{}{}
				case "is cancelled":
					want = task.Cancelled
					cancel(task.ErrCancelled)
				default:
					stop()
					server.close()
				}
				if got := <-done; got.Status != want {
					t.Errorf("it is %s", got.Status)
				}
			})
		})
	}
}

// Do works tasks in this process, one task of a session at a time.
func TestDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newPlace(t)
		g := newGated()
		one, other := at.open(g.work, nil), at.open(succeed, nil)
		first, second := one.submit(task.Request{SessionID: "s", Own: true}), other.submit(task.Request{SessionID: "s", Own: true})
		go one.Do(t.Context(), first.ID)
		g.next(t)
		done := make(chan task.Task)
		go func() {
			got, err := other.Do(t.Context(), second.ID)
			if err != nil {
				t.Error(err)
			}
			done <- got
		}()
		time.Sleep(time.Minute)
		if got := other.task(second.ID); got.Status != task.Queued {
			t.Errorf("the second is %s while the first runs", got.Status)
		}
		close(g.let)
		if got := <-done; got.Status != task.Succeeded || got.Text == "" {
			t.Errorf("got %+v", got)
		}
		if _, err := other.Do(t.Context(), second.ID); !errors.Is(err, task.ErrEnded) {
			t.Errorf("again: %v", err)
		}
		if _, err := other.Do(t.Context(), "task_x"); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		one.close()
		other.close()
	})
}

// In a long session, the next task gets the last hundred tasks with their steps.
func TestLongSession(t *testing.T) {
	t.Parallel()
	p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, _ []task.Step, log task.Log) (task.Task, error) {
		if tk.Task == "last" {
			if len(h) != 100 {
				t.Errorf("%d earlier tasks", len(h))
			}
			for i, past := range h {
				if past.Task.Task != fmt.Sprint(i+3) || len(past.Steps) != 1 {
					t.Errorf("task %d of the history is %q with %d steps", i, past.Task.Task, len(past.Steps))
				}
			}
		}
		err := log.Commit(ctx, task.Change{Steps: []task.Step{{Seq: 1, Note: &task.Note{Text: "x"}}}})
		tk.Status = task.Succeeded
		return tk, err
	}, nil)
	for i := range 103 {
		p.submit(task.Request{SessionID: "s", Task: fmt.Sprint(i)})
	}
	last := p.submit(task.Request{SessionID: "s", Task: "last"})
	p.work()
	if got := p.wait(last.ID); got.Status != task.Succeeded {
		t.Errorf("%s: %s", got.Status, got.Message)
	}
}

// A worker that asks to be tried again is called again after the pause that it asked for, any number of times, and this does not count as a failure.
func TestWorkerRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		begin := time.Now()
		p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
			if calls.Add(1) <= 10 {
				return tk, fmt.Errorf("wrapped: %w", &task.RetryError{After: 6 * time.Minute, Err: errors.New("it is away")})
			}
			return succeed(ctx, tk, h, steps, log)
		}, nil)
		p.work()
		tk := p.submit(task.Request{})
		time.Sleep(time.Hour - time.Second)
		if n := calls.Load(); n != 10 {
			t.Errorf("%d calls within the hour", n)
		}
		time.Sleep(2 * time.Second)
		if got := p.wait(tk.ID); got.Status != task.Succeeded || calls.Load() != 11 {
			t.Errorf("%s after %d calls and %s", got.Status, calls.Load(), time.Since(begin))
		}
	})
}

// A task that waits to be tried again can be cancelled at once.
func TestCancelWhileRetrying(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
			if ctx.Err() != nil {
				tk.Status = task.Cancelled
				return tk, nil
			}
			return tk, &task.RetryError{After: time.Hour, Err: errors.New("it is away")}
		}, nil)
		p.work()
		begin := time.Now()
		tk := p.submit(task.Request{})
		time.Sleep(time.Minute)
		if _, err := p.Cancel(t.Context(), tk.ID); err != nil {
			t.Fatal(err)
		}
		if got := p.wait(tk.ID); got.Status != task.Cancelled || time.Since(begin) > time.Minute+5*time.Second {
			t.Errorf("%s after %s", got.Status, time.Since(begin))
		}
	})
}

// Do fails at once if the model has never answered, and waits if it has answered before.
func TestDoRetries(t *testing.T) {
	t.Parallel()
	for _, answered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
				calls++
				if answered && calls == 1 {
					tk.Usage.Turns = 1
					if err := log.Commit(ctx, task.Change{Task: &tk}); err != nil {
						return tk, err
					}
				}
				if calls <= 2 {
					return tk, &task.RetryError{After: time.Hour, Err: errors.New("it is away")}
				}
				return succeed(ctx, tk, h, steps, log)
			}, nil)
			got, err := p.Do(t.Context(), p.submit(task.Request{}).ID)
			switch {
			case err != nil:
				t.Error(err)
			case answered && (got.Status != task.Succeeded || calls != 3):
				t.Errorf("%s after %d calls: %s", got.Status, calls, got.Message)
			case !answered && (got.Status != task.Failed || got.Error.Kind != task.KindUnreachable || calls != 1):
				t.Errorf("%s after %d calls: %s", got.Status, calls, got.Message)
			}
		})
	}
}
