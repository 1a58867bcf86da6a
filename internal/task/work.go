package task

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

const (
	lookForCancels = 500 * time.Millisecond // interval of looking for cancellations by other processes
	lookForTasks   = 5 * time.Second        // interval of looking for tasks that other processes added, or left when they died
	busyWait       = 250 * time.Millisecond // pause before another look at a session that another process works
	retryFirst     = 5 * time.Second        // pause before a task that could not be worked is tried again; doubles with each further failure
	retryMost      = 5 * time.Minute
	maxPanics      = 3   // maximum number of panics in a row of a task's worker
	maxPast        = 100 // maximum number of earlier tasks of the session that a task gets
	userShare      = 2   // see Options.Workers
)

// Work works the tasks of the store until ctx ends, also those that dead processes left. It also fires schedules, delivers webhooks and deletes
// expired sessions. When ctx ends, tasks may continue for Options.Grace; then they are handed over. If the store lets only one process work the
// queue and another one does, the error wraps ErrQueueLocked and names that process.
func (s *Service) Work(ctx context.Context) (err error) {
	release, err := s.opt.Store.LockQueue(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	s.working.Store(true)
	defer s.working.Store(false)
	if s.opt.Begun != nil {
		s.opt.Begun()
	}
	side, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { s.watchCancels(side) }) // also during Options.Grace
	for _, job := range []func(context.Context){s.recoverTasks, s.listen, s.deliverWebhooks, s.fireSchedules} {
		wg.Go(func() { job(ctx) })
	}
	wg.Go(func() { every(ctx, lookForExpired, func() { s.expire(ctx) }) })
	s.claimTasks(ctx)
	return nil
}

// Working returns nil if this process works the queue, and an error otherwise.
func (s *Service) Working() error {
	if !s.working.Load() {
		return errors.New("the queue is not being worked")
	}
	return nil
}

// Running returns the number of tasks that this process is working.
func (s *Service) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// listen waits until another process says that a task may be due, and then wakes the loop that claims tasks. It repeats this until ctx ends.
func (s *Service) listen(ctx context.Context) {
	if s.opt.Bus == nil {
		return
	}
	if err := s.opt.Bus.Woken(ctx, func() { wake(s.ready) }); err != nil && ctx.Err() == nil {
		s.opt.Logger.Warn("other processes do not wake the queue: it is looked at from time to time", "error", err)
	}
}

// announce wakes the loop that claims tasks, because a user has a new task. If this process cannot take the task, announce also wakes the loops of
// other processes.
func (s *Service) announce(user string) {
	wake(s.ready)
	if full, except := s.full(); s.opt.Bus != nil && (full || !s.working.Load() || slices.Contains(except, user)) {
		s.opt.Bus.Wake()
	}
}

// recoverTasks makes tasks wait again if they are in work but no worker has them: the tasks of dead processes, and the tasks of idle claims. It does
// so at once, and then every lookForTasks until ctx ends.
func (s *Service) recoverTasks(ctx context.Context) {
	var idle map[string]int64
	every(ctx, lookForTasks, func() {
		err := s.opt.Store.Recover(ctx)
		if err == nil {
			idle, err = s.freeIdle(ctx, idle)
		}
		switch {
		case err == nil:
			wake(s.ready)
		case ctx.Err() == nil:
			s.opt.Logger.Error("find the tasks that nobody works", "error", err)
		}
	})
}

// freeIdle releases the claims of this process that were without a worker at the last look and still are. Such a claim remains, for instance, if the
// store's answer to the claim was lost. before has the claims that were without a worker at the last look. If a claim is not in before, its worker
// may be about to begin: freeIdle only returns this claim, for the next look.
func (s *Service) freeIdle(ctx context.Context, before map[string]int64) (idle map[string]int64, err error) {
	claims, err := s.opt.Store.Claims(ctx)
	if err != nil {
		return nil, err
	}
	idle = map[string]int64{}
	for id, fence := range claims {
		switch {
		case s.worksOn(id):
		case before[id] != fence:
			idle[id] = fence
		default:
			s.opt.Logger.Warn("a task was claimed and not worked: it waits again", "task", id)
			if failed := s.opt.Store.Release(ctx, id, fence, time.Time{}); failed != nil && !otherwiseSettled(failed) {
				err = errors.Join(err, failed)
			}
		}
	}
	return idle, err
}

