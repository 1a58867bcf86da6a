package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
)

func list(t *testing.T, open Place) {
	s := open(t)
	for i, c := range []struct {
		user, session string
		ended         task.Status
	}{{"ann", "s1", task.Succeeded}, {"bob", "s2", ""}, {"ann", "s1", task.Failed}, {"ann", "s3", ""}, {"ann", "s1", ""}} {
		id := fmt.Sprint("task_", i)
		mustCreate(t, s, New(id, c.user, c.session))
		if c.ended != "" {
			mustCommit(t, s, id, ended(mustClaim(t, s, id), c.ended, at(i)))
		}
	}
	for _, c := range []struct {
		f    task.Filter
		want string
	}{
		{task.Filter{}, "task_4 task_3 task_2 task_1 task_0"},
		{task.Filter{UserID: "ann"}, "task_4 task_3 task_2 task_0"},
		{task.Filter{UserID: "nobody"}, ""},
		{task.Filter{SessionID: "s1"}, "task_4 task_2 task_0"},
		{task.Filter{SessionID: "nowhere"}, ""},
		{task.Filter{Status: task.Queued}, "task_4 task_3 task_1"},
		{task.Filter{UserID: "ann", Status: task.Queued}, "task_4 task_3"},
		{task.Filter{UserID: "bob", SessionID: "s1"}, ""},
		{task.Filter{UserID: "ann", SessionID: "s1", Status: task.Failed}, "task_2"},
	} {
		tasks, next, err := s.Tasks(t.Context(), c.f)
		wantIDs(t, fmt.Sprintf("%+v", c.f), c.want, tasks, err)
		if next != "" {
			t.Errorf("%+v: there is more after %q", c.f, next)
		}
	}
	tasks, _, err := s.Tasks(t.Context(), task.Filter{Limit: 1})
	must(t, "list", err)
	wantEqual(t, "listed", []task.Task{mustTask(t, s, "task_4")}, tasks)
	_, _, err = s.Tasks(t.Context(), task.Filter{Cursor: "x'; --"})
	wantIs(t, "a cursor of nobody's", err, task.ErrInvalidInput)
	_, _, err = s.Sessions(t.Context(), task.SessionFilter{Cursor: "1-2"})
	wantIs(t, "a session cursor of nobody's", err, task.ErrInvalidInput)
}

// pages: a list is continued where it stopped, whatever comes meanwhile.
func pages(t *testing.T, open Place) {
	s := open(t)
	for i := range 7 {
		mustCreate(t, s, New(fmt.Sprint("task_", i), "ann", fmt.Sprint("s", i)))
	}
	var gotTasks, gotSessions []string
	f, g := task.Filter{UserID: "ann", Limit: 3}, task.SessionFilter{UserID: "ann", Limit: 3, Now: begin}
	for page := range 3 {
		tasks, next, err := s.Tasks(t.Context(), f)
		must(t, "tasks", err)
		gotTasks = append(gotTasks, ids(tasks))
		f.Cursor = next
		sessions, more, err := s.Sessions(t.Context(), g)
		must(t, "sessions", err)
		for _, session := range sessions {
			gotSessions = append(gotSessions, session.ID)
		}
		g.Cursor = more
		if last := page == 2; (next == "") != last || (more == "") != last {
			t.Errorf("page %d continues at %q and %q", page, next, more)
		}
		mustCreate(t, s, New(fmt.Sprint("new_", page), "ann", fmt.Sprint("new", page)))
	}
	wantEqual(t, "tasks", []string{"task_6 task_5 task_4", "task_3 task_2 task_1", "task_0"}, gotTasks)
	wantEqual(t, "sessions", []string{"s6", "s5", "s4", "s3", "s2", "s1", "s0"}, gotSessions)
	full, next, err := s.Tasks(t.Context(), task.Filter{Limit: 10})
	if err != nil || len(full) != 10 || next != "" {
		t.Errorf("a page as long as the list: %d tasks, next %q, %v", len(full), next, err)
	}
}

func sessionTasks(t *testing.T, open Place) {
	s := open(t)
	for i := range 5 {
		id := fmt.Sprint("task_", i)
		mustCreate(t, s, New(id, "ann", "s"))
		if i != 1 && i != 4 {
			finish(t, s, id, at(9-i))
		}
	}
	mustCreate(t, s, New("other", "ann", "s2"))
	finish(t, s, "other", at(1))
	for before, want := range map[string]string{
		"task_0": "", "task_1": "task_0", "task_3": "task_0 task_2", "task_4": "task_0 task_2 task_3", "nobody": "",
	} {
		tasks, err := s.SessionTasks(t.Context(), "s", before)
		wantIDs(t, "before "+before, want, tasks, err)
	}
}

