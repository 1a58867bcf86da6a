package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/task"
)

// roundTrip tests that every field is kept, also when another process reads it.
func roundTrip(t *testing.T, open Place) {
	s := open(t)
	n := full()
	want := n.Task
	wantEqual(t, "created", want, mustCreate(t, s, n))
	wantEqual(t, "read", want, mustTask(t, s, want.ID))

	want.Status, want.Owner, want.Fence = task.Running, mustClaim(t, s, want.ID).Owner, 1
	if want.Owner == "" {
		t.Error("a claimed task has no owner")
	}
	wantEqual(t, "claimed", want, mustTask(t, s, want.ID))

	c := end(want)
	c.Task.Cached = true
	mustCommit(t, s, want.ID, c)
	wantEqual(t, "ended", *c.Task, mustTask(t, s, want.ID))
	must(t, "close", s.Close())
	wantEqual(t, "in another process", *c.Task, mustTask(t, open(t), want.ID))
}

// defaults tests that times are truncated to microseconds, lists are never nil, and an ended task has an end time.
func defaults(t *testing.T, open Place) {
	s := open(t)
	n := New("task_a", "ann", "s")
	n.Task.CreatedAt = begin.Add(999 * time.Nanosecond).In(time.FixedZone("", 3600))
	n.Task.Status, n.Task.Logs, n.Task.Runs, n.Events = "", nil, nil, nil
	want := New("task_a", "ann", "s").Task
	wantEqual(t, "created", want, mustCreate(t, s, n))
	wantEqual(t, "read", want, mustTask(t, s, "task_a"))
	claimed := mustClaim(t, s, "task_a")
	claimed.Status, claimed.Output = task.Failed, json.RawMessage("null")
	mustCommit(t, s, "task_a", task.Change{Task: &claimed})
	got := mustTask(t, s, "task_a")
	if got.EndedAt == nil || string(got.Output) != "null" {
		t.Errorf("ended at %v with output %q, want a time and null", got.EndedAt, got.Output)
	}
}

func create(t *testing.T, open Place) {
	s := open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	_, _, err := s.CreateTask(t.Context(), New("task_a", "ann", "other"))
	wantIs(t, "an id that is taken", err, task.ErrExists)
	_, err = s.Session(t.Context(), "ann", "other", begin)
	wantIs(t, "the session of a task that was not created", err, task.ErrNotFound)
	_, err = s.Task(t.Context(), "task_b")
	wantIs(t, "read of a task that was not created", err, task.ErrNotFound)
	mismatch := New("task_b", "ann", "s")
	mismatch.Session.ID = "t"
	_, _, err = s.CreateTask(t.Context(), mismatch)
	wantIs(t, "a session that is not the task's", err, task.ErrInvalidInput)
	broken := New("task_b", "ann", "s")
	broken.Task.Context = json.RawMessage(`{"a":`)
	if _, _, err = s.CreateTask(t.Context(), broken); err == nil {
		t.Error("a context that is no JSON was taken")
	}

	later := New("task_c", "ann", "s")
	later.Session.CreatedAt, later.Session.UsedAt, later.Session.ExpiresAt = at(60), at(60), at(7200)
	mustCreate(t, s, later)
	got, err := s.Session(t.Context(), "ann", "s", begin)
	must(t, "session", err)
	wantEqual(t, "session", task.Session{ID: "s", UserID: "ann", CreatedAt: begin, UsedAt: at(60), ExpiresAt: at(7200), Tasks: 2}, got)
}

func keyed(id, user, key, hash string) task.New {
	n := New(id, user, "sess_"+id)
	n.IdempotencyKey, n.BodyHash = key, hash
	return n
}

