package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/generated"
)

// TestApprovalMany: a run that waits for an approval takes rows in the store, but no runner and no goroutine. Waiting runs can continue in any order.
func TestApprovalMany(t *testing.T) {
	const users = 2
	many := generated.Count(300, 1000)
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), map[string]string{"sandbox.pool": "4"}, up)
	request := func(i int) runs.Request {
		return runs.Request{User: fmt.Sprint("user-", i%users), Code: fmt.Sprintf(`return (await callMCPTool('up__send', {n: %d})).n`, i)}
	}
	pool, err := f.Tiers().Pool("")
	if err != nil {
		t.Fatal(err)
	}
	first, err := f.Runs().Execute(t.Context(), request(0)) // opens all parts that are needed
	if err != nil {
		t.Fatal(err)
	}
	f.wantWaiting(first)
	before, size := runtime.NumGoroutine(), storeSize(t, f.dir)
	ids := make([]string, many)
	ids[0] = first.Approval.ID
	each(many-1, 4, func(i int) {
		out, err := f.Runs().Execute(t.Context(), request(i+1))
		if err != nil {
			t.Error(err)
			return
		}
		ids[i+1] = out.Approval.ID
	})
	if t.Failed() {
		return
	}
	if n := runtime.NumGoroutine(); n > before+50 { // allows for connections and workers, but not for a goroutine for each run
		t.Errorf("%d goroutines for %d waiting runs, %d before", n, many, before)
	}
	eventually(t, "all runners are idle", func() bool {
		started, idle := pool.Stats()
		return started <= 4 && idle == started
	})
	const log = 20 << 20 // maximum size of the write-ahead log, whatever it contains
	if grown := storeSize(t, f.dir) - size; grown > log+int64(many)*20<<10 {
		t.Errorf("%d waiting runs take %d bytes in the store", many, grown)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Runs().ResumeDecided(ctx, func() {})
	}()
	denials := 0
	for _, i := range rand.Perm(many) {
		d := approval.Decision{Approve: i%10 != 0}
		if !d.Approve {
			denials++
		}
		if _, err := f.Runs().Decide(t.Context(), auth.Local(), ids[i], d); err != nil {
			t.Fatal(err)
		}
	}
	count := func(status string) (n int) {
		for cursor := ""; ; {
			infos, next, err := f.Runs().List(t.Context(), auth.Local(), journal.Filter{Status: status, Limit: 1000, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			if n += len(infos); next == "" {
				return n
			}
			cursor = next
		}
	}
	eventually(t, "all runs have ended", func() bool { return count(run.WaitingApproval)+count("running") == 0 })
	cancel()
	<-done
	if ok, failed := count(run.Succeeded), count(run.Failed); ok != many-denials || failed != denials || len(up.sent()) != ok {
		t.Errorf("%d succeeded, %d failed, %d calls", ok, failed, len(up.sent()))
	}
}

// each calls do for 0 to n-1, atOnce calls at a time.
func each(n, atOnce int, do func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// storeSize returns the size of the database in bytes.
func storeSize(t *testing.T, dir string) (size int64) {
	t.Helper()
	for _, name := range []string{"harness.db", "harness.db-wal"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			size += info.Size()
		}
	}
	return size
}

// TestApprovalShare: a user whose approved runs reach the maximum number that is resumed at the same time does not delay the runs of other users.
func TestApprovalShare(t *testing.T) {
	t.Parallel()
	const many = 20
	up := newUpstream(t, "up")
	hold := make(chan struct{})
	var held atomic.Int64
	up.on = func(ctx context.Context, _, _ string, args json.RawMessage) (string, error) {
		if strings.Contains(string(args), "slow") {
			held.Add(1)
			select {
			case <-hold:
			case <-ctx.Done():
			}
		}
		return string(args), nil
	}
	f := askingIn(t, t.TempDir(), map[string]string{"sandbox.pool": "4", "sandbox.parkAfter": "50ms"}, up)
	var slow []string
	for range many {
		out, err := f.Runs().Execute(t.Context(), runs.Request{User: "many", Code: `return await callMCPTool('up__send', {n: 'slow'})`})
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, out.Approval.ID)
	}
	quick, err := f.Runs().Execute(t.Context(), runs.Request{User: "one", Code: `return await callMCPTool('up__send', {n: 'quick'})`})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Runs().ResumeDecided(ctx, func() {})
	}()
	defer func() { cancel(); <-done }()
	for _, id := range slow {
		if _, err := f.Runs().Decide(t.Context(), auth.Local(), id, approval.Decision{Approve: true}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "16 runs of a user go on", func() bool { return held.Load() == 16 })
	if _, err := f.Runs().Decide(t.Context(), auth.Local(), quick.Approval.ID, approval.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other user's run has ended", func() bool {
		info, err := f.Runs().Find(t.Context(), auth.Local(), quick.RunID)
		return err == nil && info.Status == run.Succeeded
	})
	if n := held.Load(); n != 16 {
		t.Errorf("%d runs of one user went on at the same time", n)
	}
	close(hold)
	eventually(t, "all have gone on", func() bool { return held.Load() == many })
}
