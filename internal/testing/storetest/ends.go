package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/task"
)

// queueLock tests that one process works on the queue, and that others learn which one.
func queueLock(t *testing.T, open Place) {
	first, second := open(t), open(t)
	wantWorker(t, second, false)
	release, err := first.LockQueue(t.Context())
	must(t, "lock", err)
	for _, s := range []Store{first, second} {
		_, err := s.LockQueue(t.Context())
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
			t.Errorf("lock while it is locked: %v, want an error that names process %d", err, os.Getpid())
		}
	}
	wantWorker(t, first, true)
	wantWorker(t, second, true)
	must(t, "release", release())
	must(t, "release again", release())
	wantWorker(t, second, false)
	_, err = second.LockQueue(t.Context())
	must(t, "lock after the release", err)
	must(t, "release of one that is not ours any more", release())
	if _, err = first.LockQueue(t.Context()); err == nil {
		t.Error("two processes have the lock")
	}
	must(t, "close", second.Close())
	_, err = first.LockQueue(t.Context())
	must(t, "lock after the holder's death", err)
	must(t, "release of an earlier lock", release())
	if _, err = open(t).LockQueue(t.Context()); err == nil {
		t.Error("the release of an earlier lock gave up the later one")
	}
}

// wantWorker checks whether a store names a process that works the queue.
func wantWorker(t *testing.T, s Store, want bool) {
	t.Helper()
	name, err := s.QueueWorker(t.Context())
	must(t, "look for a worker", err)
	if strings.Contains(name, fmt.Sprint(os.Getpid())) != want {
		t.Errorf("the queue is worked by %q", name)
	}
}

// queueWorkers tests that several processes work on the queue.
func queueWorkers(t *testing.T, open Place) {
	first, second, other := open(t), open(t), open(t)
	wantWorker(t, other, false)
	release, err := first.LockQueue(t.Context())
	must(t, "lock", err)
	_, err = second.LockQueue(t.Context())
	must(t, "lock by a second process", err)
	wantWorker(t, other, true)
	must(t, "release", release())
	must(t, "release again", release())
	wantWorker(t, other, true)
	must(t, "close", second.Close())
	wantWorker(t, other, false)
}

// contexts tests that a call fails if its context has ended.
func contexts(t *testing.T, open Place) {
	s := open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	claimed := mustClaim(t, s, "task_a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"create": errOf3(s.CreateTask(ctx, New("task_b", "ann", "s"))),
		"commit": errOf2(s.Commit(ctx, "task_a", fence(t, s, "task_a"), ended(claimed, task.Succeeded, at(1)))),
		"claim":  errOf2(s.Claim(ctx, "task_a", begin)),
		"read":   errOf2(s.Task(ctx, "task_a")),
		"events": errOf2(s.Events(ctx, "task_a", 0, 1)),
		"delete": s.DeleteSession(ctx, "ann", "s"),
	} {
		wantIs(t, what, err, context.Canceled)
	}
	if got := mustTask(t, s, "task_a"); got.Status != task.Running {
		t.Errorf("the task is %s", got.Status)
	}
	_, err := s.Task(t.Context(), "task_b")
	wantIs(t, "read of a task that was not created", err, task.ErrNotFound)
}

func closed(t *testing.T, open Place) {
	s := open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	must(t, "close", s.Close())
	for what, err := range map[string]error{
		"create":   errOf3(s.CreateTask(t.Context(), New("task_b", "ann", "s"))),
		"claim":    errOf2(s.Claim(t.Context(), "task_a", begin)),
		"commit":   errOf2(s.Commit(t.Context(), "task_a", 1, task.Change{Events: []task.Event{{Data: json.RawMessage("1")}}})),
		"read":     errOf2(s.Task(t.Context(), "task_a")),
		"list":     errOf3(s.Tasks(t.Context(), task.Filter{})),
		"events":   errOf2(s.Events(t.Context(), "task_a", 0, 1)),
		"sessions": errOf3(s.Sessions(t.Context(), task.SessionFilter{})),
		"lock":     errOf2(s.LockQueue(t.Context())),
	} {
		if err == nil {
			t.Errorf("%s after close: no error", what)
		}
	}
}

func errOf2[A any](_ A, err error) error { return err }

func errOf3[A, B any](_ A, _ B, err error) error { return err }
