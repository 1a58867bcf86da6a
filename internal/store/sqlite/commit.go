package sqlite

import (
	"context"
	"fmt"
	"slices"

	"mcp-code-exec-harness/internal/task"
)

// Commit implements task.Store.
func (s *Store) Commit(ctx context.Context, id string, fence int64, ch task.Change) ([]task.Event, error) {
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
		case h.owner != s.lease.ID() || h.fence != fence:
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
	dead, err := s.deadOwners(ctx)
	if err != nil {
		return task.Task{}, fmt.Errorf("cancel task %q: %w", id, err)
	}
	if err := s.decide(ctx, rows.bytes, func(c *conn) error {
		h, err := head(c, id)
		switch {
		case err != nil:
			return err
		case h.inWork && !slices.Contains(dead, h.owner):
			_, err = c.exec("UPDATE tasks SET cancel = 1 WHERE num = ?", h.num)
		default:
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
	grown := r.bytes
	if t := r.task; t != nil {
		if t.ended == nil {
			grown -= len(t.outcome) // the last one counts
		}
		if _, err := c.exec("UPDATE tasks SET status = ?, cached = ?, started = ?, ended = ?, outcome = ? WHERE num = ?",
			t.status, t.cached, t.started, t.ended, t.outcome, h.num); err != nil {
			return nil, err
		}
		if t.ended != nil {
			if _, err := c.exec("UPDATE sessions SET working = 0 WHERE num = ? AND working = ?", h.session, h.num); err != nil {
				return nil, err
			}
			if _, err := c.exec(lineUp, h.session); err != nil {
				return nil, err
			}
			if err := noteUse(c, h.session, *t.ended); err != nil {
				return nil, err
			}
		}
	}
	if grown > 0 {
		if _, err := c.exec("UPDATE tasks SET bytes = bytes + ? WHERE num = ?", grown, h.num); err != nil {
			return nil, err
		}
	}
	if w := r.webhook; w != nil {
		if _, err := c.exec("INSERT INTO webhooks (id, task, user, url, attempts, due) SELECT ?, num, user, ?, ?, ? FROM tasks WHERE num = ?",
			w.ID, w.URL, w.Attempts, w.Due.UnixMicro(), h.num); err != nil {
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
			ON CONFLICT (task, key) WHERE key <> '' DO NOTHING`, num, last+1, e.Type, e.Time.UnixMicro(), e.Key, storedData(e))
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

// storedData is an event's data as it is stored: that of a task's end is the task itself, which Events reads again.
func storedData(e task.Event) []byte {
	if e.Type == task.EventEnded {
		return []byte{}
	}
	return e.Data
}
