package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// A purge works in transactions small enough that commits hardly notice: so many runs marked, or so many records or
// bytes of blobs deleted.
const (
	purgeRuns    = 200
	purgeRecords = 500
	purgeBytes   = 8 << 20
)

const purgeInterval = time.Hour

// Purge deletes the runs that ended before the given time, and returns how many. An unfinished run is never deleted.
// Cancelling ctx stops it between two steps; the next purge, of any process, goes on. The file uses freed space again;
// it does not shrink.
func (s *Store) Purge(ctx context.Context, before time.Time) (int, error) {
	total := 0
	for {
		n, err := s.markPurged(ctx, before)
		total += n
		if err != nil {
			return total, fmt.Errorf("purge %s: %w", s.path, err)
		}
		if n < purgeRuns {
			break
		}
	}
	for {
		more, err := s.deletePurged(ctx)
		if err != nil {
			return total, fmt.Errorf("purge %s: %w", s.path, err)
		}
		if !more {
			return total, nil
		}
	}
}

// markPurged takes runs away from readers, at once and for good. Their rows keep their numbers until no record is left,
// so that no new run can get one of them.
func (s *Store) markPurged(ctx context.Context, before time.Time) (int, error) {
	var n int64
	err := s.do(ctx, func(c *conn) error {
		res, err := c.exec(`UPDATE runs SET purged = 1 WHERE num IN (
			SELECT num FROM runs WHERE started < ?1 AND ended < ?1 AND purged = 0 LIMIT ?2)`, before.UnixMicro(), purgeRuns)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return 0, err // n is still the writer's
	}
	return int(n), nil
}

// deletePurged deletes some of what belongs to marked runs, and says whether there may be more.
func (s *Store) deletePurged(ctx context.Context) (bool, error) {
	var more bool
	err := s.do(ctx, func(c *conn) error {
		more = true
		for records, bytes := 0, 0; records < purgeRecords && bytes < purgeBytes; {
			var run int64
			found, err := c.row("SELECT num FROM runs WHERE purged = 1 LIMIT 1", nil, &run)
			if err != nil {
				return err
			}
			if !found {
				more = false
				return nil
			}
			n, b, err := deleteRecords(c, run)
			if err != nil {
				return err
			}
			if n == 0 {
				if _, err := c.exec("DELETE FROM runs WHERE num = ?", run); err != nil {
					return err
				}
			}
			records += n + 1
			bytes += b
		}
		return nil
	})
	if err != nil {
		return false, err // more is still the writer's
	}
	return more, nil
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
	res, err := c.exec("DELETE FROM journal WHERE run = ? AND seq <= ?", run, last)
	if err != nil {
		return 0, 0, err
	}
	n, err := res.RowsAffected()
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
	return int(n), bytes, nil
}

// purgeInBackground purges now and every hour. What it returns ends that, and waits.
func (s *Store) purgeInBackground(retention time.Duration) (stop func()) {
	if retention <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(purgeInterval)
		defer tick.Stop()
		for {
			n, err := s.Purge(ctx, s.now().Add(-retention))
			switch {
			case ctx.Err() != nil || errors.Is(err, journal.ErrClosed):
				return
			case err != nil:
				s.log.Warn("old runs were not purged", "error", err)
			case n > 0:
				s.log.Info("purged old runs", "runs", n)
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
