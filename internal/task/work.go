package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/queue"
)

const (
	lookForCancels = 500 * time.Millisecond // that other processes asked for
	lookForOrphans = 30 * time.Second       // tasks of processes that died meanwhile
	busyWait       = 250 * time.Millisecond // until another process may have ended a session's task
	failedWait     = 5 * time.Second        // before a task is tried again whose worker failed
	maxFailures    = 3
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
	if err := s.adopt(ctx); err != nil {
		return fmt.Errorf("find unfinished tasks: %w", err)
	}
	side, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { s.watchCancels(side) })
	for _, job := range []func(context.Context){s.adoptOrphans, s.deliverWebhooks, s.fireSchedules, s.expireSessions} {
		wg.Go(func() { job(ctx) })
	}
	err = s.opt.Queue.Work(ctx, s.opt.Workers, func(ctx context.Context, id string) error { return s.handle(ctx, id) })
	stop()
	wg.Wait()
	return err
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

// handle works a task of the queue.
func (s *Service) handle(ctx context.Context, id string) error {
	_, err := s.do(ctx, id)
	switch {
	case errors.Is(err, ErrBusy):
		return queue.Retry(busyWait)
	case err == nil, errors.Is(err, ErrEnded), errors.Is(err, ErrNotOwner), errors.Is(err, ErrNotFound), ctx.Err() != nil:
		return nil
	}
	s.opt.Logger.Error("work a task", "task", id, "error", err)
	if s.fail(id) < maxFailures {
		return queue.Retry(failedWait)
	}
	s.giveUp(context.WithoutCancel(ctx), id, err)
	return nil
}

func (s *Service) fail(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[id]++
	return s.failed[id]
}

// giveUp ends a task that cannot be worked.
func (s *Service) giveUp(ctx context.Context, id string, reason error) {
	t, err := s.opt.Store.Task(ctx, id)
	if err == nil && !t.Status.Ended() {
		now := s.opt.Now()
		t.Status, t.EndedAt = Failed, &now
		t.Message = "The harness could not work on the task; its log says why."
		t.Error = &Error{KindInternal, "a fault of the harness; its log says more about task " + id}
		err = s.end(ctx, t)
	}
	if err != nil {
		s.opt.Logger.Error("end a task that cannot be worked", "task", id, "error", err, "reason", reason)
	}
}

// Do works a task in this process until it ends, and returns it. The error wraps ErrBusy while another task of the session
// is running, ErrNotOwner if another process works on it, ErrEnded if it has ended. Cancelling ctx parks the task, but
// for the cause ErrCancelled, which cancels it.
func (s *Service) Do(ctx context.Context, id string) (Task, error) {
	side, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { s.watchCancels(side) })
	defer wg.Wait()
	defer stop()
	for {
		t, err := s.do(ctx, id)
		if !errors.Is(err, ErrBusy) {
			return t, err
		}
		select {
		case <-time.After(busyWait):
		case <-ctx.Done():
			return t, context.Cause(ctx)
		}
	}
}

// do claims a task, has it worked, and commits its end.
func (s *Service) do(ctx context.Context, id string) (Task, error) {
	store := s.opt.Store
	t, err := store.Claim(ctx, id, s.opt.Now())
	if err != nil {
		return t, err
	}
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	s.mu.Lock()
	if s.running[id] != nil {
		s.mu.Unlock()
		return t, ErrNotOwner // it is being worked here already
	}
	s.running[id] = cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, id)
	}()
	defer context.AfterFunc(ctx, func() { s.leave(ctx, work, cancel) })()
	if t.CancelRequested {
		cancel(ErrCancelled)
	}
	log := &taskLog{s: s, task: id}
	if t.StartedAt == nil {
		now := s.opt.Now()
		t.StartedAt = &now
		if err := log.Commit(work, Change{Task: &t, Events: []Event{s.event(EventStarted, map[string]string{"id": id})}}); err != nil {
			return t, err
		}
	}
	steps, err := store.Steps(ctx, id)
	if err != nil {
		return t, err
	}
	history, err := s.history(ctx, t)
	if err != nil {
		return t, err
	}
	ended, err := s.opt.Worker(work, t, history, steps, log)
	if err != nil {
		return t, err
	}
	now := s.opt.Now()
	ended.EndedAt = &now
	if err := s.end(context.WithoutCancel(ctx), ended); err != nil {
		return ended, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, id)
	return ended, nil
}

// leave ends the work on a task because its context ended: at once if it was cancelled, else after the grace.
func (s *Service) leave(ctx, work context.Context, cancel context.CancelCauseFunc) {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrCancelled) || errors.Is(cause, queue.ErrCancelled) {
		cancel(ErrCancelled)
		return
	}
	grace := time.NewTimer(s.opt.Grace)
	defer grace.Stop()
	select {
	case <-grace.C:
		cancel(s.opt.Park)
	case <-work.Done():
	}
}

// history loads the earlier tasks of a session.
func (s *Service) history(ctx context.Context, t Task) ([]Past, error) {
	tasks, err := s.opt.Store.SessionTasks(ctx, t.SessionID, t.ID)
	if err != nil {
		return nil, err
	}
	history := make([]Past, len(tasks))
	for i, earlier := range tasks {
		steps, err := s.opt.Store.Steps(ctx, earlier.ID)
		if err != nil {
			return nil, err
		}
		history[i] = Past{earlier, steps}
	}
	return history, nil
}

// watchCancels cancels running tasks when another process asked for it.
func (s *Service) watchCancels(ctx context.Context) {
	every(ctx, lookForCancels, func() {
		ids, err := s.opt.Store.CancelRequests(ctx)
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("look for cancelled tasks", "error", err)
		}
		for _, id := range ids {
			s.cancelRunning(id)
		}
	})
}

// every calls f from time to time until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}
