package sqlstore

import (
	"fmt"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// TestPostgresCut cuts connections at each point of a transaction, also between a COMMIT and its answer: each task is created once, and has each of its
// steps once.
func TestPostgresCut(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Fast...)
	var left, cuts atomic.Int64 // pieces that pass before the next cut, never if negative; and cuts
	left.Store(-1)
	s := openServer(t, server.Behind(t, server.Schema(t), func() postgrestest.Fate {
		if left.Add(-1) != 0 {
			return postgrestest.Pass
		}
		cuts.Add(1)
		return postgrestest.Cut
	}), Options{})
	uncut := 0 // number of the last points at which nothing was cut
	for n := int64(0); uncut < 3; n++ {
		before := cuts.Load()
		id := fmt.Sprint("task_", n)
		left.Store(n + 1)
		_, created, err := s.CreateTask(t.Context(), storetest.New(id, "ann", fmt.Sprint("s", n)))
		left.Store(-1)
		if err != nil || !created {
			t.Errorf("cut at %d: created: %v, %v", n, created, err)
			continue
		}
		claimed, err := s.Claim(t.Context(), id, s.now())
		if err != nil {
			t.Errorf("claim %s: %v", id, err)
			continue
		}
		left.Store(n + 1)
		_, err = s.Commit(t.Context(), id, claimed.Fence, task.Change{Steps: []task.Step{{}}, Events: []task.Event{{Type: "x", Data: []byte("1")}}})
		left.Store(-1)
		steps, failed := s.Steps(t.Context(), id)
		events, also := s.Events(t.Context(), id, 0, 0)
		if err != nil || failed != nil || also != nil || len(steps) != 1 || len(events) != 2 { // one event is of the creation
			t.Errorf("cut at %d: %d steps, %d events, %v, %v, %v", n, len(steps), len(events), err, failed, also)
		}
		if uncut++; cuts.Load() > before {
			uncut = 0
		}
	}
	if cuts.Load() < 10 {
		t.Errorf("only %d connections were cut", cuts.Load())
	}
}
