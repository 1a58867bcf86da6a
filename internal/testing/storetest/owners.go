package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/task"
)

func claim(t *testing.T, open Place) {
	s, other := open(t), open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	got := mustClaim(t, s, "task_a")
	if got.Status != task.Running || got.Owner == "" || got.StartedAt != nil {
		t.Errorf("claimed: %s, owner %q, started %v", got.Status, got.Owner, got.StartedAt)
	}
	wantEqual(t, "claimed again", got, mustClaim(t, s, "task_a"))
	_, err := other.Claim(t.Context(), "task_a", begin)
	wantIs(t, "claim of another process", err, task.ErrNotOwner)
	_, err = s.Claim(t.Context(), "task_b", begin)
	wantIs(t, "claim of an unknown task", err, task.ErrNotFound)
	got.Status = task.WaitingApproval
	mustCommit(t, s, "task_a", task.Change{Task: &got})
	if got := mustClaim(t, s, "task_a"); got.Status != task.Running {
		t.Errorf("a waiting task that is claimed is %s", got.Status)
	}
	mustCommit(t, s, "task_a", ended(got, task.Failed, at(1)))
	_, err = s.Claim(t.Context(), "task_a", begin)
	wantIs(t, "claim of a task that has ended", err, task.ErrEnded)
	_, err = other.Claim(t.Context(), "task_a", begin)
	wantIs(t, "claim of another process's task that has ended", err, task.ErrEnded)
}

// claimAtOnce: of several processes that claim a task at the same time one gets it.
func claimAtOnce(t *testing.T, open Place) {
	stores := []Store{open(t), open(t), open(t)}
	for round := range 10 {
		id := fmt.Sprint("task_", round)
		mustCreate(t, stores[0], New(id, "ann", "sess_"+id))
		var got atomic.Int32
		var all sync.WaitGroup
		for _, s := range stores {
			all.Go(func() {
				switch _, err := s.Claim(t.Context(), id, begin); {
				case err == nil:
					got.Add(1)
				case !errors.Is(err, task.ErrNotOwner):
					t.Errorf("claim: %v", err)
				}
			})
		}
		all.Wait()
		if n := got.Load(); n != 1 {
			t.Errorf("%d processes claimed %s, want 1", n, id)
		}
	}
}

// takeOver: another process goes on with the task of a dead one, from its steps.
func takeOver(t *testing.T, open Place) {
	first, second := open(t), open(t)
	mustCreate(t, first, New("task_a", "ann", "s"))
	mustClaim(t, first, "task_a")
	mustCommit(t, first, "task_a", task.Change{
		Steps: []task.Step{{Time: begin, Ask: &task.Ask{Turn: 1}}}, Events: []task.Event{event("k", 1)},
	})
	must(t, "close", first.Close())
	got := mustClaim(t, second, "task_a")
	added := mustCommit(t, second, "task_a", task.Change{
		Steps: []task.Step{{Time: begin, Ask: &task.Ask{Turn: 2}}}, Events: []task.Event{event("k", 1), event("l", 2)},
	})
	if len(added) != 1 || added[0].ID != 3 {
		t.Errorf("events added: %v, want one with the id 3", added)
	}
	list, err := second.Steps(t.Context(), "task_a")
	if err != nil || len(list) != 2 || list[1].Seq != 2 || list[1].Ask.Turn != 2 {
		t.Errorf("steps: %v, %v", list, err)
	}
	mustCommit(t, second, "task_a", ended(got, task.Succeeded, at(1)))
}

// oneOfSession: while a task of a session runs in a live process, no other of it is claimed.
func oneOfSession(t *testing.T, open Place) {
	first, second := open(t), open(t)
	for _, id := range []string{"task_a", "task_b", "task_c"} {
		mustCreate(t, first, New(id, "ann", "s"))
	}
	mustCreate(t, first, New("task_d", "ann", "other"))
	a := mustClaim(t, first, "task_a")
	for _, s := range []Store{first, second} {
		_, err := s.Claim(t.Context(), "task_b", begin)
		wantIs(t, "claim beside a running task", err, task.ErrBusy)
	}
	mustClaim(t, second, "task_d")
	mustCommit(t, first, "task_a", ended(a, task.Succeeded, at(1)))
	mustClaim(t, first, "task_b")
	_, err := second.Claim(t.Context(), "task_c", begin)
	wantIs(t, "claim beside the next", err, task.ErrBusy)
	must(t, "close", first.Close())
	mustClaim(t, second, "task_c") // the owner of task_b is dead
	_, err = second.Claim(t.Context(), "task_b", begin)
	wantIs(t, "claim of the dead one's", err, task.ErrBusy)
}

func oneOfSessionAtOnce(t *testing.T, open Place) {
	stores := []Store{open(t), open(t)}
	const tasks = 12
	for i := range tasks {
		mustCreate(t, stores[0], New(fmt.Sprint("task_", i), "ann", "s"))
	}
	var running atomic.Int32
	var all sync.WaitGroup
	for i := range tasks {
		all.Go(func() {
			s, id := stores[i%2], fmt.Sprint("task_", i)
			for {
				got, err := s.Claim(t.Context(), id, begin)
				if errors.Is(err, task.ErrBusy) {
					continue
				}
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				if n := running.Add(1); n != 1 {
					t.Errorf("%d tasks of the session run", n)
				}
				if _, err := s.Commit(t.Context(), id, task.Change{Events: []task.Event{event("", 1)}}); err != nil {
					t.Errorf("commit: %v", err)
				}
				running.Add(-1)
				if _, err := s.Commit(t.Context(), id, ended(got, task.Succeeded, at(1))); err != nil {
					t.Errorf("end: %v", err)
				}
				return
			}
		})
	}
	all.Wait()
}

