package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

// CreateSchedule implements task.Store.
func (s *Store) CreateSchedule(ctx context.Context, sched task.Schedule) (err error) {
	defer wrap(&err, "create schedule %q", sched.ID)
	data, err := journal.Encode(request{
		Task: sched.Task, Context: sched.Context, Model: sched.Model, Budget: sched.Budget,
		Principal: sched.Principal, Roles: sched.Roles, Callback: sched.Callback, Reveal: sched.Reveal,
	})
	if err != nil {
		return err
	}
	return s.write(ctx, len(data), func(c *conn) {
		s.admit(c, sched.UserID, quotaSchedules)
		c.exec("INSERT INTO schedules ("+scheduleColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			sched.ID, sched.UserID, sched.SessionID, sched.Cron, sched.Zone, sched.CreatedAt, sched.Next, sched.Last, data)
	})
}

const scheduleColumns = "id, user, session, cron, zone, created, next, last, request"

func scanSchedule(row scanner) (task.Schedule, error) {
	sched, err := scanDueSchedule(row)
	return sched, cmp.Or(err, sched.Damaged)
}

// scanDueSchedule is scanSchedule for a list that must continue after a damaged row: it sets Damaged in place of returning an error.
func scanDueSchedule(row scanner) (sched task.Schedule, err error) {
	var asked request
	var text any
	if err := row.Scan(&sched.ID, &sched.UserID, &sched.SessionID, &sched.Cron, &sched.Zone, instant{&sched.CreatedAt},
		optional{&sched.Next}, optional{&sched.Last}, &text); err != nil {
		return sched, fmt.Errorf("schedule %q as it is stored: %w", sched.ID, err)
	}
	if err := (object{&asked}).Scan(text); err != nil {
		return task.Schedule{ID: sched.ID, UserID: sched.UserID, Next: sched.Next, Damaged: fmt.Errorf("schedule %q as it is stored: %w", sched.ID, err)}, nil
	}
	sched.Task, sched.Context, sched.Model, sched.Budget = asked.Task, asked.Context, asked.Model, asked.Budget
	sched.Principal, sched.Roles, sched.Callback, sched.Reveal = asked.Principal, asked.Roles, asked.Callback, asked.Reveal
	return sched, nil
}

// Schedule implements task.Store.
func (s *Store) Schedule(ctx context.Context, id string) (_ task.Schedule, err error) {
	defer wrap(&err, "schedule %q", id)
	return one(ctx, s, task.ErrNotFound, scanSchedule, "SELECT "+scheduleColumns+" FROM schedules WHERE id = ?", id)
}

// Schedules implements task.Store. The oldest schedule comes first.
func (s *Store) Schedules(ctx context.Context, user string) (_ []task.Schedule, err error) {
	defer wrap(&err, "list schedules")
	if user == "" {
		return list(ctx, s, scanSchedule, "SELECT "+scheduleColumns+" FROM schedules ORDER BY num")
	}
	return list(ctx, s, scanSchedule, "SELECT "+scheduleColumns+" FROM schedules WHERE user = ? ORDER BY num", user)
}

// DueSchedules implements task.Store.
func (s *Store) DueSchedules(ctx context.Context, now time.Time, limit int) (due []task.Schedule, next time.Time, err error) {
	defer wrap(&err, "list schedules that are due")
	due, err = list(ctx, s, scanDueSchedule, "SELECT "+scheduleColumns+` FROM (
		SELECT *, row_number() OVER (PARTITION BY user ORDER BY next, num) AS turn FROM schedules WHERE next <= ?) of_users
		ORDER BY turn, next, num LIMIT ?`, now, limit)
	if err == nil {
		err = s.each(ctx, "SELECT min(next) FROM schedules WHERE next > ?", []any{now}, func(row scanner) error {
			return row.Scan(instant{&next})
		})
	}
	return due, next, err
}

// MoveSchedule implements task.Store.
func (s *Store) MoveSchedule(ctx context.Context, id string, planned, next time.Time) (err error) {
	defer wrap(&err, "move schedule %q", id)
	return s.write(ctx, 0, func(c *conn) { c.exec("UPDATE schedules SET next = ? WHERE id = ? AND next = ?", next, id, planned) })
}

// DeleteSchedule implements task.Store. The tasks that the schedule created stay.
func (s *Store) DeleteSchedule(ctx context.Context, id string) (err error) {
	defer wrap(&err, "delete schedule %q", id)
	return s.write(ctx, 0, func(c *conn) { c.execOne("DELETE FROM schedules WHERE id = ?", id) })
}

// execOne is like exec, but refuses the change (task.ErrNotFound) if the statement changes no row.
func (c *conn) execOne(query string, args ...any) {
	if c.changed(query, args...) == 0 {
		c.refuse(task.ErrNotFound)
	}
}

// Fire implements task.Store. Only the first call for a planned instant creates a task.
func (s *Store) Fire(ctx context.Context, id string, planned time.Time, n task.New, next time.Time) (_ task.Task, created bool, err error) {
	defer wrap(&err, "fire schedule %q", id)
	row, err := s.encodeNew(&n)
	if err != nil {
		return task.Task{}, false, err
	}
	var fired bool
	if err := s.write(ctx, row.bytes, func(c *conn) {
		var at int64
		if !c.row("SELECT next FROM schedules WHERE id = ? /*+ FOR UPDATE */", []any{id}, &at) {
			c.refuse(task.ErrNotFound)
		}
		if fired = at == planned.UnixMicro(); !fired {
			return
		}
		s.insertNew(c, row)
		if next.IsZero() {
			c.exec("DELETE FROM schedules WHERE id = ?", id)
		} else {
			c.exec("UPDATE schedules SET last = next, next = ? WHERE id = ?", next, id)
		}
	}); err != nil || !fired {
		return task.Task{}, false, err
	}
	return row.task.Task, true, nil
}