func idempotency(t *testing.T, open Place) {
	s := open(t)
	mustCreate(t, s, keyed("task_a", "ann", "k", "h"))
	got, created, err := s.CreateTask(t.Context(), keyed("task_b", "ann", "k", "h"))
	if err != nil || created || got.ID != "task_a" {
		t.Errorf("the same request: %s, %v, %v, want task_a again", got.ID, created, err)
	}
	_, _, err = s.CreateTask(t.Context(), keyed("task_b", "ann", "k", "other"))
	wantIs(t, "another request", err, task.ErrIdempotency)
	_, err = s.Session(t.Context(), "ann", "sess_task_b", begin)
	wantIs(t, "the session of a task that was not created", err, task.ErrNotFound)
	mustCreate(t, s, keyed("task_c", "bob", "k", "other"))
	mustCreate(t, s, keyed("task_d", "ann", "l", "h"))

	mustCommit(t, s, "task_a", ended(mustClaim(t, s, "task_a"), task.Succeeded, at(1)))
	got, created, err = open(t).CreateTask(t.Context(), keyed("task_b", "ann", "k", "h"))
	if err != nil || created || got.ID != "task_a" || got.Status != task.Succeeded {
		t.Errorf("the same request after the end: %s %s, %v, %v", got.ID, got.Status, created, err)
	}
	must(t, "delete the session", s.DeleteSession(t.Context(), "ann", "sess_task_a"))
	mustCreate(t, s, keyed("task_e", "ann", "k", "other"))
}

// idempotencyAtOnce tests that equal concurrent requests to several processes create exactly one task.
func idempotencyAtOnce(t *testing.T, open Place) {
	stores := []Store{open(t), open(t)}
	const callers = 16
	made, answers := make([]bool, callers), make([]string, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			got, created, err := stores[i%2].CreateTask(t.Context(), keyed(fmt.Sprint("task_", i), "ann", "k", "h"))
			if err != nil {
				t.Errorf("create: %v", err)
			}
			made[i], answers[i] = created, got.ID
		})
	}
	all.Wait()
	count := 0
	for i := range callers {
		if made[i] {
			count++
		}
		if answers[i] != answers[0] {
			t.Errorf("two answers: %s and %s", answers[i], answers[0])
		}
	}
	if count != 1 {
		t.Errorf("%d tasks were made, want 1", count)
	}
}

// commit tests that a change is stored completely, and that fields it leaves out stay.
func commit(t *testing.T, open Place) {
	s := open(t)
	mustCreate(t, s, full())
	claimed := mustClaim(t, s, "task_full")
	c := end(claimed)
	c.Task.Status, c.Task.EndedAt = task.WaitingApproval, nil
	c.Steps = []task.Step{{Time: begin, Ask: &task.Ask{Turn: 1}}}
	c.Webhook = hook("evt_1", 0)
	got := mustCommit(t, s, "task_full", c)
	if len(got) != 1 || got[0].ID != 2 {
		t.Errorf("events %v, want one with the id 2", got)
	}
	mustCommit(t, s, "task_full", task.Change{Events: []task.Event{{Type: "x", Time: begin, Data: json.RawMessage("1")}}})
	mustCommit(t, s, "task_full", task.Change{})
	wantEqual(t, "task", *c.Task, mustTask(t, s, "task_full"))

	other := *c.Task // a change does not affect these fields
	other.Task, other.UserID, other.SessionID, other.CreatedAt, other.Owner = "x", "x", "x", at(99), "x"
	other.Status = task.Running
	mustCommit(t, s, "task_full", task.Change{Task: &other})
	want := *c.Task
	want.Status = task.Running
	wantEqual(t, "task", want, mustTask(t, s, "task_full"))

	hooks, _, err := s.TakeWebhooks(t.Context(), dueAt(10, 10))
	if err != nil || len(hooks) != 1 || hooks[0].ID != "evt_1" || hooks[0].TaskID != "task_full" {
		t.Errorf("webhooks: %v, %v", hooks, err)
	}
	list, err := s.Steps(t.Context(), "task_full")
	if err != nil || len(list) != 1 {
		t.Errorf("steps: %v, %v", list, err)
	}
}

