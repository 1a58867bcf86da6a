package wiring_test

import (
	"fmt"
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
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			url, proxy := server.Behind(t, server.Schema(t))
			w := newWorldOf(t, t.TempDir(), url)
			w.live(w.serve)
			if at > 0 {
				proxy.CutAfter(at, func() { // Kill waits for the process of each connection, so the connection is cut before.
					server.Kill()
					if err := server.Restart(); err != nil {
						t.Error(err)
					}
				})
			}
			got, events, err := w.work()
			proxy.CutAfter(-1, nil)
			if missed++; proxy.Cuts() > 0 {
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
