package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// CreateSession implements task.Store. A session whose ExpiresAt is zero never expires.
func (s *Store) CreateSession(ctx context.Context, session task.Session) error {
	if err := s.decide(ctx, 0, func(c *conn) error {
		_, err := insertSession(c, &session)
		return err
	}); err != nil {
		return fmt.Errorf("create session %q: %w", session.ID, err)
	}
	return nil
}

func insertSession(c *conn, s *task.Session) (num int64, err error) {
	res, err := c.exec("INSERT INTO sessions (id, user, created, used, expires) VALUES (?, ?, ?, ?, ?)",
		s.ID, s.UserID, s.CreatedAt.UnixMicro(), s.UsedAt.UnixMicro(), someMicros(s.ExpiresAt))
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

const sessionColumns = `s.num, s.id, s.user, s.created, s.used, s.expires,
	(SELECT count(*) FROM tasks WHERE session = s.num AND purged = 0)`

func scanSession(rows scanner) (num int64, s task.Session, err error) {
	var created, used int64
	var expires *int64
	if err := rows.Scan(&num, &s.ID, &s.UserID, &created, &used, &expires, &s.Tasks); err != nil {
		return 0, s, err
	}
	s.CreatedAt, s.UsedAt, s.ExpiresAt = instant(created), instant(used), instantOrZero(expires)
	return num, s, nil
}

// Session implements task.Store.
func (s *Store) Session(ctx context.Context, id string, now time.Time) (task.Session, error) {
	_, session, err := scanSession(s.queryRow(ctx, "SELECT "+sessionColumns+` FROM sessions s
		WHERE s.id = ? AND s.deleted = 0 AND (s.expires IS NULL OR s.expires > ?)`, id, now.UnixMicro()))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return session, fmt.Errorf("session %q: %w", id, task.ErrNotFound)
	case err != nil:
		return session, fmt.Errorf("session %q: %w", id, s.fail(err))
	}
	return session, nil
}

// Sessions implements task.Store.
func (s *Store) Sessions(ctx context.Context, f task.SessionFilter) (sessions []task.Session, next string, err error) {
	where := " WHERE s.deleted = 0 AND (s.expires IS NULL OR s.expires > ?)"
	args := []any{f.Now.UnixMicro()}
	if f.UserID != "" {
		where += " AND s.user = ?"
		args = append(args, f.UserID)
	}
	if f.Cursor != "" {
		num, err := parseNum(f.Cursor)
		if err != nil {
			return nil, "", fmt.Errorf("list sessions: %w", err)
		}
		where += " AND s.num < ?"
		args = append(args, num)
	}
	limit := pageSize(f.Limit)
	sessions, nums, err := s.sessions(ctx, where+" ORDER BY s.num DESC LIMIT ?", append(args, limit+1)...)
	if err != nil {
		return nil, "", fmt.Errorf("list sessions: %w", err)
	}
	if len(sessions) > limit {
		sessions, next = sessions[:limit], strconv.FormatInt(nums[limit-1], 10)
	}
	return sessions, next, nil
}

// ExpiredSessions implements task.Store: those that expired first come first.
func (s *Store) ExpiredSessions(ctx context.Context, now time.Time, limit int) ([]task.Session, error) {
	sessions, _, err := s.sessions(ctx, ` WHERE s.deleted = 0 AND s.expires <= ?
		AND NOT EXISTS (SELECT 1 FROM tasks WHERE session = s.num AND ended IS NULL)
		ORDER BY s.expires LIMIT ?`, now.UnixMicro(), limit)
	if err != nil {
		return nil, fmt.Errorf("list expired sessions: %w", err)
	}
	return sessions, nil
}

func (s *Store) sessions(ctx context.Context, where string, args ...any) (sessions []task.Session, nums []int64, err error) {
	rows, err := s.query(ctx, "SELECT "+sessionColumns+" FROM sessions s"+where, args...)
	if err != nil {
		return nil, nil, s.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		num, session, err := scanSession(rows)
		if err != nil {
			return nil, nil, s.fail(err)
		}
		sessions, nums = append(sessions, session), append(nums, num)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, s.fail(err)
	}
	return sessions, nums, nil
}

// DeleteSession implements task.Store. It refuses (task.ErrBusy) while any task of the session has not ended or any run of
// it is being written. Once it has begun it is not stopped by ctx; what a crash leaves, the next purge deletes.
func (s *Store) DeleteSession(ctx context.Context, id string) error {
	err := s.decide(ctx, 0, func(c *conn) error { return s.markSession(c, id) })
	if err == nil {
		err = s.clean(context.WithoutCancel(ctx))
	}
	if err != nil {
		return fmt.Errorf("delete session %q: %w", id, err)
	}
	return nil
}

// markSession takes a session away from readers, for good.
func (s *Store) markSession(c *conn, id string) error {
	var num int64
	var user, unfinished string
	if found, err := c.row("SELECT num, user FROM sessions WHERE id = ? AND deleted = 0", []any{id}, &num, &user); err != nil {
		return err
	} else if !found {
		return refuse(task.ErrNotFound)
	}
	if found, err := c.row("SELECT id FROM tasks WHERE session = ? AND ended IS NULL LIMIT 1", []any{num}, &unfinished); err != nil {
		return err
	} else if found {
		return refuse(fmt.Errorf("%w: %s has not ended", task.ErrBusy, unfinished))
	}
	type run struct {
		num       int64
		id, owner string
	}
	var runs []run
	if err := c.each(`SELECT num, id, owner FROM runs
		WHERE session = ? AND session <> '' AND user = ? AND ended IS NULL AND purged = 0`, []any{id, user},
		func(row []driver.Value) error {
			runs = append(runs, run{row[0].(int64), row[1].(string), row[2].(string)})
			return nil
		}); err != nil {
		return err
	}
	for _, r := range runs {
		written := s.isOpen(r.id)
		if r.owner != s.owner.id {
			var err error
			if written, err = s.owner.alive(r.owner); err != nil {
				return refuse(err)
			}
		}
		if written {
			return refuse(fmt.Errorf("%w: run %s has not ended", task.ErrBusy, r.id))
		}
	}
	for _, r := range runs {
		if _, err := c.exec("UPDATE runs SET purged = 1 WHERE num = ?", r.num); err != nil {
			return err
		}
	}
	_, err := c.exec("UPDATE sessions SET deleted = 1 WHERE num = ?", num)
	return err
}

// isOpen says whether this process writes a run's journal.
func (s *Store) isOpen(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[run] != nil
}
