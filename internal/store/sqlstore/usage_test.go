package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/storetest"
	"mcp-code-exec-harness/internal/usage"
)

var usageNow = time.Date(2031, 3, 4, 12, 34, 0, 0, time.UTC)

// used stores a run of a user, which begins at the given time, with calls that take 30 ms each.
func used(t *testing.T, s *Store, id, user string, at time.Time, failed bool, tools ...string) {
	t.Helper()
	w, err := s.Create(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	now := at.UnixMicro()
	w.Append(journal.Record{Start: &journal.Start{Run: id, User: user, Time: now}})
	for i, tool := range tools {
		w.Append(journal.Record{Call: &journal.Call{N: i + 1, Kind: string(frame.Tool), Name: tool, Args: json.RawMessage(`{"input":{"server":"x"},"server":"crm"}`)}})
		now += 30_000
		answer := &journal.Answer{N: i + 1, Delivery: i + 1, Now: now}
		if failed {
			answer.Error = json.RawMessage(`{"message":"no"}`)
		}
		w.Append(journal.Record{Answer: answer})
	}
	status := "succeeded"
	if failed {
		status = "failed"
	}
	w.Append(journal.Record{End: &journal.End{Status: status, Calls: len(tools), DurationUS: 300_000, Time: now}})
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// told stores the figures that a store has in memory.
func told(t *testing.T, s *Store) {
	t.Helper()
	if err := s.tellUsage(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func usageOf(t *testing.T, s *Store, q usage.Query) *usage.Report {
	t.Helper()
	r, err := s.Usage(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func namesOf(r *usage.Report) (names []string) {
	for _, l := range r.Rows {
		names = append(names, l.Name)
	}
	return names
}

// Runs, calls and tasks of two processes on one store are added up by user, tool, server and model. The report of a user contains only the user's own figures.
func TestUsage(t *testing.T) {
	t.Parallel()
	now := usageNow
	s := setup(t, Options{Now: func() time.Time { return now }})
	other := reopenAt(t, s.path, Options{Now: func() time.Time { return now }})
	used(t, s, "run_a", "ann", now.Add(-5*time.Minute), false, "search", "search", "fetch")
	used(t, other, "run_b", "bob", now.Add(-5*time.Hour), true, "search")
	used(t, other, "run_c", "ann", now.Add(-5*24*time.Hour), false, "fetch")
	told(t, other)
	n := storetest.New("task_a", "ann", "s")
	if _, _, err := s.CreateTask(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(t.Context(), "task_a", now)
	if err != nil {
		t.Fatal(err)
	}
	cost, began := 0.25, now.Add(-3*time.Second)
	claimed.Status, claimed.StartedAt, claimed.EndedAt = task.Succeeded, &began, &now
	claimed.Usage.Model, claimed.Usage.CostUSD, claimed.Usage.Direct = "big", &cost, &task.Direct{Input: 900, Output: 100}
	claimed.Usage.Tokens.Input, claimed.Usage.Tokens.Output = 200, 50
	if _, err := s.Commit(t.Context(), "task_a", claimed.Fence, task.Change{Task: &claimed}); err != nil {
		t.Fatal(err)
	}

	day := usageOf(t, s, usage.Query{})
	got := day.Total
	if got.Runs != 2 || got.RunsFailed != 1 || got.Calls != 4 || got.CallsFailed != 1 || got.Tasks != 1 || got.Input != 200 || got.Output != 50 || got.Saved != 750 || got.CostUSD != 0.25 || got.Unpriced != 0 {
		t.Errorf("the last day: %+v", got)
	}
	if p := got.CallTimes.P50; p < 20 || p > 50 {
		t.Errorf("a call of 30 ms: %g", p)
	}
	if p := got.RunTimes.P99; p < 200 || p > 500 {
		t.Errorf("a run of 300 ms: %g", p)
	}
	if !slices.Equal(namesOf(day), []string{"crm__search", "crm__fetch"}) || day.Rows[0].Calls != 3 || day.Rows[0].CallsFailed != 1 {
		t.Errorf("by tool: %+v", day.Rows)
	}
	if len(day.Steps) != 25 || day.Steps[24].Runs != 1 || day.Steps[19].Runs != 1 || day.Steps[19].RunsFailed != 1 {
		t.Errorf("by hours: %+v", day.Steps)
	}
	if hour := usageOf(t, s, usage.Query{Since: now.Add(-time.Hour), By: usage.ByServer}); hour.Total.Runs != 1 || !slices.Equal(namesOf(hour), []string{"crm"}) || hour.Rows[0].Calls != 3 {
		t.Errorf("the last hour by server: %+v", hour)
	}
	week := usageOf(t, s, usage.Query{Since: now.Add(-7 * 24 * time.Hour), By: usage.ByUser})
	if week.Total.Runs != 3 || week.Total.Calls != 5 || !slices.Equal(namesOf(week), []string{"ann", "bob"}) || week.Rows[0].Runs != 2 || week.Rows[0].Calls != 4 || week.Rows[0].CostUSD != 0.25 || week.Rows[1].RunsFailed != 1 {
		t.Errorf("the week by user: %+v", week)
	}
	if len(week.Steps) != 8 || week.Steps[2].Runs != 1 || week.Steps[7].Runs != 2 {
		t.Errorf("by days: %+v", week.Steps)
	}
	if model := usageOf(t, s, usage.Query{By: usage.ByModel}); !slices.Equal(namesOf(model), []string{"big"}) || model.Rows[0].Saved != 750 {
		t.Errorf("by model: %+v", model.Rows)
	}
	for _, by := range []usage.By{usage.ByUser, usage.ByTool} {
		if bob := usageOf(t, s, usage.Query{User: "bob", Since: now.Add(-30 * 24 * time.Hour), By: by}); bob.Total.Runs != 1 || bob.Total.Calls != 1 || bob.Total.Tasks != 0 || len(bob.Rows) != 1 {
			t.Errorf("bob's by %s: %+v", by, bob)
		}
	}
}

// The calls of a resumed run are counted once, with the calls before the resumption. A run that is not stored is not counted.
func TestUsageOfResumedRun(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{Now: func() time.Time { return usageNow }})
	w, err := s.Create(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	now := usageNow.UnixMicro()
	call := func(n int) {
		w.Append(journal.Record{Call: &journal.Call{N: n, Kind: string(frame.Tool), Name: "crm__search"}})
		w.Append(journal.Record{Answer: &journal.Answer{N: n, Delivery: n, Now: now}})
	}
	w.Append(journal.Record{Start: &journal.Start{Run: "run_a", User: "ann", Time: now}})
	call(1)
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := usageOf(t, s, usage.Query{}).Total; got.Calls != 0 || got.Runs != 0 {
		t.Errorf("before the end: %+v", got)
	}
	if w, _, err = s.Resume(t.Context(), "run_a"); err != nil {
		t.Fatal(err)
	}
	call(2)
	w.Append(journal.Record{End: &journal.End{Status: "succeeded", Calls: 2, Time: now}})
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := usageOf(t, s, usage.Query{}); got.Total.Runs != 1 || len(got.Rows) != 1 || got.Rows[0].Name != "crm__search" || got.Rows[0].Calls != 2 {
		t.Errorf("after the end: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.CreateTask(ctx, storetest.New("task_a", "ann", "s")); err == nil {
		t.Error("a cancelled task was created")
	}
	if again, err := s.Create(t.Context(), "run_a"); err == nil {
		again.Append(journal.Record{Start: &journal.Start{Run: "run_a", User: "ann", Time: now}})
		again.Append(journal.Record{End: &journal.End{Status: "succeeded", Time: now}})
		wantIs(t, "the same run", again.Close(t.Context()), journal.ErrExists)
	}
	if got := usageOf(t, s, usage.Query{}).Total.Runs; got != 1 {
		t.Errorf("%d runs are counted", got)
	}
}

// Names that a user invents take a bounded number of rows, and do not hide existing tools.
func TestUsageOfInventedNames(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{Now: func() time.Time { return usageNow }})
	for i := range 20 {
		var tools []string
		for j := range 90 {
			tools = append(tools, fmt.Sprintf("invented-%d-%d", i, j))
		}
		used(t, s, fmt.Sprint("run_", i), "eve", usageNow, true, tools...)
	}
	used(t, s, "run_real", "ann", usageNow, false, "search")
	told(t, s)
	for owner, most := range map[string]int{"eve": maxFailing, "": maxFailing + 1} {
		if n := count(t, s, "SELECT count(*) FROM usage WHERE kind = 'call' AND span = 600 AND owner = '"+owner+"'"); n > most+1 {
			t.Errorf("%q has %d rows", owner, n)
		}
	}
	all := usageOf(t, s, usage.Query{})
	if all.Total.Calls != 20*90+1 || !slices.Contains(namesOf(all), "crm__search") || !slices.Contains(namesOf(all), usage.Others) {
		t.Errorf("%d calls of %q", all.Total.Calls, namesOf(all))
	}
	for i := range 2 * usage.MaxNames {
		used(t, s, fmt.Sprint("run_more_", i), "eve", usageNow, false, fmt.Sprint("tool-", i))
	}
	told(t, s)
	if n := count(t, s, "SELECT count(*) FROM usage WHERE kind = 'call' AND span = 86400"); n > 2*(usage.MaxNames+1)+1 {
		t.Errorf("%d rows of a day", n)
	}
}

// Slots that no report shows are deleted, and so are days that are older than the retention.
func TestUsageIsPurged(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{Now: func() time.Time { return usageNow }})
	for i, days := range []int{0, 1, 3, 20, 80, 200} {
		used(t, s, fmt.Sprint("run_", i), "ann", usageNow.Add(-time.Duration(days)*24*time.Hour), false, "search")
	}
	told(t, s)
	slots := func() [2]int {
		return [2]int{count(t, s, "SELECT count(DISTINCT slot) FROM usage WHERE span = 600"), count(t, s, "SELECT count(DISTINCT slot) FROM usage WHERE span = 86400")}
	}
	for _, c := range []struct {
		retention time.Duration
		want      [2]int
	}{{0, [2]int{2, 5}}, {30 * 24 * time.Hour, [2]int{2, 4}}, {time.Hour, [2]int{1, 1}}} {
		if err := s.purgeUsage(t.Context(), c.retention); err != nil {
			t.Fatal(err)
		}
		if got := slots(); got != c.want {
			t.Errorf("with a retention of %s there are %v slots, want %v", c.retention, got, c.want)
		}
	}
}

// The figures of a run are stored soon after its end, or when the store is closed, so that other processes see them. Figures that could not be stored
// are stored with later ones.
func TestUsageIsTold(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{Now: func() time.Time { return usageNow }})
	other := reopenAt(t, s.path, Options{Now: func() time.Time { return usageNow }})
	runs := func() int64 { return usageOf(t, other, usage.Query{}).Total.Runs }
	used(t, s, "run_1", "ann", usageNow, false, "search")
	for begin := time.Now(); runs() != 1; time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("a run is not counted")
		}
	}
	used(t, s, "run_2", "ann", usageNow, false, "search")
	failed := errors.New("no")
	wantIs(t, "figures that cannot be stored", s.writer.conn.tally.send(func(map[usageKey]*usage.Sum) error { return failed }), failed)
	used(t, s, "run_3", "ann", usageNow, false, "search")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := runs(); got != 3 {
		t.Errorf("%d runs are counted after the close", got)
	}
}