func commitRefused(t *testing.T, open Place) {
	s, other := open(t), open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	change := task.Change{
		Steps:  []task.Step{{Time: begin, Note: &task.Note{Text: "x"}}},
		Events: []task.Event{{Type: "x", Time: begin, Data: json.RawMessage("1")}},
	}
	_, err := s.Commit(t.Context(), "task_a", fence(t, s, "task_a"), change)
	wantIs(t, "commit to a task that is not claimed", err, task.ErrNotOwner)
	_, err = s.Commit(t.Context(), "task_b", fence(t, s, "task_b"), change)
	wantIs(t, "commit to an unknown task", err, task.ErrNotFound)
	claimed := mustClaim(t, s, "task_a")
	_, err = other.Commit(t.Context(), "task_a", fence(t, other, "task_a"), change)
	wantIs(t, "commit of another process", err, task.ErrNotOwner)
	broken := change
	broken.Steps = []task.Step{{Time: begin, Result: &task.Result{Output: json.RawMessage("{")}}}
	if _, err = s.Commit(t.Context(), "task_a", fence(t, s, "task_a"), broken); err == nil {
		t.Error("a step that is no JSON was taken")
	}
	mustCommit(t, s, "task_a", ended(claimed, task.Succeeded, at(1)))
	_, err = s.Commit(t.Context(), "task_a", fence(t, s, "task_a"), change)
	wantIs(t, "commit to a task that has ended", err, task.ErrEnded)
	stored, err := s.Events(t.Context(), "task_a", 0, 0)
	if err != nil || len(stored) != 2 {
		t.Errorf("events: %v, %v, want the first and the last alone", stored, err)
	}
	list, err := s.Steps(t.Context(), "task_a")
	wantNone(t, "steps", len(list), err)
}

func steps(t *testing.T, open Place) {
	s := open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	mustCreate(t, s, New("task_b", "ann", "s2"))
	mustClaim(t, s, "task_a")
	mustClaim(t, s, "task_b")
	list, err := s.Steps(t.Context(), "task_a")
	wantNone(t, "steps at first", len(list), err)
	_, err = s.Steps(t.Context(), "task_c")
	wantIs(t, "steps of an unknown task", err, task.ErrNotFound)
	large := json.RawMessage(`"` + strings.Repeat("é<>\u2028", 100_000) + `"`)
	want := []task.Step{
		{Ask: &task.Ask{Turn: 1}},
		{Turn: &task.Turn{CostUSD: pointer(0.5), Turn: model.Turn{
			Provider: "p", Model: "m", Format: model.FormatMessages, Raw: json.RawMessage(`[{"z":1.0,"a":"<\u0041>"}]`), Text: "text",
			Calls: []model.ToolCall{{ID: "c1", Name: "run", Input: json.RawMessage(`{"code":"1 < 2"}`), Malformed: "m"}},
			Stop:  model.StopTools, Usage: model.Usage{Input: 1, Output: 2}, Duration: time.Second,
		}}},
		{Run: &task.Run{CallID: "c1", RunID: "run_1"}},
		{Result: &task.Result{
			ToolResult: model.ToolResult{CallID: "c1", Name: "run", Text: "3", IsError: true},
			RunID:      "run_1", RunStatus: "succeeded", Output: large, Logs: []string{"l"}, Calls: 2, Direct: task.Direct{Input: 7},
		}},
		{Note: &task.Note{Text: "note"}},
		{Compact: &task.Compact{Before: 3}},
	}
	for i := range want {
		want[i].Time = at(i).Add(time.Nanosecond)
	}
	mustCommit(t, s, "task_a", task.Change{Steps: want[:1]})
	mustCommit(t, s, "task_b", task.Change{Steps: want[:2]})
	mustCommit(t, s, "task_a", task.Change{Steps: want[1:5]})
	mustCommit(t, s, "task_a", task.Change{Steps: want[5:]})
	got, err := s.Steps(t.Context(), "task_a")
	must(t, "steps", err)
	for i := range want {
		if want[i].Seq != 0 {
			t.Errorf("the caller's step %d was changed", i)
		}
		want[i].Seq = i + 1
	}
	wantEqual(t, "steps", want, got)
}

func event(key string, n int) task.Event {
	return task.Event{Type: task.EventCall, Time: at(n), Key: key, Data: json.RawMessage(fmt.Sprintf(`{"n":%d,"x":"<1.0>"}`, n))}
}

