package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

var _ storetest.Store = (*Store)(nil)

func TestStore(t *testing.T) {
	t.Parallel()
	for _, sync := range []Sync{SyncNormal, SyncFull} {
		t.Run(string(sync), func(t *testing.T) {
			t.Parallel()
			storetest.Exercise(t, storetest.Options{}, func(t *testing.T) storetest.Place {
				path := filepath.Join(t.TempDir(), "harness.db")
				return func(t *testing.T) storetest.Store {
					s := reopenAt(t, path, Options{Sync: sync})
					t.Cleanup(func() {
						if !s.isClosed() {
							checkTasks(t, s)
						}
					})
					return s
				}
			})
		})
	}
}

// checkTasks checks that no row refers to a missing row.
func checkTasks(t testing.TB, s *Store) {
	t.Helper()
	checkIntegrity(t, s)
	for table, parent := range map[string]string{
		"tasks": "session NOT IN (SELECT num FROM sessions)", "steps": "task NOT IN (SELECT num FROM tasks)",
		"events": "task NOT IN (SELECT num FROM tasks)", "webhooks": `CASE approval WHEN '' THEN task NOT IN (SELECT num FROM tasks)
			ELSE approval NOT IN (SELECT id FROM approvals WHERE status = 'waiting') END`,
		"idempotency": "task NOT IN (SELECT num FROM tasks)", "task_words": "rowid NOT IN (SELECT num FROM tasks)",
	} {
		if n := count(t, s, "SELECT count(*) FROM "+table+" WHERE "+parent); n != 0 {
			t.Errorf("%d rows of %s belong to nothing", n, table)
		}
	}
}

// putTask creates and claims a task, and commits c. end is the time of the task's end, or nil if the task does not end.
func putTask(t testing.TB, s *Store, n task.New, end *time.Time, c task.Change) {
	t.Helper()
	if _, _, err := s.CreateTask(context.Background(), n); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(context.Background(), n.Task.ID, n.Task.CreatedAt)
	if err != nil {
		t.Fatal(err)
	}
	if end != nil {
		claimed.Status, claimed.EndedAt = task.Succeeded, end
		c.Task = &claimed
	}
	if _, err := s.Commit(context.Background(), n.Task.ID, claimed.Fence, c); err != nil {
		t.Fatal(err)
	}
}

func newTask(id string) task.New { return storetest.New(id, "ann", "sess_"+id) }

func someEvents(n int) []task.Event {
	events := make([]task.Event, n)
	for i := range events {
		events[i] = task.Event{Type: task.EventLog, Time: time.Unix(1, 0), Key: fmt.Sprint(i), Data: []byte(`{"text":"x"}`)}
	}
	return events
}

