package sqlstore

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/generated"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// volume is a store with the given number of tasks. Ten tasks share a session, and each session has a run of a hundred records.
// Half of the tasks have ended. The others wait, most of them for a later time. Each user has ten sessions and a schedule.
type volume struct {
	*Store
	path  string
	tasks int
}

var volumeBegin = time.Date(2031, 3, 1, 0, 0, 0, 0, time.UTC) // after the tasks were created

func fillVolume(t *testing.T, tasks int) volume {
	t.Helper()
	v := volume{path: filepath.Join(t.TempDir(), "harness.db"), tasks: tasks}
	v.Store = reopenAt(t, v.path, Options{Quotas: Quotas{Bytes: math.MaxInt32, Tasks: 1e6, Sessions: 1e6, Schedules: 1e6}})
	const fillers = 64
	var all sync.WaitGroup
	for f := range fillers {
		all.Go(func() {
			for i := f; i < tasks; i += fillers {
				if err := v.fill(t, i); err != nil {
					t.Errorf("fill: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	return v
}

func (v volume) fill(t *testing.T, i int) error {
	session, user := fmt.Sprint("s", i/10), fmt.Sprint("u", i/100)
	n := storetest.New(fmt.Sprint("task_", i), user, session)
	n.Session.ExpiresAt = time.Time{}
	if i%2 == 0 {
		end := volumeBegin.Add(time.Duration(i) * time.Second)
		n.Task.Status, n.Task.EndedAt = task.Succeeded, &end
	} else if i%20 != 1 {
		later := volumeBegin.Add(24 * time.Hour)
		n.Task.RunAt = &later
	}
	if _, _, err := v.CreateTask(t.Context(), n); err != nil || i%10 != 0 {
		return err
	}
	if i%100 == 0 {
		next := volumeBegin.Add(time.Hour)
		if err := v.CreateSchedule(t.Context(), task.Schedule{ID: "sched_" + user, UserID: user, Task: "x", Next: &next}); err != nil {
			return err
		}
		if err := v.CreateKey(t.Context(), auth.Key{ID: "key_" + user, Hash: []byte(user)}); err != nil {
			return err
		}
	}
	run := fmt.Sprint("run_", i)
	w, err := v.Create(t.Context(), run)
	if err != nil {
		return err
	}
	start := startOf(run, user, session)
	start.Start.Time = volumeBegin.UnixMicro() + int64(i)
	w.Append(start)
	for range 98 {
		w.Append(journaltest.Log("a line of a log"))
	}
	end := journaltest.End()
	end.End.Time = volumeBegin.UnixMicro() + int64(i) + 1
	if i%1000 == 0 {
		end.End.Status = "failed"
	}
	w.Append(end)
	return w.Close(t.Context())
}

// cost is the time and the number of allocated bytes of an operation, each the minimum of several executions.
type cost struct {
	time  time.Duration
	bytes uint64
}

func measure(t *testing.T, operation func() error) cost {
	t.Helper()
	least := cost{time: math.MaxInt64, bytes: math.MaxUint64}
	for range 21 { // the first execution also prepares statements
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := time.Now()
		if err := operation(); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		runtime.ReadMemStats(&after)
		least.time, least.bytes = min(least.time, took), min(least.bytes, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// The cost of a request or a claim does not grow with the store. The test compares two stores, the second twenty times as large as the
// first: no operation takes much more time or memory in the second. In a long test the second store has 100,000 tasks, 10,000 sessions
// and 1,000,000 records of journals. A short test has 3 % of them and does not compare times, which say little about small stores on
// busy machines. The plans of all statements are checked in any case.
func TestVolume(t *testing.T) { // not in parallel: it compares times
	tasks, long := generated.Count(3_000, 100_000), generated.Long()
	small, large := fillVolume(t, tasks/20), fillVolume(t, tasks)
	now := volumeBegin
	taskCount, runCount := 0, 0
	for name, operation := range map[string]func(s volume) error{
		"open": func(v volume) error {
			s, err := Open(t.Context(), v.path, Options{})
			if err != nil {
				return err
			}
			return s.Close()
		},
		"list tasks":              func(v volume) error { return errOf(v.Tasks(t.Context(), task.Filter{})) },
		"list tasks of a user":    func(v volume) error { return errOf(v.Tasks(t.Context(), task.Filter{UserID: "u1"})) },
		"list tasks of a session": func(v volume) error { return errOf(v.Tasks(t.Context(), task.Filter{UserID: "u1", SessionID: "s11"})) },
		"list waiting tasks":      func(v volume) error { return errOf(v.Tasks(t.Context(), task.Filter{Status: task.Queued})) },
		"list sessions":           func(v volume) error { return errOf(v.Sessions(t.Context(), task.SessionFilter{Now: now})) },
		"list sessions of a user": func(v volume) error {
			return errOf(v.Sessions(t.Context(), task.SessionFilter{Now: now, UserID: "u1"}))
		},
		"list runs":              func(v volume) error { return errOf(v.Runs(t.Context(), journal.Filter{})) },
		"list runs of a user":    func(v volume) error { return errOf(v.Runs(t.Context(), journal.Filter{User: "u1"})) },
		"list runs of a session": func(v volume) error { return errOf(v.Runs(t.Context(), journal.Filter{User: "u1", Session: "s11"})) },
		"list cancelled runs":    func(v volume) error { return errOf(v.Runs(t.Context(), journal.Filter{Status: "cancelled"})) },
		"read a journal":         func(v volume) error { _, err := v.Read(t.Context(), "run_100"); return err },
		"match a run":            func(v volume) error { _, err := v.MatchRun(t.Context(), "run_110"); return err },
		"count waiting tasks":    func(v volume) error { _, err := v.Queued(t.Context()); return err },
		"count what waits":       func(v volume) error { _, err := v.Load(t.Context(), now); return err },
		"find a key":             func(v volume) error { return errOf(v.KeyByHash(t.Context(), []byte("u1"))) },
		"strays":                 func(v volume) error { _, err := v.Strays(t.Context()); return err },
		"recover":                func(v volume) error { return v.Recover(t.Context()) },
		"expired sessions":       func(v volume) error { _, err := v.ExpiredSessions(t.Context(), now, nil, 100); return err },
		"due schedules":          func(v volume) error { return errOf(v.DueSchedules(t.Context(), now, 100)) },
		"take webhooks": func(v volume) error {
			return errOf(v.TakeWebhooks(t.Context(), task.WebhookQuery{Now: now, Limit: 10, Each: 4}))
		},
		"purge nothing": func(v volume) error { _, err := v.Purge(t.Context(), now.Add(-time.Hour)); return err },
		"create a task": func(v volume) error {
			taskCount++
			return errOf(v.CreateTask(t.Context(), storetest.New(fmt.Sprint("new_", taskCount), "u1", fmt.Sprint("new_", taskCount))))
		},
		"claim and release": func(v volume) error {
			claimed, _, err := v.ClaimNext(t.Context(), "", nil, now)
			if err == nil && claimed.ID == "" {
				err = fmt.Errorf("no task is due")
			}
			if err != nil {
				return err
			}
			return v.Release(t.Context(), claimed.ID, claimed.Fence, now)
		},
		"write a run": func(v volume) error {
			runCount++
			w, err := v.Create(t.Context(), fmt.Sprint("new_", runCount))
			if err != nil {
				return err
			}
			w.Append(startOf(fmt.Sprint("new_", runCount), "u1", ""))
			w.Append(bigAnswer(1, fmt.Sprint(runCount)))
			if err := w.Commit(t.Context()); err != nil {
				return err
			}
			w.Append(journaltest.End())
			return w.Close(t.Context())
		},
	} {
		a := measure(t, func() error { return operation(small) })
		b := measure(t, func() error { return operation(large) })
		t.Logf("%-24s %10v %10v   %8d %8d bytes", name, a.time, b.time, a.bytes, b.bytes)
		if long && b.time > 4*a.time+500*time.Microsecond {
			t.Errorf("%s takes %v in a store of %d tasks, %v in one of %d", name, a.time, small.tasks, b.time, large.tasks)
		}
		if b.bytes > 2*a.bytes+64<<10 {
			t.Errorf("%s allocates %d bytes in a store of %d tasks, %d in one of %d", name, a.bytes, small.tasks, b.bytes, large.tasks)
		}
	}
	a, b := purgeVolume(t, small), purgeVolume(t, large)
	t.Logf("%-24s %10v %10v a task with its part of a run", "purge", a.time, b.time)
	if long && b.time > 4*a.time {
		t.Errorf("to purge a task takes %v in a store of %d tasks, %v in one of %d", a.time, small.tasks, b.time, large.tasks)
	}
	if b.bytes > 16<<20 {
		t.Errorf("a purge allocates %d bytes at once", b.bytes)
	}
}

// purgeVolume purges all that has ended, in many transactions. It returns the time for each task, and the growth of the heap.
func purgeVolume(t *testing.T, v volume) cost {
	t.Helper()
	before := v.writer.transactions.Load()
	var memory, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	begin := time.Now()
	if _, err := v.Purge(t.Context(), volumeBegin.Add(1e6*time.Second)); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	if n := int(v.writer.transactions.Load() - before); n*purgeRecords < v.tasks*10 {
		t.Errorf("%d tasks with %d records were purged in %d transactions", v.tasks/2, v.tasks*10, n)
	}
	if n := count(t, v.Store, "SELECT (SELECT count(*) FROM journal) + (SELECT count(*) FROM tasks WHERE ended IS NOT NULL)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	return cost{took / time.Duration(v.tasks), after.HeapAlloc - min(after.HeapAlloc, memory.HeapAlloc)}
}

func errOf[A, B any](_ A, _ B, err error) error { return err }
