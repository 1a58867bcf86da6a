package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/task"
)

const (
	readyBatch   = 500       // maximum number of sessions that one claim makes ready
	recoverBatch = 500       // maximum number of tasks of a dead process that one transaction frees
	damagedAgain = time.Hour // time until an unreadable task is claimed again
)

// taskHead holds the columns of a task that decide how the task may change.
type taskHead struct {
	num, session, fence int64
	owner               string
	inWork              bool // true if the owner works on the task; false if the owner has only reserved the task, or if the task has no owner
}

// queueHead reads the head of a task, and passes it to f before the transaction ends. err is task.ErrNotFound or task.ErrEnded for a task that must not
// change.
func queueHead(c *conn, id string, f func(h taskHead, err error)) {
	h, err := taskHead{}, task.ErrNotFound
	c.do(statement{
		query: `SELECT t.num, t.session, t.fence, t.owner, t.ended IS NOT NULL, s.working = t.num
			FROM tasks t CROSS JOIN sessions s ON s.num = t.session WHERE t.id = ? AND t.purged <> 1 AND s.closed IS NULL /*+ FOR UPDATE OF s, t */`,
		args: []any{id},
		row: func(row scanner) error {
			var ended bool
			failed := row.Scan(&h.num, &h.session, &h.fence, &h.owner, &ended, &h.inWork)
			if err = nil; ended {
				err = task.ErrEnded
			}
			return failed
		},
		done: func(int64) { f(h, err) },
	})
}

// head returns the head of a task that has not ended.
func head(c *conn, id string) (h taskHead) {
	queueHead(c, id, func(found taskHead, err error) {
		if h = found; err != nil {
			c.refuse(err)
		}
	})
	c.flush()
	return h
}

// errStale means that a change was applied for a claim that this process has lost. The transaction is repeated.
var errStale = errors.New("the task is not in work in this process")

// owned is like head, but refuses a task that this process does not own by the claim with the given fence. If this process has claimed the task, only
// num and session of the head are set, and the head is read with the statements of the change.
func (s *Store) owned(c *conn, id string, fence int64) taskHead {
	h, claimed := c.claims[id]
	if claimed && c.dialect.send != nil {
		queueHead(c, id, func(now taskHead, err error) {
			if err != nil || now.owner != s.lease.ID() || now.fence != fence {
				delete(c.claims, id) // The repeated transaction then reads the head first.
				c.fail(errStale)
			}
		})
		return h
	}
	h = head(c, id)
	if h.owner != s.lease.ID() || h.fence != fence {
		c.refuse(task.ErrNotOwner)
	}
	return h
}

// nextTask selects the next waiting task of a session: tasks that were started come first, then the earliest due time decides.
const nextTask = "ended IS NULL AND owner = '' ORDER BY started IS NULL, due, num LIMIT 1"

// setDue stores, in the row of a session, the time at which the next waiting task of the session is due. The time is null while a task of the
// session is in work.
const setDue = `UPDATE sessions SET ready = 0, due = CASE WHEN working = 0 THEN (
	SELECT due FROM tasks WHERE session = sessions.num AND ` + nextTask + `) END WHERE num = ?`

// useColumns records, in the row of a session, a use of the session at the time ?2. It postpones the session's expiry by the time since its previous use.
const useColumns = "expires = CASE WHEN used < ?2 THEN expires + ?2 - used ELSE expires END, used = CASE WHEN used < ?2 THEN ?2 ELSE used END"

// endWork records, in the row of a session, that its task ?3 is no longer in work, and that the session was used at the time ?2, 0 for no use.
const endWork = `UPDATE sessions SET working = CASE WHEN working = ?3 THEN 0 ELSE working END, ready = 0, due = CASE WHEN working IN (0, ?3) THEN (
	SELECT due FROM tasks WHERE session = sessions.num AND ` + nextTask + `) END, ` + useColumns + ` WHERE num = ?1`

