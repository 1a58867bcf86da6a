package sqlite

import (
	"context"
	"time"
)

// purgeSteps is how many steps of tasks one transaction deletes; each may be large.
const purgeSteps = 50

// markPurgedTasks takes tasks away from readers, as markPurged does runs.
func (s *Store) markPurgedTasks(ctx context.Context, before time.Time) (int, error) {
	return s.purgeStep(ctx, `UPDATE tasks SET purged = 1 WHERE num IN (
		SELECT num FROM tasks t WHERE ended < ?1 AND purged = 0
			AND NOT EXISTS (SELECT 1 FROM idempotency WHERE task = t.num)
			AND NOT EXISTS (SELECT 1 FROM webhooks WHERE task = t.num AND due IS NOT NULL)
		LIMIT ?2)`, before.UnixMicro(), purgeRuns)
}

// clean deletes what belongs to deleted sessions and to marked tasks and runs, in small transactions.
func (s *Store) clean(ctx context.Context) error {
	for {
		var some bool
		err := s.do(ctx, func(c *conn) (err error) {
			// What is marked is deleted first, so that there is never much to pass over in search of more.
			for _, step := range []func(*conn) (bool, error){deleteTasks, deleteRuns, markParts, deleteSessions} {
				if some, err = step(c); some || err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err // some is still the writer's
		}
		if !some {
			return nil
		}
	}
}

// deleteTasks deletes some of what belongs to marked tasks, and says whether that was anything. A task's row is the last,
// so that no new task can get its number before.
func deleteTasks(c *conn) (some bool, err error) {
	for records := 0; records < purgeRecords; {
		var num int64
		found, err := c.row("SELECT num FROM tasks WHERE purged = 1 LIMIT 1", nil, &num)
		if err != nil || !found {
			return records > 0, err
		}
		n, err := c.changed(`DELETE FROM events WHERE task = ?1 AND id <= (
			SELECT max(id) FROM (SELECT id FROM events WHERE task = ?1 ORDER BY id LIMIT ?2))`, num, purgeRecords)
		if err != nil {
			return false, err
		}
		records += n + 1
		if n == purgeRecords {
			break
		}
		n, err = c.changed(`DELETE FROM steps WHERE task = ?1 AND seq <= (
			SELECT max(seq) FROM (SELECT seq FROM steps WHERE task = ?1 ORDER BY seq LIMIT ?2))`, num, purgeSteps)
		if err != nil {
			return false, err
		}
		records += n * (purgeRecords / purgeSteps)
		if n == purgeSteps {
			break
		}
		for _, query := range []string{
			"DELETE FROM webhooks WHERE task = ?", "DELETE FROM idempotency WHERE task = ?", "DELETE FROM tasks WHERE num = ?",
		} {
			if _, err := c.exec(query, num); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// markParts marks some tasks and runs of a deleted session.
func markParts(c *conn) (some bool, err error) {
	var num int64
	var id, user string
	found, err := c.row("SELECT num, id, user FROM sessions WHERE deleted = 1 ORDER BY num LIMIT 1", nil, &num, &id, &user)
	if err != nil || !found {
		return false, err
	}
	tasks, err := c.changed(`UPDATE tasks SET purged = 1 WHERE num IN (
		SELECT num FROM tasks WHERE session = ? AND purged = 0 LIMIT ?)`, num, purgeRuns)
	if err != nil {
		return false, err
	}
	runs, err := c.changed(`UPDATE runs SET purged = 1 WHERE num IN (
		SELECT num FROM runs WHERE session = ? AND session <> '' AND user = ? AND ended IS NOT NULL AND purged = 0 LIMIT ?)`,
		id, user, purgeRuns)
	return tasks+runs > 0, err
}

// deleteSessions deletes the session that markParts found nothing more of.
func deleteSessions(c *conn) (some bool, err error) {
	n, err := c.changed(`DELETE FROM sessions WHERE num IN (SELECT num FROM sessions s WHERE deleted = 1
		AND NOT EXISTS (SELECT 1 FROM tasks WHERE session = s.num) ORDER BY num LIMIT 1)`)
	return n > 0, err
}
