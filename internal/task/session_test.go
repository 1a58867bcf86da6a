package task_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/store/sqlstore"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

// record stores a run of a session. The run has ended unless open is set.
func (s *process) record(user, session, id string, open bool) {
	s.t.Helper()
	w, err := s.store.Create(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	start := journaltest.Start(id)
	start.Start.User, start.Start.Session = user, session
	w.Append(start)
	if err := w.Commit(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if open {
		s.t.Cleanup(func() { w.Close(context.Background()) })
		return
	}
	w.Append(journaltest.End())
	if err := w.Close(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	p := newPlace(t).open(succeed, nil)
	made, err := p.CreateSession(t.Context(), "ann", "mine")
	if err != nil || made.ID != "mine" || made.ExpiresAt.Sub(made.CreatedAt) != 24*time.Hour {
		t.Errorf("made %+v, %v", made, err)
	}
	if _, err := p.CreateSession(t.Context(), "ann", "mine"); !errors.Is(err, task.ErrExists) {
		t.Errorf("made again: %v", err)
	}
	chosen, err := p.CreateSession(t.Context(), "ann", "")
	if err != nil || !strings.HasPrefix(chosen.ID, "sess_") {
		t.Errorf("made %+v, %v", chosen, err)
	}
	p.submit(task.Request{SessionID: "mine"})
	if got, err := p.Session(t.Context(), "ann", "mine"); err != nil || got.Tasks != 1 || got.UserID != "ann" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := p.Session(t.Context(), "bob", "mine"); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("another user sees it: %v", err)
	}
	if _, err := p.CreateSession(t.Context(), "bob", "mine"); err != nil {
		t.Errorf("another user cannot have one of that id: %v", err)
	}
	list, _, err := p.Sessions(t.Context(), task.SessionFilter{UserID: "ann"})
	if err != nil || len(list) != 2 {
		t.Errorf("the list is %v, %v", list, err)
	}
}

// Deleting a session cancels its tasks, even those in work in another process, and deletes its tasks, steps, events, runs and files. Other sessions keep
// theirs.
func TestDeleteSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newPlace(t)
		g := newGated()
		p, other := at.open(g.work, nil), at.open(g.work, nil)
		p.work()
		var gone []string
		for range 3 {
			gone = append(gone, p.submit(task.Request{SessionID: "s"}).ID)
		}
		later := time.Now().Add(time.Hour)
		gone = append(gone, p.submit(task.Request{SessionID: "s", RunAt: &later}).ID)
		g.next(t) // By then the process has looked for unfinished tasks.
		kept := other.submit(task.Request{SessionID: "kept", RunAt: &later})
		remote := other.submit(task.Request{SessionID: "remote", Own: true})
		done := make(chan struct{})
		go func() {
			defer close(done)
			other.Do(t.Context(), remote.ID)
		}()
		g.next(t)
		p.record("ann", "s", "run_1", false)
		p.record("ann", "kept", "run_2", false)
		for _, session := range []string{"s", "remote"} {
			began := time.Now()
			if err := p.DeleteSession(t.Context(), "ann", session); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > soon {
				t.Errorf("it took %s", took)
			}
			if _, err := p.Session(t.Context(), "ann", session); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("the session: %v", err)
			}
			if err := p.DeleteSession(t.Context(), "ann", session); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("deleted again: %v", err)
			}
		}
		<-done
		for _, id := range append(gone, remote.ID) {
			if _, err := p.Task(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("its task: %v", err)
			}
			if _, err := p.Steps(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("its steps: %v", err)
			}
			if _, err := p.Past(t.Context(), id, 0); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("its events: %v", err)
			}
		}
		if _, err := p.store.Read(t.Context(), "run_1"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("its run: %v", err)
		}
		if _, err := p.store.Read(t.Context(), "run_2"); err != nil {
			t.Errorf("another session's run: %v", err)
		}
		// The files of a session are removed again if the store was busy after they were removed.
		if got := slices.Compact(p.sessionsForgotten()); !slices.Equal(got, []string{"ann/s", "ann/remote"}) {
			t.Errorf("forgotten: %q", got)
		}
		if got := p.task(kept.ID); got.Status.Ended() {
			t.Errorf("another session's task is %s", got.Status)
		}
		time.Sleep(2 * time.Hour)
		if got := g.next(t); got.ID != kept.ID { // No process had worked this task.
			t.Errorf("%s of session %s has begun", got.ID, got.SessionID)
		}
		g.none(t) // The waiting tasks have not begun.
	})
}

