package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"mcp-code-exec-harness/internal/task"
)

// Commit implements task.Store.
func (s *Store) Commit(ctx context.Context, id string, fence int64, ch task.Change) (_ []task.Event, err error) {
	defer wrap(&err, "commit to task %q", id)
	rows, err := encodeChange(&ch, s.now())
	if err != nil {
		return nil, err
	}
	var added []task.Event
	if err := s.write(ctx, rows.bytes, func(c *conn) {
		added = nil // the transaction may be repeated
		rows.store(c, s.owned(c, id, fence), func(e task.Event) { added = append(added, e) })
	}); err != nil {
		return nil, err
	}
	return added, nil
}

// RequestCancel implements task.Store.
func (s *Store) RequestCancel(ctx context.Context, id string, ch task.Change) (_ task.Task, err error) {
	defer wrap(&err, "cancel task %q", id)
	if ch.Task == nil || !ch.Task.Status.Ended() {
		return task.Task{}, fmt.Errorf("%w: the change does not end it", task.ErrInvalidInput)
	}
	rows, err := encodeChange(&ch, s.now())
	if err != nil {
		return task.Task{}, err
	}
	dead, err := s.deadOwners(ctx)
	if err != nil {
		return task.Task{}, err
	}
	if err := s.write(ctx, rows.bytes, func(c *conn) {
		if h := head(c, id); h.inWork && !slices.Contains(dead, h.owner) {
			c.exec("UPDATE tasks SET cancel = 1 WHERE num = ?", h.num)
		} else {
			rows.store(c, h, nil)
		}
	}); err != nil {
		return task.Task{}, err
	}
	return s.Task(ctx, id)
}

// store writes a change of a task, and passes the events that it stores to added, see insertEvents. It does not change r, because the transaction may
// be repeated.
func (r *changeRows) store(c *conn, h taskHead, added func(task.Event)) {
	for _, data := range r.steps {
		c.exec("INSERT INTO steps (task, seq, data) VALUES (?, (SELECT coalesce(max(seq), 0) + 1 FROM steps WHERE task = ?), ?)", h.num, h.num, data)
	}
	insertEvents(c, h.num, r.events, added)
	grown := r.bytes
	if t := r.task; t != nil {
		if t.EndedAt == nil {
			grown -= len(t.outcome) // only the outcome of an ended task counts against the quota
		}
		c.exec("UPDATE tasks SET status = ?, cached = ?, started = ?, ended = ?, outcome = ?, bytes = bytes + ? WHERE num = ?",
			string(t.Status), t.Cached, t.StartedAt, t.EndedAt, t.outcome, countBytes(c, h.num, grown, t.EndedAt != nil), h.num)
		if t.EndedAt != nil {
			c.exec(endWork, h.session, *t.EndedAt, h.num)
		}
	} else if due := countBytes(c, h.num, grown, false); due != 0 {
		c.exec("UPDATE tasks SET bytes = bytes + ? WHERE num = ?", due, h.num)
	}
	insertWebhook(c, h.num, r.webhook)
	if t := r.task; t != nil && t.EndedAt != nil {
		delete(c.claims, t.ID)
		c.countTask(t)
	}
}

// countBytes returns the bytes that the caller must add to tasks.bytes, which count against the quota of the task's user. The given bytes stay in
// c.uncounted until they reach maxUncounted or atOnce is set, because each UPDATE writes the whole row again, with the task's context. A crash loses
// the bytes in c.uncounted.
func countBytes(c *conn, num int64, bytes int, atOnce bool) (due int) {
	before := c.uncounted[num]
	c.undo = append(c.undo, func() { c.uncounted[num] = before })
	bytes += before
	if !atOnce && bytes < maxUncounted {
		c.uncounted[num] = bytes
		return 0
	}
	delete(c.uncounted, num)
	return bytes
}

// insertWebhook adds the webhook about a task's end, if w is not nil, to the outbox.
func insertWebhook(c *conn, num int64, w *task.Webhook) {
	if w != nil {
		c.exec("INSERT INTO webhooks (id, task, user, url, attempts, due) SELECT ?, num, user, ?, ?, ? FROM tasks WHERE num = ?",
			w.ID, w.URL, w.Attempts, w.Due, num)
	}
}

// insertEvents numbers and stores events, except those whose key is already stored. Before the transaction ends, the stored events are passed to
// added, which may be nil.
func insertEvents(c *conn, num int64, events []task.Event, added func(task.Event)) {
	if len(events) == 0 {
		return
	}
	const insert = "INSERT INTO events (task, id, type, time, key, data) VALUES (?, "
	const unlessStored = ", ?, ?, ?, ?) ON CONFLICT (task, key) WHERE key <> '' DO NOTHING"
	if c.dialect.send == nil { // SQLite reads the last number once, which takes less time than the statement below.
		var last int64
		c.row("SELECT coalesce(max(id), 0) FROM events WHERE task = ?", []any{num}, &last)
		for _, e := range events {
			if c.changed(insert+"?"+unlessStored, num, last+1, e.Type, e.Time, e.Key, storedData(e)) > 0 {
				last++
				if e.ID = last; added != nil {
					added(e)
				}
			}
		}
		return
	}
	for _, e := range events {
		c.later(func(row scanner) error {
			err := row.Scan(&e.ID)
			if err == nil && added != nil {
				added(e)
			}
			return err
		}, insert+"(SELECT coalesce(max(id), 0) + 1 FROM events WHERE task = ?)"+unlessStored+" RETURNING id", num, num, e.Type, e.Time, e.Key, storedData(e))
	}
}

// storedData returns the data to store for an event. For a task's end it is empty: Events fills in the task itself.
func storedData(e task.Event) []byte {
	if e.Type == task.EventEnded {
		return []byte{}
	}
	return e.Data
}
