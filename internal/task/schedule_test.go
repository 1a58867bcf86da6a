package task_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// started returns the times at which the tasks of a user began, oldest first.
func started(t *testing.T, p *process, user, layout string, zone *time.Location) []string {
	t.Helper()
	all, _, err := p.Tasks(t.Context(), task.Filter{UserID: user, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, tk := range slices.Backward(all) {
		if tk.StartedAt == nil {
			t.Errorf("%s has not begun", tk.ID)
			continue
		}
		list = append(list, tk.StartedAt.In(zone).Format(layout))
	}
	return list
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// until sleeps until a time; the clock of a synctest bubble begins in the year 2000.
func until(t time.Time) { time.Sleep(time.Until(t)) }

// Schedules fire at the times of their expressions in their zones, even when the clocks of the zones change.
func TestCron(t *testing.T) {
	t.Parallel()
	const layout = "Mon 02 15:04"
	for name, c := range map[string]struct {
		cron, zone string
		from, to   time.Time
		want       []string
	}{
		"weekdays": {
			"0 9 * * 1-5", "Europe/Berlin", time.Date(2026, 7, 3, 7, 0, 0, 0, time.UTC), time.Date(2026, 7, 7, 23, 0, 0, 0, time.UTC),
			[]string{"Mon 06 09:00", "Tue 07 09:00"}, // 9:00 in Berlin was 7:00 UTC, which had passed on Friday.
		},
		"a zone across the date line": {
			"0 1 1 * *", "Pacific/Kiritimati", time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
			[]string{"Sun 01 01:00"},
		},
		"UTC by default": {
			"30 */6 * * *", "", time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
			[]string{"Thu 01 06:30", "Thu 01 12:30", "Thu 01 18:30"},
		},
		"clock set forward": {
			"30 2 * * *", "Europe/Berlin", time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC),
			[]string{"Sat 28 02:30", "Mon 30 02:30"},
		},
		"clock set back": {
			"30 2 * * *", "Europe/Berlin", time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 26, 12, 0, 0, 0, time.UTC),
			[]string{"Sat 24 02:30", "Sun 25 02:30", "Mon 26 02:30"},
		},
		"a leap day": {
			"0 0 29 2 *", "", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, 12, 31, 0, 0, 0, 0, time.UTC),
			[]string{"Tue 29 00:00"},
		},
		"a word": {
			"@daily", "", time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC), time.Date(2026, 1, 3, 1, 0, 0, 0, time.UTC),
			[]string{"Fri 02 00:00", "Sat 03 00:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				until(c.from)
				p := newPlace(t).open(succeed, func(o *task.Options) { o.SessionExpiry = 10 * 365 * 24 * time.Hour })
				s, err := p.CreateSchedule(t.Context(), task.NewSchedule{
					Request: task.Request{UserID: "ann", Task: "x", SessionID: "s"}, Cron: c.cron, Zone: c.zone,
				})
				if err != nil {
					t.Fatal(err)
				}
				in := time.UTC
				if c.zone != "" {
					in = zone(t, c.zone)
				}
				// Waiting minute by minute would take long, so the loop goes from one planned time to the next.
				for s.Next != nil && s.Next.Before(c.to) {
					until(*s.Next)
					stop := p.work()
					time.Sleep(time.Second)
					stop()
					if s, err = p.Schedule(t.Context(), s.ID); err != nil {
						t.Fatal(err)
					}
				}
				if got := started(t, p, "ann", layout, in); !slices.Equal(got, c.want) {
					t.Errorf("fired at %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestInvalidSchedules(t *testing.T) {
	t.Parallel()
	p := newPlace(t).open(succeed, nil)
	now := time.Now()
	for cron, want := range map[string]string{
		"":                     "needs cron or runAt",
		"* * * *":              "five fields",
		"* * * * * *":          "five fields",
		"@everysecond":         "five fields",
		"* * * * * 2030":       "five fields",
		"60 * * * *":           "five fields",
		"*,99 * * * *":         "five fields",
		"1,2,3,99 * * * *":     "five fields",
		"a * * * *":            "five fields",
		"*/0 * * * *":          "five fields",
		"0 0 31 2 *":           "never comes",
		"@reboot":              "five fields",
		"0 9 * * 1-5 Berlin":   "five fields",
		"zone:Nowhere/Nowhere": "no time zone",
		"zone:Local":           "no time zone",
		"zone:../../etc/hosts": "no time zone",
	} {
		n := task.NewSchedule{Request: task.Request{UserID: "ann", Task: "x"}, Cron: cron}
		if name, ok := strings.CutPrefix(cron, "zone:"); ok {
			n.Cron, n.Zone = "@daily", name
		}
		if _, err := p.CreateSchedule(t.Context(), n); !errors.Is(err, task.ErrInvalidInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", cron, err, want)
		}
	}
	both := task.NewSchedule{Request: task.Request{UserID: "ann", Task: "x", RunAt: &now}, Cron: "@daily"}
	if _, err := p.CreateSchedule(t.Context(), both); !errors.Is(err, task.ErrInvalidInput) {
		t.Errorf("cron and runAt: %v", err)
	}
	for _, cron := range []string{"*/5 0,12 1-15 JAN-MAR,12 MON", "0 0 L * *", "@hourly", "0 0 * * 7"} {
		if _, err := p.CreateSchedule(t.Context(), task.NewSchedule{Request: task.Request{UserID: "ann", Task: "x"}, Cron: cron}); err != nil {
			t.Errorf("%q: %v", cron, err)
		}
	}
}

// The tasks of a schedule get its settings. If the schedule names no session, each task gets its own.
func TestScheduledTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t).open(succeed, nil)
		p.work()
		then := time.Now().Add(90 * time.Second)
		s, err := p.CreateSchedule(t.Context(), task.NewSchedule{Request: task.Request{
			UserID: "ann", Principal: "key", Task: "x", Context: data(1), Model: "m", RunAt: &then, Callback: "http://localhost/x",
			Budget: task.Budget{Turns: 2, Wall: task.Duration(time.Minute)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(89 * time.Second)
		if all, _, err := p.Tasks(t.Context(), task.Filter{}); err != nil || len(all) != 0 {
			t.Errorf("before its time: %v, %v", all, err)
		}
		time.Sleep(2 * time.Second)
		all, _, err := p.Tasks(t.Context(), task.Filter{})
		if err != nil || len(all) != 1 {
			t.Fatalf("%v, %v", all, err)
		}
		got := p.wait(all[0].ID)
		if got.UserID != "ann" || got.Principal != "key" || string(got.Context) != "1" || got.Model != "m" || got.Schedule != s.ID ||
			got.CallbackURL != "http://localhost/x" || got.Budget != (task.Budget{Turns: 2, Wall: task.Duration(time.Minute)}) ||
			!strings.HasPrefix(got.SessionID, "sess_") || got.Status != task.Succeeded {
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Hour)
		if all, _, err := p.Tasks(t.Context(), task.Filter{}); err != nil || len(all) != 1 {
			t.Errorf("an hour later: %v, %v", all, err)
		}
		if _, err = p.Schedule(t.Context(), s.ID); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("a schedule that has fired for the last time: %v", err)
		}
	})
}

// Planned times that pass while no process works the queue fire once, when the next process begins.
func TestMissedInstants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newPlace(t)
		p := at.open(succeed, nil)
		stop := p.work()
		if _, err := p.CreateSchedule(t.Context(), task.NewSchedule{Request: task.Request{UserID: "ann", Task: "x"}, Cron: "0 * * * *"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Minute) // The schedule fires at 1:00 and 2:00.
		stop()
		p.close()
		time.Sleep(5 * time.Hour) // It is 7:30 afterwards.
		p = at.open(succeed, nil)
		p.work()
		time.Sleep(time.Hour)
		if got, want := started(t, p, "ann", "15:04", time.UTC), []string{"01:00", "02:00", "07:30", "08:00"}; !slices.Equal(got, want) {
			t.Errorf("fired at %q, want %q", got, want)
		}
	})
}

// fires is a store that calls a function before a schedule fires.
type fires struct {
	task.Store
	before func()
}

func (f *fires) Fire(ctx context.Context, id string, planned time.Time, n task.New, next time.Time) (task.Task, bool, error) {
	f.before()
	return f.Store.Fire(ctx, id, planned, n, next)
}

// A planned time that two processes fire creates one task. A schedule that is deleted meanwhile does not fire.
func TestFireAtOnce(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"fired by another", "deleted"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at := newPlace(t)
				hook := &fires{}
				p := at.open(succeed, func(o *task.Options) {
					hook.Store = o.Store
					o.Store = hook
				})
				other := at.open(succeed, nil)
				s, err := p.CreateSchedule(t.Context(), task.NewSchedule{
					Request: task.Request{UserID: "ann", Task: "x", SessionID: "s"}, Cron: "0 * * * *",
				})
				if err != nil {
					t.Fatal(err)
				}
				tries := 0
				hook.before = func() {
					if tries++; tries > 1 {
						return
					}
					switch what {
					case "fired by another":
						next := s.Next.Add(time.Hour)
						_, created, err := other.store.Fire(t.Context(), s.ID, *s.Next, task.New{
							Task:    task.Task{ID: "task_other", UserID: "ann", SessionID: "s", Task: "x"},
							Session: task.Session{ID: "s", UserID: "ann", CreatedAt: time.Now(), UsedAt: time.Now()},
						}, next)
						if err != nil || !created {
							t.Errorf("the other fires: created %t, %v", created, err)
						}
					case "deleted":
						if err := other.DeleteSchedule(t.Context(), s.ID); err != nil {
							t.Error(err)
						}
					}
				}
				stop := p.work()
				time.Sleep(70 * time.Minute)
				all, _, err := p.Tasks(t.Context(), task.Filter{UserID: "ann"})
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]int{"fired by another": 1, "deleted": 0}[what]
				if len(all) != want {
					t.Errorf("%d tasks, want %d", len(all), want)
				}
				if _, err := p.Schedule(t.Context(), s.ID); errors.Is(err, task.ErrNotFound) != (what != "fired by another") {
					t.Errorf("then the schedule is %v", err)
				}
				stop()
			})
		})
	}
}