// ClaimNext implements task.Store. Users take turns in the order of their names.
func (s *Store) ClaimNext(ctx context.Context, after string, except []string, now time.Time) (t task.Task, next time.Time, err error) {
	defer wrap(&err, "claim the next task")
	if err := s.lease.Claim(); err != nil {
		return t, next, err
	}
	for {
		var id string
		var due int64
		if err := s.write(ctx, 0, func(c *conn) { id, due = s.claimNext(c, after, except, now) }); err != nil {
			return t, next, err
		}
		if id == "" {
			if due > 0 {
				next = time.UnixMicro(due).UTC()
			}
			return t, next, nil
		}
		t, err := s.Task(ctx, id)
		if err == nil {
			return t, next, nil
		}
		// A task that cannot be read must not delay the other tasks.
		s.log.Error("claim a task", "task", id, "error", err)
		var again time.Time // zero if the connection was lost: the task keeps its due time, so that no other task of its session overtakes it
		if !isLost(err) {
			again = now.Add(damagedAgain)
		}
		if failed := s.write(ctx, 0, func(c *conn) {
			if h := head(c, id); c.err == nil {
				free(c, h.num, h.session, again)
			}
		}); failed != nil {
			return task.Task{}, next, errors.Join(err, failed)
		}
		if isLost(err) {
			return task.Task{}, next, err
		}
	}
}

// claimNext claims a task and returns its id. If no task is due, id is empty and due is the time at which the next task is due; 0 means that there
// is none.
func (s *Store) claimNext(c *conn, after string, except []string, now time.Time) (id string, due int64) {
	c.exec(`UPDATE sessions SET ready = 1 WHERE num IN (
		SELECT num FROM sessions WHERE ready = 0 AND due <= ? ORDER BY due LIMIT ? /*+ FOR UPDATE SKIP LOCKED */)`, now, readyBatch)
	for user, wrapped := after, false; ; {
		var session, num int64
		before := user
		found := c.row("SELECT num, user FROM sessions WHERE ready = 1 AND user > ? ORDER BY user, due, num LIMIT 1 /*+ FOR UPDATE SKIP LOCKED */", []any{user}, &session, &user)
		switch {
		case !found && wrapped:
			c.row("SELECT due FROM sessions WHERE ready = 0 AND due IS NOT NULL ORDER BY due LIMIT 1", nil, &due)
			return "", due
		case !found:
			user, wrapped = "", true
			continue
		case slices.Contains(except, user):
			continue
		}
		if !c.row("SELECT num, id FROM tasks WHERE session = ? AND "+nextTask, []any{session}, &num, &id) {
			if c.err != nil {
				return "", 0
			}
			s.log.Error("a session was ready without a task: corrected", "session", session)
			c.exec(setDue, session)
			user = before
			continue
		}
		s.take(c, id, num, session, now)
		return id, 0
	}
}

// take makes this process the owner of a task, and records the task as the one that is in work in its session.
func (s *Store) take(c *conn, id string, num, session int64, now time.Time) {
	if c.err != nil {
		return
	}
	if c.dialect.send != nil {
		c.claims[id] = taskHead{num: num, session: session}
		c.undo = append(c.undo, func() { delete(c.claims, id) })
	}
	c.exec("UPDATE tasks SET status = 'running', owner = ?, fence = fence + 1 WHERE num = ?", s.lease.ID(), num)
	c.exec("UPDATE sessions SET working = ?3, due = NULL, ready = 0, "+useColumns+" WHERE num = ?1", session, now, num)
	delete(c.uncounted, num) // the bytes remain from an earlier claim of this process, after which another process has owned the task
}

// Claim implements task.Store. It counts as a use of the session.
func (s *Store) Claim(ctx context.Context, id string, now time.Time) (_ task.Task, err error) {
	defer wrap(&err, "claim task %q", id)
	if err := s.lease.Claim(); err != nil {
		return task.Task{}, err
	}
	dead, err := s.deadOwners(ctx)
	if err != nil {
		return task.Task{}, err
	}
	if err := s.write(ctx, 0, func(c *conn) {
		var working, h taskHead // working is the task that is in work in the session
		queueHead(c, id, func(found taskHead, err error) {
			if h = found; err != nil {
				c.refuse(err)
			}
		})
		c.later(func(row scanner) error { return row.Scan(&working.num, &working.owner) }, `SELECT w.num, w.owner FROM tasks t
			CROSS JOIN sessions s ON s.num = t.session CROSS JOIN tasks w ON w.num = s.working WHERE t.id = ?`, id)
		c.flush()
		if h.owner != "" && h.owner != s.lease.ID() && !slices.Contains(dead, h.owner) {
			c.refuse(fmt.Errorf("%w: process %s", task.ErrNotOwner, s.lease.Describe(h.owner)))
		}
		if working.num != 0 && !h.inWork {
			releaseDead(c, working, dead)
		}
		s.take(c, id, h.num, h.session, now)
	}); err != nil {
		return task.Task{}, err
	}
	return s.Task(ctx, id)
}