// Purge deletes old tasks with all that belongs to them. It keeps unfinished tasks, and tasks with a pending webhook or an idempotency key.
func TestPurgeTasks(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	early, late := time.UnixMicro(100), time.UnixMicro(2000)
	some := func() task.Change {
		c := task.Change{Events: someEvents(purgeRecords + 10)}
		for range purgeSteps + 5 {
			c.Steps = append(c.Steps, task.Step{Note: &task.Note{Text: "x"}})
		}
		return c
	}
	putTask(t, s, newTask("old"), &early, some())
	putTask(t, s, newTask("new"), &late, some())
	putTask(t, s, newTask("unfinished"), nil, some())
	settled := some()
	settled.Webhook = &task.Webhook{ID: "evt_1", URL: "u"}
	putTask(t, s, newTask("told"), &early, settled)
	if err := s.SettleWebhook(t.Context(), "evt_1", time.Time{}); err != nil {
		t.Fatal(err)
	}
	pending := some()
	pending.Webhook = &task.Webhook{ID: "evt_2", URL: "u"}
	putTask(t, s, newTask("telling"), &early, pending)
	keyed := newTask("keyed")
	keyed.IdempotencyKey = "k"
	putTask(t, s, keyed, &early, some())

	left := func(want string) {
		t.Helper()
		tasks, _, err := s.Tasks(t.Context(), task.Filter{})
		var ids []string
		for _, left := range tasks {
			ids = append(ids, left.ID)
		}
		if got := strings.Join(ids, " "); err != nil || got != want {
			t.Errorf("%s are left, %v, want %s", got, err, want)
		}
		checkTasks(t, s)
	}
	if n, err := s.Purge(t.Context(), time.UnixMicro(1000)); err != nil || n != 2 {
		t.Errorf("Purge = %d, %v, want 2", n, err)
	}
	left("keyed telling unfinished new")
	if err := s.SettleWebhook(t.Context(), "evt_2", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Purge(t.Context(), time.UnixMicro(1000)); err != nil || n != 1 {
		t.Errorf("second Purge = %d, %v, want 1", n, err)
	}
	left("keyed unfinished new")
	if n := count(t, s, "SELECT count(*) FROM events"); n != 3*(purgeRecords+11) {
		t.Errorf("%d events are left, want those of three tasks", n)
	}
}

// Purge deletes more tasks than one step marks.
func TestPurgeManyTasks(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	end := time.UnixMicro(100)
	for i := range purgeRuns + 5 {
		putTask(t, s, newTask(fmt.Sprint("task_", i)), &end, task.Change{})
	}
	if n, err := s.Purge(t.Context(), time.UnixMicro(1000)); err != nil || n != purgeRuns+5 {
		t.Errorf("Purge = %d, %v, want %d", n, err, purgeRuns+5)
	}
	for _, table := range []string{"tasks", "events"} {
		if n := count(t, s, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	c, err := connect(t.Context(), dsn(s.path, writeParams(SyncNormal)))
	if err != nil {
		t.Fatal(err)
	}
	var words int
	c.exec("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, task_words, row)")
	c.row("SELECT count(*) FROM temp.terms", nil, &words)
	if err := errors.Join(c.err, c.close()); err != nil || words != 0 {
		t.Errorf("%d words are left in the index, %v", words, err)
	}
}

// Idempotency keys are kept for a day, whatever the retention, and a task is kept as long as its key.
func TestIdempotencyKeysGo(t *testing.T) {
	t.Parallel()
	for _, retention := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprint(retention), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "harness.db")
			synctest.Test(t, func(t *testing.T) {
				s := reopenAt(t, path, Options{Retention: retention})
				synctest.Wait()
				create := func(id string) (string, bool) {
					n := newTask(id)
					n.IdempotencyKey, n.Task.CreatedAt = "k", time.Now()
					got, created, err := s.CreateTask(t.Context(), n)
					if err != nil {
						t.Fatal(err)
					}
					return got.ID, created
				}
				create("first")
				claimed, err := s.Claim(t.Context(), "first", time.Now())
				if err != nil {
					t.Fatal(err)
				}
				end := time.Now()
				claimed.Status, claimed.EndedAt = task.Succeeded, &end
				if _, err := s.Commit(t.Context(), "first", claimed.Fence, task.Change{Task: &claimed}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				if id, created := create("second"); id != "first" || created {
					t.Errorf("after a day: %s, created %v, want the first again", id, created)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if id, created := create("third"); id != "third" || !created {
					t.Errorf("after more than a day: %s, created %v, want a new one", id, created)
				}
				want := 2
				if retention > 0 {
					want = 1
				}
				if n := count(t, s, "SELECT count(*) FROM tasks"); n != want {
					t.Errorf("%d tasks are left, want %d", n, want)
				}
			})
		})
	}
}

func startOf(run, user, session string) journal.Record {
	r := bigStart(run, run)
	r.Start.User, r.Start.Session = user, session
	return r
}

// DeleteSession deletes the runs of the session and no others. It refuses to delete a session with a run that a live process executes.
func TestDeleteSessionWithRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	s, dead := reopenAt(t, path, Options{}), reopenAt(t, path, Options{})
	if err := s.CreateSession(t.Context(), task.Session{ID: "s", UserID: "ann"}); err != nil {
		t.Fatal(err)
	}
	for i := range purgeRuns + 3 {
		run := fmt.Sprint("gone_", i)
		put(t, s, run, startOf(run, "ann", "s"), bigAnswer(1, "shared"), journaltest.End())
	}
	put(t, s, "abandoned", startOf("abandoned", "ann", "s"))
	put(t, dead, "orphan", startOf("orphan", "ann", "s"))
	put(t, s, "bobs", startOf("bobs", "bob", "s"), bigAnswer(1, "shared"), journaltest.End())
	put(t, s, "other", startOf("other", "ann", "t"), journaltest.End())
	put(t, s, "none", startOf("none", "ann", ""), journaltest.End())
	err := s.DeleteSession(t.Context(), "ann", "s")
	wantIs(t, "delete while another process has an unfinished run", err, task.ErrBusy)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	w, _, err := s.Resume(t.Context(), "abandoned")
	if err != nil {
		t.Fatal(err)
	}
	err = s.DeleteSession(t.Context(), "ann", "s")
	wantIs(t, "delete while a run is written", err, task.ErrBusy)
	wantText(t, "delete while a run is written", err, "abandoned")
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	if err := s.DeleteSession(t.Context(), "ann", "s"); err != nil {
		t.Fatal(err)
	}
	runs, _, err := s.Runs(t.Context(), journal.Filter{Limit: 1000})
	if err != nil || len(runs) != 3 {
		t.Errorf("%d runs are left, %v, want 3", len(runs), err)
	}
	for _, run := range []string{"bobs", "other", "none"} {
		if _, err := s.Read(t.Context(), run); err != nil {
			t.Error(err)
		}
	}
	_, _, err = s.Resume(t.Context(), "abandoned")
	wantIs(t, "resume of a run that is gone", err, journal.ErrNotFound)
	if n := count(t, s, "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM runs WHERE purged = 1)"); n != 0 {
		t.Errorf("%d rows of what is gone are left", n)
	}
	checkTasks(t, s)
}

