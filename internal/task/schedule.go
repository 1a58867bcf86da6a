package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"mcp-code-exec-harness/internal/id"
)

// NewSchedule asks for tasks at planned instants: at one, or at those of a cron expression.
type NewSchedule struct {
	Request
	Cron string // five fields: minute, hour, day, month, weekday; or @hourly, @daily, ...
	Zone string // IANA name; empty is UTC
}

// CreateSchedule adds a schedule. Request.RunAt is the one instant where there is no cron expression.
func (s *Service) CreateSchedule(ctx context.Context, n NewSchedule) (Schedule, error) {
	if err := s.check(&n.Request); err != nil {
		return Schedule{}, err
	}
	sched := Schedule{
		ID: id.New("sched"), UserID: n.UserID, SessionID: n.SessionID, Task: n.Task, Context: n.Context, Model: n.Model,
		Cron: n.Cron, Zone: n.Zone, CreatedAt: s.opt.Now(), Principal: n.Principal, Callback: n.Callback, Budget: n.Budget,
	}
	switch {
	case n.Cron == "" && n.RunAt == nil:
		return Schedule{}, fmt.Errorf("%w: a schedule needs cron or runAt", ErrInvalidInput)
	case n.Cron != "" && n.RunAt != nil:
		return Schedule{}, fmt.Errorf("%w: give cron or runAt, not both", ErrInvalidInput)
	case n.Cron == "":
		sched.Next = n.RunAt
	default:
		next, err := sched.after(s.opt.Now())
		if err != nil {
			return Schedule{}, err
		}
		sched.Next = &next
	}
	if err := s.opt.Store.CreateSchedule(ctx, sched); err != nil {
		return Schedule{}, err
	}
	wake(s.schedules)
	return sched, nil
}

// after is the first planned instant behind t.
func (s Schedule) after(t time.Time) (time.Time, error) {
	zone := time.UTC
	if s.Zone != "" {
		var err error
		if zone, err = time.LoadLocation(s.Zone); err != nil || strings.EqualFold(s.Zone, "local") {
			return time.Time{}, fmt.Errorf("%w: there is no time zone %q", ErrInvalidInput, s.Zone)
		}
	}
	fields := len(strings.Fields(s.Cron))
	if fields != 5 && !strings.HasPrefix(s.Cron, "@") || !gronx.IsValid(s.Cron) {
		return time.Time{}, fmt.Errorf("%w: %q is not a cron expression of five fields, such as \"0 9 * * 1-5\"", ErrInvalidInput, s.Cron)
	}
	next, err := gronx.NextTickAfter(s.Cron, t.In(zone), false)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %q never comes: %v", ErrInvalidInput, s.Cron, err)
	}
	return next.UTC(), nil
}

// Schedule returns a schedule; the error wraps ErrNotFound.
func (s *Service) Schedule(ctx context.Context, id string) (Schedule, error) {
	return s.opt.Store.Schedule(ctx, id)
}

// Schedules lists the schedules of a user; "" is all users.
func (s *Service) Schedules(ctx context.Context, user string) ([]Schedule, error) {
	return s.opt.Store.Schedules(ctx, user)
}

// DeleteSchedule ends a schedule. Tasks that it has made stay.
func (s *Service) DeleteSchedule(ctx context.Context, id string) error {
	return s.opt.Store.DeleteSchedule(ctx, id)
}

// fireSchedules makes the tasks of schedules until ctx ends. Instants that passed while nobody was there fire once.
func (s *Service) fireSchedules(ctx context.Context) {
	for ctx.Err() == nil {
		wait := time.Minute // other processes may add schedules
		all, err := s.opt.Store.Schedules(ctx, "")
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("read the schedules", "error", err)
		}
		for _, sched := range all {
			if sched.Next == nil {
				continue
			}
			if left := sched.Next.Sub(s.opt.Now()); left > 0 {
				wait = min(wait, left)
				continue
			}
			if err := s.fire(ctx, sched); err != nil && ctx.Err() == nil {
				s.opt.Logger.Error("fire a schedule", "schedule", sched.ID, "error", err)
			} else if sched.Cron != "" {
				wait = 0 // its next instant
			}
		}
		if wait > 0 {
			pause(ctx, wait, s.schedules)
		}
	}
}

// fire makes the task of a schedule's next instant.
func (s *Service) fire(ctx context.Context, sched Schedule) error {
	var next time.Time
	if sched.Cron != "" {
		var err error
		if next, err = sched.after(s.opt.Now()); err != nil {
			next = time.Time{} // it never comes again
		}
	}
	n := s.make(Request{
		UserID: sched.UserID, Principal: sched.Principal, Task: sched.Task, SessionID: sched.SessionID, Context: sched.Context,
		Model: sched.Model, Callback: sched.Callback, Budget: sched.Budget, schedule: sched.ID,
	})
	t, created, err := s.opt.Store.Fire(ctx, sched.ID, *sched.Next, n, next)
	if errors.Is(err, ErrNotFound) || err == nil && !created {
		return nil // deleted, or fired by another
	}
	if err != nil {
		return err
	}
	s.hub.publish(t.ID, nil)
	return s.push(ctx, t)
}