func cached(t *testing.T, open Place) {
	s := open(t)
	for i, c := range []struct {
		user, key string
		status    task.Status
		cached    bool
		ended     int
	}{
		{"ann", "k", task.Succeeded, false, 10},
		{"ann", "k", task.Succeeded, false, 30},
		{"ann", "k", task.Succeeded, false, 20}, // created later, ended before
		{"ann", "k", task.Failed, false, 40},
		{"ann", "k", task.Succeeded, true, 50}, // itself from the cache
		{"bob", "k", task.Succeeded, false, 60},
		{"ann", "other", task.Succeeded, false, 70},
		{"ann", "", task.Succeeded, false, 80},
	} {
		n := New(fmt.Sprint("task_", i), c.user, fmt.Sprint("s", i))
		n.Task.CacheKey = c.key
		mustCreate(t, s, n)
		done := ended(mustClaim(t, s, n.Task.ID), c.status, at(c.ended))
		done.Task.Cached = c.cached
		mustCommit(t, s, n.Task.ID, done)
	}
	mustCreate(t, s, func() task.New { n := New("queued", "ann", "sq"); n.Task.CacheKey = "k"; return n }())
	for _, c := range []struct {
		user, key string
		since     int
		want      string
	}{
		{"ann", "k", 0, "task_1"}, {"ann", "k", 29, "task_1"}, {"ann", "k", 30, ""}, {"bob", "k", 0, "task_5"},
		{"ann", "other", 0, "task_6"}, {"ann", "", 0, ""}, {"eve", "k", 0, ""},
	} {
		got, err := s.Cached(t.Context(), c.user, c.key, at(c.since))
		if c.want == "" {
			wantIs(t, fmt.Sprintf("%+v", c), err, task.ErrNotFound)
		} else if err != nil || got.ID != c.want {
			t.Errorf("%+v: %s, %v", c, got.ID, err)
		}
	}
}

func sessions(t *testing.T, open Place) {
	s := open(t)
	want := task.Session{ID: "s", UserID: "ann", CreatedAt: begin, UsedAt: at(1), ExpiresAt: at(100)}
	must(t, "create", s.CreateSession(t.Context(), want))
	wantIs(t, "an id that is taken", s.CreateSession(t.Context(), want), task.ErrExists)
	want.UserID = "bob"
	wantIs(t, "an id that another user has taken", s.CreateSession(t.Context(), want), task.ErrExists)
	want.UserID = "ann"
	got, err := s.Session(t.Context(), "s", at(99))
	must(t, "session", err)
	wantEqual(t, "session", want, got)
	_, err = s.Session(t.Context(), "s", at(100))
	wantIs(t, "an expired session", err, task.ErrNotFound)
	_, err = s.Session(t.Context(), "t", begin)
	wantIs(t, "an unknown session", err, task.ErrNotFound)

	forever := task.Session{ID: "forever", UserID: "bob", CreatedAt: begin, UsedAt: begin}
	must(t, "create", s.CreateSession(t.Context(), forever))
	for _, c := range []struct {
		f    task.SessionFilter
		want []string
	}{
		{task.SessionFilter{Now: begin}, []string{"forever", "s"}},
		{task.SessionFilter{Now: begin, UserID: "ann"}, []string{"s"}},
		{task.SessionFilter{Now: at(100)}, []string{"forever"}},
		{task.SessionFilter{Now: at(100), UserID: "ann"}, nil},
	} {
		list, next, err := s.Sessions(t.Context(), c.f)
		must(t, "list", err)
		var got []string
		for _, session := range list {
			got = append(got, session.ID)
		}
		if !slices.Equal(got, c.want) || next != "" {
			t.Errorf("%+v: %q, next %q, want %q", c.f, got, next, c.want)
		}
	}
}