// A process finds a schedule that another process added within a minute, and does not fire a schedule that another process deleted.
func TestSchedulesOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newPlace(t)
		p, other := at.open(succeed, nil), at.open(succeed, nil)
		p.work()
		time.Sleep(time.Hour + time.Second)
		n := task.NewSchedule{Request: task.Request{UserID: "ann", Task: "x"}, Cron: "* * * * *"}
		s, err := other.CreateSchedule(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		got := started(t, p, "ann", "15:04", time.UTC)
		if len(got) < 2 || len(got) > 3 {
			t.Errorf("fired at %q", got)
		}
		if err := other.DeleteSchedule(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if again := started(t, p, "ann", "15:04", time.UTC); len(again) != len(got) {
			t.Errorf("after it was deleted it fired at %q", again[len(got):])
		}
		if list, err := p.Schedules(t.Context(), "ann"); err != nil || len(list) != 0 {
			t.Errorf("schedules: %v, %v", list, err)
		}
		if err := p.DeleteSchedule(t.Context(), s.ID); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("deleted again: %v", err)
		}
	})
}

// Schedules create no more tasks than the rate limit of requests allows. A schedule that the limit held back fires later.
func TestScheduleRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left atomic.Int64
		left.Store(3)
		p := newPlace(t).open(succeed, func(o *task.Options) {
			o.Allow = func(principal string) (time.Duration, bool) {
				if principal == "key_bob" {
					return 0, true
				}
				return 10 * time.Minute, left.Add(-1) >= 0
			}
		})
		for _, user := range []string{"ann", "ann", "ann", "ann", "ann", "bob"} {
			if _, err := p.CreateSchedule(t.Context(), task.NewSchedule{Request: task.Request{UserID: user, Principal: "key_" + user, Task: "x"}, Cron: "* * * * *"}); err != nil {
				t.Fatal(err)
			}
		}
		p.work()
		time.Sleep(5*time.Minute + time.Second)
		if n := len(started(t, p, "ann", "15:04", time.UTC)); n != 3 {
			t.Errorf("%d tasks, want 3", n)
		}
		if n := len(started(t, p, "bob", "15:04", time.UTC)); n != 5 {
			t.Errorf("%d tasks of another user, want 5", n)
		}
		left.Store(100)
		time.Sleep(11 * time.Minute)
		if n := len(started(t, p, "ann", "15:04", time.UTC)); n < 8 {
			t.Errorf("%d tasks later", n)
		}
	})
}

