package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/pii"
)

// In Postgres, the tables of records, of blobs and of references to blobs are divided by day, so that a purge drops the partitions of a day in place
// of deleting their rows. The number of a run is that of its day (day), times numbersOfDay, plus a number that no other run has, and the ids of its
// blobs begin with the same day. So the rows of a run are in the partitions of the day on which the run began, also after midnight. Runs with
// smaller numbers are in the partition 0, which is never dropped: those from before there were partitions, those of processes of a former version,
// those from a file of SQLite, and those that began while their partition could not be made.
//
// The table runs is not divided, because ids are unique in it and its lists are of many days. It has about one of 25 rows of a run.
const numbersOfDay = 1 << 40

var dividedTables = []string{"journal", "blob_refs", "blobs"}

const (
	makeTimeout   = 5 * time.Second // maximum time for which a run that begins waits for its partition
	daysAhead     = 2               // number of days after today for which partitions are made
	stragglerTime = 24 * time.Hour  // time for which an ended day waits for the runs that have not ended, before its other runs are deleted one by one
	dropTries     = 10              // attempts of a purge to drop a partition
	dropPause     = 300 * time.Millisecond
)

// day is a number of days since the Unix epoch, in UTC.
type day int64

func dayOf(t time.Time) day { return day(max(0, t.Unix()/(24*60*60))) }

func (d day) begin() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

// dayNames is the form of a day in the names of partitions.
const dayNames = "20060102"

func (d day) String() string { return d.begin().Format(dayNames) }

// numbers returns the numbers of the runs of a day, and of their blobs.
func (d day) numbers() numberRange {
	return numberRange{int64(d) * numbersOfDay, int64(d+1) * numbersOfDay}
}

// days makes and drops the partitions of days. Its methods are safe for concurrent use.
type days struct {
	db  *sql.DB
	log *slog.Logger

	mu    sync.Mutex
	ready map[day]bool // true for days whose partitions exist, false for days whose partitions could not be made
}

func newDays(db *sql.DB, log *slog.Logger) *days {
	return &days{db: db, log: log, ready: map[day]bool{}}
}

// forget makes numbers look for partitions again.
func (p *days) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.ready)
}

// numbers implements database. If the partition of the day is missing and cannot be made, runs begin in the partition 0.
func (p *days) numbers(now time.Time) (first int64) {
	d := dayOf(now)
	p.mu.Lock()
	ready, known := p.ready[d]
	p.mu.Unlock()
	if !known {
		ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
		defer cancel()
		ready = p.prepare(ctx, d)
	}
	if !ready {
		return 0
	}
	return d.numbers().from
}

func (p *days) partition(run int64) (from, to int64) {
	r := day(run / numbersOfDay).numbers()
	return r.from, r.to
}

func (p *days) makeDay(ctx context.Context, run int64) error {
	d := day(run / numbersOfDay)
	p.mu.Lock()
	ready := p.ready[d]
	p.mu.Unlock()
	if ready {
		return nil
	}
	err := p.make(ctx, d)
	p.note(d, err == nil)
	return err
}

func (p *days) makeDays(ctx context.Context, now time.Time) {
	for d := dayOf(now); d <= dayOf(now)+daysAhead && ctx.Err() == nil; d++ {
		p.prepare(ctx, d)
	}
}

// prepare makes the partitions of a day if they are missing, and reports whether they exist.
func (p *days) prepare(ctx context.Context, d day) bool {
	err := p.make(ctx, d)
	if err != nil && ctx.Err() == nil {
		p.log.Warn("make the partitions of a day: until this succeeds, its runs are stored without a partition, and deleted one by one", "day", d.String(), "error", err)
	}
	p.note(d, err == nil)
	return err == nil
}

func (p *days) note(d day, ready bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready[d] = ready
}

// make makes the partitions of a day if they are missing. It does not wait for transactions that use the tables, and these do not wait for it.
func (p *days) make(ctx context.Context, d day) error {
	if made, err := madeDays(ctx, p.db); err != nil || d == 0 || slices.Contains(made, d) {
		return err
	}
	return p.change(ctx, func(tx *sql.Tx, made []day) error {
		if slices.Contains(made, d) {
			return nil
		}
		_, err := tx.ExecContext(ctx, d.script())
		return err
	})
}

