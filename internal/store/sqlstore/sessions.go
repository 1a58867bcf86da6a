package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/task"
)

// sessionKey names a session.
type sessionKey struct{ user, id string }

// EnterSession implements task.Store.
func (s *Store) EnterSession(
	ctx context.Context, user, id string, now time.Time,
) (leave func(ctx context.Context, now time.Time) error, err error) {
	defer wrap(&err, "enter session %q", id)
	if err := s.lease.Claim(); err != nil {
		return nil, err
	}
	var num int64
	if err := s.write(ctx, 0, func(c *conn) {
		if !c.row(`SELECT num FROM sessions
			WHERE user = ? AND id = ? AND closed IS NULL AND (expires IS NULL OR expires > ?) /*+ FOR UPDATE */`, []any{user, id, now}, &num) {
			c.refuse(task.ErrNotFound)
		}
		c.exec("INSERT INTO session_uses (session, owner, n) VALUES (?, ?, 1) ON CONFLICT (session, owner) DO UPDATE SET n = session_uses.n + 1", num, s.lease.ID())
		noteUse(c, num, now)
	}); err != nil {
		return nil, err
	}
	return func(ctx context.Context, now time.Time) (err error) {
		defer wrap(&err, "leave session %q", id)
		return s.write(ctx, 0, func(c *conn) {
			noteUse(c, num, now)
			c.exec("UPDATE session_uses SET n = n - 1 WHERE session = ? AND owner = ?", num, s.lease.ID())
			c.exec("DELETE FROM session_uses WHERE session = ? AND owner = ? AND n <= 0", num, s.lease.ID())
		})
	}, nil
}

// CreateSession implements task.Store. A session whose ExpiresAt is zero never expires.
func (s *Store) CreateSession(ctx context.Context, session task.Session) (err error) {
	defer wrap(&err, "create session %q", session.ID)
	return s.write(ctx, 0, func(c *conn) {
		var num int64
		c.reserve("sessions", &num)
		c.flush()
		s.insertSession(c, num, &session)
	})
}

// insertSession stores a session under a reserved number, see insertAs.
func (s *Store) insertSession(c *conn, reserved int64, session *task.Session) (num int64) {
	s.admit(c, session.UserID, quotaSessions)
	return c.insertAs(reserved, "INSERT INTO sessions (num, id, user, created, used, expires) VALUES (?, ?, ?, ?, ?, ?) RETURNING num",
		session.ID, session.UserID, session.CreatedAt, session.UsedAt, orNull(session.ExpiresAt))
}

const (
	sessionColumns = `SELECT s.num, s.id, s.user, s.created, s.used, s.expires,
	(SELECT count(*) FROM tasks WHERE session = s.num AND purged = 0) FROM sessions s`
	openSession = " WHERE s.closed IS NULL AND (s.expires IS NULL OR s.expires > ?)"
)

type sessionRow struct {
	task.Session
	num int64
}

func scanSession(row scanner) (s sessionRow, err error) {
	err = row.Scan(&s.num, &s.ID, &s.UserID, instant{&s.CreatedAt}, instant{&s.UsedAt}, instant{&s.ExpiresAt}, &s.Tasks)
	return s, err
}

// Session implements task.Store.
func (s *Store) Session(ctx context.Context, user, id string, now time.Time) (_ task.Session, err error) {
	defer wrap(&err, "session %q", id)
	row, err := one(ctx, s, task.ErrNotFound, scanSession, sessionColumns+openSession+" AND s.user = ? AND s.id = ?", now, user, id)
	return row.Session, err
}

// Sessions implements task.Store.
func (s *Store) Sessions(ctx context.Context, f task.SessionFilter) (_ []task.Session, next string, err error) {
	defer wrap(&err, "list sessions")
	where, args := openSession, []any{f.Now}
	if f.UserID != "" {
		where, args = where+" AND s.user = ?", append(args, f.UserID)
	}
	if f.ID != "" {
		where, args = where+" AND s.id = ?", append(args, f.ID)
	}
	if f.Cursor != "" {
		num, err := parseNum(f.Cursor)
		if err != nil {
			return nil, "", err
		}
		where, args = where+" AND s.num < ?", append(args, num)
	}
	limit := pageSize(f.Limit)
	rows, err := list(ctx, s, scanSession, sessionColumns+where+" ORDER BY s.num DESC LIMIT ?", append(args, limit+1)...)
	if len(rows) > limit {
		rows, next = rows[:limit], strconv.FormatInt(rows[limit-1].num, 10)
	}
	return sessionsOf(rows), next, err
}

