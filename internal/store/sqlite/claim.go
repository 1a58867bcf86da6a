package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/task"
)

const (
	promoteBatch = 500 // sessions that become ready with one claim
	recoverBatch = 500 // tasks of dead processes that one transaction frees
)

// taskHead is what decides about a change of a task.
type taskHead struct {
	num, session, fence int64
	owner               string
	inWork              bool // its owner works on it; else an owner has it reserved
}

// head returns the head of a task that has not ended.
func head(c *conn, id string) (h taskHead, err error) {
	var ended, working int64
	found, err := c.row(`SELECT t.num, t.session, t.fence, t.owner, t.ended IS NOT NULL, s.working = t.num
		FROM tasks t CROSS JOIN sessions s ON s.num = t.session WHERE t.id = ? AND t.purged = 0 AND s.closed IS NULL`, []any{id},
		&h.num, &h.session, &h.fence, &h.owner, &ended, &working)
	switch {
	case err != nil:
		return h, err
	case !found:
		return h, refuse(task.ErrNotFound)
	case ended != 0:
		return h, refuse(task.ErrEnded)
	}
	h.inWork = working != 0
	return h, nil
}

// lineUp notes on a session when its next waiting task is due: of those that were begun first, then in the order of due times.
const lineUp = `UPDATE sessions SET ready = 0, due = CASE WHEN working = 0 THEN (
	SELECT due FROM tasks WHERE session = sessions.num AND ended IS NULL AND owner = ''
	ORDER BY started IS NULL, due, num LIMIT 1) END WHERE num = ?`

// ClaimNext implements task.Store. Users take turns in the order of their names.
func (s *Store) ClaimNext(ctx context.Context, after string, except []string, now time.Time) (t task.Task, next time.Time, err error) {
	var id string
	var due int64
	err = s.lease.Claim()
	if err == nil {
		err = s.decide(ctx, 0, func(c *conn) (err error) {
			id, due, err = s.claimNext(c, after, except, now.UnixMicro())
			return err
		})
	}
	if err != nil {
		return task.Task{}, time.Time{}, fmt.Errorf("claim the next task: %w", err)
	}
	if id == "" {
		if due > 0 {
			next = instant(due)
		}
		return task.Task{}, next, nil
	}
	t, err = s.Task(ctx, id)
	return t, next, err
}

// claimNext returns the id of the task that it claims, or when the next one is due, 0 for never.
func (s *Store) claimNext(c *conn, after string, except []string, now int64) (id string, due int64, err error) {
	if _, err := c.exec(`UPDATE sessions SET ready = 1 WHERE num IN (
		SELECT num FROM sessions WHERE ready = 0 AND due <= ? ORDER BY due LIMIT ?)`, now, promoteBatch); err != nil {
		return "", 0, err
	}
	for user, wrapped := after, false; ; {
		var session int64
		found, err := c.row("SELECT num, user FROM sessions WHERE ready = 1 AND user > ? ORDER BY user, due LIMIT 1", []any{user}, &session, &user)
		switch {
		case err != nil:
			return "", 0, err
		case !found && wrapped:
			_, err := c.row("SELECT due FROM sessions WHERE ready = 0 AND due IS NOT NULL ORDER BY due LIMIT 1", nil, &due)
			return "", due, err
		case !found:
			user, wrapped = "", true
			continue
		case slices.Contains(except, user):
			continue
		}
		var num int64
		found, err = c.row(`SELECT num, id FROM tasks WHERE session = ? AND ended IS NULL AND owner = ''
			ORDER BY started IS NULL, due, num LIMIT 1`, []any{session}, &num, &id)
		if err != nil || !found {
			return "", 0, errors.Join(err, fmt.Errorf("session %d is ready without a task", session))
		}
		return id, 0, s.take(c, num, session, now)
	}
}

// take makes a task this process's, and the one in work of its session.
func (s *Store) take(c *conn, num, session, now int64) error {
	if _, err := c.exec("UPDATE tasks SET status = 'running', owner = ?, fence = fence + 1 WHERE num = ?", s.lease.ID(), num); err != nil {
		return err
	}
	if _, err := c.exec("UPDATE sessions SET working = ?, due = NULL, ready = 0 WHERE num = ?", num, session); err != nil {
		return err
	}
	return noteUse(c, session, now)
}