// script returns the statements that make the partitions of a day. Attaching a partition, unlike creating it as one, locks out no reader and no writer.
func (d day) script() string {
	var script strings.Builder
	r := d.numbers()
	for _, table := range dividedTables {
		fmt.Fprintf(&script, "CREATE TABLE %[1]s_%[2]s (LIKE %[1]s INCLUDING ALL); ALTER TABLE %[1]s ATTACH PARTITION %[1]s_%[2]s FOR VALUES FROM (%[3]d) TO (%[4]d);",
			table, d, r.from, r.to)
	}
	fmt.Fprintf(&script, "CREATE UNIQUE INDEX blobs_%[1]s_hash ON blobs_%[1]s (hash)", d)
	return script.String()
}

// change executes f in a transaction, while no other process makes or drops partitions. f is given the days that have partitions.
func (p *days) change(ctx context.Context, f func(tx *sql.Tx, made []day) error) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '2s'"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext('harness days ' || current_schema()))"); err != nil {
		return err
	}
	made, err := madeDays(ctx, tx)
	if err != nil {
		return err
	}
	if err := f(tx, made); err != nil {
		return err
	}
	return tx.Commit()
}

// madeDays returns the days that have partitions, in order.
func madeDays(ctx context.Context, in interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
},
) (all []day, err error) {
	rows, err := in.QueryContext(ctx, "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'journal'::regclass")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		name, err := value[string](rows)
		if err != nil {
			return nil, err
		}
		if t, err := time.Parse("journal_"+dayNames, name); err == nil { // all but the partition 0
			all = append(all, dayOf(t))
		}
	}
	slices.Sort(all)
	return all, rows.Err()
}

// purgeDays implements database. A day is deleted when all of its runs ended before the given time, and then its partitions are dropped. If some runs
// ended later or have not ended, the day waits for them for stragglerTime; after that, its other runs are deleted one by one. If a process is
// killed, the partitions remain, so the next purge of any process continues. Partitions that are in use are dropped by a later purge.
func (p *days) purgeDays(ctx context.Context, s *Store, before time.Time) (total int, rest []numberRange, err error) {
	all, err := madeDays(ctx, p.db)
	if err != nil {
		return 0, nil, err
	}
	inUse := false
	for _, d := range append([]day{0}, all...) {
		r, over := d.numbers(), (d + 1).begin()
		any, kept, err := p.runsOf(ctx, s, r, before, d > 0 && !over.After(before))
		if err != nil {
			return total, nil, err
		}
		switch {
		case any && d == 0, any && kept && !over.Add(stragglerTime).After(before):
			rest = append(rest, r)
			continue
		case any && (kept || over.After(before)):
			continue
		}
		for deleted, done := 0, !any; !done; total += deleted {
			if err := s.write(ctx, 0, func(c *conn) { deleted, done = deleteRunsOfDay(c, r, before) }); err != nil {
				return total, nil, err
			}
		}
		if d > 0 && d < dayOf(s.now()) && !inUse { // A transaction that uses one partition probably uses all of them.
			if inUse, err = p.drop(ctx, s, d); err != nil {
				return total, nil, err
			}
		}
	}
	return total, rest, nil
}

// runsOf reports whether there are runs with numbers of a range and, if asked, whether a purge keeps some of them.
func (p *days) runsOf(ctx context.Context, s *Store, r numberRange, before time.Time, ask bool) (some, kept bool, err error) {
	some, err = one(ctx, s, nil, value[bool], "SELECT EXISTS (SELECT 1 FROM runs WHERE num >= ? AND num < ?)", r.from, r.to)
	if err == nil && some && ask {
		kept, err = one(ctx, s, nil, value[bool], `SELECT EXISTS (SELECT 1 FROM runs WHERE num >= ?1 AND num < ?2
			AND purged = 0 AND (ended IS NULL OR ended >= ?3 OR started >= ?3))`, r.from, r.to, before)
	}
	return some, kept, err
}

// purgeVaults is the maximum number of runs whose tokens one call of deleteRunsOfDay deletes.
const purgeVaults = 20

// deleteRunsOfDay deletes some runs of a day whose partitions are dropped afterwards, with all that is not in these partitions. It keeps a run that
// a process with a late clock has just begun. It returns the number of runs that it has deleted, and reports whether there was nothing to do; a run with
// tokens is deleted by a later call than its tokens.
func deleteRunsOfDay(c *conn, r numberRange, before time.Time) (deleted int, done bool) {
	var runs []int64
	var vaults []pii.Scope
	c.each(`SELECT r.num, r.user, r.id, v.num IS NOT NULL FROM runs r LEFT JOIN vaults v ON v.user = r.user AND v.session = r.id
		WHERE r.num >= ?1 AND r.num < ?2 AND (r.purged = 1 OR r.ended < ?3 AND r.started < ?3)
		ORDER BY r.num LIMIT ?4 /*+ FOR UPDATE OF r SKIP LOCKED */`, []any{r.from, r.to, before, purgeRuns}, func(row scanner) error {
		var num int64
		var scope pii.Scope
		var vault bool
		if err := row.Scan(&num, &scope.User, &scope.Session, &vault); err != nil {
			return err
		}
		if vault {
			vaults = append(vaults, scope)
		} else {
			runs = append(runs, num)
		}
		return nil
	})
	vaults = vaults[:min(len(vaults), purgeVaults)]
	for _, scope := range vaults {
		deleteTokens(c, scope)
	}
	c.exec("DELETE FROM approvals WHERE run = ANY(?)", runs)
	c.exec("DELETE FROM doubts WHERE run = ANY(?)", runs)
	c.exec("DELETE FROM runs WHERE num = ANY(?)", runs)
	return len(runs), len(runs)+len(vaults) == 0
}

