package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/pii"
)

// NewSchedule is a request for tasks at planned instants: a single one, or those of a cron expression.
type NewSchedule struct {
	Request
	ID   string // chosen at random if empty
	Cron string // five fields: minute, hour, day, month, weekday; or @hourly, @daily, ...
	Zone string // IANA name; UTC if empty
}

// CreateSchedule adds a schedule. Without a cron expression, Request.RunAt is its only instant.
func (s *Service) CreateSchedule(ctx context.Context, n NewSchedule) (Schedule, error) {
	if err := s.check(&n.Request); err != nil {
		return Schedule{}, err
	}
	sched := Schedule{
		ID: cmp.Or(n.ID, id.New("sched")), UserID: n.UserID, SessionID: n.SessionID, Task: n.Task, Context: n.Context, Model: n.Model,
		Cron: n.Cron, Zone: n.Zone, CreatedAt: s.opt.Now(), Principal: n.Principal, Roles: n.Roles,
		Callback: n.Callback, Reveal: n.Reveal, Budget: n.Budget,
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
	var err error
	privacy := s.privacy(sched)
	if sched.Task, err = privacy.Hide(ctx, pii.FromTask, sched.Task); err != nil {
		return Schedule{}, err
	}
	if sched.Context, err = privacy.HideJSON(ctx, pii.FromTask, sched.Context); err != nil {
		return Schedule{}, err
	}
	if err := privacy.Keep(ctx, *sched.Next); err != nil {
		return Schedule{}, err
	}
	if err := s.opt.Store.CreateSchedule(ctx, sched); err != nil {
		return Schedule{}, err
	}
	wake(s.schedules)
	return sched, nil
}

// privacy returns the privacy session of a schedule's texts: that of its session, or one of its own if each task gets a new session.
func (s *Service) privacy(sched Schedule) pii.Session {
	return s.opt.Privacy.In(sched.UserID, cmp.Or(sched.SessionID, sched.ID))
}

// after returns the first planned instant after t. Where a zone's clock is set forward, instants in the skipped hour are left out; where it is set
// back, instants in the repeated hour come once.
func (s Schedule) after(t time.Time) (time.Time, error) {
	zone := time.UTC
	if s.Zone != "" {
		var err error
		if zone, err = time.LoadLocation(s.Zone); err != nil || strings.EqualFold(s.Zone, "local") {
			return time.Time{}, fmt.Errorf("%w: no time zone has this name; give an IANA name such as Europe/Berlin", ErrInvalidInput)
		}
	}
	if !validCron(s.Cron) {
		return time.Time{}, fmt.Errorf("%w: cron is not an expression of five fields, such as \"0 9 * * 1-5\"", ErrInvalidInput)
	}
	next, err := gronx.NextTickAfter(s.Cron, t.In(zone), false)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: cron never comes", ErrInvalidInput)
	}
	return next.UTC(), nil
}

// validCron reports whether an expression has five valid fields or is a word such as @daily. It checks each alternative of a field on its own,
// because gronx reads only up to the first alternative that fits the time.
func validCron(expression string) bool {
	all, err := gronx.Segments(expression)
	if err != nil || len(all) != 6 || all[0] != "0" { // gronx adds the first field, seconds
		return false
	}
	if n := len(strings.Fields(expression)); n != 1 && n != 5 {
		return false
	}
	for i, field := range all {
		for one := range strings.SplitSeq(field, ",") {
			alone := []string{"0", "*", "*", "*", "*", "*"}
			alone[i] = one
			if !gronx.IsValid(strings.Join(alone, " ")) {
				return false
			}
		}
	}
	return true
}

// DeleteSchedule deletes a schedule. Tasks that it has created stay.
func (s *Service) DeleteSchedule(ctx context.Context, id string) error {
	return s.opt.Store.DeleteSchedule(ctx, id)
}

