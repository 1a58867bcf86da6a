package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/task"
)

// dueAt returns a query for webhooks that are due at when; it takes them for 60 seconds.
func dueAt(when, limit int) task.WebhookQuery {
	return task.WebhookQuery{Now: at(when), Until: at(when + 60), Limit: limit, Each: limit}
}

func takes(t *testing.T, s task.Store, q task.WebhookQuery, want ...string) (hooks []task.Webhook, next time.Time) {
	t.Helper()
	hooks, next, err := s.TakeWebhooks(t.Context(), q)
	must(t, "webhooks", err)
	var got []string
	for _, h := range hooks {
		got = append(got, h.ID)
	}
	wantEqual(t, fmt.Sprintf("due after %v", q.Now.Sub(begin)), want, got)
	return hooks, next
}

func webhooks(t *testing.T, open Place) {
	s := open(t)
	for i, due := range []int{30, 10, 20} {
		id := fmt.Sprint("task_", i)
		mustCreate(t, s, New(id, "ann", "sess_"+id))
		done := ended(mustClaim(t, s, id), task.Succeeded, at(5))
		done.Webhook = hook(fmt.Sprint("evt_", i), due)
		mustCommit(t, s, id, done)
	}
	due := func(when int, wantNext int, want ...string) []task.Webhook {
		t.Helper()
		hooks, next := takes(t, s, dueAt(when, 2), want...)
		if wantNext > 0 && !next.Equal(at(wantNext)) || wantNext == 0 && !next.IsZero() {
			t.Errorf("next: %v, want %d s", next, wantNext)
		}
		return hooks
	}
	due(9, 10)
	want := *hook("evt_1", 10)
	want.TaskID = "task_1"
	wantEqual(t, "webhook", want, due(10, 20, "evt_1")[0])
	due(25, 30, "evt_2")
	due(35, 70, "evt_0")                                              // the other two are taken until 70 and 85
	due(71, 85, "evt_1")                                              // the first was not settled
	must(t, "settle", s.SettleWebhook(t.Context(), "evt_1", at(200))) // try again at 200
	must(t, "settle", s.SettleWebhook(t.Context(), "evt_2", time.Time{}))
	must(t, "settle", s.SettleWebhook(t.Context(), "evt_0", time.Time{}))
	due(199, 200)
	want.Attempts, want.Due = 1, at(200)
	wantEqual(t, "webhook", want, due(200, 0, "evt_1")[0])
	must(t, "settle", s.SettleWebhook(t.Context(), "evt_1", time.Time{}))
	due(1000, 0)
	for _, id := range []string{"evt_0", "evt_1", "evt_2", "evt_9"} {
		wantIs(t, "settle "+id+" again", s.SettleWebhook(t.Context(), id, time.Time{}), task.ErrNotFound)
	}
}

// webhooksOfUsers tests that one user's many due webhooks do not delay those of other users.
func webhooksOfUsers(t *testing.T, open Place) {
	s := open(t)
	for i := range 8 {
		user := map[bool]string{true: "ann", false: "bob"}[i < 7]
		id := fmt.Sprint("task_", i)
		mustCreate(t, s, New(id, user, "sess_"+id))
		done := ended(mustClaim(t, s, id), task.Succeeded, at(5))
		done.Webhook = hook(fmt.Sprint("evt_", i), i)
		mustCommit(t, s, id, done)
	}
	q := dueAt(10, 10)
	q.Each = 3
	takes(t, s, q, "evt_0", "evt_1", "evt_2", "evt_7")
	q.InFlight = map[string]int{"ann": 2}
	takes(t, s, q, "evt_3")
	q.Limit = 0
	takes(t, s, q)
}

// webhooksAfter tests that the list begins with the user after q.After, so that full lists of some users do not block the others.
func webhooksAfter(t *testing.T, open Place) {
	s := open(t)
	for i, user := range []string{"ann", "bob", "cid", "dan"} {
		id := fmt.Sprint("task_", i)
		mustCreate(t, s, New(id, user, "sess_"+id))
		done := ended(mustClaim(t, s, id), task.Succeeded, at(5))
		done.Webhook = hook(fmt.Sprint("evt_", i), i)
		mustCommit(t, s, id, done)
	}
	q := dueAt(10, 2)
	takes(t, s, q, "evt_0", "evt_1")
	q.Now, q.After = at(80), "bob" // the deliveries that were taken are due again
	takes(t, s, q, "evt_2", "evt_3")
	q.Now, q.After = at(81), "dan"
	takes(t, s, q, "evt_0", "evt_1")
	q = dueAt(1000, 9)
	q.After = "cid"
	takes(t, s, q, "evt_3", "evt_0", "evt_1", "evt_2")
}