// claimTasks claims tasks and works each in a goroutine until ctx ends; it returns when all goroutines have ended.
func (s *Service) claimTasks(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	store := context.WithoutCancel(ctx) // a claimed task must be worked
	last := ""                          // user whose task was claimed last
	for ctx.Err() == nil {
		wait := lookForTasks
		if full, except := s.full(); !full {
			t, next, err := s.opt.Store.ClaimNext(store, last, except, s.opt.Now())
			switch {
			case err != nil:
				s.opt.Logger.Error("claim the next task", "error", err)
				wait = retryFirst
			case t.ID != "":
				last = t.UserID
				s.count(t.UserID, 1)
				wg.Go(func() {
					s.workClaimed(ctx, t)
					s.count(t.UserID, -1)
					wake(s.ready)
				})
				continue
			case !next.IsZero():
				wait = min(wait, next.Sub(s.opt.Now()))
			}
		}
		pause(ctx, wait, s.ready)
	}
}

// full reports whether the maximum number of tasks is in work, and returns the users who have reached their own maximum.
func (s *Service) full() (full bool, except []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.opt.Workers - s.inWork.sum()
	for user, n := range s.inWork {
		if n >= free*userShare {
			except = append(except, user)
		}
	}
	return free <= 0, except
}

func (s *Service) count(user string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inWork.add(user, n)
}

// workClaimed works a claimed task, and releases it to be worked later if it cannot continue now. Other errors count as temporary: only a quota, an
// ErrLasting error, or maxPanics panics in a row end the task.
func (s *Service) workClaimed(ctx context.Context, t Task) {
	_, err := s.work(ctx, t)
	if err == nil || otherwiseSettled(err) {
		s.fails(t.ID, 0)
		return
	}
	now := s.opt.Now()
	var retry *RetryError
	var wait *WaitError
	failures := s.fails(t.ID, 1)
	due := now.Add(min(retryFirst<<min(failures-1, 10), retryMost))
	switch {
	case ctx.Err() != nil && !errors.As(err, &wait):
		due = now // another process continues the task
		s.fails(t.ID, 0)
	case errors.As(err, &wait):
		s.fails(t.ID, 0)
		s.wait(ctx, t, wait)
		return
	case errors.As(err, &retry):
		due = now.Add(retry.After)
		s.fails(t.ID, 0)
		s.opt.Logger.Warn("a task waits", "task", t.ID, "for", retry.After, "error", retry.Err)
	case errors.Is(err, ErrQuota), errors.Is(err, ErrLasting), errors.Is(err, errPanic) && failures >= maxPanics:
		s.opt.Logger.Error("work a task", "task", t.ID, "try", failures, "error", err)
		if err = s.giveUp(context.WithoutCancel(ctx), t, err); err == nil || otherwiseSettled(err) {
			s.fails(t.ID, 0)
			return
		}
		s.opt.Logger.Error("end a task that cannot be worked", "task", t.ID, "error", err)
	default:
		s.opt.Logger.Error("work a task", "task", t.ID, "try", failures, "error", err)
	}
	if errors.Is(err, errNotBegun) { // With a later due time, the next task of the session would overtake it.
		pause(ctx, due.Sub(now), nil)
		due = time.Time{}
	}
	s.release(ctx, t, due)
}

// release releases a claimed task. If due is zero, the task keeps its due time.
func (s *Service) release(ctx context.Context, t Task, due time.Time) {
	if !due.IsZero() {
		s.keep(ctx, t, due)
	}
	s.leaveTask(ctx, func(ctx context.Context) error { return s.opt.Store.Release(ctx, t.ID, t.Fence, due) })
}

