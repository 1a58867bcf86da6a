package sqlstore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// Each quota applies to one user, and its error names its key. Deleted sessions and schedules and ended tasks no longer count.
func TestQuotas(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{Quotas: Quotas{Tasks: 2, Sessions: 3, Schedules: 1}})
	task1 := func(user string, n int) error {
		_, _, err := s.CreateTask(t.Context(), storetest.New(fmt.Sprint(user, n), user, fmt.Sprint("s", n)))
		return err
	}
	sched := func(user string, n int) error {
		next := time.Now()
		return s.CreateSchedule(t.Context(), task.Schedule{ID: fmt.Sprint(user, n), UserID: user, Task: "x", Next: &next})
	}
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused := func(key string, err error) {
		t.Helper()
		wantIs(t, key, err, task.ErrQuota)
		wantText(t, key, err, key)
	}
	ok("task 1", task1("ann", 1))
	ok("task 2", task1("ann", 2))
	refused("quotas.tasks", task1("ann", 3))
	ok("another user's", task1("bob", 1))
	claimed, err := s.Claim(t.Context(), "ann1", time.Now())
	ok("claim", err)
	end := time.Now()
	claimed.Status, claimed.EndedAt = task.Succeeded, &end
	_, err = s.Commit(t.Context(), "ann1", claimed.Fence, task.Change{Task: &claimed})
	ok("end", err)
	ok("task 4", task1("ann", 4))
	refused("quotas.sessions", s.CreateSession(t.Context(), task.Session{ID: "more", UserID: "ann"}))
	ok("delete", s.DeleteSession(t.Context(), "ann", "s1"))
	ok("session", s.CreateSession(t.Context(), task.Session{ID: "more", UserID: "ann"}))
	ok("schedule", sched("ann", 1))
	refused("quotas.schedules", sched("ann", 2))
	ok("delete", s.DeleteSchedule(t.Context(), "ann1"))
	ok("schedule", sched("ann", 3))
	_, _, err = s.Fire(t.Context(), "ann3", time.Unix(1, 0), storetest.New("ann9", "ann", "s9"), time.Time{})
	ok("fire at another time", err)
}

// All users together have a bound too.
func TestQuotaOfAll(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{Quotas: Quotas{Schedules: 1}})
	next := time.Now()
	for n := range shareOfAll + 1 {
		user := fmt.Sprint("user_", n)
		err := s.CreateSchedule(t.Context(), task.Schedule{ID: user, UserID: user, Task: "x", Next: &next})
		if (err != nil) != (n == shareOfAll) {
			t.Errorf("schedule %d: %v", n+1, err)
		}
		if n == shareOfAll {
			wantIs(t, "the last", err, task.ErrQuota)
			wantText(t, "the last", err, "all users together")
		}
	}
}

