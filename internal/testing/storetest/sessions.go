package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

func sessions(t *testing.T, open Place) {
	s := open(t)
	want := task.Session{ID: "s", UserID: "ann", CreatedAt: begin, UsedAt: at(1), ExpiresAt: at(100)}
	must(t, "create", s.CreateSession(t.Context(), want))
	wantIs(t, "an id that is taken", s.CreateSession(t.Context(), want), task.ErrExists)
	got, err := s.Session(t.Context(), "ann", "s", at(99))
	must(t, "session", err)
	wantEqual(t, "session", want, got)
	_, err = s.Session(t.Context(), "ann", "s", at(100))
	wantIs(t, "an expired session", err, task.ErrNotFound)
	_, err = s.Session(t.Context(), "ann", "t", begin)
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

// sessionExpiry tests that a session's lifetime restarts when a task ends, and that a session with an unfinished task does not expire.
func sessionExpiry(t *testing.T, open Place) {
	s := open(t)
	must(t, "create", s.CreateSession(t.Context(), task.Session{ID: "unused", UserID: "ann", CreatedAt: begin, UsedAt: begin, ExpiresAt: at(50)}))
	mustCreate(t, s, New("task_a", "ann", "s")) // the session expires 3600 seconds after its last use
	mustCreate(t, s, New("task_b", "ann", "s"))
	expired := func(when int, want ...string) {
		t.Helper()
		list, err := s.ExpiredSessions(t.Context(), at(when), nil, 10)
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
	list, err := s.ExpiredSessions(t.Context(), at(100_000), nil, 1)
	if err != nil || len(list) != 1 {
		t.Errorf("at most one: %v, %v", list, err)
	}
}

// expiredSessionsOfUsers tests that neither a user with many expired sessions nor sessions that cannot be deleted now take the share of
// others in the list.
func expiredSessionsOfUsers(t *testing.T, open Place) {
	s := open(t)
	add := func(user, id string, when int) {
		t.Helper()
		must(t, "create", s.CreateSession(t.Context(), task.Session{ID: id, UserID: user, CreatedAt: begin, UsedAt: begin, ExpiresAt: at(when)}))
	}
	for i := range 50 {
		add("ann", fmt.Sprint("ann_", i), i)
	}
	add("ann", "ann_closed", 1000)
	must(t, "close", s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "ann_closed"}, time.Time{}))
	add("bob", "bob_0", 100)
	add("cid", "cid_0", 101)
	expired := func(limit int, except []task.Session, want ...string) (list []task.Session) {
		t.Helper()
		list, err := s.ExpiredSessions(t.Context(), at(200), except, limit)
		must(t, "expired", err)
		var got []string
		for _, session := range list {
			got = append(got, session.ID)
		}
		wantEqual(t, "expired", want, got)
		return list
	}
	stuck := expired(4, nil, "ann_closed", "bob_0", "cid_0", "ann_0")
	expired(2, stuck, "ann_1", "ann_2")

	// Sessions whose runs have open journals are kept and take no places in the list.
	for i := range 10 {
		w, err := s.Create(t.Context(), fmt.Sprint("run_", i))
		must(t, "create a run", err)
		start := journaltest.Start(fmt.Sprint("run_", i))
		start.Start.User, start.Start.Session = "ann", fmt.Sprint("ann_", i)
		w.Append(start)
		must(t, "commit", w.Commit(t.Context()))
	}
	expired(2, stuck, "ann_10", "ann_11")
}