// wait releases a claimed task until the request of its run is decided.
func (s *Service) wait(ctx context.Context, t Task, w *WaitError) {
	s.keep(ctx, t, w.Until)
	s.leaveTask(ctx, func(ctx context.Context) error { return s.opt.Store.Wait(ctx, t.ID, t.Fence, w.Request, w.Until) })
	s.publish(t.ID, nil)
}

// keep makes the vault keep the tokens of a task until the task is worked again. If that fails, keep logs the error: the texts of the task are
// stored, so the task can wait.
func (s *Service) keep(ctx context.Context, t Task, due time.Time) {
	if err := s.opt.Privacy.In(t.UserID, t.SessionID).Keep(context.WithoutCancel(ctx), due); err != nil {
		s.opt.Logger.Warn("keep the tokens of a task that waits", "task", t.ID, "error", err)
	}
}

// leaveTask calls give, which gives up a claimed task, and tries again while the store fails.
func (s *Service) leaveTask(ctx context.Context, give func(context.Context) error) {
	for {
		err := give(context.WithoutCancel(ctx))
		if err == nil || otherwiseSettled(err) || ctx.Err() != nil {
			return // the next process takes the task over
		}
		s.opt.Logger.Error("give up a task", "error", err)
		pause(ctx, retryFirst, nil)
	}
}

// fails adds n to the consecutive failures of a task or a schedule, and returns their number; an n of 0 resets them.
func (s *Service) fails(id string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 {
		delete(s.failures, id)
		return 0
	}
	return s.failures.add(id, n)
}

// otherwiseSettled reports whether an error means that the task has ended, has another owner or does not exist.
func otherwiseSettled(err error) bool {
	return errors.Is(err, ErrEnded) || errors.Is(err, ErrNotOwner) || errors.Is(err, ErrNotFound)
}

// giveUp ends a task that cannot be worked.
func (s *Service) giveUp(ctx context.Context, t Task, why error) error {
	t, err := s.opt.Store.Task(ctx, t.ID)
	if err != nil {
		return err
	}
	if t.Error = (&Error{KindInternal, "internal error; the server log has the reason, by the task " + t.ID}); errors.Is(why, ErrQuota) {
		t.Error = &Error{KindBudget, why.Error()}
		t.Message = "Stopped because the user's quota is used up." + s.abandon(ctx, t)
	} else {
		t.Message = "The harness could not work on the task; its log says why." + s.abandon(ctx, t)
	}
	_, err = s.fail(ctx, t)
	return err
}

// fail ends a task as failed; its message and error are already set.
func (s *Service) fail(ctx context.Context, t Task) (Task, error) {
	now := s.opt.Now()
	t.Status, t.EndedAt = Failed, &now
	return t, s.end(ctx, t)
}

// Do works a task in this process until it ends, and returns it. It waits while another task of the session is running; if another process takes the
// task over, it waits until that process has ended it. The error wraps ErrNotOwner if another process or call already works on the task, and ErrEnded
// if the task had ended. A task that has had no turn fails when its worker wants to try again, so that a wrong address is seen at once; after its
// first turn Do waits and tries again. A task that waits for an approval is returned as it is. If ctx ends with the cause ErrCancelled, the task is
// cancelled; with another cause, it is handed over.
func (s *Service) Do(ctx context.Context, id string) (Task, error) {
	if _, busy := s.doing.LoadOrStore(id, true); busy {
		return Task{}, ErrNotOwner
	}
	defer s.doing.Delete(id)
	keep := context.WithoutCancel(ctx)
	side, stop := context.WithCancel(keep)
	var wg sync.WaitGroup
	wg.Go(func() { s.watchCancels(side) })
	defer wg.Wait()
	defer stop()
	for waited := false; ; waited = true {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ErrCancelled) {
			return Task{}, cause
		}
		t, err := Task{}, ErrNotOwner
		if !s.worksOn(id) { // a second claim would take the task from its worker
			t, err = s.opt.Store.Claim(keep, id, s.opt.Now())
		}
		if err == nil {
			t, err = s.work(ctx, t)
		}
		var retry *RetryError
		var wait *WaitError
		switch {
		case errors.As(err, &wait):
			s.wait(keep, t, wait)
			return s.Task(keep, id)
		case errors.As(err, &retry) && ctx.Err() == nil:
			stored, failed := s.opt.Store.Task(keep, id)
			if failed != nil {
				return t, failed
			}
			if stored.Usage.Turns == 0 {
				stored.Message = "Stopped before the first turn: " + retry.Err.Error() + "."
				stored.Error = &Error{KindUnreachable, retry.Err.Error()}
				return s.fail(keep, stored)
			}
			pause(ctx, retry.After, nil)
			continue
		case waited && errors.Is(err, ErrEnded):
			return s.Task(keep, id)
		case errors.Is(err, ErrBusy), waited && errors.Is(err, ErrNotOwner):
		case err != nil && t.ID != "" && !otherwiseSettled(err):
			due := s.opt.Now()
			if errors.Is(err, errNotBegun) {
				due = time.Time{}
			}
			return t, errors.Join(err, s.opt.Store.Release(keep, id, t.Fence, due))
		default:
			return t, err
		}
		if errors.Is(context.Cause(ctx), ErrCancelled) {
			if _, err := s.Cancel(keep, id); err != nil && !errors.Is(err, ErrEnded) {
				return t, err
			}
		}
		pause(side, busyWait, nil)
	}
}

