package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
)

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
		Callback: "https://example.com/?a&b", Budget: task.Budget{Turns: 1, Runs: 2, Tokens: 3, Cost: 0.5, Wall: task.Duration(time.Minute)},
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

// fireAtOnce: a planned instant makes one task, whoever asks.
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
				if err != nil {
					t.Errorf("schedule: %v", err)
					return
				}
				if sched.Next == nil {
					return
				}
				k := int(sched.Next.Sub(begin).Seconds())
				var next time.Time
				if k+1 < instants {
					next = at(k + 1)
				}
				n := New(fmt.Sprintf("task_%d_%d", k, c), "ann", fmt.Sprint("sess_", c))
				switch got, created, err := s.Fire(t.Context(), "sched_1", *sched.Next, n, next); {
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