// dueSchedules tests the list of due schedules and the time when the next one is due.
func dueSchedules(t *testing.T, open Place) {
	s := open(t)
	for i := range 5 {
		must(t, "create", s.CreateSchedule(t.Context(), task.Schedule{ID: fmt.Sprint("sched_", i), UserID: "ann", Task: "x", CreatedAt: begin, Next: pointer(at(10 * i))}))
	}
	due := func(when, limit int, wantNext time.Time, want ...string) {
		t.Helper()
		list, next, err := s.DueSchedules(t.Context(), at(when), limit)
		must(t, "due", err)
		var got []string
		for _, sched := range list {
			got = append(got, sched.ID)
		}
		wantEqual(t, fmt.Sprintf("due after %d s", when), want, got)
		if !next.Equal(wantNext) {
			t.Errorf("next after %d s: %v, want %v", when, next, wantNext)
		}
	}
	due(-1, 9, at(0))
	due(25, 9, at(30), "sched_0", "sched_1", "sched_2")
	due(25, 2, at(30), "sched_0", "sched_1")
	must(t, "move", s.MoveSchedule(t.Context(), "sched_0", at(0), at(60)))
	must(t, "move one that has moved", s.MoveSchedule(t.Context(), "sched_0", at(0), at(90)))
	due(50, 9, at(60), "sched_1", "sched_2", "sched_3", "sched_4")
	due(60, 9, time.Time{}, "sched_1", "sched_2", "sched_3", "sched_4", "sched_0")
}

// dueSchedulesOfUsers tests that one user's due schedules, however many and early, leave each other user a share of the list.
func dueSchedulesOfUsers(t *testing.T, open Place) {
	s := open(t)
	add := func(id, user string, when int) {
		t.Helper()
		must(t, "create", s.CreateSchedule(t.Context(), task.Schedule{ID: id, UserID: user, Task: "x", CreatedAt: begin, Next: pointer(at(when))}))
	}
	for i := range 50 {
		add(fmt.Sprint("sched_ann_", i), "ann", i)
	}
	add("sched_bob_0", "bob", 100)
	add("sched_bob_1", "bob", 101)
	add("sched_cid_0", "cid", 99)
	list, _, err := s.DueSchedules(t.Context(), at(200), 6)
	must(t, "due", err)
	var got []string
	for _, sched := range list {
		got = append(got, sched.ID)
	}
	wantEqual(t, "due", []string{"sched_ann_0", "sched_cid_0", "sched_bob_0", "sched_ann_1", "sched_bob_1", "sched_ann_2"}, got)
}

func schedules(t *testing.T, open Place) {
	s := open(t)
	want := task.Schedule{
		ID: "sched_1", UserID: "ann", SessionID: "s", Task: "report", Context: []byte(`{"a":"<1.0>"}`), Model: "m", Cron: "0 9 * * 1-5",
		Zone: "Europe/Berlin", Next: pointer(at(1)), Last: pointer(at(-1)), CreatedAt: begin, Principal: "key_1", Roles: []auth.Role{auth.User},
		Callback: "https://example.com/?a&b", Reveal: true, Budget: task.Budget{Turns: 1, Runs: 2, Tokens: 3, Cost: 0.5, Wall: task.Duration(time.Minute)},
	}
	bare := task.Schedule{ID: "sched_2", UserID: "bob", Task: "x", CreatedAt: begin, Next: pointer(at(9))}
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
	try("task_a", 2, at(3), false) // this instant is not planned
	planned(task.Schedule{Next: pointer(at(1))})
	try("task_a", 1, at(3), true)
	planned(task.Schedule{Next: pointer(at(3)), Last: pointer(at(1))})
	try("task_b", 1, at(3), false)

	// An error leaves the schedule unchanged.
	mustCreate(t, s, New("task_gone", "ann", "gone"))
	finish(t, s, "task_gone", at(1))
	must(t, "close", s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "gone"}, time.Time{}))
	_, _, err := s.Fire(t.Context(), "sched_1", at(3), New("task_b", "ann", "gone"), at(5))
	wantIs(t, "a closed session", err, task.ErrNotFound)
	_, _, err = s.Fire(t.Context(), "sched_1", at(3), New("task_a", "ann", "sess_b"), at(5))
	wantIs(t, "an id that is taken", err, task.ErrExists)
	planned(task.Schedule{Next: pointer(at(3)), Last: pointer(at(1))})

	try("task_b", 3, time.Time{}, true)
	_, err = s.Schedule(t.Context(), "sched_1")
	wantIs(t, "a schedule that has fired for the last time", err, task.ErrNotFound)
	tasks, _, err := s.Tasks(t.Context(), task.Filter{UserID: "ann"})
	wantIDs(t, "tasks", "task_b task_a", tasks, err)
	stored, err := s.Events(t.Context(), "task_b", 0, 0)
	if err != nil || len(stored) != 1 {
		t.Errorf("events of the task: %v, %v", stored, err)
	}
}