// releaseDead refuses the change (task.ErrBusy) if a live process works on a task. If the process is dead, the task waits again.
func releaseDead(c *conn, working taskHead, dead []string) {
	if !slices.Contains(dead, working.owner) {
		c.refuse(task.ErrBusy)
	}
	c.exec("UPDATE tasks SET owner = '' WHERE num = ?", working.num)
}

// Release implements task.Store.
func (s *Store) Release(ctx context.Context, id string, fence int64, due time.Time) (err error) {
	defer wrap(&err, "release task %q", id)
	return s.write(ctx, 0, func(c *conn) {
		h := s.owned(c, id, fence)
		free(c, h.num, h.session, due)
		delete(c.claims, id)
	})
}

// free makes a task wait again. If due is zero, the task keeps its due time.
func free(c *conn, num, session int64, due time.Time) {
	c.exec("UPDATE tasks SET owner = '', due = coalesce(?, due), bytes = bytes + ? WHERE num = ?", orNull(due), countBytes(c, num, 0, true), num)
	c.exec(endWork, session, 0, num)
}

// deadOwners returns the dead processes among the owners of unfinished tasks, of unfinished runs and of uses of sessions.
func (s *Store) deadOwners(ctx context.Context) ([]string, error) {
	owners, err := list(ctx, s, value[string], `SELECT owner FROM tasks WHERE ended IS NULL AND owner <> '' UNION SELECT owner FROM session_uses
		UNION SELECT owner FROM runs WHERE ended IS NULL AND owner > ''`)
	return slices.DeleteFunc(owners, s.maybeAlive), err
}

// maybeAlive reports whether an owner's process lives. If that cannot be determined, the process counts as alive, so that it keeps its work and
// the error does not stop other work.
func (s *Store) maybeAlive(owner string) bool {
	alive, err := s.lease.Alive(owner)
	if err != nil {
		s.log.Error("find out whether another process is alive", "owner", owner, "error", err)
	}
	return alive || err != nil
}

// Recover implements task.Store.
func (s *Store) Recover(ctx context.Context) (err error) {
	defer wrap(&err, "free the tasks of dead processes")
	dead, err := s.deadOwners(ctx)
	for _, owner := range dead {
		for more := true; err == nil && more; {
			err = s.write(ctx, 0, func(c *conn) { more = freeAll(c, owner) })
		}
	}
	return err
}

// Claims implements task.Store.
func (s *Store) Claims(ctx context.Context) (map[string]int64, error) {
	claims := map[string]int64{}
	err := s.each(ctx, "SELECT t.id, t.fence FROM tasks t JOIN sessions s ON s.num = t.session AND s.working = t.num WHERE t.ended IS NULL AND t.owner <> '' AND t.owner = ?",
		[]any{s.lease.ID()}, func(row scanner) error {
			var id string
			var fence int64
			err := row.Scan(&id, &fence)
			claims[id] = fence
			return err
		})
	wrap(&err, "list the claims of this process")
	return claims, err
}

// freeAll frees some tasks of a dead owner, and reports whether there may be more.
func freeAll(c *conn, owner string) (more bool) {
	type owned struct{ num, session int64 }
	var all []owned
	c.each("SELECT t.num, t.session FROM tasks t JOIN sessions s ON s.num = t.session WHERE t.ended IS NULL AND t.owner <> '' AND t.owner = ? LIMIT ? /*+ FOR UPDATE OF s, t SKIP LOCKED */", []any{owner, recoverBatch},
		func(row scanner) error {
			var t owned
			err := row.Scan(&t.num, &t.session)
			all = append(all, t)
			return err
		})
	for _, t := range all {
		free(c, t.num, t.session, time.Time{})
	}
	c.exec("DELETE FROM session_uses WHERE owner = ?", owner)
	return len(all) == recoverBatch
}

// noteUse records a use of a session.
func noteUse(c *conn, session int64, at time.Time) {
	c.exec("UPDATE sessions SET "+useColumns+" WHERE num = ?1", session, at)
}