// fireSchedules creates the tasks of schedules until ctx ends. If several instants of a schedule passed while no process worked the queue, the
// schedule creates one task for all of them.
func (s *Service) fireSchedules(ctx context.Context) {
	for ctx.Err() == nil {
		wait := lookForSchedules
		due, next, err := s.opt.Store.DueSchedules(ctx, s.opt.Now(), scheduleBatch)
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("read the schedules", "error", err)
		}
		if !next.IsZero() {
			wait = min(wait, next.Sub(s.opt.Now()))
		}
		stuck := false
		for _, sched := range due {
			next, err := s.fireOrPostpone(ctx, sched)
			if err != nil && ctx.Err() == nil {
				stuck = true
				s.opt.Logger.Error("fire a schedule", "schedule", sched.ID, "error", err)
			}
			if err == nil && !next.IsZero() {
				wait = min(wait, next.Sub(s.opt.Now()))
			}
		}
		if len(due) == scheduleBatch && !stuck {
			continue // more may be due
		}
		pause(ctx, wait, s.schedules)
	}
}

const (
	lookForSchedules = time.Minute // interval of looking for schedules that other processes added
	postponeMost     = time.Hour   // longest pause between tries to fire a schedule; the first is lookForSchedules, each further one twice as long
	scheduleBatch    = 100         // maximum number of schedules that are fired after one look
)

// fireOrPostpone calls fire. If the schedule cannot be fired, fireOrPostpone postpones it, so that the schedules of other users get their turn. An
// error means that the schedule was not postponed.
func (s *Service) fireOrPostpone(ctx context.Context, sched Schedule) (next time.Time, err error) {
	if err = sched.Damaged; err == nil {
		next, err = s.fire(ctx, sched)
	}
	if err == nil {
		s.fails(sched.ID, 0)
		return next, nil
	}
	if ctx.Err() != nil {
		return next, err
	}
	wait := lookForSchedules
	if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrQuota) { // else the session is being deleted, or the user is over quota
		wait = min(lookForSchedules<<min(s.fails(sched.ID, 1)-1, 10), postponeMost)
	}
	next = s.opt.Now().Add(wait)
	s.opt.Logger.Warn("postpone a schedule", "schedule", sched.ID, "until", next, "error", err)
	return next, s.opt.Store.MoveSchedule(ctx, sched.ID, *sched.Next, next)
}

// fire creates the task of a schedule's planned instant, and returns the next instant, or zero if there is none.
func (s *Service) fire(ctx context.Context, sched Schedule) (next time.Time, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	if sched.Cron != "" {
		if next, err = sched.after(s.opt.Now()); err != nil {
			return next, err
		}
	}
	if s.opt.Allow != nil {
		if after, ok := s.opt.Allow(sched.Principal); !ok { // the limit on the rate of requests holds for schedules too
			again := s.opt.Now().Add(max(after, time.Second))
			return again, s.opt.Store.MoveSchedule(ctx, sched.ID, *sched.Next, again)
		}
	}
	r := Request{
		UserID: sched.UserID, Principal: sched.Principal, Roles: sched.Roles, SessionID: sched.SessionID,
		Model: sched.Model, Callback: sched.Callback, Reveal: sched.Reveal, Budget: sched.Budget, schedule: sched.ID,
	}
	privacy := s.privacy(sched)
	if r.Task, err = privacy.Restore(ctx, sched.Task); err != nil {
		return next, err
	}
	if r.Context, _, err = privacy.RestoreJSON(ctx, sched.Context); err != nil {
		return next, err
	}
	if !next.IsZero() {
		if err := privacy.Keep(ctx, next); err != nil {
			return next, err
		}
	}
	n, err := s.make(ctx, r)
	if err != nil {
		return next, err
	}
	_, created, err := s.opt.Store.Fire(ctx, sched.ID, *sched.Next, n, next)
	switch {
	case errors.Is(err, ErrNotFound):
		if _, gone := s.opt.Store.Schedule(ctx, sched.ID); errors.Is(gone, ErrNotFound) {
			return time.Time{}, nil // the schedule was deleted
		}
		return next, err
	case err != nil:
		return next, err
	}
	if created {
		s.announce(sched.UserID)
	}
	return next, nil
}
