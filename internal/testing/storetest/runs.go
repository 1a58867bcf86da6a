package storetest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

// putRun stores the records of a run, beginning with its start.
func putRun(t *testing.T, s Store, records ...journal.Record) {
	t.Helper()
	w, err := s.Create(t.Context(), records[0].Start.Run)
	must(t, "create run", err)
	for _, r := range records {
		w.Append(r)
	}
	must(t, "store run", w.Close(t.Context()))
}

func wantTexts(t *testing.T, what string, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got error %v, want %q in it", what, err, text)
		}
	}
}

func runSummary(t *testing.T, open Place) {
	s := open(t)
	start := journaltest.Start("run_a")
	w, err := s.Create(t.Context(), "run_a")
	must(t, "create", err)
	w.Append(start)
	must(t, "commit", w.Commit(t.Context()))
	want := journal.RunInfo{
		ID: "run_a", User: "ann", Session: "s1", File: "report.ts", Tier: "wasm", Status: "running",
		Started: time.UnixMicro(start.Start.Time),
	}
	check := func(run string) {
		t.Helper()
		got, err := s.Run(t.Context(), run)
		must(t, "run", err)
		if got.Owner == "" {
			t.Errorf("%s has no owner", run)
		}
		got.Owner = ""
		wantEqual(t, run, want, got)
	}
	check("run_a")
	end := journaltest.End()
	end.End.Status, end.End.Calls, end.End.Error = "failed", 7, json.RawMessage(`{"kind":"timeout","message":"x"}`)
	w.Append(end)
	must(t, "close", w.Close(t.Context()))
	want.Status, want.Calls, want.ErrorKind = "failed", 7, "timeout"
	want.Ended, want.Duration = time.UnixMicro(end.End.Time), 1500*time.Microsecond
	check("run_a")
	putRun(t, s, journaltest.Start("run_b"), end) // start and end in one commit
	want.ID = "run_b"
	check("run_b")
	_, err = s.Run(t.Context(), "run_")
	wantIs(t, "the beginning of an id", err, journal.ErrNotFound)
}

func listRuns(t *testing.T, open Place) {
	s := open(t)
	var newest []string
	for i := range 25 {
		r := journaltest.Start(fmt.Sprintf("run_%02d", i))
		r.Start.Time = int64(1000 + i/3) // three runs share each instant
		r.Start.User, r.Start.Session = "u"+fmt.Sprint(i%2), "s"+fmt.Sprint(i%5)
		records := []journal.Record{r}
		if i%3 == 0 {
			records = append(records, journaltest.End())
		}
		putRun(t, s, records...)
		newest = append(newest, r.Start.Run)
	}
	slices.Reverse(newest)
	for _, c := range []struct {
		name   string
		filter journal.Filter
		fits   func(i int) bool
	}{
		{"all", journal.Filter{}, func(int) bool { return true }},
		{"user", journal.Filter{User: "u1"}, func(i int) bool { return i%2 == 1 }},
		{"session", journal.Filter{Session: "s3"}, func(i int) bool { return i%5 == 3 }},
		{"status", journal.Filter{Status: "succeeded"}, func(i int) bool { return i%3 == 0 }},
		{"running of a user", journal.Filter{User: "u0", Status: "running"}, func(i int) bool { return i%2 == 0 && i%3 != 0 }},
		{"nobody", journal.Filter{User: "u9"}, func(int) bool { return false }},
	} {
		var want []string
		for i, run := range newest {
			if c.fits(len(newest) - 1 - i) {
				want = append(want, run)
			}
		}
		for _, limit := range []int{0, 1, 4, 7, 5000} {
			var got []string
			f := c.filter
			f.Limit = limit
			for pages := 1; ; pages++ {
				runs, next, err := s.Runs(t.Context(), f)
				must(t, "list", err)
				for _, r := range runs {
					got = append(got, r.ID)
				}
				if next == "" {
					break
				}
				if len(runs) != limit || pages > 30 {
					t.Fatalf("%s: page %d has %d runs, want %d", c.name, pages, len(runs), limit)
				}
				f.Cursor = next
			}
			wantEqual(t, fmt.Sprintf("%s, limit %d", c.name, limit), want, got)
		}
	}
	for _, cursor := range []string{"x", "5", "5-", "5-7x", " 5-7"} {
		_, _, err := s.Runs(t.Context(), journal.Filter{Cursor: cursor})
		wantIs(t, "the cursor "+cursor, err, journal.ErrCursor)
	}
}

func matchRun(t *testing.T, open Place) {
	s := open(t)
	for _, run := range []string{
		"run_ab1", "run_ab2", "run_ab", "run_c", "run_é", "run_d1", "run_d2", "run_d3", "run_d4", "run_d5",
	} {
		putRun(t, s, journaltest.Start(run))
	}
	for given, want := range map[string]string{
		"run_ab1": "run_ab1", "run_ab": "run_ab", "run_c": "run_c", "run_é": "run_é", "run_d5": "run_d5", "run_ab2": "run_ab2",
	} {
		if got, err := s.MatchRun(t.Context(), given); err != nil || got.ID != want {
			t.Errorf("MatchRun(%q) = %q, %v, want %q", given, got.ID, err, want)
		}
	}
	_, err := s.MatchRun(t.Context(), "run_a")
	wantTexts(t, "ambiguous", err, `run "run_a"`, "give more of the id: run_ab, run_ab1, run_ab2")
	_, err = s.MatchRun(t.Context(), "run_d")
	wantTexts(t, "very ambiguous", err, "run_d1, run_d2, run_d3, run_d4, ...")
	for _, id := range []string{"", "x", "run_c_", "%", "run_c' OR 1=1"} {
		_, err := s.MatchRun(t.Context(), id)
		wantIs(t, id, err, journal.ErrNotFound)
	}
}

