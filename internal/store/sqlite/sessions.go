package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// sessionKey names a session.
type sessionKey struct{ user, id string }

// EnterSession implements task.Store.
func (s *Store) EnterSession(
	ctx context.Context, user, id string, now time.Time,
) (leave func(ctx context.Context, now time.Time) error, err error) {
	var num int64
	if err = s.lease.Claim(); err == nil {
		num, err = s.enter(ctx, user, id, now)
	}
	if err != nil {
		return nil, fmt.Errorf("enter session %q: %w", id, err)
	}
	return func(ctx context.Context, now time.Time) error {
		if err := s.do(ctx, func(c *conn) error {
			if err := noteUse(c, num, now.UnixMicro()); err != nil {
				return err
			}
			if _, err := c.exec("UPDATE session_uses SET n = n - 1 WHERE session = ? AND owner = ?", num, s.lease.ID()); err != nil {
				return err
			}
			_, err := c.exec("DELETE FROM session_uses WHERE session = ? AND owner = ? AND n <= 0", num, s.lease.ID())
			return err
		}); err != nil {
			return fmt.Errorf("leave session %q: %w", id, err)
		}
		return nil
	}, nil
}

func (s *Store) enter(ctx context.Context, user, id string, now time.Time) (int64, error) {
	entered := new(int64) // the writer's, which may work on after ctx has ended
	if err := s.decide(ctx, 0, func(c *conn) error {
		if found, err := c.row(`SELECT num FROM sessions
			WHERE user = ? AND id = ? AND closed IS NULL AND (expires IS NULL OR expires > ?)`, []any{user, id, now.UnixMicro()}, entered); err != nil {
			return err
		} else if !found {
			return refuse(task.ErrNotFound)
		}
		if _, err := c.exec("INSERT INTO session_uses (session, owner, n) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET n = n + 1",
			*entered, s.lease.ID()); err != nil {
			return err
		}
		return noteUse(c, *entered, now.UnixMicro())
	}); err != nil {
		return 0, err
	}
	return *entered, nil
}

// CreateSession implements task.Store. A session whose ExpiresAt is zero never expires.
func (s *Store) CreateSession(ctx context.Context, session task.Session) error {
	if err := s.decide(ctx, 0, func(c *conn) error {
		_, err := s.insertSession(c, &session)
		return err
	}); err != nil {
		return fmt.Errorf("create session %q: %w", session.ID, err)
	}
	return nil
}

