package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

// request returns the request of a run, with every field set. of is the task's ID.
func request(id, run, of string) approval.Request {
	return approval.Request{
		ID: id, Run: run, Task: of, Session: "s", User: "ann", Status: approval.Waiting, Created: at(1), Expires: at(3601),
		Calls: []approval.Call{{
			N: 2, Tool: "crm__send", Description: "Sends", Args: json.RawMessage(`{"n":1.0}`), ArgsBytes: 9, Destructive: true, OpenWorld: true,
			Reason: "rule 1", Changed: "the arguments", Binding: approval.Binding{Definition: "d", Args: "a"},
		}},
		Made: 2, Done: []approval.Effect{{Call: 1, Kind: "fs", Name: "writeFile", State: "done"}},
		Principal: "key_1",
		Resume:    approval.Resume{Elapsed: time.Second, Computed: time.Millisecond, Timers: map[int]time.Duration{3: time.Minute}},
	}
}

// suspended stores a run that waits for the request r.
func suspended(t *testing.T, s Store, r approval.Request) {
	t.Helper()
	suspendedFor(t, s, r, "")
}

// suspendedFor is suspended with a webhook URL.
func suspendedFor(t *testing.T, s Store, r approval.Request, webhook string) {
	t.Helper()
	w, err := s.Create(t.Context(), r.Run)
	must(t, "create", err)
	start := journaltest.Start(r.Run)
	start.Start.User, start.Start.Session = r.User, r.Session
	w.Append(start)
	w.Append(journaltest.Call(1))
	must(t, "commit", w.Commit(t.Context()))
	must(t, "suspend", s.Suspend(t.Context(), r, webhook))
	must(t, "close", w.Close(t.Context()))
}

// dueRunsOfUsers tests that runs in execution and a user with many runs do not push other runs off the list.
func dueRunsOfUsers(t *testing.T, open Place) {
	s, other := open(t), open(t)
	decided := func(user string, i int) string {
		t.Helper()
		run := fmt.Sprintf("run_%s_%d", user, i)
		r := request(fmt.Sprintf("apr_%s_%d", user, i), run, "")
		r.User = user
		suspended(t, s, r)
		_, err := s.Decide(t.Context(), r.ID, approval.Approved, approval.Decision{Time: at(2 + i)})
		must(t, "decide", err)
		return run
	}
	for i := range 20 {
		run := decided("ann", i)
		if i < 10 {
			_, _, err := other.Resume(t.Context(), run)
			must(t, "resume", err)
		}
	}
	decided("bob", 50)
	decided("cid", 51)
	due, _, _, err := s.DueRuns(t.Context(), at(100), 4)
	must(t, "due", err)
	wantEqual(t, "due", []string{"run_bob_50", "run_cid_51", "run_ann_10", "run_ann_11"}, due)
}

