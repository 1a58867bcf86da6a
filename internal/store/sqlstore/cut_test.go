package sqlstore

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/proxytest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// openProxied opens a store behind a proxy.
func openProxied(t *testing.T) (*Store, *proxytest.Proxy) {
	t.Helper()
	server := postgrestest.Start(t, postgrestest.Fast...)
	url, proxy := server.Behind(t, server.Schema(t))
	return openServer(t, url, Options{}), proxy
}

// TestPostgresCut cuts connections at each point of a transaction, also between a COMMIT and its answer: each task is created once, and has each of its
// steps once.
func TestPostgresCut(t *testing.T) {
	t.Parallel()
	s, proxy := openProxied(t)
	uncut := 0 // number of consecutive points at which nothing was cut
	for n := int64(0); uncut < 3; n++ {
		before := proxy.Cuts()
		id := fmt.Sprint("task_", n)
		proxy.CutAfter(n+1, nil)
		_, created, err := s.CreateTask(t.Context(), storetest.New(id, "ann", fmt.Sprint("s", n)))
		proxy.CutAfter(-1, nil)
		if err != nil || !created {
			t.Errorf("cut at %d: created: %v, %v", n, created, err)
			continue
		}
		claimed, err := s.Claim(t.Context(), id, s.now())
		if err != nil {
			t.Errorf("claim %s: %v", id, err)
			continue
		}
		proxy.CutAfter(n+1, nil)
		_, err = s.Commit(t.Context(), id, claimed.Fence, task.Change{Steps: []task.Step{{}}, Events: []task.Event{{Type: "x", Data: []byte("1")}}})
		proxy.CutAfter(-1, nil)
		steps, failed := s.Steps(t.Context(), id)
		events, also := s.Events(t.Context(), id, 0, 0)
		if err != nil || failed != nil || also != nil || len(steps) != 1 || len(events) != 2 { // one event is that of the task's creation
			t.Errorf("cut at %d: %d steps, %d events, %v, %v, %v", n, len(steps), len(events), err, failed, also)
		}
		if uncut++; proxy.Cuts() > before {
			uncut = 0
		}
	}
	if proxy.Cuts() < 10 {
		t.Errorf("only %d connections were cut", proxy.Cuts())
	}
}

// TestPostgresCutReads: a read is repeated if its connection was lost while it was idle, as all connections are after a restart of the server.
func TestPostgresCutReads(t *testing.T) {
	t.Parallel()
	s, proxy := openProxied(t)
	if _, _, err := s.CreateTask(t.Context(), storetest.New("task_a", "ann", "s")); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		var reads sync.WaitGroup
		for range 2 * postgresReaders {
			reads.Go(func() {
				if _, err := s.Task(t.Context(), "task_a"); err != nil {
					t.Error(err)
				}
			})
		}
		reads.Wait()
		proxy.Cut()
	}
}

// TestPostgresCutLease: a process that stops after its idle connections were lost gives up the queue and its lease without an error.
func TestPostgresCutLease(t *testing.T) {
	t.Parallel()
	s, proxy := openProxied(t)
	release, err := s.LockQueue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if err := release(); err != nil {
		t.Error(err)
	}
	proxy.Cut() // before the store is closed, which ends the lease
}

// TestPostgresUnreadClaim: a claimed task that cannot be read, because the server is away, keeps its place before the next task of its session.
func TestPostgresUnreadClaim(t *testing.T) {
	t.Parallel()
	s, _ := openProxied(t)
	for _, id := range []string{"task_a", "task_b"} {
		if _, _, err := s.CreateTask(t.Context(), storetest.New(id, "ann", "s")); err != nil {
			t.Fatal(err)
		}
	}
	due := s.now().Add(100 * 365 * 24 * time.Hour)
	away, err := pgx.ParseConfig("postgres:///postgres?host=" + t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pool := stdlib.OpenDB(*away)
	defer pool.Close()
	reads := s.statements.of
	s.statements.of = pool
	s.statements.all.Clear()
	if got, _, err := s.ClaimNext(t.Context(), "", nil, due); err == nil {
		t.Errorf("claimed %q without reading it", got.ID)
	}
	s.statements.of = reads
	if got, _, err := s.ClaimNext(t.Context(), "", nil, due); err != nil || got.ID != "task_a" {
		t.Errorf("claimed %q, %v, want task_a", got.ID, err)
	}
}