// deleteSession tests that all of a session and nothing else is deleted, and that its ID can be used again.
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
	must(t, "delete", s.DeleteSession(t.Context(), "ann", "gone"))
	wantIs(t, "delete it again", s.DeleteSession(t.Context(), "ann", "gone"), task.ErrNotFound)
	_, err := s.Session(t.Context(), "ann", "gone", begin)
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
	wantIs(t, "settle a webhook", s.SettleWebhook(t.Context(), "evt_task_gone_0", time.Time{}), task.ErrNotFound)
	hooks, _, err := s.TakeWebhooks(t.Context(), dueAt(1, 1000))
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
	wantIs(t, "an unknown session", s.DeleteSession(t.Context(), "ann", "s"), task.ErrNotFound)
	mustCreate(t, s, New("task_a", "ann", "s"))
	wantIs(t, "a queued task", s.DeleteSession(t.Context(), "ann", "s"), task.ErrBusy)
	claimed := mustClaim(t, other, "task_a")
	wantIs(t, "a running task", s.DeleteSession(t.Context(), "ann", "s"), task.ErrBusy)
	mustTask(t, s, "task_a")
	mustCommit(t, other, "task_a", ended(claimed, task.Succeeded, at(1)))
	must(t, "delete", s.DeleteSession(t.Context(), "ann", "s"))
	_, err := other.Commit(t.Context(), "task_a", fence(t, other, "task_a"), task.Change{Events: []task.Event{event("", 1)}})
	wantIs(t, "commit to a task that is gone", err, task.ErrNotFound)
}