// drop drops the partitions of a day that has no runs, and reports whether they are in use for so long that only a later purge can drop them.
func (p *days) drop(ctx context.Context, s *Store, d day) (inUse bool, err error) {
	for done := false; !done; {
		if err := s.write(ctx, 0, func(c *conn) { done = deleteOutside(c, d.numbers()) }); err != nil {
			return false, err
		}
	}
	for range dropTries {
		err := p.change(ctx, func(tx *sql.Tx, made []day) error {
			if !slices.Contains(made, d) { // another process has dropped them
				return nil
			}
			return dropEmpty(ctx, tx, d)
		})
		switch code := postgresCode(err); {
		case err == nil:
			return false, nil
		case code != lockTimeout && code != deadlock:
			return false, fmt.Errorf("drop the partitions of %s: %w", d, err)
		}
		if err := pause(ctx, dropPause); err != nil {
			return false, err
		}
	}
	p.log.Info("the partitions of a day are in use; the next purge drops them", "day", d.String())
	return true, nil
}

// deleteOutside deletes some references of a day to blobs that are not of the day, with these blobs, and reports whether none is left. Only
// processes of the version before there were partitions make such references.
func deleteOutside(c *conn, r numberRange) (done bool) {
	type ref struct {
		run, seq, blob int64
		field          string
	}
	var refs []ref
	c.each(`SELECT r.run, r.seq, r.field, b.id FROM blob_refs r JOIN blobs b ON b.id = r.blob
		WHERE r.run >= ?1 AND r.run < ?2 AND (r.blob < ?1 OR r.blob >= ?2) LIMIT ?3 /*+ FOR UPDATE OF b */`, []any{r.from, r.to, purgeRecords},
		func(row scanner) error {
			var found ref
			err := row.Scan(&found.run, &found.seq, &found.field, &found.blob)
			refs = append(refs, found)
			return err
		})
	for _, r := range refs {
		c.exec("DELETE FROM blob_refs WHERE run = ? AND seq = ? AND field = ?", r.run, r.seq, r.field)
		c.exec(deleteUnused, r.blob)
	}
	return len(refs) < purgeRecords
}

// dropEmpty drops the partitions of a day, unless there is a run of that day, or a run of another day that uses a blob. It locks the partitions against
// writing before it looks. It waits for the tables for 50 ms at most, because other statements on the tables wait for it meanwhile.
func dropEmpty(ctx context.Context, tx *sql.Tx, d day) error {
	r := d.numbers()
	var names []string
	for _, table := range dividedTables {
		names = append(names, table+"_"+d.String())
	}
	all := strings.Join(names, ", ")
	if _, err := tx.ExecContext(ctx, "LOCK TABLE "+all+" IN SHARE MODE"); err != nil {
		return err
	}
	var used bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM runs WHERE num >= $1 AND num < $2)
		OR EXISTS (SELECT 1 FROM blob_refs WHERE blob >= $1 AND blob < $2 AND (run < $1 OR run >= $2))
		OR EXISTS (SELECT 1 FROM blob_refs WHERE run >= $1 AND run < $2 AND (blob < $1 OR blob >= $2))`, r.from, r.to).Scan(&used); err != nil || used {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '50ms'"); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DROP TABLE "+all)
	return err
}

// pause waits for some time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// A file of SQLite has no partitions.

func (d *file) numbers(time.Time) (first int64) { return 0 }

func (d *file) partition(int64) (from, to int64) { return math.MinInt64, math.MaxInt64 }

func (d *file) makeDay(context.Context, int64) error { return nil }

func (d *file) makeDays(context.Context, time.Time) {}

func (d *file) purgeDays(context.Context, *Store, time.Time) (total int, rest []numberRange, err error) {
	return 0, []numberRange{{math.MinInt64, math.MaxInt64}}, nil
}