// A run that exceeds its user's quota ends as failed, and its stored records are kept. The user's next run begins only after a purge.
func TestRunOverQuota(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{Quotas: Quotas{Bytes: 100_000}})
	w, err := s.Create(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	w.Append(startOf("run_a", "ann", ""))
	for n := 1; err == nil; n++ {
		if n > 100 {
			t.Fatal("the journal grows without end")
		}
		w.Append(bigAnswer(n, fmt.Sprint(n)))
		err = w.Commit(t.Context())
	}
	wantIs(t, "commit", err, task.ErrQuota)
	wantText(t, "commit", err, "quotas.journal")
	if err := w.Close(t.Context()); err == nil {
		t.Error("the journal is closed without an error")
	}
	records, err := s.Read(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	last := records[len(records)-1].End
	if last == nil || last.Status != "failed" || !strings.Contains(string(last.Error), `"quota"`) {
		t.Errorf("the journal ends with %+v", records[len(records)-1])
	}
	info, err := s.Run(t.Context(), "run_a")
	if err != nil || info.Status != "failed" || info.ErrorKind != "quota" {
		t.Errorf("the run: %+v, %v", info, err)
	}
	begin := func(run, user string) error {
		w, err := s.Create(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		w.Append(startOf(run, user, ""))
		w.Append(journaltest.End())
		return w.Close(t.Context())
	}
	wantIs(t, "the next run", begin("run_b", "ann"), task.ErrQuota)
	_, _, err = s.CreateTask(t.Context(), storetest.New("task_a", "ann", "s"))
	wantIs(t, "a task", err, task.ErrQuota)
	if err := begin("run_c", "bob"); err != nil {
		t.Errorf("another user's run: %v", err)
	}
	if _, err := s.Purge(t.Context(), s.now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := begin("run_d", "ann"); err != nil {
		t.Errorf("a run when there is room again: %v", err)
	}
}

// A process that was taken for dead cannot write to a run that another process has taken over.
func TestJournalFence(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	w, err := s.Create(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	w.Append(startOf("run_a", "ann", ""))
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), 0, func(c *conn) { // what another process does when it takes over the run
		c.exec("UPDATE runs SET owner = 'other', fence = fence + 1")
	}); err != nil {
		t.Fatal(err)
	}
	w.Append(bigAnswer(1, "x"))
	wantIs(t, "commit", w.Commit(t.Context()), journal.ErrBusy)
	if records, err := s.Read(t.Context(), "run_a"); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v, want the first alone", len(records), err)
	}
	_ = w.Close(t.Context())
}

// After all sessions are deleted and all runs are purged, the tables are empty, and the file is about as small as before.
func TestFileShrinks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	s := reopenAt(t, path, Options{})
	size := func() (sum int64) {
		for _, name := range []string{path, path + "-wal"} {
			if info, err := os.Stat(name); err == nil {
				sum += info.Size()
			}
		}
		return sum
	}
	if err := s.database.(*file).checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := size()
	end := time.UnixMicro(100)
	for i := range 100 {
		run := fmt.Sprint("run_", i)
		put(t, s, run, startAt(run, 1), bigAnswer(1, run), bigAnswer(2, run), endAt(100))
		putTask(t, s, newTask(fmt.Sprint("task_", i)), &end, task.Change{Events: someEvents(100)})
	}
	if full := size(); full < 10*before {
		t.Fatalf("%d bytes, then %d", before, full)
	}
	for i := range 100 {
		if err := s.DeleteSession(t.Context(), "ann", fmt.Sprint("sess_task_", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Purge(t.Context(), time.UnixMicro(1000)); err != nil {
		t.Fatal(err)
	}
	if after := size(); after > before+before/20+8*4096 {
		t.Errorf("%d bytes, then %d", before, after)
	}
	for _, table := range []string{"runs", "journal", "blobs", "blob_refs", "tasks", "steps", "events", "webhooks", "idempotency", "sessions", "owners"} {
		if n := count(t, s, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	checkTasks(t, s)
}

// The bytes of an unfinished run that are not counted yet are counted when the run is resumed, and when it ends. The totals then agree with the rows.
func TestBytesOfRuns(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	const stored = `SELECT (SELECT sum(length(data)) FROM journal) + (SELECT coalesce(sum(length(data)), 0) FROM blobs)`
	check := func(when string) {
		t.Helper()
		want := count(t, s, stored)
		for _, table := range []string{"runs", "owners", "totals"} {
			if got := count(t, s, "SELECT coalesce(sum(bytes), 0) FROM "+table); got != want {
				t.Errorf("%s: %d bytes are counted in %s, %d are stored", when, got, table, want)
			}
		}
	}
	w, err := s.Create(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	w.Append(startOf("run_a", "ann", ""))
	for n := range 3 {
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Append(bigAnswer(n+1, fmt.Sprint(n)))
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w, _, err = s.Resume(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	check("resumed")
	w.Append(bigAnswer(4, "4"))
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Append(journaltest.End())
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("ended")
	if _, err := s.Purge(t.Context(), s.now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, "SELECT bytes FROM totals"); n != 0 {
		t.Errorf("%d bytes are counted of nothing", n)
	}
}

// The bytes of a task's small changes are counted when it is released and when it ends. The bytes of a repeated transaction are counted once.
func TestBytesOfTasks(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	if _, _, err := s.CreateTask(t.Context(), storetest.New("task_a", "ann", "s")); err != nil {
		t.Fatal(err)
	}
	counted := func() int {
		t.Helper()
		n := count(t, s, "SELECT bytes FROM tasks")
		if of := count(t, s, "SELECT bytes FROM owners"); of != n {
			t.Errorf("%d bytes are counted of the task, %d of its user", n, of)
		}
		return n
	}
	first := counted()
	claimed, err := s.Claim(t.Context(), "task_a", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	events := someEvents(3)
	for i := range events {
		rows, err := encodeChange(&task.Change{Events: events[i : i+1]}, s.now())
		if err != nil {
			t.Fatal(err)
		}
		fails := i == 1
		store := &change{done: make(chan struct{}), apply: func(c *conn) { rows.store(c, s.owned(c, "task_a", claimed.Fence), nil) }}
		other := &change{done: make(chan struct{}), apply: func(c *conn) {
			if fails {
				c.fail(os.ErrInvalid)
			}
		}}
		s.writer.mu.Lock() // so that both are in one transaction
		s.writer.queue = append(s.writer.queue, store, other)
		s.writer.changed.Signal()
		s.writer.mu.Unlock()
		<-store.done
		if <-other.done; store.err != nil || (other.err != nil) != fails {
			t.Fatalf("%v, %v", store.err, other.err)
		}
	}
	if n := counted(); n != first {
		t.Errorf("%d bytes are counted, %d before: each small change writes the whole row", n, first)
	}
	if err := s.Release(t.Context(), "task_a", claimed.Fence, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n, want := counted(), first+3*len(events[0].Data); n != want {
		t.Errorf("%d bytes are counted after the release, want %d", n, want)
	}
}