func events(t *testing.T, open Place) {
	s := open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	mustClaim(t, s, "task_a")
	want := New("task_a", "", "").Events
	for i := 1; i < 10; i++ {
		want = append(want, event("", i))
	}
	given := append([]task.Event(nil), want...)
	got := mustCommit(t, s, "task_a", task.Change{Events: given[1:4]})
	got = append(got, mustCommit(t, s, "task_a", task.Change{Events: given[4:]})...)
	wantEqual(t, "the caller's events", want, given)
	for i := range want {
		want[i].ID = int64(i + 1)
	}
	wantEqual(t, "committed", want[1:], got)
	other := open(t)
	for _, c := range []struct {
		after       int64
		limit, a, b int
	}{{0, 0, 0, 10}, {0, 3, 0, 3}, {3, 3, 3, 6}, {8, 100, 8, 10}, {10, 5, 10, 10}, {99, 5, 10, 10}} {
		got, err := other.Events(t.Context(), "task_a", c.after, c.limit)
		must(t, "events", err)
		wantEqual(t, fmt.Sprintf("after %d, at most %d", c.after, c.limit), append([]task.Event(nil), want[c.a:c.b]...), got)
	}
	_, err := s.Events(t.Context(), "task_b", 0, 10)
	wantIs(t, "events of an unknown task", err, task.ErrNotFound)
}

// eventsAtOnce tests that events of concurrent commits are numbered without gaps, and in order within each commit.
func eventsAtOnce(t *testing.T, open Place) {
	s := open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	claimed := mustClaim(t, s, "task_a")
	const writers, each = 8, 25
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				e := event(fmt.Sprint(w, "/", i/2), 100*w+i) // every second key already exists
				got, err := s.Commit(t.Context(), "task_a", claimed.Fence, task.Change{
					Events: []task.Event{event("", 0), e}, Steps: []task.Step{{Time: begin, Note: &task.Note{Text: fmt.Sprint(w, "/", i)}}},
				})
				if err != nil || len(got) != 2-i%2 || len(got) == 2 && got[1].ID != got[0].ID+1 {
					t.Errorf("commit: %v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
	got, err := s.Events(t.Context(), "task_a", 0, 0)
	must(t, "events", err)
	if want := 1 + writers*(each+(each+1)/2); len(got) != want {
		t.Errorf("%d events, want %d", len(got), want)
	}
	for i, e := range got {
		if e.ID != int64(i+1) {
			t.Fatalf("event %d has the id %d", i+1, e.ID)
		}
	}
	list, err := s.Steps(t.Context(), "task_a")
	if err != nil || len(list) != writers*each || list[len(list)-1].Seq != len(list) {
		t.Errorf("%d steps, %v, want %d", len(list), err, writers*each)
	}
}

// eventKeys tests that an event whose key exists is not added again, and that keys are separate for each task.
func eventKeys(t *testing.T, open Place) {
	s := open(t)
	for _, id := range []string{"task_a", "task_b"} {
		mustCreate(t, s, New(id, "ann", "sess_"+id))
		mustClaim(t, s, id)
	}
	first := mustCommit(t, s, "task_a", task.Change{Events: []task.Event{event("k1", 1), event("k1", 2), event("", 3), event("", 3)}})
	again := mustCommit(t, s, "task_a", task.Change{Events: []task.Event{event("k1", 9), event("k2", 4), event("k2", 5)}})
	none := mustCommit(t, s, "task_a", task.Change{Events: []task.Event{event("k2", 9), event("k1", 9)}})
	other := mustCommit(t, s, "task_b", task.Change{Events: []task.Event{event("k1", 1)}})
	if len(first) != 3 || len(again) != 1 || len(none) != 0 || len(other) != 1 {
		t.Errorf("%d, %d, %d and %d events were added, want 3, 1, 0, 1", len(first), len(again), len(none), len(other))
	}
	got, err := s.Events(t.Context(), "task_a", 0, 0)
	must(t, "events", err)
	want := []task.Event{New("task_a", "", "").Events[0], event("k1", 1), event("", 3), event("", 3), event("k2", 4)}
	for i := range want {
		want[i].ID = int64(i + 1)
	}
	wantEqual(t, "events", want, got)
}