// fireGivenUp tests that Fire returns no task together with the error of an ended context, and that each planned instant creates one task, whether that call
// or the next one is stored.
func fireGivenUp(t *testing.T, open Place) {
	s := open(t)
	const schedules, instants = 8, 50
	var all sync.WaitGroup
	for c := range schedules {
		id, user := fmt.Sprint("sched_", c), fmt.Sprint("user_", c)
		must(t, "create", s.CreateSchedule(t.Context(), task.Schedule{ID: id, UserID: user, Task: "x", CreatedAt: begin, Next: pointer(at(0))}))
		all.Go(func() {
			for k := range instants {
				ctx, cancel := context.WithCancel(t.Context())
				go cancel()
				first := New(fmt.Sprintf("task_%d_%d", c, k), user, "sess_"+user)
				got, created, err := s.Fire(ctx, id, at(k), first, at(k+1))
				if err != nil && (created || got.ID != "" || !errors.Is(err, context.Canceled)) || err == nil && (!created || got.ID != first.Task.ID) {
					t.Errorf("fire: %q, %v, %v", got.ID, created, err)
				}
				_, again, err := s.Fire(t.Context(), id, at(k), New(fmt.Sprintf("again_%d_%d", c, k), user, "sess_"+user), at(k+1))
				if err != nil || created && again {
					t.Errorf("fire again: %v, %v; before: %v", again, err, created)
				}
			}
			tasks, _, err := s.Tasks(t.Context(), task.Filter{UserID: user, Limit: 2 * instants})
			if err != nil || len(tasks) != instants {
				t.Errorf("%d tasks, %v, want %d", len(tasks), err, instants)
			}
		})
	}
	all.Wait()
}

// fireAtOnce tests that a planned instant creates exactly one task, however many callers fire it.
func fireAtOnce(t *testing.T, open Place) {
	stores := []Store{open(t), open(t)}
	must(t, "create", stores[0].CreateSchedule(t.Context(), task.Schedule{
		ID: "sched_1", UserID: "ann", Task: "x", CreatedAt: begin, Next: pointer(at(0)), Context: []byte("{}"),
	}))
	const instants, callers = 5, 8
	var made [instants]atomic.Int32
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			s := stores[c%2]
			for {
				sched, err := s.Schedule(t.Context(), "sched_1")
				if errors.Is(err, task.ErrNotFound) {
					return // the schedule has fired for the last time
				}
				if err != nil {
					t.Errorf("schedule: %v", err)
					return
				}
				k := int(sched.Next.Sub(begin).Seconds())
				var next time.Time
				if k+1 < instants {
					next = at(k + 1)
				}
				n := New(fmt.Sprintf("task_%d_%d", k, c), "ann", fmt.Sprint("sess_", c))
				switch got, created, err := s.Fire(t.Context(), "sched_1", *sched.Next, n, next); {
				case errors.Is(err, task.ErrNotFound):
					return
				case err != nil:
					t.Errorf("fire: %v", err)
					return
				case created && got.ID != n.Task.ID:
					t.Errorf("made %s, want %s", got.ID, n.Task.ID)
				case created:
					made[k].Add(1)
				}
			}
		})
	}
	all.Wait()
	for k := range made {
		if n := made[k].Load(); n != 1 {
			t.Errorf("instant %d made %d tasks, want 1", k, n)
		}
	}
	tasks, _, err := stores[0].Tasks(t.Context(), task.Filter{UserID: "ann"})
	if err != nil || len(tasks) != instants {
		t.Errorf("%d tasks, %v, want %d", len(tasks), err, instants)
	}
}