func approvals(t *testing.T, open Place) {
	s, other := open(t), open(t)
	wantIs(t, "suspend a run that is not open", s.Suspend(t.Context(), request("apr_0", "run_0", ""), ""), journal.ErrClosed)
	first := request("apr_1", "run_1", "")
	suspended(t, s, first)
	got, err := other.Approval(t.Context(), "apr_1")
	must(t, "read", err)
	wantEqual(t, "request", first, got)
	info, err := other.Run(t.Context(), "run_1")
	if err != nil || info.Status != "waiting_approval" || !info.Ended.IsZero() || info.Owner != "" {
		t.Errorf("the run is %+v, %v", info, err)
	}
	strays, err := other.Strays(t.Context())
	wantNone(t, "strays", len(strays), err)
	_, err = s.Approval(t.Context(), "apr_none")
	wantIs(t, "an unknown request", err, approval.ErrNotFound)
	_, err = s.Decide(t.Context(), "apr_none", approval.Approved, approval.Decision{Time: at(2)})
	wantIs(t, "decide an unknown request", err, approval.ErrNotFound)

	due, next, decided, err := s.DueRuns(t.Context(), at(2), 10)
	if err != nil || len(due) != 0 || !next.Equal(first.Expires) || !decided.IsZero() {
		t.Errorf("due before the decision: %v, %s, %s, %v", due, next, decided, err)
	}
	if due, _, _, err = s.DueRuns(t.Context(), first.Expires, 10); err != nil || len(due) != 1 {
		t.Errorf("due when it expires: %v, %v", due, err)
	}
	_, err = s.Decide(t.Context(), "apr_1", approval.Approved, approval.Decision{Time: first.Expires})
	wantIs(t, "approve what has expired", err, approval.ErrDecided)
	got, err = other.Decide(t.Context(), "apr_1", approval.Denied, approval.Decision{Time: at(5), By: "local", Reason: "no", Remember: true})
	must(t, "decide", err)
	want := first
	want.Status, want.DecidedAt, want.DecidedBy, want.Reason, want.Remember = approval.Denied, pointer(at(5)), "local", "no", true
	wantEqual(t, "decided", want, got)
	_, err = s.Decide(t.Context(), "apr_1", approval.Approved, approval.Decision{Time: at(6)})
	wantIs(t, "decide again", err, approval.ErrDecided)
	due, _, decided, err = s.DueRuns(t.Context(), at(5), 10)
	if err != nil || len(due) != 1 || due[0] != "run_1" || !decided.Equal(at(5)) {
		t.Errorf("due after the decision: %v, %s, %v", due, decided, err)
	}

	// The process that resumes the run owns it. If that process dies, the run is due again.
	w, records, err := other.Resume(t.Context(), "run_1")
	must(t, "resume", err)
	if len(records) != 2 {
		t.Errorf("%d records", len(records))
	}
	_, _, err = s.Resume(t.Context(), "run_1")
	wantIs(t, "resume it a second time", err, journal.ErrBusy)
	due, _, _, err = s.DueRuns(t.Context(), at(5), 10)
	wantNone(t, "due while it is executed", len(due), err)
	must(t, "close", w.Close(t.Context()))
	must(t, "close", other.Close())
	if due, _, _, err = s.DueRuns(t.Context(), at(5), 10); err != nil || len(due) != 1 {
		t.Errorf("due after the death of its process: %v, %v", due, err)
	}
	strays, err = s.Strays(t.Context())
	wantNone(t, "strays among what is due", len(strays), err)
	w, _, err = s.Resume(t.Context(), "run_1")
	must(t, "resume", err)
	second := request("apr_2", "run_1", "")
	must(t, "suspend again", s.Suspend(t.Context(), second, ""))
	must(t, "close", w.Close(t.Context()))
	due, _, _, err = s.DueRuns(t.Context(), at(5), 10)
	wantNone(t, "due while it waits again", len(due), err)
	all, err := s.ApprovalsOf(t.Context(), "run_1", "")
	must(t, "list those of the run", err)
	wantEqual(t, "those of the run", []approval.Request{want, second}, all)

	// The end of the run closes its waiting requests.
	w, _, err = s.Resume(t.Context(), "run_1")
	must(t, "resume", err)
	w.Append(journaltest.End())
	must(t, "end", w.Close(t.Context()))
	if got, err = s.Approval(t.Context(), "apr_2"); err != nil || got.Status != approval.Closed {
		t.Errorf("a request of a run that has ended is %s, %v", got.Status, err)
	}
	due, _, _, err = s.DueRuns(t.Context(), at(4000), 10)
	wantNone(t, "due after the end", len(due), err)
}

func approvalLists(t *testing.T, open Place) {
	s := open(t)
	for i := range 9 {
		r := request(fmt.Sprint("apr_", i), fmt.Sprint("run_", i), "")
		if r.User = "ann"; i%3 == 0 {
			r.User, r.Task = "bob", "task_b"
		}
		suspended(t, s, r)
	}
	_, err := s.Decide(t.Context(), "apr_6", approval.Approved, approval.Decision{Time: at(2), Remember: true})
	must(t, "decide", err)
	for want, f := range map[string]approval.Filter{
		"876543210": {}, "875421": {User: "ann"}, "630": {Task: "task_b"}, "30": {User: "bob", Status: approval.Waiting}, "6": {Status: approval.Approved},
	} {
		f.Limit = 2
		got := ""
		for {
			page, next, err := s.Approvals(t.Context(), f)
			must(t, "list", err)
			for _, r := range page {
				got += r.ID[len("apr_"):]
			}
			if f.Cursor = next; next == "" {
				break
			}
		}
		if got != want {
			t.Errorf("%+v lists %q, want %q", f, got, want)
		}
	}
	_, _, err = s.Approvals(t.Context(), approval.Filter{Cursor: "x"})
	wantIs(t, "a bad cursor", err, journal.ErrCursor)
	all, err := s.ApprovalsOf(t.Context(), "run_3", "task_b")
	if err != nil || len(all) != 2 || all[0].ID != "apr_6" || all[1].ID != "apr_3" {
		t.Errorf("those of a run and to be remembered of its task: %+v, %v", all, err)
	}
}

