package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// CreateSchedule implements task.Store.
func (s *Store) CreateSchedule(ctx context.Context, sched task.Schedule) error {
	data, err := encodeJSON(request{
		Task: sched.Task, Context: sched.Context, Model: sched.Model, Budget: sched.Budget,
		Principal: sched.Principal, Callback: sched.Callback,
	})
	if err == nil {
		err = s.decide(ctx, len(data), func(c *conn) error {
			if err := s.admit(c, sched.UserID, quotaSchedules); err != nil {
				return err
			}
			_, err := c.exec(`INSERT INTO schedules (id, user, session, cron, zone, created, next, last, request)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, sched.ID, sched.UserID, sched.SessionID, sched.Cron, sched.Zone,
				sched.CreatedAt.UnixMicro(), micros(sched.Next), micros(sched.Last), data)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("create schedule %q: %w", sched.ID, err)
	}
	return nil
}

const scheduleColumns = "id, user, session, cron, zone, created, next, last, request"

func scanSchedule(rows scanner) (sched task.Schedule, err error) {
	var created int64
	var next, last *int64
	var data []byte
	if err := rows.Scan(&sched.ID, &sched.UserID, &sched.SessionID, &sched.Cron, &sched.Zone, &created, &next, &last,
		&data); err != nil {
		return sched, err
	}
	var asked request
	if err := json.Unmarshal(data, &asked); err != nil {
		return sched, fmt.Errorf("schedule %q as it is stored: %w", sched.ID, err)
	}
	sched.CreatedAt, sched.Next, sched.Last = instant(created), instantOrNil(next), instantOrNil(last)
	sched.Task, sched.Context, sched.Model, sched.Budget = asked.Task, asked.Context, asked.Model, asked.Budget
	sched.Principal, sched.Callback = asked.Principal, asked.Callback
	return sched, nil
}

// Schedule implements task.Store.
func (s *Store) Schedule(ctx context.Context, id string) (task.Schedule, error) {
	sched, err := scanSchedule(s.queryRow(ctx, "SELECT "+scheduleColumns+" FROM schedules WHERE id = ?", id))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return sched, fmt.Errorf("schedule %q: %w", id, task.ErrNotFound)
	case err != nil:
		return sched, fmt.Errorf("schedule %q: %w", id, s.fail(err))
	}
	return sched, nil
}

// Schedules implements task.Store: the oldest first.
func (s *Store) Schedules(ctx context.Context, user string) ([]task.Schedule, error) {
	return s.schedules(ctx, "WHERE ?1 IN ('', user) ORDER BY num", user)
}

// DueSchedules implements task.Store.
func (s *Store) DueSchedules(ctx context.Context, now time.Time, limit int) (due []task.Schedule, next time.Time, err error) {
	due, err = s.schedules(ctx, "WHERE next <= ? ORDER BY next LIMIT ?", now.UnixMicro(), limit)
	if err != nil {
		return nil, time.Time{}, err
	}
	var later *int64
	if err := s.queryRow(ctx, "SELECT min(next) FROM schedules WHERE next > ?", now.UnixMicro()).Scan(&later); err != nil {
		return nil, time.Time{}, fmt.Errorf("find the next schedule: %w", s.fail(err))
	}
	return due, instantOrZero(later), nil
}

func (s *Store) schedules(ctx context.Context, where string, args ...any) (all []task.Schedule, err error) {
	rows, err := s.query(ctx, "SELECT "+scheduleColumns+" FROM schedules "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", s.fail(err))
	}
	defer rows.Close()
	for rows.Next() {
		sched, err := scanSchedule(rows)
		if err != nil {
			return nil, fmt.Errorf("list schedules: %w", s.fail(err))
		}
		all = append(all, sched)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list schedules: %w", s.fail(err))
	}
	return all, nil
}

// MoveSchedule implements task.Store.
func (s *Store) MoveSchedule(ctx context.Context, id string, planned, next time.Time) error {
	if err := s.decide(ctx, 0, func(c *conn) error {
		_, err := c.exec("UPDATE schedules SET next = ? WHERE id = ? AND next = ?", next.UnixMicro(), id, planned.UnixMicro())
		return err
	}); err != nil {
		return fmt.Errorf("move schedule %q: %w", id, err)
	}
	return nil
}

// DeleteSchedule implements task.Store. The tasks that it made stay.
func (s *Store) DeleteSchedule(ctx context.Context, id string) error {
	if err := s.decide(ctx, 0, func(c *conn) error {
		return foundOne(c.exec("DELETE FROM schedules WHERE id = ?", id))
	}); err != nil {
		return fmt.Errorf("delete schedule %q: %w", id, err)
	}
	return nil
}

// foundOne refuses (task.ErrNotFound) after a statement that changed nothing.
func foundOne(res driver.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return refuse(task.ErrNotFound)
}

// Fire implements task.Store. A later caller for the same instant gets no task.
func (s *Store) Fire(ctx context.Context, id string, planned time.Time, n task.New, next time.Time) (t task.Task, created bool, err error) {
	row, err := s.encodeNew(&n)
	if err != nil {
		return t, false, fmt.Errorf("fire schedule %q: %w", id, err)
	}
	fired := new(bool) // the writer's, which may work on after ctx has ended
	if err := s.decide(ctx, row.bytes(), func(c *conn) error {
		*fired = false
		var num, at int64
		found, err := c.row("SELECT num, next FROM schedules WHERE id = ?", []any{id}, &num, &at)
		switch {
		case err != nil:
			return err
		case !found:
			return refuse(task.ErrNotFound)
		case at != planned.UnixMicro():
			return nil
		}
		if _, err := s.insertNew(c, row); err != nil {
			return err
		}
		*fired = true
		if next.IsZero() {
			_, err = c.exec("DELETE FROM schedules WHERE num = ?", num)
		} else {
			_, err = c.exec("UPDATE schedules SET last = next, next = ? WHERE num = ?", next.UnixMicro(), num)
		}
		return err
	}); err != nil {
		return task.Task{}, false, fmt.Errorf("fire schedule %q: %w", id, err)
	}
	if !*fired {
		return task.Task{}, false, nil
	}
	t, err = row.task.task()
	return t, true, err
}