func sessionsOf(rows []sessionRow) (sessions []task.Session) {
	for _, row := range rows {
		sessions = append(sessions, row.Session)
	}
	return sessions
}

// ExpiredSessions implements task.Store. Of each user, closed sessions come first, then expired sessions by their expiry.
func (s *Store) ExpiredSessions(ctx context.Context, now time.Time, except []task.Session, limit int) (_ []task.Session, err error) {
	defer wrap(&err, "list expired sessions")
	dead, err := s.deadOwners(ctx)
	if err != nil {
		return nil, err
	}
	text, _ := json.Marshal(append(dead, "")) // encoding strings cannot fail
	left := s.openSessions()
	for _, session := range except {
		left[sessionKey{session.UserID, session.ID}] = true
	}
	// This function leaves out the sessions of this process's open journals. The statement ignores the runs of this process, because the process
	// does not execute a run whose journal is not open.
	rows, err := some(ctx, s, limit, scanSession, func(row sessionRow) (bool, error) {
		return !left[sessionKey{row.UserID, row.ID}], nil
	}, `SELECT s.num, s.id, s.user, s.created, s.used, s.expires, (SELECT count(*) FROM tasks WHERE session = s.num AND purged = 0) FROM (
		SELECT *, row_number() OVER (PARTITION BY user ORDER BY closed IS NULL, expires NULLS FIRST, num) AS turn FROM (
			SELECT * FROM sessions WHERE closed IS NOT NULL
			UNION ALL
			SELECT * FROM sessions s WHERE s.closed IS NULL AND s.expires <= ?1
				AND NOT EXISTS (SELECT 1 FROM tasks WHERE session = s.num AND ended IS NULL)
				AND NOT EXISTS (SELECT 1 FROM session_uses WHERE session = s.num AND owner NOT IN (SELECT value FROM json_each(?2)))
				AND NOT EXISTS (SELECT 1 FROM runs WHERE session = s.id AND session <> '' AND user = s.user AND ended IS NULL AND purged = 0
					AND (status = 'waiting_approval' OR owner <> ?3 AND owner NOT IN (SELECT value FROM json_each(?2))))) ended) s
		ORDER BY turn, closed IS NULL, expires NULLS FIRST, num`, now, string(text), s.lease.ID())
	return sessionsOf(rows), err
}

// deleteTime is the time that a process has to delete a session which it has closed. After this time, another process may delete the session.
const deleteTime = 10 * time.Minute

// CloseSession implements task.Store. It marks the session's unfinished runs, which no process executes, as purged. For a closed session, the table
// session_uses names the process that deletes the session.
func (s *Store) CloseSession(ctx context.Context, session task.Session, expired time.Time) (err error) {
	defer wrap(&err, "close session %q", session.ID)
	if err := s.lease.Claim(); err != nil {
		return err
	}
	dead, err := s.deadOwners(ctx)
	if err != nil {
		return err
	}
	return s.write(ctx, 0, func(c *conn) {
		var num int64
		var created, expires, closed time.Time
		found := c.row("SELECT num, created, expires, closed FROM sessions WHERE user = ? AND id = ? /*+ FOR UPDATE */", []any{session.UserID, session.ID},
			&num, instant{&created}, instant{&expires}, instant{&closed})
		switch {
		case !found, !session.CreatedAt.IsZero() && !created.Equal(inMicros(session.CreatedAt)):
			c.refuse(task.ErrNotFound)
		case closed.IsZero() && !expired.IsZero() && (expires.IsZero() || expires.After(expired)):
			c.refuse(fmt.Errorf("%w: it was used again", task.ErrBusy))
		}
		var runs []int64
		if closed.IsZero() {
			runs = s.unused(c, num, sessionKey{session.UserID, session.ID}, dead)
		} else if s.now().Sub(closed) < deleteTime {
			c.each("SELECT owner FROM session_uses WHERE session = ?", []any{num}, func(row scanner) error {
				owner, err := value[string](row)
				if err == nil && owner != s.lease.ID() && !slices.Contains(dead, owner) {
					c.refuse(task.ErrNotFound) // the other process is deleting the session
				}
				return err
			})
		}
		c.exec("DELETE FROM session_uses WHERE session = ?", num)
		c.exec("INSERT INTO session_uses (session, owner, n) VALUES (?, ?, 1)", num, s.lease.ID())
		for _, run := range runs {
			c.exec("UPDATE runs SET purged = 1 WHERE num = ?", run)
		}
		c.exec("UPDATE sessions SET closed = ? WHERE num = ?", s.now(), num)
	})
}

