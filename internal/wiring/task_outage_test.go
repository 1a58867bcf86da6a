package wiring_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/testing/generated"
	"mcp-code-exec-harness/internal/testing/postgrestest"
)

// TestTaskStoreStopped stops a PostgreSQL server without a shutdown at points of a task: before the server gets a piece of data, or before the harness gets
// the server's answer. The server is restarted, and the task ends as if nothing had happened. Commits wait for the write-ahead log, which survives in the
// system's memory.
func TestTaskStoreStopped(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "-c", "fsync=off", "-c", "full_page_writes=off")
	var undisturbed *calm
	stopped := 0
	step := int64(generated.Count(50, 2))
	for at, missed := int64(0), -1; missed < 2; at += step { // In the first round the server is not stopped.
		const notYet = -1 << 40 // excludes pieces before and after the task from the count
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			var passed, stops atomic.Int64
			passed.Store(notYet)
			w := newWorldOf(t, t.TempDir(), server.Behind(t, server.Schema(t), func() postgrestest.Fate {
				if n := passed.Add(1); n != at || at == 0 {
					return postgrestest.Pass
				}
				stops.Add(1)
				return postgrestest.Stop
			}))
			w.live(w.serve)
			passed.Store(0)
			got, events, err := w.work()
			passed.Add(notYet)
			if missed++; stops.Load() > 0 {
				stopped++
				missed = 0
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, &w.victim.stderr)
			}
			if at == 0 {
				undisturbed = &calm{got, told(events)}
			}
			w.check(got, events, undisturbed)
			w.victim.stop()
		})
	}
	if t.Logf("stopped at %d points", stopped); stopped < generated.Count(5, 200) {
		t.Errorf("there are only %d points", stopped)
	}
}