// sessionExpiry: a session lasts as long after the last of its tasks as after its creation, and while any is unfinished.
func sessionExpiry(t *testing.T, open Place) {
	s := open(t)
	must(t, "create", s.CreateSession(t.Context(), task.Session{ID: "unused", UserID: "ann", CreatedAt: begin, UsedAt: begin, ExpiresAt: at(50)}))
	mustCreate(t, s, New("task_a", "ann", "s")) // it expires 3600 seconds after its use
	mustCreate(t, s, New("task_b", "ann", "s"))
	expired := func(when int, want ...string) {
		t.Helper()
		list, err := s.ExpiredSessions(t.Context(), at(when), 10)
		must(t, "expired", err)
		var got []string
		for _, session := range list {
			got = append(got, session.ID+" of "+session.UserID)
		}
		wantEqual(t, fmt.Sprintf("expired after %d s", when), want, got)
	}
	expired(49)
	expired(10_000, "unused of ann")
	a, err := s.Claim(t.Context(), "task_a", at(4000))
	must(t, "claim", err)
	mustCommit(t, s, "task_a", ended(a, task.Succeeded, at(5000)))
	expired(100_000, "unused of ann")
	b, err := s.Claim(t.Context(), "task_b", at(5000))
	must(t, "claim", err)
	mustCommit(t, s, "task_b", ended(b, task.Succeeded, at(4999))) // a clock that went back
	expired(5000+3599, "unused of ann")
	expired(5000+3600, "unused of ann", "s of ann")
	list, err := s.ExpiredSessions(t.Context(), at(100_000), 1)
	if err != nil || len(list) != 1 {
		t.Errorf("at most one: %v, %v", list, err)
	}
}

// deleteSession forgets all of a session and nothing else; its id is free again.
func deleteSession(t *testing.T, open Place) {
	s := open(t)
	const tasks = 12
	for i := range tasks {
		for _, session := range []string{"gone", "kept"} {
			id := fmt.Sprintf("task_%s_%d", session, i)
			n := New(id, "ann", session)
			n.IdempotencyKey, n.Task.CacheKey = id, id
			mustCreate(t, s, n)
			claimed := mustClaim(t, s, id)
			c := task.Change{}
			for k := range 100 {
				c.Events = append(c.Events, event(fmt.Sprint(k), k))
				c.Steps = append(c.Steps, task.Step{Time: begin, Note: &task.Note{Text: strings.Repeat("x", 100)}})
			}
			mustCommit(t, s, id, c)
			done := ended(claimed, task.Succeeded, at(1))
			done.Webhook = hook("evt_"+id, 1)
			mustCommit(t, s, id, done)
		}
	}
	must(t, "delete", s.DeleteSession(t.Context(), "gone"))
	wantIs(t, "delete it again", s.DeleteSession(t.Context(), "gone"), task.ErrNotFound)
	_, err := s.Session(t.Context(), "gone", begin)
	wantIs(t, "session", err, task.ErrNotFound)
	_, err = s.Task(t.Context(), "task_gone_0")
	wantIs(t, "task", err, task.ErrNotFound)
	_, err = s.Steps(t.Context(), "task_gone_0")
	wantIs(t, "steps", err, task.ErrNotFound)
	_, err = s.Events(t.Context(), "task_gone_0", 0, 1)
	wantIs(t, "events", err, task.ErrNotFound)
	_, err = s.Cached(t.Context(), "ann", "task_gone_0", begin)
	wantIs(t, "cached", err, task.ErrNotFound)
	_, err = s.Claim(t.Context(), "task_gone_0", begin)
	wantIs(t, "claim", err, task.ErrNotFound)
	wantIs(t, "settle a webhook", s.SettleWebhook(t.Context(), "evt_task_gone_0", true, time.Time{}, ""), task.ErrNotFound)
	hooks, err := s.Webhooks(t.Context(), at(1), 1000)
	if err != nil || len(hooks) != tasks {
		t.Errorf("%d webhooks are left, %v, want %d", len(hooks), err, tasks)
	}
	left, _, err := s.Tasks(t.Context(), task.Filter{Limit: 1000})
	if err != nil || len(left) != tasks {
		t.Errorf("%d tasks are left, %v, want %d", len(left), err, tasks)
	}
	for _, kept := range left {
		stored, err := s.Events(t.Context(), kept.ID, 0, 0)
		if err != nil || len(stored) != 102 {
			t.Errorf("%s: %d events, %v, want 102", kept.ID, len(stored), err)
		}
	}
	again := New("task_gone_0", "bob", "gone")
	again.IdempotencyKey = "task_gone_0"
	mustCreate(t, s, again)
	stored, err := s.Events(t.Context(), "task_gone_0", 0, 0)
	if err != nil || len(stored) != 1 {
		t.Errorf("a new task of the old id has %d events, %v", len(stored), err)
	}
}