// readPage tests that a page ends at its limit, or after the record that exceeds its size, and that the next page continues there.
func readPage(t *testing.T, open Place) {
	s := open(t)
	large := journaltest.Log(strings.Repeat("x", 10_000))
	putRun(t, s, journaltest.Start("run_a"), journaltest.Log("1"), large, large, journaltest.Log("2"), journaltest.End())
	whole, err := s.Read(t.Context(), "run_a")
	must(t, "read", err)
	for _, c := range []struct {
		after        int64
		limit, bytes int
		from, to     int
	}{
		{0, math.MaxInt, math.MaxInt, 0, 6},
		{0, 2, math.MaxInt, 0, 2},
		{2, 3, math.MaxInt, 2, 5},
		{0, math.MaxInt, 1, 0, 1},
		{2, math.MaxInt, 15_000, 2, 4},
		{6, 10, math.MaxInt, 6, 6},
		{99, 10, math.MaxInt, 6, 6},
	} {
		got, err := s.ReadPage(t.Context(), "run_a", c.after, c.limit, c.bytes)
		must(t, "page", err)
		wantEqual(t, fmt.Sprintf("%+v", c), append([]journal.Record(nil), whole[c.from:c.to]...), got)
	}
	none, err := s.ReadPage(t.Context(), "run_b", 0, 10, math.MaxInt)
	wantNone(t, "page of an unknown run", len(none), err)
}

func wantStrays(t *testing.T, s Store, want string) {
	t.Helper()
	runs, err := s.Strays(t.Context())
	var got []string
	for _, r := range runs {
		got = append(got, r.ID)
	}
	if strings.Join(got, " ") != want || err != nil {
		t.Errorf("strays: %q, %v, want %q", got, err, want)
	}
}

// ownersOfRuns tests that no other process resumes an unfinished run while its process lives.
func ownersOfRuns(t *testing.T, open Place) {
	a, b := open(t), open(t)
	putRun(t, a, journaltest.Start("suspended"))
	putRun(t, a, journaltest.Start("done"), journaltest.End())
	wantStrays(t, a, "")
	wantStrays(t, b, "")
	_, _, err := b.Resume(t.Context(), "suspended")
	wantIs(t, "resume of another's run", err, journal.ErrBusy)
	wantTexts(t, "resume of another's run", err, fmt.Sprintf("process %d", os.Getpid()))
	w, _, err := a.Resume(t.Context(), "suspended")
	must(t, "resume by the owner", err)
	must(t, "close", w.Close(t.Context()))

	before, err := a.Run(t.Context(), "suspended")
	must(t, "run", err)
	must(t, "close", a.Close())
	wantStrays(t, b, "suspended")
	w, records, err := b.Resume(t.Context(), "suspended")
	if err != nil || len(records) != 1 {
		t.Fatalf("resume: %d records, %v", len(records), err)
	}
	defer w.Close(t.Context())
	_, _, err = open(t).Resume(t.Context(), "suspended")
	wantIs(t, "resume of an adopted run", err, journal.ErrBusy)
	if after, err := b.Run(t.Context(), "suspended"); err != nil || after.Owner == before.Owner || after.Owner == "" {
		t.Errorf("owner after resume: %q, %v; before: %q", after.Owner, err, before.Owner)
	}
}

// adoptOnce tests that exactly one of several processes gets the run of a dead process when they resume it concurrently.
func adoptOnce(t *testing.T, open Place) {
	dead := open(t)
	putRun(t, dead, journaltest.Start("run_a"))
	must(t, "close", dead.Close())
	const n = 6
	errs := make(chan error, n)
	for range n {
		s := open(t)
		go func() {
			_, _, err := s.Resume(t.Context(), "run_a")
			errs <- err
		}()
	}
	won := 0
	for range n {
		if err := <-errs; err == nil {
			won++
		} else {
			wantIs(t, "resume", err, journal.ErrBusy)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d resumed the run, want 1", won, n)
	}
}

// strays tests that the runs of a dead process are listed, except for those that an unfinished task refers to.
func strays(t *testing.T, open Place) {
	dead, s := open(t), open(t)
	for _, id := range []string{"unfinished", "ended"} {
		mustCreate(t, dead, New("task_"+id, "ann", id))
		claimed := mustClaim(t, dead, "task_"+id)
		c := task.Change{}
		if id == "ended" {
			c = ended(claimed, task.Succeeded, at(1))
		}
		c.Steps = []task.Step{{Note: &task.Note{Text: "x"}}, {Run: &task.Run{CallID: "c", RunID: "of_" + id}}}
		mustCommit(t, dead, "task_"+id, c)
	}
	for _, run := range []string{"direct", "of_unfinished", "of_ended"} {
		putRun(t, dead, journaltest.Start(run))
	}
	putRun(t, dead, journaltest.Start("done"), journaltest.End())
	putRun(t, s, journaltest.Start("alive"))
	wantStrays(t, s, "")
	must(t, "close", dead.Close())
	wantStrays(t, s, "direct of_ended")
}
