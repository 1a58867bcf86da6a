package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// closedAt is when a session expires that is being forgotten: it has expired for all readers, is the first of the expired
// ones until it is deleted, and nothing enters it any more. Times of use are never negative.
const closedAt = -1

// sessionKey names a session: runs may have the name of one that is another user's.
type sessionKey struct{ user, id string }

// entered counts who uses sessions in this process without being a task, and without having stored anything yet. It is
// safe for concurrent use.
type entered struct {
	mu sync.Mutex
	n  map[sessionKey]int
}

func (e *entered) add(key sessionKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.n == nil {
		e.n = make(map[sessionKey]int)
	}
	e.n[key]++
}

func (e *entered) remove(key sessionKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.n[key]--; e.n[key] <= 0 {
		delete(e.n, key)
	}
}

func (e *entered) has(key sessionKey) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n[key] > 0
}

func (e *entered) keys() (keys []sessionKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.n {
		keys = append(keys, key)
	}
	return keys
}

// EnterSession implements task.Store.
func (s *Store) EnterSession(
	ctx context.Context, user, id string, now time.Time,
) (leave func(ctx context.Context, now time.Time) error, err error) {
	key := sessionKey{user, id}
	s.entered.add(key) // before the decision: whoever closes the session after it sees that it is used
	if err := s.noteEntered(ctx, key, now, now); err != nil {
		s.entered.remove(key)
		return nil, fmt.Errorf("enter session %q: %w", id, err)
	}
	return func(ctx context.Context, now time.Time) error {
		defer s.entered.remove(key)
		if err := s.noteEntered(ctx, key, now, time.Time{}); err != nil {
			return fmt.Errorf("leave session %q: %w", id, err)
		}
		return nil
	}, nil
}

// noteEntered notes the use of a session that has not expired at unexpired; the zero time asks only that it is there.
func (s *Store) noteEntered(ctx context.Context, key sessionKey, at, unexpired time.Time) error {
	least := int64(closedAt)
	if !unexpired.IsZero() {
		least = unexpired.UnixMicro()
	}
	return s.decide(ctx, 0, func(c *conn) error {
		var num int64
		if found, err := c.row(`SELECT num FROM sessions
			WHERE id = ? AND user = ? AND deleted = 0 AND (expires IS NULL OR expires > ?)`, []any{key.id, key.user, least}, &num); err != nil {
			return err
		} else if !found {
			return refuse(task.ErrNotFound)
		}
		return noteUse(c, num, at.UnixMicro())
	})
}

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

// ExpiredSessions implements task.Store: those that are closed come first, then those that expired first.
func (s *Store) ExpiredSessions(ctx context.Context, now time.Time, limit int) ([]task.Session, error) {
	others, err := s.livingOwners(ctx)
	if err != nil {
		return nil, fmt.Errorf("list expired sessions: %w", err)
	}
	sessions, _, err := s.sessions(ctx, ` WHERE s.deleted = 0 AND s.expires <= ?
		AND NOT EXISTS (SELECT 1 FROM tasks WHERE session = s.num AND ended IS NULL)
		AND NOT EXISTS (SELECT 1 FROM runs WHERE session = s.id AND session <> '' AND user = s.user AND ended IS NULL AND purged = 0
			AND owner IN (SELECT value FROM json_each(?)))
		AND s.id || ' ' || s.user NOT IN (SELECT value FROM json_each(?))
		ORDER BY s.expires LIMIT ?`, now.UnixMicro(), others, s.usedHere(), limit)
	if err != nil {
		return nil, fmt.Errorf("list expired sessions: %w", err)
	}
	return sessions, nil
}

// livingOwners are the other live processes that have unfinished runs, as a JSON array.
func (s *Store) livingOwners(ctx context.Context) (string, error) {
	rows, err := s.query(ctx, "SELECT DISTINCT owner FROM runs WHERE ended IS NULL AND owner <> ?", s.owner.id)
	if err != nil {
		return "", s.fail(err)
	}
	defer rows.Close()
	living := []string{}
	for rows.Next() {
		var owner string
		if err := rows.Scan(&owner); err != nil {
			return "", s.fail(err)
		}
		if alive, err := s.owner.alive(owner); err != nil {
			return "", err
		} else if alive {
			living = append(living, owner)
		}
	}
	if err := rows.Err(); err != nil {
		return "", s.fail(err)
	}
	return jsonArray(living), nil
}