// closes is a store that calls a function before a session is closed.
type closes struct {
	*sqlstore.Store
	before func()
}

func (c *closes) CloseSession(ctx context.Context, session task.Session, expired time.Time) error {
	c.before()
	return c.Store.CloseSession(ctx, session, expired)
}

// Deleting a session that is in use fails, deletes nothing, and can be repeated later.
func TestDeleteSessionBusy(t *testing.T) {
	t.Parallel()
	hook := &closes{}
	p := newPlace(t).open(succeed, func(o *task.Options) {
		hook.Store = o.Store.(*sqlstore.Store)
		o.Store = hook
	})
	if _, err := p.CreateSession(t.Context(), "ann", "s"); err != nil {
		t.Fatal(err)
	}
	hook.before = func() { p.submit(task.Request{SessionID: "s"}) }
	if err := p.DeleteSession(t.Context(), "ann", "s"); !errors.Is(err, task.ErrBusy) {
		t.Errorf("new tasks come without end: %v", err)
	}
	hook.before = func() {}
	leave, err := p.EnterSession(t.Context(), "ann", "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.DeleteSession(t.Context(), "ann", "s"); !errors.Is(err, task.ErrBusy) {
		t.Errorf("a run is about to begin: %v", err)
	}
	leave()
	func() {
		w, err := p.store.Create(t.Context(), "run_1")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close(context.Background())
		start := journaltest.Start("run_1")
		start.Start.User, start.Start.Session = "ann", "s"
		w.Append(start)
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.DeleteSession(t.Context(), "ann", "s"); !errors.Is(err, task.ErrBusy) {
			t.Errorf("a run is under way: %v", err)
		}
	}()
	if got := p.sessionsForgotten(); len(got) != 0 {
		t.Errorf("the files of %q are gone, and it is not", got)
	}
	if err := p.DeleteSession(t.Context(), "ann", "s"); err != nil {
		t.Error(err)
	}
	if got := p.sessionsForgotten(); !slices.Equal(got, []string{"ann/s"}) {
		t.Errorf("forgotten: %q", got)
	}
}

// If deleting a session was interrupted by a failure or a crash, the session is invisible to its user and accepts nothing new. The process that works the
// queue next deletes it, its files first.
func TestDeleteSessionCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newPlace(t)
		denied := errors.New("permission denied")
		fails := at.open(succeed, func(o *task.Options) {
			o.Forget = func(context.Context, string, string) error { return denied }
		})
		if _, err := fails.CreateSession(t.Context(), "ann", "s"); err != nil {
			t.Fatal(err)
		}
		fails.record("ann", "s", "run_1", false)
		if err := fails.DeleteSession(t.Context(), "ann", "s"); !errors.Is(err, denied) {
			t.Errorf("its files cannot be removed: %v", err)
		}
		if _, err := fails.Session(t.Context(), "ann", "s"); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("the session: %v", err)
		}
		if _, err := fails.EnterSession(t.Context(), "ann", "s"); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("a run in it: %v", err)
		}
		if _, _, err := fails.Submit(t.Context(), task.Request{UserID: "ann", Task: "x", SessionID: "s"}); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("a task in it: %v", err)
		}
		p := at.open(succeed, nil)
		p.work()
		time.Sleep(time.Second) // a second of the bubble's clock, after which SQLite has asked again for a lock that another connection held
		synctest.Wait()
		if got := p.sessionsForgotten(); !slices.Equal(got, []string{"ann/s"}) {
			t.Errorf("forgotten: %q", got)
		}
		if _, err := p.store.Read(t.Context(), "run_1"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("its run: %v", err)
		}
		if _, err := p.CreateSession(t.Context(), "ann", "s"); err != nil {
			t.Errorf("its id is not free: %v", err)
		}
	})
}

