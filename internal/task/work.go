package task

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/queue"
)

const (
	lookForCancels = 500 * time.Millisecond // that other processes asked for
	lookForOrphans = 30 * time.Second       // tasks of processes that died meanwhile
	busyWait       = 250 * time.Millisecond // until another process may have ended a session's task
	failedWait     = 5 * time.Second        // before a worker that failed is called again
	maxFailures    = 3
	maxPast        = 100 // tasks of a session whose steps the next one gets
)

// Work works tasks until ctx ends: those that were left by dead processes, and those that come. It also fires schedules,
// delivers webhooks and forgets expired sessions. When ctx ends, tasks have the grace to end; then they are parked. Only
// one process may work a store: the error names the one that does.
func (s *Service) Work(ctx context.Context) (err error) {
	release, err := s.opt.Store.LockQueue(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	s.working.Store(true)
	defer s.working.Store(false)
	switch err := s.adopt(ctx); {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("find unfinished tasks: %w", err)
	}
	side, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { s.watchCancels(side) }) // during the grace too
	for _, job := range []func(context.Context){s.adoptOrphans, s.deliverWebhooks, s.fireSchedules, s.expireSessions} {
		wg.Go(func() { job(ctx) })
	}
	return s.opt.Queue.Work(ctx, s.opt.Workers, func(job context.Context, id string) error { return s.handle(ctx, job, id) })
}

// Working says whether this process works the queue: nil, or why it does not.
func (s *Service) Working() error {
	if !s.working.Load() {
		return errors.New("the queue is not being worked")
	}
	return nil
}

// Running is how many tasks this process is working.
func (s *Service) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// adopt queues the tasks that nobody works on.
func (s *Service) adopt(ctx context.Context) error {
	tasks, err := s.opt.Store.Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if err := s.push(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) adoptOrphans(ctx context.Context) {
	every(ctx, lookForOrphans, func() {
		if err := s.adopt(ctx); err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("find unfinished tasks", "error", err)
		}
	})
}

// handle works a task of the queue until it has ended or working ends. A worker that fails is called again, and goes on
// where it stopped; the job keeps its worker meanwhile, so that its session's next task does not overtake it. job ends
// with working, and when the task is cancelled.
func (s *Service) handle(working, job context.Context, id string) error {
	switch err := s.pace.enter(job); {
	case err == nil:
		defer s.pace.leave()
	case working.Err() != nil:
		return nil // who works the queue next finds it
	}
	for try := 1; working.Err() == nil; try++ {
		_, err := s.do(job, id)
		var retry *RetryError
		switch {
		case errors.As(err, &retry):
			s.opt.Logger.Warn("a task waits", "task", id, "for", retry.After, "error", retry.Err)
			pause(job, retry.After, nil)
			try = 0
			continue
		case errors.Is(err, ErrBusy):
			return queue.Retry(busyWait)
		case err == nil, otherwiseSettled(err), working.Err() != nil:
			return nil
		}
		s.opt.Logger.Error("work a task", "task", id, "try", try, "error", err)
		if try < maxFailures {
			pause(job, failedWait, nil)
			continue
		}
		if err := s.giveUp(context.WithoutCancel(job), id); err == nil || otherwiseSettled(err) {
			return nil
		}
		s.opt.Logger.Error("end a task that cannot be worked", "task", id, "error", err)
		pause(working, failedWait, nil)
	}
	return nil
}

// otherwiseSettled says that a task is no business of this process any more.
func otherwiseSettled(err error) bool {
	return errors.Is(err, ErrEnded) || errors.Is(err, ErrNotOwner) || errors.Is(err, ErrNotFound)
}

// giveUp ends a task that cannot be worked.
func (s *Service) giveUp(ctx context.Context, id string) error {
	t, err := s.opt.Store.Task(ctx, id)
	if err != nil {
		return err
	}
	t.Message = "The harness could not work on the task; its log says why." + s.abandon(ctx, t)
	t.Error = &Error{KindInternal, "a fault of the harness; its log says more about task " + id}
	_, err = s.fail(ctx, t)
	return err
}

// fail ends a task, whose message and error are set, as failed.
func (s *Service) fail(ctx context.Context, t Task) (Task, error) {
	now := s.opt.Now()
	t.Status, t.EndedAt = Failed, &now
	return t, s.end(ctx, t)
}