func (s *Store) insertSession(c *conn, session *task.Session) (num int64, err error) {
	if err := s.admit(c, session.UserID, quotaSessions); err != nil {
		return 0, err
	}
	res, err := c.exec("INSERT INTO sessions (id, user, created, used, expires) VALUES (?, ?, ?, ?, ?)",
		session.ID, session.UserID, session.CreatedAt.UnixMicro(), session.UsedAt.UnixMicro(), someMicros(session.ExpiresAt))
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
func (s *Store) Session(ctx context.Context, user, id string, now time.Time) (task.Session, error) {
	_, session, err := scanSession(s.queryRow(ctx, "SELECT "+sessionColumns+` FROM sessions s
		WHERE s.user = ? AND s.id = ? AND s.closed IS NULL AND (s.expires IS NULL OR s.expires > ?)`, user, id, now.UnixMicro()))
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
	where := " WHERE s.closed IS NULL AND (s.expires IS NULL OR s.expires > ?)"
	args := []any{f.Now.UnixMicro()}
	for _, term := range []struct{ sql, value string }{{" AND s.user = ?", f.UserID}, {" AND s.id = ?", f.ID}} {
		if term.value != "" {
			where += term.sql
			args = append(args, term.value)
		}
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

// ExpiredSessions implements task.Store: those that are closed come first, then those that expired first.
func (s *Store) ExpiredSessions(ctx context.Context, now time.Time, limit int) ([]task.Session, error) {
	dead, err := s.deadOwners(ctx)
	if err != nil {
		return nil, fmt.Errorf("list expired sessions: %w", err)
	}
	text, _ := json.Marshal(append(dead, "")) // strings cannot fail
	// A run of this process whose journal is not open is parked. What this process writes is left out below.
	expired, _, err := s.sessions(ctx, " WHERE s.closed IS NOT NULL ORDER BY s.num LIMIT ?", limit)
	if err == nil && len(expired) < limit {
		var more []task.Session
		more, _, err = s.sessions(ctx, ` WHERE s.closed IS NULL AND s.expires <= ?1
			AND NOT EXISTS (SELECT 1 FROM tasks WHERE session = s.num AND ended IS NULL)
			AND NOT EXISTS (SELECT 1 FROM session_uses WHERE session = s.num AND owner NOT IN (SELECT value FROM json_each(?2)))
			AND NOT EXISTS (SELECT 1 FROM runs WHERE session = s.id AND session <> '' AND user = s.user AND ended IS NULL AND purged = 0
				AND owner <> ?3 AND owner NOT IN (SELECT value FROM json_each(?2)))
			ORDER BY s.expires LIMIT ?4`, now.UnixMicro(), string(text), s.lease.ID(), limit-len(expired))
		expired = append(expired, more...)
	}
	if err != nil {
		return nil, fmt.Errorf("list expired sessions: %w", err)
	}
	return slices.DeleteFunc(expired, func(session task.Session) bool { return s.writes(sessionKey{session.UserID, session.ID}) != "" }), nil
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

// CloseSession implements task.Store.
func (s *Store) CloseSession(ctx context.Context, user, id string) error {
	dead, err := s.deadOwners(ctx)
	if err == nil {
		err = s.decide(ctx, 0, func(c *conn) error {
			_, err := s.closeSession(c, sessionKey{user, id}, dead)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("close session %q: %w", id, err)
	}
	return nil
}

// closeSession closes a session, and marks the unfinished runs in it, which no process executes. To close one again changes
// nothing.
func (s *Store) closeSession(c *conn, key sessionKey, dead []string) (num int64, err error) {
	var closed int64
	found, err := c.row("SELECT num, closed IS NOT NULL FROM sessions WHERE user = ? AND id = ?", []any{key.user, key.id}, &num, &closed)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, refuse(task.ErrNotFound)
	case closed != 0:
		return num, nil
	}
	runs, err := s.unused(c, num, key, dead)
	if err != nil {
		return 0, err
	}
	for _, run := range runs {
		if _, err := c.exec("UPDATE runs SET purged = 1 WHERE num = ?", run); err != nil {
			return 0, err
		}
	}
	_, err = c.exec("UPDATE sessions SET closed = ? WHERE num = ?", s.now().UnixMicro(), num)
	return num, err
}

// DeleteSession implements task.Store. It refuses (task.ErrBusy) while the session is in use, as CloseSession does. Once it
// has begun, the end of ctx does not stop it; what a crash leaves is closed, and listed by ExpiredSessions.
func (s *Store) DeleteSession(ctx context.Context, user, id string) error {
	err := s.CloseSession(ctx, user, id)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.clean(ctx); err != nil {
		return fmt.Errorf("delete session %q: %w", id, err)
	}
	if err := s.decide(ctx, 0, func(c *conn) error {
		_, err := c.exec("DELETE FROM sessions WHERE user = ? AND id = ? AND closed IS NOT NULL", user, id)
		return err
	}); err != nil {
		return fmt.Errorf("delete session %q: %w", id, err)
	}
	return nil
}

// unused refuses (task.ErrBusy) where a task or a run of a live process uses a session. It returns the session's unfinished runs.
func (s *Store) unused(c *conn, num int64, key sessionKey, dead []string) (left []int64, err error) {
	var unfinished string
	if found, err := c.row("SELECT id FROM tasks WHERE session = ? AND ended IS NULL LIMIT 1", []any{num}, &unfinished); err != nil {
		return nil, err
	} else if found {
		return nil, refuse(fmt.Errorf("%w: %s has not ended", task.ErrBusy, unfinished))
	}
	if run := s.writes(key); run != "" { // it may have no row yet
		return nil, refuse(fmt.Errorf("%w: run %s has not ended", task.ErrBusy, run))
	}
	if err := c.each("SELECT owner FROM session_uses WHERE session = ?", []any{num}, func(row []driver.Value) error {
		if owner, _ := row[0].(string); !slices.Contains(dead, owner) {
			return refuse(fmt.Errorf("%w: a run is about to begin, or has just ended", task.ErrBusy))
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if _, err := c.exec("DELETE FROM session_uses WHERE session = ?", num); err != nil {
		return nil, err
	}
	err = c.each(`SELECT num, id, owner FROM runs
		WHERE session = ? AND session <> '' AND user = ? AND ended IS NULL AND purged = 0`, []any{key.id, key.user},
		func(row []driver.Value) error {
			id, owner := row[1].(string), row[2].(string)
			written := s.isOpen(id)
			if owner != s.lease.ID() {
				alive, err := s.lease.Alive(owner)
				if err != nil {
					return refuse(err)
				}
				written = alive
			}
			if written {
				return refuse(fmt.Errorf("%w: run %s has not ended", task.ErrBusy, id))
			}
			left = append(left, row[0].(int64))
			return nil
		})
	return left, err
}

// writes returns a run of a session whose journal this process writes, "" if there is none.
func (s *Store) writes(key sessionKey) string {
	s.mu.Lock()
	writers := make([]*runWriter, 0, len(s.open))
	for _, w := range s.open {
		writers = append(writers, w)
	}
	s.mu.Unlock()
	for _, w := range writers { // w.session takes a lock of its own
		if key.id != "" && w.session() == key {
			return w.run
		}
	}
	return ""
}

// isOpen says whether this process writes a run's journal.
func (s *Store) isOpen(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[run] != nil
}