// A process cannot adopt a run whose session was closed after the process had read the run.
func TestResumeOfDeleted(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	put(t, s, "run_a", startOf("run_a", "ann", "s"))
	if err := s.CreateSession(t.Context(), task.Session{ID: "s", UserID: "ann"}); err != nil {
		t.Fatal(err)
	}
	w := &runWriter{s: s, run: "run_a"}
	w.num = int64(count(t, s, "SELECT num FROM runs"))
	if err := s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s"}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	wantIs(t, "adopt", s.adopt(t.Context(), w, s.lease.ID()), journal.ErrBusy)
}

// Two faults do not keep other tasks from being claimed: a session that is due although it has no waiting task, and a task that cannot be read.
func TestClaimPastDamage(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	now := time.UnixMicro(1000)
	for _, user := range []string{"ann", "bob", "cid"} {
		n := storetest.New("task_"+user, user, "s")
		n.Task.CreatedAt = time.UnixMicro(100)
		if _, _, err := s.CreateTask(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.write(t.Context(), 0, func(c *conn) {
		c.exec("UPDATE tasks SET owner = 'other' WHERE id = 'task_ann'") // without the change of the session's row
		c.exec("UPDATE tasks SET request = x'7b' WHERE id = 'task_bob'")
	}); err != nil {
		t.Fatal(err)
	}
	got, _, err := s.ClaimNext(t.Context(), "", nil, now)
	if err != nil || got.ID != "task_cid" {
		t.Errorf("claimed %q, %v, want that of cid", got.ID, err)
	}
	got, next, err := s.ClaimNext(t.Context(), "", nil, now)
	if err != nil || got.ID != "" || !next.Equal(now.Add(damagedAgain)) {
		t.Errorf("claimed %q, next %v, %v, want the damaged one in an hour", got.ID, next, err)
	}
}

// If a crash interrupts the deletion of a session, readers do not see the rest of the session. The rest is deleted when the store is opened
// again, even without a retention. Only the session's row stays, because the session's files may still exist.
func TestDeleteSessionCutOff(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	end := time.UnixMicro(100)
	putTask(t, s, storetest.New("task_a", "ann", "s"), &end, task.Change{Events: someEvents(10)})
	put(t, s, "run_a", startOf("run_a", "ann", "s"), journaltest.End())
	if err := s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s"}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Task(t.Context(), "task_a")
	wantIs(t, "task", err, task.ErrNotFound)
	_, err = s.Events(t.Context(), "task_a", 0, 1)
	wantIs(t, "events", err, task.ErrNotFound)
	_, _, err = s.CreateTask(t.Context(), storetest.New("task_b", "ann", "s"))
	wantIs(t, "a task in the session", err, task.ErrNotFound)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		again := reopenAt(t, s.path, Options{})
		synctest.Wait()
		if expired, err := again.ExpiredSessions(t.Context(), time.Now(), nil, 10); err != nil || len(expired) != 1 {
			t.Errorf("closed sessions: %v, %v, want the one whose files may be left", expired, err)
		}
		for _, table := range []string{"tasks", "events", "runs", "journal"} {
			if n := count(t, again, "SELECT count(*) FROM "+table); n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
	})
}

// Sessions are deleted while two processes store tasks and runs of other sessions.
func TestDeleteSessionsWhileOthersGoOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	stores := []*Store{reopenAt(t, path, Options{}), reopenAt(t, path, Options{})}
	var all sync.WaitGroup
	const each = 10
	for i := range 6 {
		all.Go(func() {
			s := stores[i%2]
			for j := range each {
				id := fmt.Sprintf("%d_%d", i, j)
				end := time.UnixMicro(100)
				putTask(t, s, storetest.New("task_"+id, "ann", "sess_"+id), &end, task.Change{Events: someEvents(20)})
				put(t, s, "run_"+id, startOf("run_"+id, "ann", "sess_"+id), bigAnswer(1, "shared"), journaltest.End())
				if j%2 == 0 {
					if err := s.DeleteSession(context.Background(), "ann", "sess_"+id); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	s := stores[0]
	for table, want := range map[string]int{"sessions": 30, "tasks": 30, "events": 30 * 21, "runs": 30, "journal": 90} {
		if n := count(t, s, "SELECT count(*) FROM "+table); n != want {
			t.Errorf("%d rows in %s, want %d", n, table, want)
		}
	}
	checkTasks(t, s)
}

// A refused change does not fail the other changes of its transaction, and the transaction is not repeated.
func TestRefusalsShareTransactions(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	for _, id := range []string{"a", "b"} {
		putTask(t, s, newTask(id), nil, task.Change{})
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.write(context.Background(), 0, func(*conn) { close(entered); <-leave }); err != nil {
			t.Error(err)
		}
	})
	<-entered
	before := s.Stats()
	var mu sync.Mutex
	errs := map[string]error{}
	for _, id := range []string{"a", "unknown", "b"} {
		all.Go(func() {
			_, err := s.Commit(context.Background(), id, 1, task.Change{Events: someEvents(1)})
			mu.Lock()
			defer mu.Unlock()
			errs[id] = err
		})
	}
	for queued := 0; queued < 3; {
		s.writer.mu.Lock()
		queued = len(s.writer.queue)
		s.writer.mu.Unlock()
	}
	close(leave)
	all.Wait()
	if errs["a"] != nil || errs["b"] != nil {
		t.Errorf("commits beside the refused one: %v, %v", errs["a"], errs["b"])
	}
	wantIs(t, "the refused one", errs["unknown"], task.ErrNotFound)
	if n := s.writer.transactions.Load() - before.Transactions; n != 1 {
		t.Errorf("%d transactions, want 1", n)
	}
}