// work calls the worker for a claimed task and commits the task's end. When ctx ends, its cause decides whether the task is cancelled, or handed over
// after Options.Grace.
func (s *Service) work(ctx context.Context, t Task) (Task, error) {
	keep := context.WithoutCancel(ctx)
	work, cancel := context.WithCancelCause(keep)
	defer cancel(nil)
	if !s.enter(t.ID, cancel) {
		return t, ErrNotOwner // this process already works the task
	}
	defer s.leave(t.ID)
	defer context.AfterFunc(ctx, func() { s.interrupt(ctx, work, cancel) })()
	if t.CancelRequested {
		cancel(ErrCancelled)
	}
	log := &taskLog{s: s, task: t.ID, fence: t.Fence}
	if t.StartedAt == nil {
		now := s.opt.Now()
		t.StartedAt = &now
		if err := log.Commit(keep, Change{Task: &t, Events: []Event{s.event(EventStarted, StartedData{ID: t.ID})}}); err != nil {
			return t, fmt.Errorf("%w: %w", errNotBegun, err)
		}
	}
	steps, err := s.opt.Store.Steps(keep, t.ID)
	if err != nil {
		return t, err
	}
	history, err := s.opt.Store.History(keep, t.ID, maxPast)
	if err != nil {
		return t, err
	}
	ended, err := s.worker(work, t, history, steps, log)
	if err != nil {
		return t, err
	}
	now := s.opt.Now()
	ended.EndedAt = &now
	return ended, s.end(keep, ended)
}

// errNotBegun marks the error of a task whose beginning could not be stored.
var errNotBegun = errors.New("begin the task")

// errPanic marks the error of a worker that panicked.
var errPanic = errors.New("panic")

// worker calls the worker and turns a panic into an error.
func (s *Service) worker(ctx context.Context, t Task, history []Past, steps []Step, log Log) (ended Task, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	return s.opt.Worker(ctx, t, history, steps, log)
}

// enter notes that this process works a task, and how to stop it; it returns false if this process already works the task.
func (s *Service) enter(id string, cancel context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[id] != nil {
		return false
	}
	s.running[id] = cancel
	return true
}

// worksOn reports whether this process works on a task.
func (s *Service) worksOn(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id] != nil
}

func (s *Service) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
}

// interrupt ends the work on a task after its context has ended: at once if the task was cancelled, else after Options.Grace.
func (s *Service) interrupt(ctx, work context.Context, cancel context.CancelCauseFunc) {
	if errors.Is(context.Cause(ctx), ErrCancelled) {
		cancel(ErrCancelled)
		return
	}
	pause(work, s.opt.Grace, nil)
	cancel(s.opt.HandOver)
}
