package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// A purge works in transactions small enough that commits hardly notice: so many runs or tasks marked, or so many records
// or bytes of blobs deleted.
const (
	purgeRuns    = 200
	purgeRecords = 500
	purgeBytes   = 8 << 20
)

const (
	purgeInterval = time.Hour
	keepKeys      = 24 * time.Hour // idempotency keys
)

// Purge deletes the runs and the tasks that ended before the given time, and returns how many. What is unfinished is never
// deleted, nor a task with a webhook that is to be delivered or an idempotency key that still counts. Then the file shrinks.
// Cancelling ctx stops it between two steps; the next purge, of any process, goes on.
func (s *Store) Purge(ctx context.Context, before time.Time) (int, error) {
	total := 0
	for _, mark := range []func(context.Context, time.Time) (int, error){s.markPurged, s.markPurgedTasks} {
		for {
			n, err := mark(ctx, before)
			total += n
			if err != nil {
				return total, fmt.Errorf("purge %s: %w", s.path, err)
			}
			if n < purgeRuns {
				break
			}
		}
	}
	if err := errors.Join(s.clean(ctx), s.shrink(ctx)); err != nil {
		return total, fmt.Errorf("purge %s: %w", s.path, err)
	}
	return total, nil
}

const (
	shrinkPages = 2000 // that one transaction returns to the file system
	shrinkFrom  = 50   // the file shrinks when more than one in so many pages is free
)

// shrink returns free pages at the end of the file to the file system.
func (s *Store) shrink(ctx context.Context) error {
	for {
		var pages, free, left int64
		if err := s.read.QueryRowContext(ctx, "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count").
			Scan(&pages, &free); err != nil {
			return s.fail(err)
		}
		if free*shrinkFrom < pages {
			return nil
		}
		if err := s.do(ctx, func(c *conn) error {
			if err := c.each(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages), nil, func([]driver.Value) error { return nil }); err != nil {
				return err
			}
			_, err := c.row("PRAGMA freelist_count", nil, &left)
			return err
		}); err != nil {
			return err // left is still the writer's
		}
		if left >= free { // the file was made without room for this
			return nil
		}
		if left*shrinkFrom < pages {
			return s.checkpoint(ctx)
		}
	}
}

// checkpoint folds the write-ahead log into the file, which shrinks only then, and empties the log.
func (s *Store) checkpoint(ctx context.Context) error {
	c, err := connect(ctx, dsn(s.path, writeParams(SyncNormal)))
	if err != nil {
		return explain(err)
	}
	err = c.each("PRAGMA wal_checkpoint(truncate)", nil, func([]driver.Value) error { return nil })
	if isBusy(err) { // another purge does it
		err = nil
	}
	return explain(errors.Join(err, c.close()))
}

// markPurged takes runs away from readers, at once and for good. Their rows keep their numbers until no record is left,
// so that no new run can get one of them.
func (s *Store) markPurged(ctx context.Context, before time.Time) (int, error) {
	return s.purgeStep(ctx, `UPDATE runs SET purged = 1 WHERE num IN (
		SELECT num FROM runs WHERE started < ?1 AND ended < ?1 AND purged = 0 LIMIT ?2)`, before.UnixMicro(), purgeRuns)
}

// purgeStep executes one statement and returns how many rows it changed.
func (s *Store) purgeStep(ctx context.Context, query string, args ...any) (int, error) {
	var n int
	err := s.do(ctx, func(c *conn) (err error) {
		n, err = c.changed(query, args...)
		return err
	})
	if err != nil {
		return 0, err // n is still the writer's
	}
	return n, nil
}

// deleteRuns deletes some of what belongs to marked runs, and says whether that was anything.
func deleteRuns(c *conn) (some bool, err error) {
	for records, bytes := 0, 0; records < purgeRecords && bytes < purgeBytes; {
		var run int64
		found, err := c.row("SELECT num FROM runs WHERE purged = 1 LIMIT 1", nil, &run)
		if err != nil || !found {
			return records > 0, err
		}
		n, b, err := deleteRecords(c, run)
		if err != nil {
			return false, err
		}
		if n == 0 {
			if _, err := c.exec("DELETE FROM runs WHERE num = ?", run); err != nil {
				return false, err
			}
		}
		records += n + 1
		bytes += b
	}
	return true, nil
}

// deleteRecords deletes the first records of a run, and the blobs that nothing else refers to. Blobs and references
// change in the same transactions, so a blob that another run has just begun to share is seen to be shared.
func deleteRecords(c *conn, run int64) (records, bytes int, err error) {
	var last int64
	if _, err := c.row("SELECT coalesce(max(seq), 0) FROM (SELECT seq FROM journal WHERE run = ? ORDER BY seq LIMIT ?)",
		[]any{run, purgeRecords}, &last); err != nil || last == 0 {
		return 0, 0, err
	}
	var blobs []int64
	full := false
	if err := c.each(`SELECT r.seq, r.blob, length(b.data) FROM blob_refs r JOIN blobs b ON b.id = r.blob
		WHERE r.run = ? AND r.seq <= ? ORDER BY r.seq`, []any{run, last}, func(row []driver.Value) error {
		seq, id, size := row[0].(int64), row[1].(int64), row[2].(int64)
		if full && seq > last {
			return nil
		}
		blobs = append(blobs, id)
		if bytes += int(size); bytes >= purgeBytes && !full {
			full, last = true, seq
		}
		return nil
	}); err != nil {
		return 0, 0, err
	}
	n, err := c.changed("DELETE FROM journal WHERE run = ? AND seq <= ?", run, last)
	if err != nil {
		return 0, 0, err
	}
	if _, err := c.exec("DELETE FROM blob_refs WHERE run = ? AND seq <= ?", run, last); err != nil {
		return 0, 0, err
	}
	for _, id := range blobs {
		if _, err := c.exec(`DELETE FROM blobs
			WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = ?1)`, id); err != nil {
			return 0, 0, err
		}
	}
	return n, bytes, nil
}

// purgeInBackground purges now and every hour. What it returns ends that, and waits.
func (s *Store) purgeInBackground(retention time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(purgeInterval)
		defer tick.Stop()
		for {
			n, err := s.purgeOnce(ctx, retention)
			switch {
			case ctx.Err() != nil || errors.Is(err, journal.ErrClosed):
				return
			case err != nil:
				s.log.Warn("what is old was not purged", "error", err)
			case n > 0:
				s.log.Info("purged old runs and tasks", "number", n)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// purgeOnce purges what is due. It writes nothing where everything is kept for ever and nothing was deleted.
func (s *Store) purgeOnce(ctx context.Context, retention time.Duration) (int, error) {
	expired := s.now().Add(-keepKeys).UnixMicro()
	var keys, marked bool
	if err := s.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM idempotency WHERE created < ?),
		EXISTS (SELECT 1 FROM runs WHERE purged = 1) OR EXISTS (SELECT 1 FROM tasks WHERE purged = 1)
		OR EXISTS (SELECT 1 FROM sessions WHERE closed IS NOT NULL)`, expired).Scan(&keys, &marked); err != nil {
		return 0, s.fail(err)
	}
	for keys {
		n, err := s.purgeStep(ctx, `DELETE FROM idempotency WHERE (user, key) IN (
			SELECT user, key FROM idempotency WHERE created < ? LIMIT ?)`, expired, purgeRecords)
		if err != nil {
			return 0, err
		}
		keys = n == purgeRecords
	}
	if retention > 0 {
		return s.Purge(ctx, s.now().Add(-retention))
	}
	if marked {
		return 0, errors.Join(s.clean(ctx), s.shrink(ctx))
	}
	return 0, nil
}