// Claim implements task.Store. It is a use of the session.
func (s *Store) Claim(ctx context.Context, id string, now time.Time) (task.Task, error) {
	err := s.lease.Claim()
	var dead []string
	if err == nil {
		dead, err = s.deadOwners(ctx)
	}
	if err == nil {
		err = s.decide(ctx, 0, func(c *conn) error {
			h, err := head(c, id)
			if err != nil {
				return err
			}
			if h.owner != "" && h.owner != s.lease.ID() && !slices.Contains(dead, h.owner) {
				return refuse(fmt.Errorf("%w: process %s", task.ErrNotOwner, s.lease.Describe(h.owner)))
			}
			if !h.inWork {
				if err := s.makeWay(c, h.session, dead); err != nil {
					return err
				}
			}
			return s.take(c, h.num, h.session, now.UnixMicro())
		})
	}
	if err != nil {
		return task.Task{}, fmt.Errorf("claim task %q: %w", id, err)
	}
	return s.Task(ctx, id)
}

// makeWay refuses (task.ErrBusy) where a live process works on a task of the session. A dead one's waits again.
func (s *Store) makeWay(c *conn, session int64, dead []string) error {
	var num int64
	var owner string
	found, err := c.row("SELECT t.num, t.owner FROM sessions s JOIN tasks t ON t.num = s.working WHERE s.num = ?", []any{session}, &num, &owner)
	switch {
	case err != nil || !found:
		return err
	case !slices.Contains(dead, owner):
		return refuse(task.ErrBusy)
	}
	_, err = c.exec("UPDATE tasks SET owner = '' WHERE num = ?", num)
	return err
}

// Release implements task.Store.
func (s *Store) Release(ctx context.Context, id string, fence int64, due time.Time) error {
	if err := s.decide(ctx, 0, func(c *conn) error {
		h, err := head(c, id)
		switch {
		case err != nil:
			return err
		case h.owner != s.lease.ID() || h.fence != fence:
			return refuse(task.ErrNotOwner)
		}
		return free(c, h.num, h.session, due.UnixMicro())
	}); err != nil {
		return fmt.Errorf("release task %q: %w", id, err)
	}
	return nil
}

// free has a task wait again; a due time of 0 leaves the one that it has.
func free(c *conn, num, session, due int64) error {
	if _, err := c.exec("UPDATE tasks SET owner = '', due = CASE ?1 WHEN 0 THEN due ELSE ?1 END WHERE num = ?2", due, num); err != nil {
		return err
	}
	if _, err := c.exec("UPDATE sessions SET working = 0 WHERE num = ? AND working = ?", session, num); err != nil {
		return err
	}
	_, err := c.exec(lineUp, session)
	return err
}

// deadOwners are the owners of unfinished tasks and runs and of uses of sessions whose process is dead.
func (s *Store) deadOwners(ctx context.Context) ([]string, error) {
	rows, err := s.query(ctx, `SELECT owner FROM tasks WHERE ended IS NULL AND owner <> '' UNION SELECT owner FROM session_uses
		UNION SELECT owner FROM runs WHERE ended IS NULL`)
	if err != nil {
		return nil, s.fail(err)
	}
	owners, err := scanTexts(rows)
	if err != nil {
		return nil, s.fail(err)
	}
	return s.dead(owners)
}

// dead returns those owners whose process is dead.
func (s *Store) dead(owners []string) (dead []string, err error) {
	for _, owner := range owners {
		alive, err := s.lease.Alive(owner)
		if err != nil {
			return nil, err
		}
		if !alive {
			dead = append(dead, owner)
		}
	}
	return dead, nil
}

// Recover implements task.Store.
func (s *Store) Recover(ctx context.Context) error {
	dead, err := s.deadOwners(ctx)
	for _, owner := range dead {
		for more := true; err == nil && more; {
			err = s.decide(ctx, 0, func(c *conn) (err error) {
				more, err = freeAll(c, owner)
				return err
			})
		}
	}
	if err != nil {
		return fmt.Errorf("free the tasks of dead processes: %w", err)
	}
	return nil
}

// freeAll frees some tasks of a dead owner, and says whether there may be more.
func freeAll(c *conn, owner string) (more bool, err error) {
	type owned struct{ num, session int64 }
	var all []owned
	if err := c.each("SELECT num, session FROM tasks WHERE ended IS NULL AND owner <> '' AND owner = ? LIMIT ?", []any{owner, recoverBatch},
		func(row []driver.Value) error {
			all = append(all, owned{row[0].(int64), row[1].(int64)})
			return nil
		}); err != nil {
		return false, err
	}
	for _, t := range all {
		if err := free(c, t.num, t.session, 0); err != nil {
			return false, err
		}
	}
	_, err = c.exec("DELETE FROM session_uses WHERE owner = ?", owner)
	return len(all) == recoverBatch, err
}

// noteUse moves a session's expiry on, so that as much time is left as after its last use.
func noteUse(c *conn, session, at int64) error {
	_, err := c.exec("UPDATE sessions SET expires = expires + max(0, ?1 - used), used = max(used, ?1) WHERE num = ?2", at, session)
	return err
}