// approvalWebhooks tests that the webhooks of a request, for the configured URL and for its task's callback, stay in the outbox as long as
// the request waits.
func approvalWebhooks(t *testing.T, open Place) {
	s := open(t)
	const all = "https://all.example.com/"
	n := New("task_1", "ann", "s1")
	n.Task.CallbackURL = "https://example.com/hook?a=b&c=d"
	mustCreate(t, s, n)
	mustCreate(t, s, New("task_2", "ann", "s2"))
	suspendedFor(t, s, request("apr_1", "run_1", "task_1"), all)
	suspendedFor(t, s, request("apr_2", "run_2", ""), all)
	suspendedFor(t, s, request("apr_3", "run_3", "task_2"), all)
	suspendedFor(t, s, request("apr_4", "run_4", "task_1"), "")
	suspendedFor(t, s, request("apr_5", "run_5", "task_2"), "")
	bob := request("apr_6", "run_6", "")
	bob.User = "bob"
	suspendedFor(t, s, bob, all)
	take := func(when int) (got []string) {
		t.Helper()
		hooks, _, err := s.TakeWebhooks(t.Context(), dueAt(when, 100))
		must(t, "take", err)
		for _, w := range hooks {
			if w.TaskID != "" || !strings.HasPrefix(w.ID, "evt_") {
				t.Errorf("got %+v", w)
			}
			got = append(got, w.UserID+" "+w.Approval+" "+w.URL)
		}
		return got
	}
	back := " " + n.Task.CallbackURL
	wantEqual(t, "webhooks", []string{
		"ann apr_1 " + all, "ann apr_1" + back, "ann apr_2 " + all, "ann apr_3 " + all, "ann apr_4" + back, "bob apr_6 " + all,
	}, take(10))
	_, err := s.Decide(t.Context(), "apr_1", approval.Denied, approval.Decision{Time: at(20)})
	must(t, "decide", err)
	_, err = s.Decide(t.Context(), "apr_2", approval.Expired, approval.Decision{Time: at(4000)})
	must(t, "expire", err)
	w, _, err := s.Resume(t.Context(), "run_3")
	must(t, "resume", err)
	w.Append(journaltest.End())
	must(t, "end", w.Close(t.Context()))
	wantEqual(t, "webhooks of what still waits", []string{"ann apr_4" + back, "bob apr_6 " + all}, take(1000))
}

// waitingTasks tests that a waiting task is due once its request is decided, whether the wait or the decision is stored first.
func waitingTasks(t *testing.T, open Place) {
	s, other := open(t), open(t)
	for i, early := range []bool{false, true} {
		id, apr := fmt.Sprint("task_", i), fmt.Sprint("apr_", i)
		mustCreate(t, s, New(id, "ann", fmt.Sprint("s", i)))
		claimed := mustClaim(t, s, id)
		suspended(t, s, request(apr, fmt.Sprint("run_", i), id))
		decide := func() {
			t.Helper()
			_, err := other.Decide(t.Context(), apr, approval.Approved, approval.Decision{Time: at(2)})
			must(t, "decide", err)
		}
		if early {
			decide()
		}
		wantIs(t, "wait without the claim", other.Wait(t.Context(), id, claimed.Fence, apr, at(3601)), task.ErrNotOwner)
		must(t, "wait", s.Wait(t.Context(), id, claimed.Fence, apr, at(3601)))
		if got := mustTask(t, s, id); got.Status != task.WaitingApproval || got.Owner != "" {
			t.Errorf("a task that waits is %s, owner %q", got.Status, got.Owner)
		}
		if queued, err := s.Queued(t.Context()); err != nil || queued != 0 {
			t.Errorf("%d tasks wait for a process, %v", queued, err)
		}
		if !early {
			none, next, err := s.ClaimNext(t.Context(), "", nil, at(2))
			if err != nil || none.ID != "" || !next.Equal(at(3601)) {
				t.Errorf("claimed before the decision: %q, next %s, %v", none.ID, next, err)
			}
			decide()
		}
		got, _, err := s.ClaimNext(t.Context(), "", nil, at(2))
		if err != nil || got.ID != id || got.Status != task.Running {
			t.Errorf("claimed after the decision: %q, %s, %v", got.ID, got.Status, err)
		}
		events, err := s.Events(t.Context(), id, 1, 10)
		if err != nil || len(events) != 1 || events[0].Type != task.EventApprovalDecided {
			t.Errorf("events: %+v, %v", events, err)
		}
		mustCommit(t, s, id, ended(got, task.Succeeded, at(9)))
	}
}

// decideAtOnce tests that exactly one of several processes that decide concurrently succeeds.
func decideAtOnce(t *testing.T, open Place) {
	stores := []Store{open(t), open(t), open(t)}
	suspended(t, stores[0], request("apr_1", "run_1", ""))
	var done atomic.Int32
	var all sync.WaitGroup
	for _, s := range stores {
		all.Go(func() {
			if _, err := s.Decide(t.Context(), "apr_1", approval.Approved, approval.Decision{Time: at(2)}); err == nil {
				done.Add(1)
			} else {
				wantIs(t, "decide", err, approval.ErrDecided)
			}
		})
	}
	all.Wait()
	if n := done.Load(); n != 1 {
		t.Errorf("%d decided", n)
	}
}
