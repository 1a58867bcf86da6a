package sqlstore

import "context"

// purgeSteps is the maximum number of steps of a task that one transaction deletes. It is small because each step may be large.
const purgeSteps = 50

// clean deletes what belongs to closed sessions and to marked tasks and runs, in small transactions.
func (s *Store) clean(ctx context.Context) error {
	for {
		var some bool
		if err := s.write(ctx, 0, func(c *conn) {
			// Marked rows are deleted first, so that the search for more rows to mark skips few of them.
			some = s.deleteTasks(c) || deleteRuns(c) || markParts(c)
		}); err != nil || !some {
			return err
		}
	}
}

// deleteTasks deletes some rows of marked tasks, each task's own row last, and reports whether it found any.
func (s *Store) deleteTasks(c *conn) bool {
	for records := int64(0); records < purgeRecords; {
		var num int64
		if !c.row("SELECT num FROM tasks WHERE purged = 1 LIMIT 1 /*+ FOR UPDATE SKIP LOCKED */", nil, &num) {
			return records > 0
		}
		n := c.changed(`DELETE FROM events WHERE task = ?1 AND id <= (
			SELECT max(id) FROM (SELECT id FROM events WHERE task = ?1 ORDER BY id LIMIT ?2) first)`, num, purgeRecords)
		if records += n + 1; n == purgeRecords {
			break
		}
		n = c.changed(`DELETE FROM steps WHERE task = ?1 AND seq <= (
			SELECT max(seq) FROM (SELECT seq FROM steps WHERE task = ?1 ORDER BY seq LIMIT ?2) first)`, num, purgeSteps)
		if records += n * (purgeRecords / purgeSteps); n == purgeSteps {
			break
		}
		c.exec("DELETE FROM webhooks WHERE task = ?", num)
		c.exec("DELETE FROM idempotency WHERE task = ?", num)
		s.dropWords(c, num)
		c.exec("DELETE FROM tasks WHERE num = ?", num)
	}
	return true
}

// markParts marks some tasks and runs of closed sessions, and reports whether there were any.
func markParts(c *conn) bool {
	tasks := c.changed(`UPDATE tasks SET purged = 1 WHERE num IN (SELECT t.num FROM sessions s CROSS JOIN tasks t ON t.session = s.num
		WHERE s.closed IS NOT NULL AND t.purged = 0 LIMIT ?)`, purgeRuns)
	runs := c.changed(`UPDATE runs SET purged = 1 WHERE num IN (SELECT r.num FROM sessions s
		CROSS JOIN runs r ON r.session = s.id AND r.session <> '' AND r.user = s.user
		WHERE s.closed IS NOT NULL AND r.ended IS NOT NULL AND r.purged = 0 LIMIT ?)`, purgeRuns)
	return tasks+runs > 0
}