// broken is a store with schedules of one user that cannot be fired, for a different reason each.
type broken struct {
	task.Store
	mu    sync.Mutex
	fired map[string]int // tries, by schedule; guarded by mu
}

// tries returns a copy of fired.
func (b *broken) tries() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.fired)
}

func (b *broken) DueSchedules(ctx context.Context, now time.Time, limit int) ([]task.Schedule, time.Time, error) {
	due, next, err := b.Store.DueSchedules(ctx, now, limit)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range due {
		if s.UserID != "ann" {
			continue
		}
		b.fired[s.ID]++
		switch len(s.ID) {
		case len("sched_1"):
			due[i] = task.Schedule{ID: s.ID, UserID: s.UserID, Next: s.Next, Damaged: errors.New("damaged")}
		case len("sched_11"):
			due[i].Cron = "not an expression"
		}
	}
	return due, next, err
}

func (b *broken) Fire(ctx context.Context, id string, planned time.Time, n task.New, next time.Time) (task.Task, bool, error) {
	switch {
	case n.Task.UserID != "ann":
		return b.Store.Fire(ctx, id, planned, n, next)
	case strings.HasSuffix(id, "0"):
		panic("a fault")
	}
	return task.Task{}, false, errors.New("the row is inconsistent")
}

// Schedules that can never be fired do not stop the schedules of another user, however many they are. Each of them is tried less and less often.
func TestBrokenSchedules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hook := &broken{fired: map[string]int{}}
		p := newPlace(t).open(succeed, func(o *task.Options) {
			hook.Store = o.Store
			o.Store = hook
		})
		then := time.Now().Add(time.Minute)
		for i := range 250 {
			if err := p.store.CreateSchedule(t.Context(), task.Schedule{ID: fmt.Sprint("sched_", i), UserID: "ann", Task: "x", Cron: "* * * * *", CreatedAt: time.Now(), Next: &then}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.CreateSchedule(t.Context(), task.NewSchedule{Request: task.Request{UserID: "bob", Task: "x"}, Cron: "* * * * *"}); err != nil {
			t.Fatal(err)
		}
		p.work()
		time.Sleep(5*time.Minute + time.Second)
		if n := len(started(t, p, "bob", "15:04", time.UTC)); n != 5 {
			t.Errorf("%d tasks of another user, want 5", n)
		}
		if n := len(hook.tries()); n != 250 {
			t.Errorf("%d schedules were tried, want 250", n)
		}
		time.Sleep(55 * time.Minute)
		for id, n := range hook.tries() {
			if n < 2 || n > 8 {
				t.Errorf("%s was tried %d times in an hour", id, n)
			}
		}
	})
}
