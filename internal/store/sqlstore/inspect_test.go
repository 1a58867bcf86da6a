package sqlstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/postgrestest"
)

// Load counts the waiting tasks, and the sessions with a task that a worker can claim now, in both databases.
func TestLoad(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *Store{
		"SQLite": func(t *testing.T) *Store { return setup(t, Options{}) },
		"Postgres": func(t *testing.T) *Store {
			return openServer(t, postgrestest.Start(t, postgrestest.Fast...).Schema(t), Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			now := time.Now().UTC().Truncate(time.Microsecond)
			want := func(want task.Load) {
				t.Helper()
				if got, err := s.Load(t.Context(), now); err != nil || got != want {
					t.Errorf("got %+v, %v, want %+v", got, err, want)
				}
			}
			want(task.Load{})
			later := now.Add(time.Hour)
			for i, n := range []struct {
				session string
				created time.Time
				runAt   *time.Time
			}{{"a", now.Add(-time.Minute), nil}, {"a", now, nil}, {"b", now, nil}, {"c", now, &later}} {
				if _, _, err := s.CreateTask(t.Context(), task.New{
					Session: task.Session{ID: n.session, UserID: "alice", CreatedAt: n.created, UsedAt: n.created},
					Task:    task.Task{ID: fmt.Sprint("task", i), SessionID: n.session, UserID: "alice", CreatedAt: n.created, RunAt: n.runAt},
				}); err != nil {
					t.Fatal(err)
				}
			}
			want(task.Load{Queued: 4, Due: 2, OldestDue: now.Add(-time.Minute)})
			release, err := s.LockQueue(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if claimed, _, err := s.ClaimNext(t.Context(), "", nil, now); err != nil || claimed.ID != "task0" {
				t.Fatal(claimed.ID, err)
			}
			want(task.Load{Queued: 3, Due: 1, OldestDue: now, Workers: 1}) // session b is marked as ready
			if err := release(); err != nil {
				t.Fatal(err)
			}
			want(task.Load{Queued: 3, Due: 1, OldestDue: now})
		})
	}
}

// Inspect warns about server settings with which commits may be lost or connections may be refused. Ping returns an error for a server that takes no
// changes.
func TestInspect(t *testing.T) {
	t.Parallel()
	good := openServer(t, postgrestest.Start(t).Schema(t), Options{})
	detail, warnings, err := good.Inspect(t.Context())
	if err != nil || len(warnings) > 0 || !strings.HasPrefix(detail, "PostgreSQL 1") || !strings.Contains(detail, ", tables of version ") {
		t.Errorf("got %q, %q, %v", detail, warnings, err)
	}
	if rows := good.Rows(t.Context()); len(rows) != len(transferred) || slices.Contains(slices.Collect(maps.Values(rows)), -1) {
		t.Errorf("got %v", rows)
	}
	server := postgrestest.Start(t, append([]string{"-c", "max_connections=20"}, postgrestest.Fast...)...)
	url := server.Schema(t)
	s := openServer(t, url, Options{})
	_, warnings, err = s.Inspect(t.Context())
	if err != nil || len(warnings) != 2 || !strings.Contains(warnings[0], "synchronous_commit") || !strings.Contains(warnings[1], "max_connections") {
		t.Errorf("got %q, %v", warnings, err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	readOnly := openServer(t, url, Options{})
	if _, err := readOnly.lease.(*rowLease).db.ExecContext(t.Context(), "ALTER DATABASE postgres SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	readOnly.lease.(*rowLease).db.SetMaxIdleConns(0) // a new connection has the setting
	wantText(t, "a server that takes no changes", readOnly.Ping(t.Context()), "takes no changes")
	if _, err := s.lease.(*rowLease).db.ExecContext(t.Context(), "ALTER DATABASE postgres RESET default_transaction_read_only"); err != nil {
		t.Fatal(err)
	}
}
