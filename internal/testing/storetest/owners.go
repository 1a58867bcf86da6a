package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
)

func claim(t *testing.T, open Place) {
	s, other := open(t), open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	got := mustClaim(t, s, "task_a")
	if got.Status != task.Running || got.Owner == "" || got.StartedAt != nil {
		t.Errorf("claimed: %s, owner %q, started %v", got.Status, got.Owner, got.StartedAt)
	}
	again := got
	again.Fence++
	wantEqual(t, "claimed again", again, mustClaim(t, s, "task_a"))
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

// claimAtOnce tests that exactly one of several processes that claim a task concurrently gets it.
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

// takeOver tests that another process continues the task of a dead one from its steps.
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

// oneOfSession tests that no other task of a session is claimed while one runs in a live process.
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
	wantIs(t, "claim of the dead process's task", err, task.ErrBusy)
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
				if _, err := s.Commit(t.Context(), id, got.Fence, task.Change{Events: []task.Event{event("", 1)}}); err != nil {
					t.Errorf("commit: %v", err)
				}
				running.Add(-1)
				if _, err := s.Commit(t.Context(), id, got.Fence, ended(got, task.Succeeded, at(1))); err != nil {
					t.Errorf("end: %v", err)
				}
				return
			}
		})
	}
	all.Wait()
}

// cancelWaiting tests that a task ends at once if no process is working on it.
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
	hooks, _, err := s.TakeWebhooks(t.Context(), dueAt(5, 10))
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

// cancelRunning tests that the process working on a task sees its cancellation.
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

// fenced tests that a claim revokes earlier claims, and that only the owner commits.
func fenced(t *testing.T, open Place) {
	s, other := open(t), open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	first := mustClaim(t, s, "task_a")
	second := mustClaim(t, s, "task_a")
	if second.Fence <= first.Fence {
		t.Errorf("fences %d, %d, want a greater one for the second claim", first.Fence, second.Fence)
	}
	change := task.Change{Events: []task.Event{event("", 1)}}
	_, err := s.Commit(t.Context(), "task_a", first.Fence, change)
	wantIs(t, "commit by the first claim", err, task.ErrNotOwner)
	_, err = other.Commit(t.Context(), "task_a", second.Fence, change)
	wantIs(t, "commit of another process", err, task.ErrNotOwner)
	wantIs(t, "release by the first claim", s.Release(t.Context(), "task_a", first.Fence, begin), task.ErrNotOwner)
	_, err = s.Commit(t.Context(), "task_a", second.Fence, change)
	must(t, "commit by the second claim", err)
	must(t, "release", s.Release(t.Context(), "task_a", second.Fence, begin))
	_, err = s.Commit(t.Context(), "task_a", second.Fence, change)
	wantIs(t, "commit after the release", err, task.ErrNotOwner)
}

// next claims the next task, and returns the IDs of the task and its user, or "" if there is no task. Users take turns in the order of their names. The
// parameter after is the user who had the last turn.
func next(t *testing.T, s task.Store, after string, when int, except ...string) (id, user string) {
	t.Helper()
	got, _, err := s.ClaimNext(t.Context(), after, except, at(when))
	must(t, "claim the next", err)
	if got.ID != "" && (got.Status != task.Running || got.Owner == "" || got.Fence == 0) {
		t.Errorf("claimed as %+v", got)
	}
	return got.ID, got.UserID
}

// turns tests that users take turns, however many tasks each has waiting, and that excluded users wait.
func turns(t *testing.T, open Place) {
	s := open(t)
	for i := range 4 {
		mustCreate(t, s, New(fmt.Sprint("ann_", i), "ann", fmt.Sprint("s", i)))
	}
	mustCreate(t, s, New("bob_0", "bob", "s0"))
	mustCreate(t, s, New("eve_0", "eve", "s0"))
	var order []string
	user := ""
	for {
		var id string
		if id, user = next(t, s, user, 0, "eve"); id == "" {
			break
		}
		order = append(order, id)
	}
	wantEqual(t, "order", []string{"ann_0", "bob_0", "ann_1", "ann_2", "ann_3"}, order)
	if id, _ := next(t, s, "ann", 0); id != "eve_0" {
		t.Errorf("then %q, want the one that was left out", id)
	}
	if n, err := s.Queued(t.Context()); err != nil || n != 0 {
		t.Errorf("%d are queued, %v", n, err)
	}
}

// orderOfSession tests that only one task of a session runs at a time, in the order in which the tasks become due.
func orderOfSession(t *testing.T, open Place) {
	s := open(t)
	for id, due := range map[string]int{"task_late": 30, "task_early": 10, "task_middle": 20} {
		n := New(id, "ann", "s")
		n.Task.RunAt = pointer(at(due))
		mustCreate(t, s, n)
	}
	got, when, err := s.ClaimNext(t.Context(), "", nil, at(9))
	if err != nil || got.ID != "" || !when.Equal(at(10)) {
		t.Errorf("before the first is due: %q, next %v, %v", got.ID, when, err)
	}
	if n, err := s.Queued(t.Context()); err != nil || n != 3 {
		t.Errorf("%d are queued, %v, want 3", n, err)
	}
	for _, want := range []string{"task_early", "task_middle", "task_late"} {
		if id, _ := next(t, s, "", 40); id != want {
			t.Errorf("%q comes, want %s", id, want)
		}
		if id, _ := next(t, s, "", 40); id != "" {
			t.Errorf("%q comes beside %s", id, want)
		}
		mustCommit(t, s, want, ended(mustTask(t, s, want), task.Succeeded, at(41)))
	}
}

