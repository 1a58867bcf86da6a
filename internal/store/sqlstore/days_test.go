package sqlstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/postgrestest"
)

// clock is a clock that tests set.
type clock struct{ at atomic.Pointer[time.Time] }

func clockAt(t time.Time) *clock {
	c := &clock{}
	c.set(t)
	return c
}

func (c *clock) set(t time.Time) { c.at.Store(&t) }
func (c *clock) now() time.Time  { return *c.at.Load() }

var (
	noon   = time.Date(2031, 3, 1, 12, 0, 0, 0, time.UTC)
	oneDay = 24 * time.Hour
)

// putAt stores a run with two large values, of which one is the same in all runs, that begins and ends at the time of the clock.
func putAt(t testing.TB, s *Store, c *clock, run string) {
	t.Helper()
	now := c.now().UnixMicro()
	put(t, s, run, startAt(run, now), bigAnswer(1, "shared"), bigAnswer(2, "of "+run), endAt(now))
}

func purgeAt(t testing.TB, s *Store, before time.Time, want int) {
	t.Helper()
	if n, err := s.Purge(context.Background(), before); err != nil || n != want {
		t.Errorf("Purge(%s) = %d, %v, want %d", before, n, err, want)
	}
}

// wantDays checks which days before the clock's day have partitions.
func wantDays(t testing.TB, s *Store, want ...string) {
	t.Helper()
	all, err := madeDays(context.Background(), s.read)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range all {
		if d < dayOf(s.now()) {
			got = append(got, d.String()[4:])
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("partitions of %v, want %v", got, want)
	}
}

// wantReadable checks that runs of putAt are complete.
func wantReadable(t testing.TB, s *Store, runs ...string) {
	t.Helper()
	for _, run := range runs {
		records, err := s.Read(context.Background(), run)
		if err != nil || len(records) != 4 {
			t.Errorf("run %s: %d records, %v", run, len(records), err)
			continue
		}
		for n, what := range map[int]string{1: "shared", 2: "of " + run} {
			if string(records[n].Answer.Value) != string(bigAnswer(n, what).Answer.Value) {
				t.Errorf("run %s: the value of answer %d is damaged", run, n)
			}
		}
	}
}

// checkDays checks that no row of a divided table belongs to no run, and that each blob is in the partition of the runs that refer to it.
func checkDays(t testing.TB, s *Store) {
	t.Helper()
	for what, query := range map[string]string{
		"records of no run":    "SELECT count(*) FROM journal WHERE run NOT IN (SELECT num FROM runs)",
		"references of no run": "SELECT count(*) FROM blob_refs WHERE run NOT IN (SELECT num FROM runs)",
		"blobs of no run":      "SELECT count(*) FROM blobs WHERE id NOT IN (SELECT blob FROM blob_refs)",
		"references to no blob of their day": `SELECT count(*) FROM blob_refs r WHERE NOT EXISTS (
			SELECT 1 FROM blobs WHERE id = r.blob AND id >> 40 = r.run >> 40)`,
	} {
		if n := count(t, s, query); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

func TestDays(t *testing.T) {
	t.Parallel()
	postgres := postgrestest.Start(t, postgrestest.Fast...)
	open := func(t *testing.T, at time.Time) (*Store, *clock) {
		c := clockAt(at)
		return openServer(t, postgres.Schema(t), Options{Now: c.now, transfer: true}), c // without purges in the background
	}

	// The rows of a run are in the partitions of its first day. A value is stored once a day. A purge drops the days whose runs all ended before.
	t.Run("purge", func(t *testing.T) {
		t.Parallel()
		s, c := open(t, noon)
		putAt(t, s, c, "a1")
		putAt(t, s, c, "a2")
		w := mustWriter(t, s, "late") // begins on the first day and ends on the second one
		w.Append(startAt("late", c.now().UnixMicro()))
		w.Append(bigAnswer(1, "shared"))
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.set(noon.Add(oneDay))
		putAt(t, s, c, "b1")
		w.Append(bigAnswer(2, "of late"))
		w.Append(endAt(c.now().UnixMicro()))
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.set(noon.Add(2 * oneDay))
		putAt(t, s, c, "c1")
		for table, want := range map[string][3]int{"journal": {12, 4, 4}, "blob_refs": {6, 2, 2}, "blobs": {4, 2, 2}} {
			for i, want := range want {
				if n := count(t, s, fmt.Sprintf("SELECT count(*) FROM %s_2031030%d", table, i+1)); n != want {
					t.Errorf("day %d: %d rows of %s, want %d", i+1, n, table, want)
				}
			}
		}
		wantReadable(t, s, "a1", "a2", "late", "b1", "c1")
		checkDays(t, s)

		purgeAt(t, s, noon, 0)                       // the first day is not over
		purgeAt(t, s, noon.Add(oneDay-time.Hour), 0) // it is over, and one of its runs ended on the second
		wantDays(t, s, "0301", "0302")
		purgeAt(t, s, noon.Add(oneDay+time.Hour), 3)
		wantDays(t, s, "0302")
		wantReadable(t, s, "b1", "c1")
		_, err := s.Read(t.Context(), "late")
		wantIs(t, "read of a purged run", err, journal.ErrNotFound)
		purgeAt(t, s, noon.Add(3*oneDay), 2) // the last one is of the clock's day, whose partition stays
		wantDays(t, s)
		putAt(t, s, c, "c2")
		wantReadable(t, s, "c2")
		c.set(noon.Add(4 * oneDay))
		purgeAt(t, s, noon.Add(3*oneDay), 1)
		wantDays(t, s)
		checkDays(t, s)
	})

	// A run that has not ended keeps its partition. The other runs of its day wait for it for a day, and are then deleted one by one.
	t.Run("unfinished", func(t *testing.T) {
		t.Parallel()
		s, c := open(t, noon)
		putAt(t, s, c, "a1")
		putAt(t, s, c, "a2")
		put(t, s, "open", startAt("open", c.now().UnixMicro()), bigAnswer(1, "shared"))
		c.set(noon.Add(10 * oneDay))
		purgeAt(t, s, noon.Add(oneDay), 0)
		wantReadable(t, s, "a1", "a2")
		purgeAt(t, s, noon.Add(2*oneDay), 2)
		wantDays(t, s, "0301")
		checkDays(t, s)
		if records, err := s.Read(t.Context(), "open"); err != nil || len(records) != 2 {
			t.Errorf("the unfinished run: %d records, %v", len(records), err)
		}
		w, _, err := s.Resume(t.Context(), "open")
		if err != nil {
			t.Fatal(err)
		}
		w.Append(bigAnswer(2, "x"))
		w.Append(endAt(c.now().UnixMicro()))
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		purgeAt(t, s, noon.Add(11*oneDay), 1)
		wantDays(t, s)
		checkDays(t, s)
	})

	// A run that a process with a late clock begins while its day is being deleted stays, and so does its partition.
	t.Run("late clock", func(t *testing.T) {
		t.Parallel()
		s, c := open(t, noon)
		putAt(t, s, c, "a1")
		put(t, s, "late", startAt("late", c.now().UnixMicro()))
		c.set(noon.Add(5 * oneDay))
		if err := s.write(t.Context(), 0, func(c *conn) { deleteRunsOfDay(c, dayOf(noon).numbers(), noon.Add(oneDay)) }); err != nil {
			t.Fatal(err)
		}
		if inUse, err := s.database.(*server).drop(t.Context(), s, dayOf(noon)); err != nil || inUse {
			t.Errorf("drop: in use %v, %v", inUse, err)
		}
		wantDays(t, s, "0301")
		if records, err := s.Read(t.Context(), "late"); err != nil || len(records) != 1 {
			t.Errorf("%d records, %v", len(records), err)
		}
		_, err := s.Read(t.Context(), "a1")
		wantIs(t, "read of a deleted run", err, journal.ErrNotFound)
	})

	// What is not in the partitions is deleted with the runs of a day: tokens, doubts, bytes that quotas count. Runs of a deleted session go at once.
	t.Run("belongings", func(t *testing.T) {
		t.Parallel()
		s, c := open(t, noon)
		now := c.now().UnixMicro()
		for i := range 2*purgeVaults + purgeRuns {
			run := fmt.Sprint("run_", i)
			start := startAt(run, now)
			start.Start.User = "ann"
			put(t, s, run, start, journaltest.Call(1), journaltest.Intent(1), endAt(now))
			if i%2 == 0 && i < 4*purgeVaults {
				if _, err := s.Vault().Load(t.Context(), pii.Scope{User: "ann", Session: run}); err != nil {
					t.Fatal(err)
				}
				if err := s.Vault().Add(t.Context(), pii.Scope{User: "ann", Session: run}, []pii.Entry{{Type: "EMAIL", N: 1, Key: []byte{1}, Sealed: []byte{2}}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		putAt(t, s, c, "kept")
		if err := s.write(t.Context(), 0, func(c *conn) { c.exec("UPDATE runs SET session = 's' WHERE id = 'kept'") }); err != nil {
			t.Fatal(err)
		}
		if n := count(t, s, "SELECT count(*) FROM vaults"); n != 2*purgeVaults {
			t.Errorf("%d vaults", n)
		}
		c.set(noon.Add(5 * oneDay))
		purgeAt(t, s, noon.Add(oneDay), 2*purgeVaults+purgeRuns+1)
		for _, table := range []string{"runs", "vaults", "tokens", "doubts", "approvals", "owners", "journal"} {
			if n := count(t, s, "SELECT count(*) FROM "+table); n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
		wantDays(t, s)
	})

	// A partition that is in use is dropped by a later purge. Reads and writes go on meanwhile.
	t.Run("in use", func(t *testing.T) {
		t.Parallel()
		s, c := open(t, noon)
		putAt(t, s, c, "a1")
		c.set(noon.Add(3 * oneDay))
		putAt(t, s, c, "b1")
		tx, err := s.read.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // it has only read
		if _, err := tx.Exec("SELECT count(*) FROM journal"); err != nil {
			t.Fatal(err)
		}
		purged := make(chan struct{})
		go func() {
			defer close(purged)
			purgeAt(t, s, noon.Add(2*oneDay), 1)
		}()
		for i, done := 0, false; !done; i++ {
			putAt(t, s, c, fmt.Sprint("run_", i))
			wantReadable(t, s, "b1")
			select {
			case <-purged:
				done = true
			default:
			}
		}
		wantDays(t, s, "0301")
		_, err = s.Read(t.Context(), "a1")
		wantIs(t, "read of a purged run", err, journal.ErrNotFound)
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		purgeAt(t, s, noon.Add(2*oneDay), 0)
		wantDays(t, s)
		checkDays(t, s)
	})

	// Partitions are made before their day. Those that were not used are dropped after it.
	t.Run("ahead", func(t *testing.T) {
		t.Parallel()
		s, c := open(t, noon)
		for _, after := range []int{0, 1, 20} {
			c.set(noon.Add(time.Duration(after) * oneDay))
			if _, err := s.purgeOnce(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			made, err := madeDays(t.Context(), s.read)
			if today := dayOf(c.now()); err != nil || fmt.Sprint(made) != fmt.Sprint([]day{today, today + 1, today + 2}) {
				t.Errorf("after %d days: partitions of %v, %v", after, made, err)
			}
		}
	})

	// A run begins although its partition is missing, or cannot be made.
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		s, c := open(t, noon)
		putAt(t, s, c, "a1")
		if _, err := s.read.Exec("DELETE FROM runs; DROP TABLE journal_20310301, blob_refs_20310301, blobs_20310301"); err != nil {
			t.Fatal(err)
		}
		putAt(t, s, c, "a2")
		wantReadable(t, s, "a2")
		tx, err := s.read.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // it changes nothing
		if _, err := tx.Exec("LOCK TABLE journal IN SHARE UPDATE EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		c.set(noon.Add(20 * oneDay))
		putAt(t, s, c, "without")
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if n := count(t, s, "SELECT count(*) FROM journal_0"); n != 4 {
			t.Errorf("%d rows in the partition 0", n)
		}
		s.makeDays(t.Context(), c.now())
		putAt(t, s, c, "with")
		if n := count(t, s, "SELECT count(*) FROM journal_20310321"); n != 4 {
			t.Errorf("%d rows in the partition of the day", n)
		}
		wantReadable(t, s, "a2", "without", "with")
		purgeAt(t, s, noon.Add(20*oneDay+time.Hour), 3-1) // all but the run of the clock's day
		checkDays(t, s)
	})

	// Replicas with different clocks, of which one is behind at midnight, and both are alone when they make partitions.
	t.Run("midnight", func(t *testing.T) {
		t.Parallel()
		url := postgres.Schema(t)
		midnight := noon.Add(oneDay / 2)
		early, late := clockAt(midnight.Add(time.Second)), clockAt(midnight.Add(-time.Second))
		stores := []*Store{openServer(t, url, Options{Now: early.now}), openServer(t, url, Options{Now: late.now})}
		var all sync.WaitGroup
		for i, c := range []*clock{early, late} {
			all.Go(func() {
				for j := range 20 {
					putAt(t, stores[i], c, fmt.Sprintf("run_%d_%d", i, j))
				}
			})
		}
		all.Wait()
		for i := range 2 {
			if n := count(t, stores[0], fmt.Sprintf("SELECT count(*) FROM journal_2031030%d", 2-i)); n != 80 {
				t.Errorf("%d records of day %d", n, 2-i)
			}
		}
		if n := count(t, stores[0], "SELECT count(DISTINCT num & (1::bigint << 40) - 1) FROM runs"); n != 40 {
			t.Errorf("%d numbers of 40 runs", n)
		}
		checkDays(t, stores[0])
	})

	// A store with days is copied into a file and back. What a purge has begun to delete is not copied.
	t.Run("copy", func(t *testing.T) {
		t.Parallel()
		from, file, to := postgres.Schema(t), filepath.Join(t.TempDir(), "harness.db"), postgres.Schema(t)
		c := clockAt(noon)
		s := openServer(t, from, Options{Now: c.now, transfer: true})
		var runs []string
		for i := range 3 {
			runs = append(runs, fmt.Sprint("run_", i))
			putAt(t, s, c, runs[i])
			c.set(c.now().Add(oneDay))
		}
		putAt(t, s, c, "gone")
		if _, err := s.read.Exec("DELETE FROM runs WHERE id = 'gone'"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, way := range [][2]string{{from, file}, {file, to}} {
			if _, err := Transfer(t.Context(), way[0], way[1], TransferOptions{rows: 3}); err != nil {
				t.Fatal(err)
			}
		}
		lite := reopenAt(t, file, Options{})
		wantReadable(t, lite, runs...)
		putAt(t, lite, c, "new")
		wantReadable(t, lite, append(runs, "new")...)
		checkIntegrity(t, lite)
		back := openServer(t, to, Options{Now: c.now, transfer: true})
		wantReadable(t, back, runs...)
		checkDays(t, back)
		putAt(t, back, c, "new")
		purgeAt(t, back, noon.Add(oneDay), 1)
		wantDays(t, back, "0302", "0303")
		wantReadable(t, back, append(runs[1:], "new")...)
		checkDays(t, back)
	})
}

func mustWriter(t testing.TB, s *Store, run string) journal.Writer {
	t.Helper()
	w, err := s.Create(context.Background(), run)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestPurgeDaysCut cuts connections at each point of a purge of a day. The next purge of another process completes it.
func TestPurgeDaysCut(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Fast...)
	url := server.Schema(t)
	behind, proxy := server.Behind(t, url)
	c := clockAt(noon)
	s, other := openServer(t, behind, Options{Now: c.now, transfer: true}), openServer(t, url, Options{Now: c.now, transfer: true})
	uncut := 0
	for n := int64(0); uncut < 3 && n < 200; n++ {
		run := fmt.Sprint("run_", n)
		putAt(t, s, c, run)
		day := c.now()
		c.set(day.Add(2 * oneDay))
		before := proxy.Cuts()
		proxy.CutAfter(n+1, nil)
		_, _ = s.Purge(t.Context(), c.now().Add(-oneDay/2)) // its error does not matter: it may have been cut off
		proxy.CutAfter(-1, nil)
		if _, err := other.Purge(t.Context(), c.now().Add(-oneDay/2)); err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		_, err := s.Read(t.Context(), run)
		wantIs(t, "read of a purged run", err, journal.ErrNotFound)
		wantDays(t, other)
		if uncut++; proxy.Cuts() > before {
			uncut = 0
		}
	}
	if proxy.Cuts() < 10 {
		t.Errorf("only %d connections were cut", proxy.Cuts())
	}
	checkDays(t, other)
}

// former writes and reads as a process of the version before there were partitions.
type former struct{ c *pgx.Conn }

var formerStatements = map[string]string{
	"num": "SELECT nextval(pg_get_serial_sequence('runs', 'num'))",
	"run": `INSERT INTO runs (num, id, "user", session, file, tier, started, owner, bytes, ended, status, calls, duration_us, error_kind)
		VALUES ($1, $2, '', '', '', 'wasm', $3, 'former', 0, $3, 'succeeded', 1, 10, '')`,
	"record": "INSERT INTO journal (run, seq, type, n, data) VALUES ($1, $2, $3, $4, $5)",
	"find":   "SELECT id FROM blobs WHERE hash = $1 FOR SHARE",
	"blob":   "INSERT INTO blobs (hash, data) VALUES ($1, $2) RETURNING id",
	"ref":    "INSERT INTO blob_refs (run, seq, field, blob) VALUES ($1, $2, $3, $4)",
	"read": `SELECT j.seq, b.data FROM runs JOIN journal j ON j.run = runs.num LEFT JOIN blob_refs r ON r.run = j.run AND r.seq = j.seq
		LEFT JOIN blobs b ON b.id = r.blob WHERE runs.id = $1 AND runs.purged = 0 AND j.seq > 0 ORDER BY j.seq`,
}

func newFormer(t *testing.T, url string) *former {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	f := &former{c}
	for name, text := range formerStatements {
		if _, err := c.Prepare(t.Context(), name, text); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// put stores the run of putAt. It repeats its transaction after the errors after which the former version does.
func (f *former) put(ctx context.Context, run string, at time.Time) (err error) {
	for range maxRepeats {
		err = pgx.BeginFunc(ctx, f.c, func(tx pgx.Tx) error { return putFormer(ctx, tx, run, at.UnixMicro()) })
		if code := postgresCode(err); code != "40001" && code != deadlock && code != lockTimeout && code != uniqueViolation {
			return err
		}
	}
	return err
}

func putFormer(ctx context.Context, tx pgx.Tx, run string, at int64) error {
	var num int64
	if err := tx.QueryRow(ctx, "num").Scan(&num); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "run", num, run, at); err != nil {
		return err
	}
	for i, r := range []journal.Record{startAt(run, at), bigAnswer(1, "shared"), bigAnswer(2, "of "+run), endAt(at)} {
		r.Seq = int64(i + 1)
		encoded, err := encode(r)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "record", num, r.Seq, encoded.kind, encoded.n, encoded.data); err != nil {
			return err
		}
		for _, b := range encoded.blobs {
			hash := sha256.Sum256(b.data)
			var id int64
			err := tx.QueryRow(ctx, "find", hash[:]).Scan(&id)
			if errors.Is(err, pgx.ErrNoRows) {
				err = tx.QueryRow(ctx, "blob", hash[:], b.data).Scan(&id)
			}
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "ref", num, r.Seq, b.field, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *former) wantReadable(t *testing.T, runs ...string) {
	t.Helper()
	for _, run := range runs {
		rows, err := f.c.Query(t.Context(), "read", run)
		if err != nil {
			t.Fatal(err)
		}
		n, large := 0, 0
		for rows.Next() {
			var seq int64
			var data []byte
			if err := rows.Scan(&seq, &data); err != nil {
				t.Fatal(err)
			}
			if n++; data != nil {
				large++
			}
		}
		if err := rows.Err(); err != nil || n != 4 || large != 2 {
			t.Errorf("a former process reads %d records and %d large values of %s, %v", n, large, run, err)
		}
	}
}

// TestFormerVersion: processes of the version before there were partitions go on while a newer one brings the tables up to date, and beside it. The
// values that they share with runs of several days are deleted with the last of these runs, and not before.
func TestFormerVersion(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t, postgrestest.Fast...).Schema(t)
	setUp, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer setUp.Close(t.Context()) //nolint:errcheck // its statements are done
	script := "CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (2);"
	for _, name := range []string{"0001_tables", "0002_parts_of_processes"} {
		text, err := os.ReadFile("postgres/" + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		script += string(text)
	}
	if _, err := setUp.Exec(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	old := newFormer(t, url)
	var runs []string
	for i := range 5 {
		runs = append(runs, fmt.Sprint("before_", i))
		if err := old.put(t.Context(), runs[i], noon); err != nil {
			t.Fatal(err)
		}
	}

	// Two former processes write while the tables are changed.
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var mu sync.Mutex
	for i := range 2 {
		f := newFormer(t, url)
		writers.Go(func() {
			for j := 0; ; j++ {
				run := fmt.Sprintf("during_%d_%d", i, j)
				if err := f.put(context.Background(), run, noon); err != nil {
					t.Errorf("%s: %v", run, err)
					return
				}
				mu.Lock()
				runs = append(runs, run)
				mu.Unlock()
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	c := clockAt(noon)
	s := openServer(t, url, Options{Now: c.now, transfer: true})
	close(stop)
	writers.Wait()
	t.Logf("%d runs of former processes", len(runs))

	putAt(t, s, c, "new_a")
	if err := old.put(t.Context(), "after", c.now()); err != nil {
		t.Fatal(err)
	}
	runs = append(runs, "after")
	wantReadable(t, s, append(runs, "new_a")...)
	old.wantReadable(t, append(runs, "new_a")...)
	if n := count(t, s, "SELECT count(*) FROM journal_0"); n != 4*len(runs) {
		t.Errorf("%d records in the partition 0, want those of %d runs", n, len(runs))
	}

	// A former process whose value is only in a partition shares it, and so does one that goes on with a run of a partition.
	c.set(noon.Add(oneDay))
	put(t, s, "new_b", startAt("new_b", c.now().UnixMicro()), bigAnswer(1, "of sharing"), endAt(c.now().UnixMicro()))
	if err := old.put(t.Context(), "sharing", noon.Add(5*oneDay)); err != nil {
		t.Fatal(err)
	}
	wantReadable(t, s, "sharing")
	if _, err := setUp.Exec(t.Context(), `INSERT INTO journal SELECT num, 9, 'log', 0, '{}' FROM runs WHERE id = 'new_a'`); err != nil {
		t.Fatal(err)
	}
	if _, err := setUp.Exec(t.Context(), `INSERT INTO blob_refs SELECT r.num, 9, 'text', b.id FROM runs r, blobs_0 b WHERE r.id = 'new_a'`); err == nil {
		t.Fatal("more than one blob")
	}
	if _, err := setUp.Exec(t.Context(), `INSERT INTO blob_refs SELECT r.num, 9, 'text', max(b.id) FROM runs r, blobs_0 b WHERE r.id = 'new_a' GROUP BY r.num`); err != nil {
		t.Fatal(err)
	}
	c.set(noon.Add(9 * oneDay))
	purgeAt(t, s, noon.Add(3*oneDay), len(runs)+2)
	wantDays(t, s, "0302") // it has a value of the run "sharing"
	wantReadable(t, s, "sharing")
	purgeAt(t, s, noon.Add(8*oneDay), 1)
	purgeAt(t, s, noon.Add(8*oneDay), 0)
	wantDays(t, s)
	checkDays(t, s)
	if n := count(t, s, "SELECT (SELECT count(*) FROM journal) + (SELECT count(*) FROM blobs) + (SELECT count(*) FROM blob_refs)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// TestDayNames: each partition's name is that of a day, and numbers are in the order of days.
func TestDayNames(t *testing.T) {
	t.Parallel()
	for at, want := range map[time.Time]string{
		noon: "20310301", time.Unix(-5, 0): "19700101", time.Date(2031, 2, 28, 23, 59, 59, 1e9-1, time.UTC): "20310228",
		time.Date(2031, 3, 1, 0, 30, 0, 0, time.FixedZone("", 3600)): "20310228",
	} {
		d := dayOf(at)
		if got := d.String(); got != want {
			t.Errorf("the day of %s is %s", at, got)
		}
		if r, next := d.numbers(), (d + 1).numbers(); r.to != next.from || r.from >= r.to || !strings.HasPrefix(want, d.begin().Format("2006")) {
			t.Errorf("numbers of %s: %v, %v", want, r, next)
		}
	}
}
