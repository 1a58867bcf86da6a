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
	all, err := s.schedules(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", s.fail(err))
	}
	return all, nil
}

func (s *Store) schedules(ctx context.Context, user string) (all []task.Schedule, err error) {
	rows, err := s.query(ctx, "SELECT "+scheduleColumns+" FROM schedules WHERE ?1 IN ('', user) ORDER BY num", user)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		sched, err := scanSchedule(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, sched)
	}
	return all, rows.Err()
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

// Fire implements task.Store. Who comes later gets no task.
func (s *Store) Fire(ctx context.Context, id string, planned time.Time, n task.New, next time.Time) (t task.Task, created bool, err error) {
	row, err := s.encodeNew(&n)
	if err != nil {
		return t, false, fmt.Errorf("fire schedule %q: %w", id, err)
	}
	if err := s.decide(ctx, row.bytes(), func(c *conn) error {
		created = false
		var num int64
		found, err := c.row("SELECT num FROM schedules WHERE id = ?", []any{id}, &num)
		if err != nil {
			return err
		}
		if !found {
			return refuse(task.ErrNotFound)
		}
		due, err := c.row("SELECT num FROM schedules WHERE num = ? AND next = ?", []any{num, planned.UnixMicro()}, &num)
		if err != nil || !due {
			return err
		}
		if _, err := row.insert(c); err != nil {
			return err
		}
		created = true
		_, err = c.exec("UPDATE schedules SET last = next, next = ? WHERE num = ?", someMicros(next), num)
		return err
	}); err != nil {
		return task.Task{}, false, fmt.Errorf("fire schedule %q: %w", id, err)
	}
	if created {
		t, err = row.task.task()
	}
	return t, created, err
}