// release tests that a released task is claimed again when it is due, before tasks of its session that have not started.
func release(t *testing.T, open Place) {
	s, other := open(t), open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	mustCreate(t, s, New("task_b", "ann", "s"))
	a := mustClaim(t, s, "task_a")
	a.StartedAt = pointer(at(1))
	mustCommit(t, s, "task_a", task.Change{Task: &a})
	must(t, "release", s.Release(t.Context(), "task_a", a.Fence, at(100)))
	if id, _ := next(t, other, "", 99); id != "" {
		t.Errorf("%s comes before the other may go on", id)
	}
	got := mustTask(t, s, "task_a")
	if got.Status != task.Running || got.Owner != "" {
		t.Errorf("it waits as %s of %q", got.Status, got.Owner)
	}
	if id, _ := next(t, other, "", 100); id != "task_a" {
		t.Errorf("%q comes", id)
	}
	must(t, "release", other.Release(t.Context(), "task_a", fence(t, other, "task_a"), at(200)))
	done, err := s.RequestCancel(t.Context(), "task_a", ended(got, task.Cancelled, at(101)))
	if err != nil || done.Status != task.Cancelled {
		t.Errorf("cancelled while it waits: %s, %v", done.Status, err)
	}
	if id, _ := next(t, other, "", 102); id != "task_b" {
		t.Errorf("then %q comes", id)
	}
}

// recovers tests that the tasks of dead processes, and only those, are claimed again.
func recovers(t *testing.T, open Place) {
	s, dead := open(t), open(t)
	for i := range 3 {
		mustCreate(t, s, New(fmt.Sprint("task_", i), "ann", fmt.Sprint("s", i)))
	}
	mustClaim(t, s, "task_0")
	mustClaim(t, dead, "task_1")
	must(t, "create", s.CreateSession(t.Context(), task.Session{ID: "used", UserID: "ann", CreatedAt: begin, UsedAt: begin}))
	_, err := dead.EnterSession(t.Context(), "ann", "used", begin)
	must(t, "enter", err)
	must(t, "recover", s.Recover(t.Context()))
	claims, err := s.Claims(t.Context())
	if err != nil || len(claims) != 1 || claims["task_0"] != 1 {
		t.Errorf("the claims of a process: %v, %v", claims, err)
	}
	wantIs(t, "close a session that a live process uses", s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "used"}, time.Time{}), task.ErrBusy)
	if id, _ := next(t, s, "", 0); id != "task_2" {
		t.Errorf("%q comes while both live", id)
	}
	must(t, "close", dead.Close())
	if id, _ := next(t, s, "", 0); id != "" {
		t.Errorf("%q comes before it is freed", id)
	}
	must(t, "recover", s.Recover(t.Context()))
	if id, _ := next(t, s, "", 0); id != "task_1" {
		t.Errorf("%q comes, want that of the dead process", id)
	}
	must(t, "close a session that a dead process used", s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "used"}, time.Time{}))
}

// reserved tests that a task that a process created for itself is not claimed by another process while the creator lives.
func reserved(t *testing.T, open Place) {
	s, own := open(t), open(t)
	n := New("task_a", "ann", "s")
	n.Own = true
	mustCreate(t, own, n)
	mustCreate(t, own, New("task_b", "ann", "s"))
	if id, _ := next(t, s, "", 0); id != "task_b" {
		t.Errorf("%q comes", id)
	}
	_, err := s.Claim(t.Context(), "task_a", begin)
	wantIs(t, "claim of another process", err, task.ErrNotOwner)
	_, err = own.Claim(t.Context(), "task_a", begin)
	wantIs(t, "claim beside the other", err, task.ErrBusy)
	mustCommit(t, s, "task_b", ended(mustTask(t, s, "task_b"), task.Succeeded, at(1)))
	got := mustClaim(t, own, "task_a")
	mustCommit(t, own, "task_a", ended(got, task.Succeeded, at(2)))

	n = New("task_c", "ann", "s")
	n.Own = true
	mustCreate(t, own, n)
	done, err := s.RequestCancel(t.Context(), "task_c", ended(mustTask(t, s, "task_c"), task.Cancelled, at(3)))
	if err != nil || done.Status != task.Cancelled {
		t.Errorf("cancelled while it waits: %s, %v", done.Status, err)
	}
	n = New("task_d", "ann", "s")
	n.Own = true
	mustCreate(t, own, n)
	must(t, "close", own.Close())
	must(t, "recover", s.Recover(t.Context()))
	if id, _ := next(t, s, "", 0); id != "task_d" {
		t.Errorf("%q comes, want that of the dead process", id)
	}
}
