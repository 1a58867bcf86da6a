package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// taskHead is what decides about a change of a task.
type taskHead struct {
	num, session int64
	owner        string
}

// head returns the head of a task that has not ended.
func head(c *conn, id string) (h taskHead, err error) {
	var ended int64
	found, err := c.row("SELECT num, session, owner, ended IS NOT NULL FROM tasks WHERE id = ? AND purged = 0", []any{id},
		&h.num, &h.session, &h.owner, &ended)
	switch {
	case err != nil:
		return h, err
	case !found:
		return h, refuse(task.ErrNotFound)
	case ended != 0:
		return h, refuse(task.ErrEnded)
	}
	return h, nil
}

// Claim implements task.Store. It is a use of the session.
func (s *Store) Claim(ctx context.Context, id string, now time.Time) (task.Task, error) {
	err := s.owner.claim()
	if err == nil {
		err = s.decide(ctx, 0, func(c *conn) error { return s.claim(c, id, now) })
	}
	if err != nil {
		return task.Task{}, fmt.Errorf("claim task %q: %w", id, err)
	}
	return s.Task(ctx, id)
}

func (s *Store) claim(c *conn, id string, now time.Time) error {
	h, err := head(c, id)
	if err != nil {
		return err
	}
	if h.owner != "" && h.owner != s.owner.id {
		if alive, err := s.owner.alive(h.owner); err != nil {
			return refuse(err)
		} else if alive {
			return refuse(fmt.Errorf("%w: process %s", task.ErrNotOwner, s.owner.describe(h.owner)))
		}
	}
	var others []string // owners of the session's running tasks
	if err := c.each("SELECT owner FROM tasks WHERE session = ? AND ended IS NULL AND status = 'running' AND num <> ?",
		[]any{h.session, h.num}, func(row []driver.Value) error {
			owner, ok := row[0].(string)
			if !ok {
				return fmt.Errorf("the owner of a task is a %T", row[0])
			}
			others = append(others, owner)
			return nil
		}); err != nil {
		return err
	}
	for _, owner := range others {
		if alive, err := s.owner.alive(owner); err != nil {
			return refuse(err)
		} else if alive {
			return refuse(task.ErrBusy)
		}
	}
	if _, err := c.exec("UPDATE tasks SET status = 'running', owner = ? WHERE num = ?", s.owner.id, h.num); err != nil {
		return err
	}
	return noteUse(c, h.session, now.UnixMicro())
}

// noteUse moves a session's expiry on, so that as much time is left as after its last use.
func noteUse(c *conn, session, at int64) error {
	_, err := c.exec("UPDATE sessions SET expires = expires + max(0, ?1 - used), used = max(used, ?1) WHERE num = ?2", at, session)
	return err
}

// Commit implements task.Store.
func (s *Store) Commit(ctx context.Context, id string, ch task.Change) ([]task.Event, error) {
	rows, err := encodeChange(&ch, s.now())
	if err != nil {
		return nil, fmt.Errorf("commit to task %q: %w", id, err)
	}
	var added []task.Event
	if err := s.decide(ctx, rows.bytes, func(c *conn) error {
		h, err := head(c, id)
		switch {
		case err != nil:
			return err
		case h.owner != s.owner.id:
			return refuse(task.ErrNotOwner)
		}
		added, err = rows.store(c, h)
		return err
	}); err != nil {
		return nil, fmt.Errorf("commit to task %q: %w", id, err)
	}
	return added, nil
}

// RequestCancel implements task.Store.
func (s *Store) RequestCancel(ctx context.Context, id string, ch task.Change) (task.Task, error) {
	if ch.Task == nil || !ch.Task.Status.Ended() {
		return task.Task{}, fmt.Errorf("cancel task %q: %w: the change does not end it", id, task.ErrInvalidInput)
	}
	rows, err := encodeChange(&ch, s.now())
	if err != nil {
		return task.Task{}, fmt.Errorf("cancel task %q: %w", id, err)
	}
	if err := s.decide(ctx, rows.bytes, func(c *conn) error {
		h, err := head(c, id)
		if err != nil {
			return err
		}
		worked := false
		if h.owner != "" {
			if worked, err = s.owner.alive(h.owner); err != nil {
				return refuse(err)
			}
		}
		if worked {
			_, err = c.exec("UPDATE tasks SET cancel = 1 WHERE num = ?", h.num)
		} else {
			_, err = rows.store(c, h)
		}
		return err
	}); err != nil {
		return task.Task{}, fmt.Errorf("cancel task %q: %w", id, err)
	}
	return s.Task(ctx, id)
}

// store writes a change of a task. Nothing is changed in r: the transaction may be repeated.
func (r *changeRows) store(c *conn, h taskHead) (added []task.Event, err error) {
	if len(r.steps) > 0 {
		var last int64
		if _, err := c.row("SELECT coalesce(max(seq), 0) FROM steps WHERE task = ?", []any{h.num}, &last); err != nil {
			return nil, err
		}
		for i, data := range r.steps {
			if _, err := c.exec("INSERT INTO steps (task, seq, data) VALUES (?, ?, ?)", h.num, last+int64(i)+1, data); err != nil {
				return nil, err
			}
		}
	}
	if added, err = insertEvents(c, h.num, r.events); err != nil {
		return nil, err
	}
	if t := r.task; t != nil {
		if _, err := c.exec("UPDATE tasks SET status = ?, cached = ?, started = ?, ended = ?, outcome = ? WHERE num = ?",
			t.status, t.cached, t.started, t.ended, t.outcome, h.num); err != nil {
			return nil, err
		}
		if t.ended != nil {
			if err := noteUse(c, h.session, *t.ended); err != nil {
				return nil, err
			}
		}
	}
	if w := r.webhook; w != nil {
		if _, err := c.exec("INSERT INTO webhooks (id, task, url, body, created, attempts, due) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5)",
			w.ID, h.num, w.URL, w.Body, w.Created.UnixMicro(), w.Attempts); err != nil {
			return nil, err
		}
	}
	return added, nil
}

// insertEvents numbers events, and returns those whose key was not there.
func insertEvents(c *conn, num int64, events []task.Event) (added []task.Event, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	var last int64
	if _, err := c.row("SELECT coalesce(max(id), 0) FROM events WHERE task = ?", []any{num}, &last); err != nil {
		return nil, err
	}
	for _, e := range events {
		res, err := c.exec(`INSERT INTO events (task, id, type, time, key, data) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (task, key) WHERE key <> '' DO NOTHING`, num, last+1, e.Type, e.Time.UnixMicro(), e.Key, []byte(e.Data))
		if err != nil {
			return nil, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		last++
		e.ID = last
		added = append(added, e)
	}
	return added, nil
}