// usedHere are the sessions that this process uses without a task, each as "ID USER" (no id has a space), as a JSON array.
func (s *Store) usedHere() string {
	used := []string{}
	for _, key := range s.entered.keys() {
		used = append(used, key.id+" "+key.user)
	}
	for _, w := range s.writers() {
		if key := w.session(); key.id != "" {
			used = append(used, key.id+" "+key.user)
		}
	}
	return jsonArray(used)
}

func jsonArray(texts []string) string {
	text, _ := json.Marshal(texts) // strings cannot fail
	return string(text)
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
func (s *Store) CloseSession(ctx context.Context, id string) error {
	if err := s.decide(ctx, 0, func(c *conn) error {
		_, _, err := s.closeSession(c, id)
		return err
	}); err != nil {
		return fmt.Errorf("close session %q: %w", id, err)
	}
	return nil
}

// closeSession decides that a session is to be forgotten. To close one again does nothing.
func (s *Store) closeSession(c *conn, id string) (num int64, key sessionKey, err error) {
	var closed int64
	key.id = id
	found, err := c.row("SELECT num, user, coalesce(expires, 0) = ? FROM sessions WHERE id = ? AND deleted = 0",
		[]any{closedAt, id}, &num, &key.user, &closed)
	switch {
	case err != nil:
		return 0, key, err
	case !found:
		return 0, key, refuse(task.ErrNotFound)
	case closed != 0:
		return num, key, nil
	}
	runs, err := s.unused(c, num, key)
	if err != nil {
		return 0, key, err
	}
	for _, run := range runs {
		if _, err := c.exec("UPDATE runs SET purged = 1 WHERE num = ?", run); err != nil {
			return 0, key, err
		}
	}
	_, err = c.exec("UPDATE sessions SET expires = ? WHERE num = ?", closedAt, num)
	return num, key, err
}

// DeleteSession implements task.Store. It refuses (task.ErrBusy) while the session is in use, as CloseSession does. Once it
// has begun it is not stopped by ctx; what a crash leaves, the next purge deletes.
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
	num, key, err := s.closeSession(c, id)
	if err != nil {
		return err
	}
	for _, w := range s.writers() {
		w.gone = append(w.gone, key) // soon the session's row does not say so any more
	}
	_, err = c.exec("UPDATE sessions SET deleted = 1 WHERE num = ?", num)
	return err
}

// unused refuses where a task or a run uses a session. It returns the session's unfinished runs that nobody writes.
func (s *Store) unused(c *conn, num int64, key sessionKey) (left []int64, err error) {
	var unfinished string
	if found, err := c.row("SELECT id FROM tasks WHERE session = ? AND ended IS NULL LIMIT 1", []any{num}, &unfinished); err != nil {
		return nil, err
	} else if found {
		return nil, refuse(fmt.Errorf("%w: %s has not ended", task.ErrBusy, unfinished))
	}
	for _, w := range s.writers() {
		if w.session() == key { // its run may have no row yet
			return nil, refuse(fmt.Errorf("%w: run %s has not ended", task.ErrBusy, w.run))
		}
	}
	if s.entered.has(key) {
		return nil, refuse(fmt.Errorf("%w: a run is about to begin, or has just ended", task.ErrBusy))
	}
	type run struct {
		num       int64
		id, owner string
	}
	var runs []run
	if err := c.each(`SELECT num, id, owner FROM runs
		WHERE session = ? AND session <> '' AND user = ? AND ended IS NULL AND purged = 0`, []any{key.id, key.user},
		func(row []driver.Value) error {
			runs = append(runs, run{row[0].(int64), row[1].(string), row[2].(string)})
			return nil
		}); err != nil {
		return nil, err
	}
	for _, r := range runs {
		written := s.isOpen(r.id)
		if r.owner != s.owner.id {
			var err error
			if written, err = s.owner.alive(r.owner); err != nil {
				return nil, refuse(err)
			}
		}
		if written {
			return nil, refuse(fmt.Errorf("%w: run %s has not ended", task.ErrBusy, r.id))
		}
		left = append(left, r.num)
	}
	return left, nil
}

// writers are the journals that this process writes.
func (s *Store) writers() []*runWriter {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*runWriter, 0, len(s.open))
	for _, w := range s.open {
		all = append(all, w)
	}
	return all
}

// isOpen says whether this process writes a run's journal.
func (s *Store) isOpen(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[run] != nil
}
