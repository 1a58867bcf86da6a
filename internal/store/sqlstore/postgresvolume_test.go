package sqlstore

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/generated"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

var volumeRows = flag.Int("volume", 0, "records of TestPostgresVolume (default 15,000, and 1,500,000 in a long test); it stores fewer if they exceed 20 GiB or 5 minutes")

const (
	volumeDays     = 30
	volumeRecords  = 25 // records of a run
	volumeUsers    = 1000
	volumeBytes    = 20 << 30
	volumeTime     = 5 * time.Minute
	volumeTasks    = 600 // waiting tasks
	slowStatements = 50 * time.Millisecond
)

// serverVolume is a store with many runs on a server.
type serverVolume struct {
	*Store
	url   string
	clock *clock
	runs  int // runs of each day
	rows  int // records of all runs
}

// fillServer fills a store, by statements that make the rows on the server. Each day has the same number of runs, of a thousand users. Each run has 25
// records of about 500 bytes, every twentieth a large value, and every third a session.
func fillServer(t *testing.T, url string, rows int) *serverVolume {
	t.Helper()
	ctx := t.Context()
	v := &serverVolume{url: url, clock: clockAt(noon), runs: rows / volumeRecords / volumeDays}
	v.Store = openServer(t, url, Options{Now: v.clock.now, Quotas: Quotas{Bytes: 1 << 50, Tasks: 1e6, Sessions: 1e6}})
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx) //nolint:errcheck // its statements are done
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := c.Exec(ctx, statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("SET session_replication_role = replica") // without triggers
	exec(`INSERT INTO sessions ("user", id, created, used) SELECT 'u' || n % 1000, 's' || n, 0, 0 FROM generate_series(0, 9999) n`)
	exec(`INSERT INTO tasks (id, session, "user", status, cache_key, created, started, ended, request, outcome, bytes)
		SELECT 'task_' || md5(n::text), n % 10000 + 1, 'u' || n % 1000, 'succeeded', '', $2::bigint + n, $2, $2::bigint + n,
			convert_to('{"task":"' || repeat(md5(n::text), 10) || '"}', 'UTF8'), '{}', 400
		FROM generate_series(1, $1) n`, max(20_000, rows/100), (dayOf(noon) + volumeDays).begin().UnixMicro())
	begun := time.Now()
	for i := range volumeDays {
		d := dayOf(noon) + day(i)
		if err := v.fillDay(ctx, c, d, i*v.runs); err != nil {
			t.Fatal(err)
		}
		v.rows += v.runs * volumeRecords
		v.clock.set(d.begin().Add(oneDay / 2))
		var size int64
		if err := c.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&size); err != nil {
			t.Fatal(err)
		}
		if size > volumeBytes*(volumeDays-1)/volumeDays || time.Since(begun) > volumeTime {
			t.Logf("after %d days the store has %.1f GiB, after %s", i+1, float64(size)/(1<<30), time.Since(begun))
			break
		}
	}
	exec(`INSERT INTO approvals (id, run, task, "user", status, created, expires, request)
		SELECT 'approval_' || num, num, '', "user", 'approved', started, started, '{}' FROM runs ORDER BY num LIMIT 10000`)
	exec(`INSERT INTO owner_parts ("user", part, bytes) SELECT "user", '', sum(bytes) FROM runs GROUP BY "user"`)
	exec("INSERT INTO total_parts (part, bytes) SELECT '', sum(bytes) FROM runs")
	exec("SELECT setval(pg_get_serial_sequence('runs', 'num'), 1000000000), setval(pg_get_serial_sequence('blobs', 'id'), 1000000000)")
	exec("ANALYZE")
	var all sync.WaitGroup
	for f := range 8 {
		all.Go(func() {
			for i := f; i < volumeTasks; i += 8 {
				if _, _, err := v.CreateTask(ctx, storetest.New(fmt.Sprint("waiting_", i), fmt.Sprint("u", i), fmt.Sprint("waiting_", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return v
}

// fillDay stores the runs of a day. They have the numbers after first.
func (v *serverVolume) fillDay(ctx context.Context, c *pgx.Conn, d day, first int) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		statements := []string{
			// A table that the transaction has created needs no write-ahead log. Those of the first days are there already.
			"DROP TABLE IF EXISTS journal_" + d.String() + ", blob_refs_" + d.String() + ", blobs_" + d.String(),
			d.script(),
			fmt.Sprintf(`INSERT INTO runs (num, id, "user", session, file, tier, started, ended, status, calls, duration_us, owner, bytes)
				SELECT %d + n, 'run_' || md5(n::text), 'u' || n %% 1000, CASE WHEN n %% 3 = 0 THEN 's' || n %% 9999 ELSE '' END, '', 'wasm',
					at, at + 2000000, CASE WHEN n %% 1000 = 0 THEN 'cancelled' WHEN n %% 20 = 0 THEN 'failed' ELSE 'succeeded' END, 10, 2000000, 'gone', 12500
				FROM (SELECT n, %d + (n - %d) * 86000000000 / %d AS at FROM generate_series(%[3]d + 1, %[3]d + %[4]d) n) n`,
				d.numbers().from, d.begin().UnixMicro(), int64(first), int64(v.runs)),
			fmt.Sprintf(`INSERT INTO journal (run, seq, type, n, data)
				SELECT %d + n::bigint, seq, type, seq / 2, convert_to(head || repeat(md5(n::text || '-' || seq), 14) || tail, 'UTF8')
				FROM generate_series(%d + 1, %[2]d + %d) n, LATERAL (
					SELECT seq, CASE WHEN seq = 1 THEN 'start' WHEN seq = %d THEN 'end' WHEN seq %% 2 = 0 THEN 'call' ELSE 'answer' END AS type,
						CASE WHEN seq = 1 THEN '{"source":"' WHEN seq = %[4]d THEN '{"status":"succeeded","output":"'
							WHEN seq %% 2 = 0 THEN '{"kind":"tool","name":"crm__search","n":' || seq / 2 || ',"args":{"q":"' ELSE '{"n":' || seq / 2 || ',"value":"' END AS head,
						CASE WHEN seq %% 2 = 0 THEN '"}}' ELSE '"}' END AS tail
					FROM generate_series(1, %[4]d) seq) records`, d.numbers().from, first, v.runs, volumeRecords),
			fmt.Sprintf(`INSERT INTO blobs (id, hash, data) SELECT %d + n, sha256(data), data
				FROM (SELECT n, convert_to('"' || repeat(md5(n::text), 200) || '"', 'UTF8') AS data FROM generate_series(%d + 1, %[2]d + %d) n WHERE n %% 20 = 0) n`,
				d.numbers().from, first, v.runs),
			fmt.Sprintf(`INSERT INTO blob_refs (run, seq, field, blob) SELECT %d + n::bigint, 3, 'value', %[1]d + n::bigint
				FROM generate_series(%d + 1, %[2]d + %d) n WHERE n %% 20 = 0`, d.numbers().from, first, v.runs),
		}
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%w in %s", err, statement)
			}
		}
		return nil
	})
}

// md5Text is md5(n::text) of Postgres.
func md5Text(n int) string {
	sum := md5.Sum([]byte(strconv.Itoa(n)))
	return hex.EncodeToString(sum[:])
}

// operation is what TestPostgresVolume measures, by the number of its call.
type operation struct {
	what   string
	writes bool
	do     func(i int) error
}

// nothing executes a statement that does nothing, or an empty transaction, so that the time of an operation can be compared with it.
func (v *serverVolume) nothing(ctx context.Context, writes bool) error {
	if writes {
		return v.write(ctx, 0, func(c *conn) { c.exec("SELECT 1") })
	}
	_, err := one(ctx, v.Store, nil, value[int], "SELECT 1")
	return err
}

func (v *serverVolume) operations(ctx context.Context) []operation {
	run := func(i int) string { return "run_" + md5Text((i*7919)%(v.rows/volumeRecords)+1) }
	user := func(i int) string { return fmt.Sprint("u", i%volumeUsers) }
	list := func(f journal.Filter) error {
		_, next, err := v.Runs(ctx, f)
		if err == nil && next != "" {
			f.Cursor = next
			_, _, err = v.Runs(ctx, f)
		}
		return err
	}
	var w journal.Writer
	return []operation{
		{"two pages of all runs", false, func(int) error { return list(journal.Filter{}) }},
		{"two pages of the runs of a user", false, func(i int) error { return list(journal.Filter{User: user(i)}) }},
		{"two pages of the runs of a status", false, func(int) error { return list(journal.Filter{Status: "cancelled"}) }},
		{"runs of a session", false, func(i int) error { return list(journal.Filter{Session: fmt.Sprint("s", 3*i), User: user(3 * i)}) }},
		{"tasks of a user", false, func(i int) error { return errOf(v.Tasks(ctx, task.Filter{UserID: user(i)})) }},
		{"read of a journal", false, func(i int) error {
			records, err := v.Read(ctx, run(i))
			if err == nil && len(records) != volumeRecords {
				err = fmt.Errorf("%d records", len(records))
			}
			return err
		}},
		{"claim of a task", true, func(int) error {
			claimed, _, err := v.ClaimNext(ctx, "", nil, v.clock.now())
			if err == nil && claimed.ID == "" {
				err = errors.New("no task is due")
			}
			return err
		}},
		{"start of a run", true, func(i int) (err error) {
			id := fmt.Sprintf("new_%d_%d", i, time.Now().UnixNano())
			if w, err = v.Create(ctx, id); err != nil {
				return err
			}
			start := startAt(id, v.clock.now().UnixMicro())
			start.Start.User = user(i)
			w.Append(start)
			return w.Commit(ctx)
		}},
		{"commit of a record", true, func(i int) error {
			w.Append(journaltest.Log(fmt.Sprint(i)))
			return w.Commit(ctx)
		}},
		{"commit of a large value", true, func(i int) error {
			w.Append(bigAnswer(i+1, fmt.Sprint(i%10)))
			return w.Commit(ctx)
		}},
		{"end of a run", true, func(i int) error {
			id := fmt.Sprintf("short_%d_%d", i, time.Now().UnixNano())
			w, err := v.Create(ctx, id)
			if err != nil {
				return err
			}
			w.Append(startAt(id, v.clock.now().UnixMicro()))
			w.Append(endAt(v.clock.now().UnixMicro()))
			return w.Close(ctx)
		}},
	}
}

// TestPostgresVolume: the statements of runs and tasks find their rows by indexes and in one partition, in a store with many runs of 30 days. A purge
// of a day takes the time of its rows in the table of runs, and others go on meanwhile. The large form takes some minutes:
//
//	go test -run TestPostgresVolume -timeout 20m -v ./internal/store/sqlstore -args -volume 30000000
func TestPostgresVolume(t *testing.T) { // not in parallel: it measures times
	rows, large := *volumeRows, generated.Long() || *volumeRows > 0
	if rows == 0 {
		rows = generated.Count(15_000, 1_500_000)
	}
	server := postgrestest.Start(t, "-c", "wal_level=minimal", "-c", "max_wal_senders=0", "-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB")
	url := server.Schema(t)
	admin, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // its statements are done
	configure := func(statements ...string) {
		t.Helper()
		for _, statement := range append(statements, "SELECT pg_reload_conf()", "CHECKPOINT") {
			if _, err := admin.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	configure("ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET autovacuum = off")
	begun := time.Now()
	v := fillServer(t, url, rows)
	configure("ALTER SYSTEM RESET fsync", "ALTER SYSTEM RESET autovacuum")
	var size string
	if err := admin.QueryRow(t.Context(), "SELECT pg_size_pretty(pg_database_size(current_database()))").Scan(&size); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d records of %d runs, %s, stored in %s", v.rows, v.rows/volumeRecords, size, time.Since(begun).Round(time.Second))

	times := 20
	if large {
		times = 500
	}
	operations := v.operations(t.Context())
	for _, o := range operations {
		var took, nothing []time.Duration
		for i := range times + 10 {
			begin := time.Now()
			if err := v.nothing(t.Context(), o.writes); err != nil {
				t.Fatal(err)
			}
			middle := time.Now()
			if err := o.do(i); err != nil {
				t.Fatalf("%s: %v", o.what, err)
			}
			if i >= 10 { // the first ones prepare their statements on each connection
				took, nothing = append(took, time.Since(middle)), append(nothing, middle.Sub(begin))
			}
		}
		p99, idle := quantile(took, 99), quantile(nothing, 99)
		round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
		t.Logf("%-34s p50 %8s  p99 %8s   nothing: p50 %8s  p99 %8s", o.what, round(quantile(took, 50)), round(p99), round(quantile(nothing, 50)), round(idle))
		if large && p99 > slowStatements+idle { // on a busy machine, doing nothing takes long too
			t.Errorf("%s: p99 is %s, that of doing nothing %s", o.what, p99, idle)
		}
	}

	tr := trace(t, v.Store, url)
	for _, o := range operations {
		if err := o.do(times + 10); err != nil {
			t.Errorf("%s: %v", o.what, err)
		}
	}
	v.purgeDay(t, server)
	if n := tr.check(t, url); n < 5 {
		t.Errorf("%d statements use the divided tables", n)
	}
}

// purgeDay purges the first day, while another process reads and commits.
func (v *serverVolume) purgeDay(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	d := dayOf(noon)
	other := openServer(t, v.url, Options{Now: v.clock.now})
	w := mustWriter(t, other, "beside")
	w.Append(startAt("beside", v.clock.now().UnixMicro()))
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := server.Written()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var purged int
	var purge time.Duration
	go func() {
		defer close(done)
		begin := time.Now()
		purged, err = v.Purge(context.Background(), (d + 1).begin())
		purge = time.Since(begin)
	}()
	var commits, reads []time.Duration
	for i, going := 0, true; going; i++ {
		begin := time.Now()
		w.Append(journaltest.Log(fmt.Sprint(i)))
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		commits = append(commits, time.Since(begin))
		begin = time.Now()
		if _, err := other.Read(t.Context(), "run_"+md5Text(v.rows/volumeRecords-i%100)); err != nil {
			t.Fatal(err)
		}
		reads = append(reads, time.Since(begin))
		select {
		case <-done:
			going = false
		default:
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := server.Written()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("purge of a day with %d runs and %d records: %s, %d kB of write-ahead log", purged, purged*volumeRecords, purge.Round(time.Millisecond), (after.Log-before.Log)>>10)
	t.Logf("beside it %d commits: p50 %s, p99 %s, max %s; reads of a journal: p50 %s, p99 %s, max %s", len(commits), quantile(commits, 50), quantile(commits, 99), slices.Max(commits),
		quantile(reads, 50), quantile(reads, 99), slices.Max(reads))
	if purged != v.runs {
		t.Errorf("%d runs are purged, want %d", purged, v.runs)
	}
	left, err := madeDays(t.Context(), v.read)
	if err != nil || slices.Contains(left, d) {
		t.Errorf("partitions of %v, %v", left, err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
