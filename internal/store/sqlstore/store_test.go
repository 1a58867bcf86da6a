package sqlstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

func TestMain(m *testing.M) {
	if child := os.Getenv(childVariable); child != "" {
		os.Exit(runChild(child))
	}
	if child := os.Getenv(taskChildVariable); child != "" {
		os.Exit(runTaskChild(child))
	}
	if path := os.Getenv(openVariable); path != "" {
		os.Exit(runOpener(path))
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("mcp-code-exec-harness/internal/process.init.func1.1")) // this goroutine starts child processes and never ends
}

func setup(t testing.TB, o Options) *Store {
	t.Helper()
	return reopenAt(t, filepath.Join(t.TempDir(), "harness.db"), o)
}

func reopenAt(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		checkPlans(t, s)
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func put(t testing.TB, s *Store, run string, records ...journal.Record) {
	t.Helper()
	w, err := s.Create(context.Background(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		w.Append(r)
	}
	if err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// count returns the number that a query selects.
func count(t testing.TB, s *Store, query string, args ...any) int {
	t.Helper()
	var n int
	if err := s.read.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func checkIntegrity(t testing.TB, s *Store) {
	t.Helper()
	var result string
	if err := s.read.QueryRow("PRAGMA integrity_check").Scan(&result); err != nil || result != "ok" {
		t.Errorf("integrity check: %s, %v", result, err)
	}
	if n := count(t, s, "SELECT count(*) FROM blobs WHERE id NOT IN (SELECT blob FROM blob_refs)"); n != 0 {
		t.Errorf("%d blobs that nothing refers to", n)
	}
	if n := count(t, s, "SELECT count(*) FROM blob_refs WHERE blob NOT IN (SELECT id FROM blobs)"); n != 0 {
		t.Errorf("%d references to blobs that are gone", n)
	}
	if n := count(t, s, "SELECT count(*) FROM journal WHERE run NOT IN (SELECT num FROM runs)"); n != 0 {
		t.Errorf("%d records of no run", n)
	}
}

// Changes that are submitted while the writer is busy share the next transaction.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	const runs = 50
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.write(context.Background(), 0, func(*conn) { close(entered); <-leave }); err != nil {
			t.Error(err)
		}
	})
	<-entered
	before := s.Stats()
	for i := range runs {
		w, err := s.Create(t.Context(), string(rune('a'+i)))
		if err != nil {
			t.Fatal(err)
		}
		w.Append(journaltest.Start("x"))
		ch, err := w.(*runWriter).schedule()
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := s.wait(context.Background(), ch); err != nil {
				t.Error(err)
			}
		})
	}
	close(leave)
	wg.Wait()
	after := s.Stats()
	if c, n := after.Changes-before.Changes, after.Transactions-before.Transactions; c != runs || n != 1 {
		t.Errorf("%d changes in %d transactions, want %d in 1", c, n, runs)
	}
	if n := count(t, s, "SELECT count(*) FROM runs"); n != runs {
		t.Errorf("%d runs are stored, want %d", n, runs)
	}
}

// A run that cannot be stored does not fail the other runs of its group.
func TestGroupCommitFailure(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	put(t, s, "taken", journaltest.Start("taken"))
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.write(context.Background(), 0, func(*conn) { close(entered); <-leave }); err != nil {
			t.Error(err)
		}
	})
	<-entered
	errs := make(map[string]error)
	var mu sync.Mutex
	for _, run := range []string{"a", "taken", "b"} {
		w := &runWriter{s: s, run: run} // as Create makes it
		w.Append(journaltest.Start(run))
		ch, err := w.schedule()
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			err := s.wait(context.Background(), ch)
			mu.Lock()
			defer mu.Unlock()
			errs[run] = err
		})
	}
	close(leave)
	wg.Wait()
	if errs["a"] != nil || errs["b"] != nil {
		t.Errorf("runs beside the failing one: %v, %v", errs["a"], errs["b"])
	}
	wantIs(t, "the run that exists", errs["taken"], journal.ErrExists)
	for _, run := range []string{"a", "b", "taken"} {
		if records, err := s.Read(t.Context(), run); err != nil || len(records) != 1 {
			t.Errorf("run %s: %d records, %v, want 1", run, len(records), err)
		}
	}
	checkIntegrity(t, s)
}