func deleteSessionRefused(t *testing.T, open Place) {
	s, other := open(t), open(t)
	wantIs(t, "an unknown session", s.DeleteSession(t.Context(), "s"), task.ErrNotFound)
	mustCreate(t, s, New("task_a", "ann", "s"))
	wantIs(t, "a queued task", s.DeleteSession(t.Context(), "s"), task.ErrBusy)
	claimed := mustClaim(t, other, "task_a")
	wantIs(t, "a running task", s.DeleteSession(t.Context(), "s"), task.ErrBusy)
	mustTask(t, s, "task_a")
	mustCommit(t, other, "task_a", ended(claimed, task.Succeeded, at(1)))
	must(t, "delete", s.DeleteSession(t.Context(), "s"))
	_, err := other.Commit(t.Context(), "task_a", task.Change{Events: []task.Event{event("", 1)}})
	wantIs(t, "commit to a task that is gone", err, task.ErrNotFound)
}

func webhooks(t *testing.T, open Place) {
	s := open(t)
	_, ok, err := s.NextWebhook(t.Context())
	if err != nil || ok {
		t.Errorf("the next of none: %v, %v", ok, err)
	}
	for i, created := range []int{30, 10, 20} {
		id := fmt.Sprint("task_", i)
		mustCreate(t, s, New(id, "ann", "sess_"+id))
		done := ended(mustClaim(t, s, id), task.Succeeded, at(created))
		done.Webhook = hook(fmt.Sprint("evt_", i), created)
		mustCommit(t, s, id, done)
	}
	due := func(when, limit int, want ...string) []task.Webhook {
		t.Helper()
		hooks, err := s.Webhooks(t.Context(), at(when), limit)
		must(t, "webhooks", err)
		var got []string
		for _, h := range hooks {
			got = append(got, h.ID)
		}
		wantEqual(t, fmt.Sprintf("due after %d s", when), want, got)
		return hooks
	}
	next := func(want int) {
		t.Helper()
		if got, ok, err := s.NextWebhook(t.Context()); err != nil || !ok || !got.Equal(at(want)) {
			t.Errorf("next: %v, %v, %v, want %v", got, ok, err, at(want))
		}
	}
	settle := func(id string, delivered bool, next time.Time) {
		t.Helper()
		must(t, "settle", s.SettleWebhook(t.Context(), id, delivered, next, "it answered 500"))
	}
	next(10)
	due(9, 10)
	due(10, 10, "evt_1")
	due(100, 2, "evt_1", "evt_2")
	want := *hook("evt_1", 10)
	want.TaskID = "task_1"
	wantEqual(t, "webhook", want, due(100, 1, "evt_1")[0])

	settle("evt_1", false, at(200)) // again later
	next(20)
	due(100, 10, "evt_2", "evt_0")
	settle("evt_2", true, time.Time{})  // delivered
	settle("evt_0", false, time.Time{}) // given up
	next(200)
	due(199, 10)
	want.Attempts = 1
	wantEqual(t, "webhook", want, due(200, 10, "evt_1")[0])
	settle("evt_1", true, at(300)) // delivered, whatever next says
	_, ok, err = s.NextWebhook(t.Context())
	if err != nil || ok {
		t.Errorf("the next of none: %v, %v", ok, err)
	}
	for _, id := range []string{"evt_0", "evt_1", "evt_2", "evt_9"} {
		wantIs(t, "settle "+id+" again", s.SettleWebhook(t.Context(), id, true, time.Time{}, ""), task.ErrNotFound)
	}
}

func schedules(t *testing.T, open Place) {
	s := open(t)
	want := task.Schedule{
		ID: "sched_1", UserID: "ann", SessionID: "s", Task: "report", Context: []byte(`{"a":"<1.0>"}`), Model: "m", Cron: "0 9 * * 1-5",
		Zone: "Europe/Berlin", Next: pointer(at(1)), Last: pointer(at(-1)), CreatedAt: begin, Principal: "key_1",
		Callback: "https://example.com/?a&b", Budget: task.Budget{Turns: 1, Runs: 2, Tokens: 3, Cost: 0.5, Wall: time.Minute},
	}
	bare := task.Schedule{ID: "sched_2", UserID: "bob", Task: "x", CreatedAt: begin}
	must(t, "create", s.CreateSchedule(t.Context(), want))
	must(t, "create", s.CreateSchedule(t.Context(), bare))
	wantIs(t, "an id that is taken", s.CreateSchedule(t.Context(), want), task.ErrExists)
	for user, want := range map[string][]task.Schedule{"": {want, bare}, "ann": {want}, "bob": {bare}, "eve": nil} {
		got, err := s.Schedules(t.Context(), user)
		must(t, "list", err)
		wantEqual(t, "schedules of "+user, want, got)
	}
	got, err := s.Schedule(t.Context(), "sched_1")
	must(t, "read", err)
	wantEqual(t, "schedule", want, got)
	must(t, "delete", s.DeleteSchedule(t.Context(), "sched_1"))
	wantIs(t, "delete it again", s.DeleteSchedule(t.Context(), "sched_1"), task.ErrNotFound)
	_, err = s.Schedule(t.Context(), "sched_1")
	wantIs(t, "read it", err, task.ErrNotFound)
	_, _, err = s.Fire(t.Context(), "sched_1", at(1), New("task_a", "ann", "s"), at(2))
	wantIs(t, "fire it", err, task.ErrNotFound)
}

