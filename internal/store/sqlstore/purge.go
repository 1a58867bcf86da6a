package sqlstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
)

// Maximum numbers of runs, records and bytes that one transaction of a purge marks or deletes, so that it hardly delays commits.
const (
	purgeRuns    = 200
	purgeRecords = 500
	purgeBytes   = 8 << 20
)

const (
	purgeInterval = time.Hour
	keepKeys      = 24 * time.Hour // time for which idempotency keys are kept
)

// Purge deletes the runs and the tasks that ended before the given time, and returns their number. It never deletes unfinished runs and tasks, nor
// tasks with a webhook to deliver or a stored idempotency key. Then it shrinks the file. Cancelling ctx stops the purge between two steps; the next
// purge of any process continues it.
func (s *Store) Purge(ctx context.Context, before time.Time) (total int, err error) {
	defer wrap(&err, "purge %s", s.path)
	var rest []numberRange
	if total, rest, err = s.purgeDays(ctx, s, before); err != nil {
		return total, err
	}
	mark := func(query string, args ...any) {
		for n := purgeRuns; n == purgeRuns && err == nil; total += n {
			n, err = s.purgeStep(ctx, query, append([]any{before, purgeRuns}, args...)...)
		}
	}
	for _, runs := range rest {
		mark(markRuns, runs.from, runs.to)
	}
	if mark(markTasks); err != nil {
		return total, err
	}
	return total, errors.Join(s.purgeRequests(ctx, before), s.clean(ctx), s.shrink(ctx, s))
}

// Readers no longer see marked runs and tasks. Their rows stay until everything that belongs to them is deleted, so that no new run or task gets
// one of their numbers.
const (
	markRuns = `UPDATE runs SET purged = 1 WHERE num IN (
		SELECT num FROM runs WHERE started < ?1 AND ended < ?1 AND purged = 0 AND +num >= ?3 AND +num < ?4 LIMIT ?2 /*+ FOR UPDATE SKIP LOCKED */)`
	markTasks = `UPDATE tasks SET purged = 1 WHERE num IN (
		SELECT num FROM tasks t WHERE ended < ?1 AND purged = 0
			AND NOT EXISTS (SELECT 1 FROM idempotency WHERE task = t.num)
			AND NOT EXISTS (SELECT 1 FROM webhooks WHERE task = t.num)
		LIMIT ?2 /*+ FOR UPDATE SKIP LOCKED */)`
)

// purgeStep executes one statement and returns how many rows it changed.
func (s *Store) purgeStep(ctx context.Context, query string, args ...any) (int, error) {
	var n int64
	if err := s.write(ctx, 0, func(c *conn) { n = c.changed(query, args...) }); err != nil {
		return 0, err
	}
	return int(n), nil
}

// deleteRuns deletes some rows of marked runs, and reports whether it found any.
func deleteRuns(c *conn) bool {
	for records, bytes := int64(0), int64(0); records < purgeRecords && bytes < purgeBytes; {
		var run int64
		var scope pii.Scope
		if !c.row("SELECT num, user, id FROM runs WHERE purged = 1 LIMIT 1 /*+ FOR UPDATE SKIP LOCKED */", nil, &run, &scope.User, &scope.Session) {
			return records > 0
		}
		n, b := deleteRecords(c, run)
		if n == 0 && deleteTokens(c, scope) {
			n = purgeRecords
		}
		if n == 0 {
			c.exec("DELETE FROM approvals WHERE run = ?", run)
			c.exec("DELETE FROM doubts WHERE run = ?", run)
			c.exec("DELETE FROM runs WHERE num = ?", run)
		}
		records += n + 1
		bytes += b
	}
	return true
}

// deleteUnused deletes a blob to which no record refers.
const deleteUnused = "DELETE FROM blobs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = ?1)"

// deleteRecords deletes the first records of a run, and each of their blobs to which no other record refers. A blob and its references change in the
// same transaction, so a blob stays if another run has just begun to share it.
func deleteRecords(c *conn, run int64) (records, bytes int64) {
	var last int64
	c.row("SELECT coalesce(max(seq), 0) FROM (SELECT seq FROM journal WHERE run = ? ORDER BY seq LIMIT ?) first", []any{run, purgeRecords}, &last)
	var blobs []int64
	full := false
	c.each(`SELECT r.seq, r.blob, length(b.data) FROM blob_refs r JOIN blobs b ON b.id = r.blob
		WHERE r.run = ? AND r.seq <= ? ORDER BY r.seq /*+ FOR UPDATE OF b */`, []any{run, last}, func(row scanner) error {
		var seq, blob, size int64
		if err := row.Scan(&seq, &blob, &size); err != nil || full && seq > last {
			return err
		}
		blobs = append(blobs, blob)
		if bytes += size; bytes >= purgeBytes && !full {
			full, last = true, seq
		}
		return nil
	})
	records = c.changed("DELETE FROM journal WHERE run = ? AND seq <= ?", run, last)
	c.exec("DELETE FROM blob_refs WHERE run = ? AND seq <= ?", run, last)
	for _, id := range blobs {
		c.exec(deleteUnused, id)
	}
	return records, bytes
}

// purgeInBackground purges at once and then every hour. stop ends the purging and waits for its end.
func (s *Store) purgeInBackground(retention time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var purging sync.WaitGroup
	purging.Go(func() {
		tick := time.NewTicker(purgeInterval)
		defer tick.Stop()
		for {
			n, err := s.purgeOnce(ctx, retention)
			switch {
			case ctx.Err() != nil || errors.Is(err, journal.ErrClosed):
				return
			case err != nil:
				s.log.Warn("purge old runs and tasks", "error", err)
			case n > 0:
				s.log.Info("purged old runs and tasks", "number", n)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		purging.Wait()
	}
}

// purgeOnce makes the partitions that are needed next, and purges what is due. If there is no retention and nothing to delete, it writes nothing.
func (s *Store) purgeOnce(ctx context.Context, retention time.Duration) (int, error) {
	s.makeDays(ctx, s.now())
	expired := s.now().Add(-keepKeys)
	var keys, marked bool
	if err := s.each(ctx, `SELECT EXISTS (SELECT 1 FROM idempotency WHERE created < ?),
		EXISTS (SELECT 1 FROM runs WHERE purged = 1) OR EXISTS (SELECT 1 FROM tasks WHERE purged = 1)
		OR EXISTS (SELECT 1 FROM sessions WHERE closed IS NOT NULL)`, []any{expired}, func(row scanner) error {
		return row.Scan(&keys, &marked)
	}); err != nil {
		return 0, err
	}
	for keys {
		n, err := s.purgeStep(ctx, `DELETE FROM idempotency WHERE (user, key) IN (
			SELECT user, key FROM idempotency WHERE created < ? LIMIT ?)`, expired, purgeRecords)
		if err != nil {
			return 0, err
		}
		keys = n == purgeRecords
	}
	if err := errors.Join(s.deleteOrphans(ctx), s.purgeUsage(ctx, retention)); err != nil {
		return 0, err
	}
	if retention > 0 {
		before := s.now().Add(-retention)
		if err := s.sweepCopies(before); err != nil {
			return 0, err
		}
		return s.Purge(ctx, before)
	}
	_, _, err := s.purgeDays(ctx, s, time.Time{})
	if marked {
		err = errors.Join(err, s.clean(ctx), s.shrink(ctx, s))
	}
	return 0, err
}