// Do works a task in this process until it ends, and returns it. It waits while another task of the session is running;
// if another process takes the task meanwhile, it waits for that. The error wraps ErrNotOwner if another process works on
// it at the beginning, ErrEnded if it had ended. A task whose worker wants to try again fails if it has had no turn yet, so
// that a wrong address is seen at once; else it waits. Cancelling ctx parks the task, but for the cause ErrCancelled, which
// cancels it.
func (s *Service) Do(ctx context.Context, id string) (Task, error) {
	keep := context.WithoutCancel(ctx)
	side, stop := context.WithCancel(keep)
	var wg sync.WaitGroup
	wg.Go(func() { s.watchCancels(side) })
	defer wg.Wait()
	defer stop()
	for waited := false; ; waited = true {
		t, err := s.do(ctx, id)
		var retry *RetryError
		switch {
		case errors.As(err, &retry):
			stored, failed := s.opt.Store.Task(keep, id)
			if failed != nil {
				return t, failed
			}
			if stored.Usage.Turns == 0 {
				stored.Message = "Stopped before the first turn: " + retry.Err.Error() + "."
				stored.Error = &Error{KindModel, retry.Err.Error()}
				return s.fail(keep, stored)
			}
			pause(ctx, retry.After, nil)
			continue
		case waited && errors.Is(err, ErrEnded):
			return s.Task(keep, id)
		case errors.Is(err, ErrBusy), waited && errors.Is(err, ErrNotOwner):
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

// do claims a task, has it worked, and commits its end.
func (s *Service) do(ctx context.Context, id string) (Task, error) {
	if cause := context.Cause(ctx); cause != nil && !cancels(cause) {
		return Task{}, cause
	}
	keep := context.WithoutCancel(ctx) // a claim whose caller left would be nobody's
	work, cancel := context.WithCancelCause(keep)
	defer cancel(nil)
	if !s.enter(id, cancel) {
		return Task{}, ErrNotOwner // it is worked here already
	}
	defer s.leave(id)
	defer context.AfterFunc(ctx, func() { s.interrupt(ctx, work, cancel) })()
	t, err := s.opt.Store.Claim(keep, id, s.opt.Now())
	if err != nil {
		return t, err
	}
	if t.CancelRequested {
		cancel(ErrCancelled)
	}
	log := &taskLog{s: s, task: id}
	if t.StartedAt == nil {
		now := s.opt.Now()
		t.StartedAt = &now
		if err := log.Commit(keep, Change{Task: &t, Events: []Event{s.event(EventStarted, map[string]string{"id": id})}}); err != nil {
			return t, err
		}
	}
	steps, err := s.opt.Store.Steps(keep, id)
	if err != nil {
		return t, err
	}
	history, err := s.history(keep, t)
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

// worker calls the worker; its panic is an error.
func (s *Service) worker(ctx context.Context, t Task, history []Past, steps []Step, log Log) (ended Task, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return s.opt.Worker(ctx, t, history, steps, log)
}

// enter notes that this process works on a task, and how it is stopped; false if it does already.
func (s *Service) enter(id string, cancel context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[id] != nil {
		return false
	}
	s.running[id] = cancel
	return true
}

// worksOn says whether this process works on a task.
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

// interrupt ends the work on a task because its context ended: at once if it was cancelled, else after the grace.
func (s *Service) interrupt(ctx, work context.Context, cancel context.CancelCauseFunc) {
	if cancels(context.Cause(ctx)) {
		cancel(ErrCancelled)
		return
	}
	pause(work, s.opt.Grace, nil)
	cancel(s.opt.Park)
}

// cancels says that a context with this cause cancels a task, and does not park it.
func cancels(cause error) bool {
	return errors.Is(cause, ErrCancelled) || errors.Is(cause, queue.ErrCancelled)
}

// history loads the earlier tasks of a session, the last ones with their steps.
func (s *Service) history(ctx context.Context, t Task) ([]Past, error) {
	tasks, err := s.opt.Store.SessionTasks(ctx, t.SessionID, t.ID)
	if err != nil {
		return nil, err
	}
	history := make([]Past, len(tasks))
	for i, earlier := range tasks {
		if history[i] = (Past{Task: earlier}); i < len(tasks)-maxPast {
			continue
		}
		steps, err := s.opt.Store.Steps(ctx, earlier.ID)
		if err != nil {
			return nil, err
		}
		history[i].Steps = steps
	}
	return history, nil
}