// cancelWaiting: a task that nobody works on ends at once.
func cancelWaiting(t *testing.T, open Place) {
	s, other := open(t), open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	queued := mustTask(t, s, "task_a")
	c := ended(queued, task.Cancelled, at(5))
	c.Task.Message, c.Webhook = "Cancelled.", hook("evt_1", 5)
	_, err := s.RequestCancel(t.Context(), "task_a", task.Change{Task: &queued})
	wantIs(t, "a change that does not end the task", err, task.ErrInvalidInput)
	got, err := s.RequestCancel(t.Context(), "task_a", c)
	must(t, "cancel", err)
	wantEqual(t, "cancelled", *c.Task, got)
	stored, err := s.Events(t.Context(), "task_a", 0, 0)
	if err != nil || len(stored) != 2 || stored[1].Type != task.EventEnded {
		t.Errorf("events: %v, %v", stored, err)
	}
	hooks, err := s.Webhooks(t.Context(), at(5), 10)
	if err != nil || len(hooks) != 1 {
		t.Errorf("webhooks: %v, %v", hooks, err)
	}
	_, err = s.RequestCancel(t.Context(), "task_a", c)
	wantIs(t, "cancelling it again", err, task.ErrEnded)
	_, err = s.Claim(t.Context(), "task_a", begin)
	wantIs(t, "claim", err, task.ErrEnded)
	_, err = s.RequestCancel(t.Context(), "task_b", c)
	wantIs(t, "cancelling an unknown task", err, task.ErrNotFound)

	mustCreate(t, other, New("task_c", "ann", "s"))
	mustClaim(t, other, "task_c")
	must(t, "close", other.Close())
	got, err = s.RequestCancel(t.Context(), "task_c", ended(mustTask(t, s, "task_c"), task.Cancelled, at(6)))
	if err != nil || got.Status != task.Cancelled {
		t.Errorf("cancelling a dead process's task: %s, %v", got.Status, err)
	}
}

// cancelRunning: the process that works on a task is told.
func cancelRunning(t *testing.T, open Place) {
	s, other := open(t), open(t)
	for _, id := range []string{"task_a", "task_b"} {
		mustCreate(t, s, New(id, "ann", "sess_"+id))
		mustClaim(t, s, id)
	}
	requests := func(what string, s Store, want ...string) {
		t.Helper()
		got, err := s.CancelRequests(t.Context())
		must(t, what, err)
		wantEqual(t, what, want, got)
	}
	requests("at first", s)
	running := mustTask(t, s, "task_a")
	for range 2 {
		got, err := other.RequestCancel(t.Context(), "task_a", ended(running, task.Cancelled, at(5)))
		if err != nil || got.Status != task.Running || !got.CancelRequested {
			t.Errorf("cancelled: %s %v, %v, want a running task that is to end", got.Status, got.CancelRequested, err)
		}
	}
	requests("the owner's", s, "task_a")
	requests("another process's", other)
	stored, err := s.Events(t.Context(), "task_a", 0, 0)
	if err != nil || len(stored) != 1 {
		t.Errorf("events: %v, %v, want the first alone", stored, err)
	}
	if got := mustClaim(t, s, "task_a"); !got.CancelRequested {
		t.Error("the claimed task does not say that it is to end")
	}
	mustCommit(t, s, "task_a", ended(running, task.Succeeded, at(6)))
	requests("after the end", s)

	_, err = other.RequestCancel(t.Context(), "task_b", ended(mustTask(t, s, "task_b"), task.Cancelled, at(5)))
	must(t, "cancel", err)
	must(t, "close", s.Close())
	if got := mustClaim(t, other, "task_b"); !got.CancelRequested {
		t.Error("a task that was taken over does not say that it is to end")
	}
	requests("after it was taken over", other, "task_b")
}

func unfinished(t *testing.T, open Place) {
	s, other := open(t), open(t)
	for _, id := range []string{"task_queued", "task_ours", "task_theirs", "task_ended", "task_waiting", "task_later"} {
		n := New(id, "ann", "sess_"+id)
		if id == "task_later" {
			n.Task.RunAt = pointer(at(1_000_000))
		}
		mustCreate(t, s, n)
	}
	mustClaim(t, s, "task_ours")
	mustClaim(t, other, "task_theirs")
	waiting := mustClaim(t, other, "task_waiting")
	waiting.Status = task.WaitingApproval
	mustCommit(t, other, "task_waiting", task.Change{Task: &waiting, Steps: []task.Step{{Time: begin, Ask: &task.Ask{Turn: 1}}}})
	finish(t, other, "task_ended", at(1))
	tasks, err := s.Unfinished(t.Context())
	wantIDs(t, "while all live", "task_queued task_later", tasks, err)
	must(t, "close", other.Close())
	tasks, err = s.Unfinished(t.Context())
	wantIDs(t, "after a death", "task_queued task_theirs task_waiting task_later", tasks, err)
	third := open(t)
	mustClaim(t, third, "task_waiting")
	tasks, err = s.Unfinished(t.Context())
	wantIDs(t, "after one is taken over", "task_queued task_theirs task_later", tasks, err)
	wantEqual(t, "listed", mustTask(t, s, "task_queued"), tasks[0])
}