// enterSession tests that a run without a task uses its session at its start and end, and keeps the session in between.
func enterSession(t *testing.T, open Place) {
	s := open(t)
	must(t, "create", s.CreateSession(t.Context(), task.Session{ID: "s", UserID: "ann", CreatedAt: begin, UsedAt: begin, ExpiresAt: at(100)}))
	must(t, "create", s.CreateSession(t.Context(), task.Session{ID: "forever", UserID: "ann", CreatedAt: begin, UsedAt: begin}))
	for what, in := range map[string]struct {
		user, id string
		when     int
	}{"none": {"ann", "t", 0}, "another user's": {"bob", "s", 0}, "an expired one": {"ann", "s", 100}} {
		_, err := s.EnterSession(t.Context(), in.user, in.id, at(in.when))
		wantIs(t, "enter "+what, err, task.ErrNotFound)
	}
	used := func(when, expires int) {
		t.Helper()
		got, err := s.Session(t.Context(), "ann", "s", at(expires-1))
		must(t, "session", err)
		if !got.UsedAt.Equal(at(when)) || !got.ExpiresAt.Equal(at(expires)) {
			t.Errorf("used %s, expires %s, want %s, %s", got.UsedAt, got.ExpiresAt, at(when), at(expires))
		}
	}
	expired := func(when int, want ...string) {
		t.Helper()
		list, err := s.ExpiredSessions(t.Context(), at(when), nil, 10)
		must(t, "expired", err)
		var got []string
		for _, session := range list {
			got = append(got, session.ID)
		}
		wantEqual(t, fmt.Sprintf("expired after %d s", when), want, got)
	}
	first, err := s.EnterSession(t.Context(), "ann", "s", at(90))
	must(t, "enter", err)
	used(90, 190)
	second, err := s.EnterSession(t.Context(), "ann", "s", at(80)) // a clock that went back
	must(t, "enter again", err)
	used(90, 190)
	expired(1000)
	wantIs(t, "delete it", s.DeleteSession(t.Context(), "ann", "s"), task.ErrBusy)
	must(t, "leave", second(t.Context(), at(120)))
	used(120, 220)
	expired(1000)
	wantIs(t, "close it", s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s"}, time.Time{}), task.ErrBusy)
	must(t, "leave", first(t.Context(), at(500))) // the lifetime of 100 seconds stays
	used(500, 600)
	expired(599)
	expired(600, "s")
	leave, err := s.EnterSession(t.Context(), "ann", "forever", at(700))
	must(t, "enter", err)
	must(t, "leave", leave(t.Context(), at(800)))
	if got, err := s.Session(t.Context(), "ann", "forever", at(1e9)); err != nil || !got.UsedAt.Equal(at(800)) || !got.ExpiresAt.IsZero() {
		t.Errorf("one that never expires: %+v, %v", got, err)
	}
	must(t, "delete", s.DeleteSession(t.Context(), "ann", "s"))
}

// closeSession tests that a closed session is invisible in every process, except in the process that deletes it.
func closeSession(t *testing.T, open Place) {
	s, other := open(t), open(t)
	wantIs(t, "an unknown session", s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s"}, time.Time{}), task.ErrNotFound)
	must(t, "create", s.CreateSession(t.Context(), task.Session{ID: "s", UserID: "ann", CreatedAt: begin, UsedAt: begin}))
	mustCreate(t, s, New("task_a", "ann", "s"))
	wantIs(t, "a queued task", s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s"}, time.Time{}), task.ErrBusy)
	finish(t, s, "task_a", at(1))
	must(t, "close", s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s"}, time.Time{}))
	must(t, "close again", s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s"}, time.Time{}))
	_, err := other.Session(t.Context(), "ann", "s", begin)
	wantIs(t, "session", err, task.ErrNotFound)
	list, _, err := other.Sessions(t.Context(), task.SessionFilter{Now: begin})
	wantNone(t, "sessions", len(list), err)
	_, _, err = other.CreateTask(t.Context(), New("task_b", "ann", "s"))
	wantIs(t, "a task in it", err, task.ErrNotFound)
	_, err = other.EnterSession(t.Context(), "ann", "s", begin)
	wantIs(t, "a run in it", err, task.ErrNotFound)
	wantIs(t, "another of its id", other.CreateSession(t.Context(), task.Session{ID: "s", UserID: "ann"}), task.ErrExists)
	expired, err := other.ExpiredSessions(t.Context(), begin, nil, 10)
	if err != nil || len(expired) != 1 || expired[0].ID != "s" || expired[0].UserID != "ann" {
		t.Errorf("what is to be deleted: %+v, %v", expired, err)
	}
	wantIs(t, "delete what the other deletes", other.DeleteSession(t.Context(), "ann", "s"), task.ErrNotFound)
	must(t, "delete", s.DeleteSession(t.Context(), "ann", "s"))
	wantIs(t, "close what is gone", s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s"}, time.Time{}), task.ErrNotFound)
	anew := task.Session{ID: "s", UserID: "ann", CreatedAt: at(10), UsedAt: at(10), ExpiresAt: at(20)}
	must(t, "create it anew", s.CreateSession(t.Context(), anew))
	wantIs(t, "close the earlier one of its id", other.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s", CreatedAt: begin}, at(30)), task.ErrNotFound)
	wantIs(t, "close one that has not expired", other.CloseSession(t.Context(), anew, at(19)), task.ErrBusy)
	must(t, "close one that has expired", other.CloseSession(t.Context(), anew, at(20)))
	must(t, "end the process that deletes it", other.Close())
	must(t, "delete what a dead process has left", s.DeleteSession(t.Context(), "ann", "s"))
	must(t, "create it once more", s.CreateSession(t.Context(), anew))
}

// sessionsOfUsers tests that users do not see each other's sessions, even if the IDs are equal.
func sessionsOfUsers(t *testing.T, open Place) {
	s := open(t)
	for i, user := range []string{"ann", "bob"} {
		must(t, "create", s.CreateSession(t.Context(), task.Session{ID: "default", UserID: user, CreatedAt: begin, UsedAt: at(i)}))
		mustCreate(t, s, New("task_"+user, user, "default"))
	}
	list, _, err := s.Sessions(t.Context(), task.SessionFilter{ID: "default", Now: begin})
	if err != nil || len(list) != 2 {
		t.Errorf("of that id: %v, %v", list, err)
	}
	for _, user := range []string{"ann", "bob"} {
		got, err := s.Session(t.Context(), user, "default", begin)
		if err != nil || got.UserID != user || got.Tasks != 1 {
			t.Errorf("the session of %s: %+v, %v", user, got, err)
		}
		mustClaim(t, s, "task_"+user) // The other user's task may be running meanwhile.
	}
	finish(t, s, "task_ann", at(1))
	must(t, "delete", s.DeleteSession(t.Context(), "ann", "default"))
	wantIs(t, "delete the other", s.DeleteSession(t.Context(), "bob", "default"), task.ErrBusy)
	mustTask(t, s, "task_bob")
	_, err = s.Session(t.Context(), "eve", "default", begin)
	wantIs(t, "of a user without it", err, task.ErrNotFound)
}
