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
			AND NOT EXISTS (SELECT 1 FROM webhooks WHERE task = t.num)
		LIMIT ?2)`, before.UnixMicro(), purgeRuns)
}

// clean deletes what belongs to closed sessions and to marked tasks and runs, in small transactions.
func (s *Store) clean(ctx context.Context) error {
	for {
		var some bool
		err := s.do(ctx, func(c *conn) (err error) {
			// What is marked is deleted first, so that there is never much to pass over in search of more.
			for _, step := range []func(*conn) (bool, error){deleteTasks, deleteRuns, markParts} {
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

// markParts marks some tasks and runs of closed sessions, and says whether there were any.
func markParts(c *conn) (some bool, err error) {
	tasks, err := c.changed(`UPDATE tasks SET purged = 1 WHERE num IN (SELECT t.num FROM sessions s CROSS JOIN tasks t ON t.session = s.num
		WHERE s.closed IS NOT NULL AND t.purged = 0 LIMIT ?)`, purgeRuns)
	if err != nil {
		return false, err
	}
	runs, err := c.changed(`UPDATE runs SET purged = 1 WHERE num IN (SELECT r.num FROM sessions s
		CROSS JOIN runs r ON r.session = s.id AND r.session <> '' AND r.user = s.user
		WHERE s.closed IS NOT NULL AND r.ended IS NOT NULL AND r.purged = 0 LIMIT ?)`, purgeRuns)
	return tasks+runs > 0, err
}
