package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// inGroup calls functions that each write one change. The changes are stored as one group, in this order.
func inGroup(t *testing.T, s *Store, writes ...func() error) (errs []error) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.write(t.Context(), 0, func(*conn) { close(entered); <-leave }); err != nil {
			t.Error(err)
		}
	})
	<-entered
	errs = make([]error, len(writes))
	for i, write := range writes {
		all.Go(func() { errs[i] = write() })
		for queued := 0; queued <= i; {
			s.writer.mu.Lock()
			queued = len(s.writer.queue)
			s.writer.mu.Unlock()
		}
	}
	close(leave)
	all.Wait()
	return errs
}

// note returns a function that stores a row of the table confirmations.
func note(t *testing.T, s *Store, subject string) func() error {
	return func() error { return s.Confirm(t.Context(), subject, []byte("x")) }
}

func wantNotes(t *testing.T, s *Store, want int) {
	t.Helper()
	if n := count(t, s, "SELECT count(*) FROM confirmations"); n != want {
		t.Errorf("%d rows are stored, want %d", n, want)
	}
}

func TestPipeline(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Fast...)
	open := func(t *testing.T) *Store {
		t.Parallel()
		return openServer(t, server.Schema(t), Options{})
	}

	t.Run("failed statement", func(t *testing.T) {
		s := open(t)
		applied, undone := 0, 0
		errs := inGroup(t, s, note(t, s, "a"), func() error {
			return s.write(t.Context(), 0, func(c *conn) {
				applied++
				c.undo = append(c.undo, func() { undone++ })
				c.exec("INSERT INTO confirmations (subject, value) VALUES (?, ?)", "failed", []byte("x"))
				c.exec("INSERT INTO confirmations (subject, value) VALUES (?, NULL)", "without a value")
				c.exec("INSERT INTO confirmations (subject, value) VALUES (?, ?)", "after the failed one", []byte("x"))
				if c.err != nil {
					t.Errorf("a statement was not queued: %v", c.err)
				}
			})
		}, note(t, s, "b"))
		if errs[0] != nil || postgresCode(errs[1]) != "23502" || errs[2] != nil {
			t.Errorf("got errors %v, want the second to be that of a NULL", errs)
		}
		if applied != 2 || undone != 2 { // once with the group, once alone
			t.Errorf("the failed change was applied %d times and undone %d times, want 2 and 2", applied, undone)
		}
		wantNotes(t, s, 2)
	})

	t.Run("changed rows", func(t *testing.T) {
		s := open(t)
		w, err := s.Create(t.Context(), "run_a")
		if err != nil {
			t.Fatal(err)
		}
		w.Append(journaltest.Start("run_a"))
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		execute(t, s, "UPDATE runs SET fence = fence + 1") // another process has taken over the run
		w.Append(journaltest.Answer(1))
		errs := inGroup(t, s, note(t, s, "a"), func() error { return w.Commit(t.Context()) }, note(t, s, "b"))
		if errs[0] != nil || !errors.Is(errs[1], journal.ErrBusy) || errs[2] != nil {
			t.Errorf("got errors %v, want the second to be %v", errs, journal.ErrBusy)
		}
		wantNotes(t, s, 2)
		if n := count(t, s, "SELECT count(*) FROM journal"); n != 1 {
			t.Errorf("%d records are stored, want 1", n)
		}
		wantIs(t, "close", w.Close(t.Context()), journal.ErrBusy)
	})

	t.Run("lost claims", func(t *testing.T) {
		s := open(t)
		const claims = maxRepeats + 2
		claimed := make([]task.Task, claims)
		for i := range claims {
			id := fmt.Sprint("task_", i)
			if _, _, err := s.CreateTask(t.Context(), storetest.New(id, "ann", fmt.Sprint("s", i))); err != nil {
				t.Fatal(err)
			}
			var err error
			if claimed[i], err = s.Claim(t.Context(), id, s.now()); err != nil {
				t.Fatal(err)
			}
		}
		execute(t, s, "UPDATE tasks SET fence = fence + 1 WHERE id <> 'task_0'")
		var writes []func() error
		added := make([][]task.Event, claims)
		for i, of := range claimed {
			writes = append(writes, func() (err error) {
				added[i], err = s.Commit(t.Context(), of.ID, of.Fence, task.Change{Steps: []task.Step{{}}, Events: someEvents(2)})
				return err
			}, func() error { // flushes the queue, and must not get the error of an earlier change
				return s.write(t.Context(), 0, func(c *conn) {
					if h := head(c, claimed[0].ID); h.num == 0 {
						c.refuse(task.ErrNotFound)
					}
				})
			})
		}
		for i, err := range inGroup(t, s, writes...) {
			switch {
			case i > 0 && i%2 == 0:
				wantIs(t, claimed[i/2].ID, err, task.ErrNotOwner)
			case err != nil:
				t.Errorf("change %d: %v", i, err)
			}
		}
		if n, m := count(t, s, "SELECT count(*) FROM steps"), count(t, s, "SELECT count(*) FROM events"); n != 1 || m != claims+2 {
			t.Errorf("%d steps and %d events are stored, want 1 and %d", n, m, claims+2)
		}
		if len(added[0]) != 2 || added[0][0].ID != 2 || added[0][1].ID != 3 {
			t.Errorf("the commit added %+v, want events 2 and 3", added[0])
		}
	})

	t.Run("lost connection", func(t *testing.T) {
		s := open(t)
		lost := 0
		errs := inGroup(t, s, note(t, s, "a"), func() error {
			return s.write(t.Context(), 0, func(c *conn) {
				c.exec("INSERT INTO confirmations (subject, value) VALUES (?, ?)", "b", []byte("x"))
				if lost++; lost == 1 {
					c.exec("SELECT pg_terminate_backend(pg_backend_pid())")
				}
			})
		}, note(t, s, "c"))
		if err := errors.Join(errs...); err != nil || lost != 2 {
			t.Errorf("applied %d times, want 2: %v", lost, err)
		}
		wantNotes(t, s, 3)
	})

	// A change must not clear an error of the server. If one does, the server does not commit.
	t.Run("cleared error", func(t *testing.T) {
		s := open(t)
		err := s.write(t.Context(), 0, func(c *conn) {
			c.exec("INSERT INTO confirmations (subject, value) VALUES (?, ?)", "a", []byte("x"))
			c.exec("INSERT INTO confirmations (subject, value) VALUES (?, NULL)", "b")
			c.flush()
			c.err = nil
		})
		wantText(t, "write", err, "answered COMMIT with ROLLBACK")
		if err := s.Confirm(t.Context(), "c", []byte("x")); err != nil {
			t.Error(err)
		}
		wantNotes(t, s, 1)
	})

	t.Run("script", func(t *testing.T) {
		s := open(t)
		failure := errors.New("the change fails")
		err := s.write(t.Context(), 0, func(c *conn) {
			c.script("CREATE TABLE made (x TEXT)")
			c.exec("INSERT INTO made VALUES (?)", "x")
			c.flush()
			c.fail(failure)
		})
		if !errors.Is(err, failure) {
			t.Errorf("got %v", err)
		}
		if n := count(t, s, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'made'"); n != 0 {
			t.Error("the table of a transaction that was rolled back exists")
		}
	})

	// A change queues more statements than the queue holds, and a statement's function queues another statement.
	t.Run("long queue", func(t *testing.T) {
		s := open(t)
		const n = 2*maxQueue + 1
		var results int64
		if err := s.write(t.Context(), 0, func(c *conn) {
			results = 0
			for i := range n {
				c.expect(func(rows int64) {
					if results += rows; i == n-1 {
						c.exec("INSERT INTO confirmations (subject, value) VALUES (?, ?)", "last", []byte("x"))
					}
				}, "INSERT INTO confirmations (subject, value) VALUES (?, ?)", fmt.Sprint(i), []byte("x"))
			}
		}); err != nil || results != n {
			t.Errorf("%d results, want %d: %v", results, n, err)
		}
		wantNotes(t, s, n+1)
	})
}