func fire(t *testing.T, open Place) {
	s := open(t)
	must(t, "create", s.CreateSchedule(t.Context(), task.Schedule{ID: "sched_1", UserID: "ann", Task: "x", CreatedAt: begin, Next: pointer(at(1))}))
	planned := func(want task.Schedule) {
		t.Helper()
		got, err := s.Schedule(t.Context(), "sched_1")
		must(t, "read", err)
		want.ID, want.UserID, want.Task, want.CreatedAt = "sched_1", "ann", "x", begin
		wantEqual(t, "schedule", want, got)
	}
	try := func(id string, when int, next time.Time, want bool) {
		t.Helper()
		got, created, err := s.Fire(t.Context(), "sched_1", at(when), New(id, "ann", "sess_"+id), next)
		if err != nil || created != want || created && got.ID != id {
			t.Errorf("fire %d s: %s, %v, %v, want %v", when, got.ID, created, err, want)
		}
	}
	try("task_a", 2, at(3), false) // it is not planned
	planned(task.Schedule{Next: pointer(at(1))})
	try("task_a", 1, at(3), true)
	planned(task.Schedule{Next: pointer(at(3)), Last: pointer(at(1))})
	try("task_b", 1, at(3), false)

	// What keeps the task from being made keeps the schedule where it is.
	mustCreate(t, s, New("task_bob", "bob", "bobs"))
	_, _, err := s.Fire(t.Context(), "sched_1", at(3), New("task_b", "ann", "bobs"), at(5))
	wantIs(t, "the session of another user", err, task.ErrNotFound)
	_, _, err = s.Fire(t.Context(), "sched_1", at(3), New("task_a", "ann", "sess_b"), at(5))
	wantIs(t, "an id that is taken", err, task.ErrExists)
	planned(task.Schedule{Next: pointer(at(3)), Last: pointer(at(1))})

	try("task_b", 3, time.Time{}, true)
	planned(task.Schedule{Last: pointer(at(3))})
	try("task_c", 3, at(5), false)
	tasks, _, err := s.Tasks(t.Context(), task.Filter{UserID: "ann"})
	wantIDs(t, "tasks", "task_b task_a", tasks, err)
	stored, err := s.Events(t.Context(), "task_b", 0, 0)
	if err != nil || len(stored) != 1 {
		t.Errorf("events of the task: %v, %v", stored, err)
	}
}

// queueLock: one process works the queue; the others are told which.
func queueLock(t *testing.T, open Place) {
	first, second := open(t), open(t)
	release, err := first.LockQueue(t.Context())
	must(t, "lock", err)
	for _, s := range []Store{first, second} {
		_, err := s.LockQueue(t.Context())
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
			t.Errorf("lock while it is locked: %v, want an error that names process %d", err, os.Getpid())
		}
	}
	must(t, "release", release())
	must(t, "release again", release())
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

// contexts: a context that has ended ends the call.
func contexts(t *testing.T, open Place) {
	s := open(t)
	mustCreate(t, s, New("task_a", "ann", "s"))
	claimed := mustClaim(t, s, "task_a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"create": errOf3(s.CreateTask(ctx, New("task_b", "ann", "s"))),
		"commit": errOf2(s.Commit(ctx, "task_a", ended(claimed, task.Succeeded, at(1)))),
		"claim":  errOf2(s.Claim(ctx, "task_a", begin)),
		"read":   errOf2(s.Task(ctx, "task_a")),
		"events": errOf2(s.Events(ctx, "task_a", 0, 1)),
		"delete": s.DeleteSession(ctx, "s"),
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
		"commit":   errOf2(s.Commit(t.Context(), "task_a", task.Change{Events: []task.Event{{Data: json.RawMessage("1")}}})),
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