// A session that only runs use does not expire while a run is under way, and expires as long after its last run as after a task.
func TestSessionOfRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t).open(succeed, func(o *task.Options) { o.SessionExpiry = 30 * time.Minute })
		p.work()
		run := func(long time.Duration) {
			t.Helper()
			leave, err := p.EnterSession(t.Context(), "ann", "s")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(long)
			leave()
		}
		began := time.Now()
		for range 4 {
			run(0)
			time.Sleep(25 * time.Minute)
		}
		run(3 * time.Hour)
		time.Sleep(29 * time.Minute)
		got, err := p.Session(t.Context(), "ann", "s")
		if err != nil {
			t.Fatal(err)
		}
		if !got.CreatedAt.Equal(began) {
			t.Errorf("it was begun anew at %s", got.CreatedAt)
		}
		time.Sleep(30 * time.Minute)
		if got := p.sessionsForgotten(); !slices.Equal(got, []string{"ann/s"}) {
			t.Errorf("forgotten: %q", got)
		}
		if leave, err := p.EnterSession(t.Context(), "ann", "s"); err != nil { // The id of the deleted session can be used again.
			t.Error(err)
		} else {
			leave()
		}
	})
}

// A session that has been unused for the configured time is deleted with everything that belongs to it, but not while one of its tasks waits or is in work.
func TestSessionExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t).open(succeed, func(o *task.Options) { o.SessionExpiry = 30 * time.Minute })
		p.work()
		old := p.submit(task.Request{SessionID: "old"})
		p.wait(old.ID)
		p.submit(task.Request{SessionID: "used"})
		then := time.Now().Add(2 * time.Hour)
		planned := p.submit(task.Request{SessionID: "planned", RunAt: &then})
		for range 3 {
			time.Sleep(20 * time.Minute)
			p.submit(task.Request{SessionID: "used"})
		}
		if _, err := p.Task(t.Context(), old.ID); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("a task of an old session: %v", err)
		}
		if got := p.sessionsForgotten(); !slices.Equal(got, []string{"ann/old"}) {
			t.Errorf("forgotten: %q", got)
		}
		until(then)
		if got := p.wait(planned.ID); got.Status != task.Succeeded {
			t.Errorf("the planned task is %s", got.Status)
		}
		time.Sleep(time.Hour)
		got := p.sessionsForgotten()
		if slices.Sort(got); !slices.Equal(got, []string{"ann/old", "ann/planned", "ann/used"}) {
			t.Errorf("forgotten: %q", got)
		}
	})
}

// A schedule is deleted with a session that its tasks would create again. Other schedules stay.
func TestDeleteSessionEndsItsSchedules(t *testing.T) {
	t.Parallel()
	p := newPlace(t).open(succeed, nil)
	if _, err := p.CreateSession(t.Context(), "ann", "s"); err != nil {
		t.Fatal(err)
	}
	var all []task.Schedule
	for _, r := range []task.Request{{UserID: "ann", SessionID: "s"}, {UserID: "ann"}, {UserID: "bob", SessionID: "s"}} {
		r.Task = "x"
		s, err := p.CreateSchedule(t.Context(), task.NewSchedule{Request: r, Cron: "0 0 1 1 *"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if err := p.DeleteSession(t.Context(), "ann", "s"); err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		if _, err := p.Schedule(t.Context(), s.ID); errors.Is(err, task.ErrNotFound) != (i == 0) {
			t.Errorf("schedule %d of %s is %v", i, s.UserID, err)
		}
	}
}