// TestPostgresAway: while the server cannot be reached, the caller of a write can be cancelled. The change is stored once the server is back.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "-c", "fsync=off")
	s := openServer(t, server.Schema(t), Options{})
	if err := s.Confirm(t.Context(), "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	applied := make(chan struct{})
	err := s.write(ctx, 0, func(c *conn) {
		c.exec("INSERT INTO confirmations (subject, value) VALUES (?, ?)", "b", []byte("x"))
		select {
		case <-applied:
		default:
			close(applied)
		}
		cancel() // apply is called although the server is away, because BEGIN is queued
	})
	wantIs(t, "write", err, context.Canceled)
	<-applied
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := s.Confirm(t.Context(), "c", []byte("x")); err != nil {
		t.Error(err)
	}
	wantNotes(t, s, 3)
}

// TestPostgresRestarted: reads and the lease survive a restart of the server, which breaks each connection of their pools.
func TestPostgresRestarted(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "-c", "fsync=off")
	s, err := Open(t.Context(), server.Schema(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	release, err := s.LockQueue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reads := func(when string) {
		var all sync.WaitGroup
		for range 3 * postgresReaders {
			all.Go(func() {
				if _, _, err := s.Tasks(t.Context(), task.Filter{}); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			})
		}
		all.Wait()
	}
	reads("before")
	server.Kill()
	var away sync.WaitGroup
	away.Go(func() {
		if _, err := s.Keys(t.Context()); err != nil {
			t.Errorf("a read while the server is away: %v", err)
		}
	})
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	away.Wait()
	reads("after")
	server.Kill()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.QueueWorker(t.Context()); err != nil {
		t.Error(err)
	}
	server.Kill()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func execute(t *testing.T, s *Store, statement string) {
	t.Helper()
	if _, err := s.read.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
