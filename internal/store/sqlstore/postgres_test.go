package sqlstore

import (
	"context"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/storetest"
	"mcp-code-exec-harness/internal/testing/vaulttest"
)

// openServer opens a store in a schema of a server.
func openServer(t testing.TB, url string, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Fast...)
	t.Run("store", func(t *testing.T) {
		storetest.Exercise(t, storetest.Options{Workers: true}, func(t *testing.T) storetest.Place {
			url := server.Schema(t)
			return func(t *testing.T) storetest.Store { return openServer(t, url, Options{}) }
		})
	})
	t.Run("vault", func(t *testing.T) {
		vaulttest.Exercise(t, vaulttest.Options{}, func(t testing.TB) vaulttest.Place {
			url := server.Schema(t)
			return func(t testing.TB) pii.Vault { return openServer(t, url, Options{}).Vault() }
		})
	})
	t.Run("parts", func(t *testing.T) {
		t.Parallel()
		url := server.Schema(t)
		seen := map[int64]bool{}
		for range parts {
			s := openServer(t, url, Options{})
			if err := s.lease.Claim(); err != nil {
				t.Fatal(err)
			}
			part := s.lease.(*rowLease).part.Load()
			if seen[part] {
				t.Errorf("two processes add to part %d", part)
			}
			seen[part] = true
		}
	})
	t.Run("revoked keys", func(t *testing.T) {
		t.Parallel()
		url := server.Schema(t)
		here, there := openServer(t, url, Options{}), openServer(t, url, Options{})
		revoked, ended := make(chan struct{}), make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { ended <- here.KeysRevoked(ctx, func() { revoked <- struct{}{} }) }()
		<-revoked // KeysRevoked listens now
		if err := there.CreateKey(ctx, auth.Key{ID: "key_1", Hash: []byte("hash")}); err != nil {
			t.Fatal(err)
		}
		if err := there.RevokeKey(ctx, "key_1", time.Now()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		select {
		case <-revoked:
			t.Logf("after %s", time.Since(began))
		case <-ctx.Done():
			t.Error("a process does not learn of the key that another one has revoked")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Run("run of a lost task", func(t *testing.T) {
		t.Parallel()
		url := server.Schema(t)
		testRunOfLostTask(t, openServer(t, url, Options{}), openServer(t, url, Options{}))
	})
	t.Run("wakes", func(t *testing.T) {
		t.Parallel()
		url := server.Schema(t)
		here, there := openServer(t, url, Options{}), openServer(t, url, Options{})
		woken, ended := make(chan struct{}), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { ended <- here.Woken(ctx, func() { woken <- struct{}{} }) }()
		<-woken // Woken listens now; earlier notifications may be lost
		for range 3 {
			there.Wake()
			<-woken
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// testRunOfLostTask tests that a process takes over the run of a task that it works, and only that run, although the former process lives. This happens
// if the former process was frozen for longer than its lease, for instance. The former process can no longer write to the run.
func testRunOfLostTask(t *testing.T, slow, other *Store) {
	t.Helper()
	if _, _, err := slow.CreateTask(t.Context(), storetest.New("task_a", "ann", "s")); err != nil {
		t.Fatal(err)
	}
	claimed, err := slow.Claim(t.Context(), "task_a", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var writers []journal.Writer
	for _, id := range []string{"run_a", "run_b"} { // run_b belongs to no task
		w, err := slow.Create(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		w.Append(startOf(id, "ann", "s"))
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, w)
	}
	step := task.Change{Steps: []task.Step{{Run: &task.Run{CallID: "1", RunID: "run_a"}}}}
	if _, err := slow.Commit(t.Context(), "task_a", claimed.Fence, step); err != nil {
		t.Fatal(err)
	}
	_, _, err = other.Resume(t.Context(), "run_a")
	wantIs(t, "resume while the task is worked", err, journal.ErrBusy)
	if err := slow.Release(t.Context(), "task_a", claimed.Fence, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Claim(t.Context(), "task_a", time.Now()); err != nil {
		t.Fatal(err)
	}
	w, records, err := other.Resume(t.Context(), "run_a")
	if err != nil || len(records) != 1 {
		t.Fatalf("resume of the task's run: %d records, %v", len(records), err)
	}
	defer w.Close(t.Context())
	_, _, err = other.Resume(t.Context(), "run_b")
	wantIs(t, "resume of a run of no task", err, journal.ErrBusy)
	writers[0].Append(journaltest.Log("late"))
	wantIs(t, "a late record", writers[0].Commit(t.Context()), journal.ErrBusy)
	if err := writers[1].Close(t.Context()); err != nil {
		t.Error(err)
	}
}