// A large value is stored once, even if several records contain it.
func TestBlobsAreShared(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	for _, run := range []string{"a", "b", "c"} {
		put(t, s, run, bigStart(run, "same"), bigAnswer(1, "same"), bigAnswer(2, "same"), bigAnswer(3, run))
	}
	if n := count(t, s, "SELECT count(*) FROM blobs"); n != 5 {
		t.Errorf("%d blobs, want one source, one shared answer and one of each run", n)
	}
	if n := count(t, s, "SELECT max(length(data)) FROM journal"); n > maxInline {
		t.Errorf("a record of %d bytes is kept inline", n)
	}
}

func TestAfterStoreClose(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	w, err := s.Create(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	w.Append(journaltest.Start("a"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantIs(t, "commit", w.Commit(t.Context()), journal.ErrClosed)
	_, err = s.Create(t.Context(), "b")
	wantIs(t, "create", err, journal.ErrClosed)
	_, _, err = s.Resume(t.Context(), "a")
	wantIs(t, "resume", err, journal.ErrClosed)
	_, err = s.Read(t.Context(), "a")
	wantIs(t, "read", err, journal.ErrClosed)
	_, _, err = s.Runs(t.Context(), journal.Filter{})
	wantIs(t, "runs", err, journal.ErrClosed)
	_, err = s.Purge(t.Context(), s.now())
	wantIs(t, "purge", err, journal.ErrClosed)
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	names, err := filepath.Glob(s.path + "*")
	if err != nil || len(names) != 1 {
		t.Errorf("files after close: %v, %v, want the database alone", names, err)
	}
}

func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // permissions are inherited on Windows
	}
	path := filepath.Join(t.TempDir(), "new", "dir", "h?r#n%s s.db")
	s := reopenAt(t, path, Options{})
	put(t, s, "a", journaltest.Start("a"))
	if _, err := s.LockQueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		mode os.FileMode
	}{
		{filepath.Dir(path), 0o700},
		{path, 0o600},
		{path + "-wal", 0o600},
		{path + "-shm", 0o600},
		{path + ".owner-" + s.lease.ID(), 0o600},
		{path + ".queue-lock", 0o600},
	} {
		info, err := os.Stat(c.path)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := info.Mode().Perm(); got != c.mode {
			t.Errorf("%s has mode %o, want %o", c.path, got, c.mode)
		}
	}
}

// While another process has the write lock, a caller can be cancelled. Its change and those that ride with it are stored afterwards, in order.
func TestLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	s := reopenAt(t, path, Options{})
	other, err := connect(t.Context(), dsn(path, writeParams(SyncNormal)))
	if err != nil {
		t.Fatal(err)
	}
	other.script("BEGIN IMMEDIATE; INSERT INTO owners (user) VALUES ('other')")
	var order []string // order in which the changes were applied
	note := func(what string) func(*conn) {
		return func(c *conn) {
			before := order
			c.undo = append(c.undo, func() { order = before })
			order = append(order, what)
		}
	}
	if err := s.writer.ride(&change{apply: note("rider"), done: make(chan struct{})}); err != nil {
		t.Fatal(err)
	}
	ch := &change{apply: note("change"), done: make(chan struct{})}
	s.writer.submit(ch)
	s.writer.start(ch) // start returns, although the lock is held
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.wait(ctx, ch); !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled caller got %v", err)
	}
	if riding, _ := s.writer.riding(); !riding {
		t.Error("the rider is stored already")
	}
	other.script("COMMIT")
	if err := errors.Join(other.err, other.close()); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), 0, note("next")); err != nil {
		t.Fatal(err)
	}
	if riding, err := s.writer.riding(); riding || err != nil || !slices.Equal(order, []string{"rider", "change", "next"}) {
		t.Errorf("stored were %v; riding: %v, %v", order, riding, err)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	replace := func(old, value, want string) {
		t.Helper()
		var before []byte
		if old != "" {
			before = []byte(old)
		}
		if now, err := s.Replace(t.Context(), "secret", before, []byte(value)); err != nil || string(now) != want {
			t.Errorf("%q in place of %q: it is %q, %v; want %q", value, old, now, err, want)
		}
	}
	replace("", "one", "one")
	replace("", "two", "one")
	replace("two", "three", "one")
	replace("one", "four", "four")
}