// AbandonSession implements task.Store.
func (s *Store) AbandonSession(ctx context.Context, user, id string) (err error) {
	defer wrap(&err, "abandon the deletion of session %q", id)
	return s.write(ctx, 0, func(c *conn) {
		c.exec("DELETE FROM session_uses WHERE owner = ? AND session IN (SELECT num FROM sessions WHERE user = ? AND id = ? AND closed IS NOT NULL)", s.lease.ID(), user, id)
	})
}

// DeleteSession implements task.Store. Once the session is closed, cancelling ctx does not stop the deletion. After a crash the session stays
// closed, and ExpiredSessions lists it.
func (s *Store) DeleteSession(ctx context.Context, user, id string) (err error) {
	if err := s.CloseSession(ctx, task.Session{UserID: user, ID: id}, time.Time{}); err != nil {
		return err
	}
	defer wrap(&err, "delete session %q", id)
	ctx = context.WithoutCancel(ctx)
	if err := errors.Join(s.clean(ctx), s.Vault().Delete(ctx, pii.Scope{User: user, Session: id})); err != nil {
		return err
	}
	return s.write(ctx, 0, func(c *conn) {
		c.exec("DELETE FROM session_uses WHERE session IN (SELECT num FROM sessions WHERE user = ? AND id = ? AND closed IS NOT NULL)", user, id)
		c.exec("DELETE FROM sessions WHERE user = ? AND id = ? AND closed IS NOT NULL", user, id)
	})
}

// unused refuses the change (task.ErrBusy) if an unfinished task or a run of a live process uses a session. It returns the session's unfinished runs.
func (s *Store) unused(c *conn, num int64, key sessionKey, dead []string) (runs []int64) {
	busy := func(format string, args ...any) {
		c.refuse(fmt.Errorf("%w: "+format, append([]any{task.ErrBusy}, args...)...))
	}
	var unfinished string
	if c.row("SELECT id FROM tasks WHERE session = ? AND ended IS NULL LIMIT 1", []any{num}, &unfinished) {
		busy("%s has not ended", unfinished)
	}
	if run := s.openRunIn(key); run != "" { // the run may have no row yet
		busy("run %s has not ended", run)
	}
	c.each("SELECT owner FROM session_uses WHERE session = ?", []any{num}, func(row scanner) error {
		owner, err := value[string](row)
		if err == nil && !slices.Contains(dead, owner) {
			busy("a run is about to begin, or has just ended")
		}
		return err
	})
	c.each(`SELECT num, id, owner FROM runs
		WHERE session = ? AND session <> '' AND user = ? AND ended IS NULL AND purged = 0 /*+ FOR UPDATE */`, []any{key.id, key.user},
		func(row scanner) error {
			var num int64
			var id, owner string
			if err := row.Scan(&num, &id, &owner); err != nil {
				return err
			}
			if owner != "" && owner != s.lease.ID() && !slices.Contains(dead, owner) { // a run without an owner waits for an approval
				busy("run %s has not ended", id)
			}
			runs = append(runs, num)
			return nil
		})
	return runs
}

// openSessions returns the sessions of the runs whose journals this process writes.
func (s *Store) openSessions() map[sessionKey]bool {
	s.mu.Lock()
	writers := slices.Collect(maps.Values(s.open))
	s.mu.Unlock()
	sessions := map[sessionKey]bool{}
	for _, w := range writers {
		w.mu.Lock() // after s.mu is released
		if w.session.id != "" {
			sessions[w.session] = true
		}
		w.mu.Unlock()
	}
	return sessions
}

// openRunIn returns the id of a run whose session is the given one and whose journal this process writes, or "" if there is none.
func (s *Store) openRunIn(session sessionKey) string {
	s.mu.Lock()
	writers := slices.Collect(maps.Values(s.open))
	s.mu.Unlock()
	for _, w := range writers { // isIn locks w.mu after s.mu is released
		if session.id != "" && w.isIn(session) {
			return w.run
		}
	}
	return ""
}
