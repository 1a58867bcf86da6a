package task

import (
	"context"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/id"
)

// ending returns the change that ends a task.
func (s *Service) ending(t Task) Change {
	c := Change{Task: &t, Events: []Event{s.event(EventEnded, t)}}
	if t.CallbackURL != "" {
		c.Webhook = &Webhook{ID: id.New("evt"), TaskID: t.ID, UserID: t.UserID, URL: t.CallbackURL, Due: s.opt.Now()}
	}
	return c
}

// end commits the end of a task.
func (s *Service) end(ctx context.Context, t Task) error {
	events, err := s.opt.Store.Commit(ctx, t.ID, t.Fence, s.ending(t))
	if err != nil {
		return err
	}
	s.ended(t, events)
	return nil
}

// ended publishes the end of a task and wakes the loops that wait for it.
func (s *Service) ended(t Task, events []Event) {
	s.publish(t.ID, events)
	wake(s.ready) // The session's next task may be due now.
	if t.CallbackURL != "" {
		wake(s.outbox)
	}
	if s.opt.OnEnd != nil {
		s.opt.OnEnd(t)
	}
}

// Cancel ends a task that is not in work. If the task is in work, Cancel requests its end. Cancel returns the task as it is afterwards. The error
// wraps ErrEnded or ErrNotFound.
func (s *Service) Cancel(ctx context.Context, id string) (Task, error) {
	t, err := s.opt.Store.Task(ctx, id)
	if err != nil {
		return t, err
	}
	now := s.opt.Now().Truncate(time.Microsecond) // the store's precision
	t.Status, t.EndedAt, t.Error = Cancelled, &now, &Error{KindCancelled, ErrCancelled.Error()}
	t.Message = "Cancelled before it began."
	if t.StartedAt != nil {
		// The run is ended before the task, so that a crash in between leaves no unfinished run.
		t.Message = "Cancelled while it was not in work." + s.abandon(context.WithoutCancel(ctx), t)
	}
	t, err = s.opt.Store.RequestCancel(context.WithoutCancel(ctx), id, s.ending(t))
	switch {
	case err != nil:
		return t, err
	case !t.Status.Ended():
		s.stop(id)
	case t.EndedAt.Equal(now): // this call ended the task; its worker did not
		s.ended(t, nil)
	}
	return t, nil
}

// abandon ends the run that a task's dead process left, and returns a sentence about its writes, if there may have been any.
func (s *Service) abandon(ctx context.Context, t Task) (words string) {
	if s.opt.Abandon == nil || len(t.Runs) == 0 {
		return ""
	}
	run := t.Runs[len(t.Runs)-1]
	effects, err := s.opt.Abandon(ctx, run)
	if err != nil {
		s.opt.Logger.Error("end the run in which a task was left", "task", t.ID, "run", run, "error", err)
		return fmt.Sprintf(" Its run %s may have written something.", run)
	}
	if len(effects) > 0 {
		words = fmt.Sprintf(" Its run %s wrote something, or may have; `harness runs show %s` names it.", run, run)
	}
	return words
}

// stop cancels a task that this process works.
func (s *Service) stop(id string) {
	s.mu.Lock()
	cancel := s.running[id]
	s.mu.Unlock()
	if cancel != nil {
		cancel(ErrCancelled)
	}
}

// watchCancels stops tasks whose cancellation another process requested.
func (s *Service) watchCancels(ctx context.Context) {
	every(ctx, lookForCancels, func() {
		if s.Running() == 0 {
			return
		}
		ids, err := s.opt.Store.CancelRequests(ctx)
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("look for cancelled tasks", "error", err)
		}
		for _, id := range ids {
			s.stop(id)
		}
	})
}
