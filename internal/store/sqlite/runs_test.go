package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

func TestRunSummary(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	start := journaltest.Start("run_a")
	w, err := s.Create(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	w.Append(start)
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(start.Start.Source))
	want := journal.RunInfo{
		ID: "run_a", User: "ann", Session: "s1", File: "report.ts", Tier: "wasm", Status: "running",
		SourceHash: hex.EncodeToString(hash[:]), Started: time.UnixMicro(start.Start.Time), Owner: s.lease.ID(),
	}
	check := func() {
		t.Helper()
		got, err := s.Run(t.Context(), "run_a")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("run (-want +got):\n%s", d)
		}
	}
	check()
	end := journaltest.End()
	end.End.Status, end.End.Calls, end.End.Error = "failed", 7, json.RawMessage(`{"kind":"timeout","message":"x"}`)
	w.Append(end)
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want.Status, want.Calls, want.ErrorKind = "failed", 7, "timeout"
	want.Ended, want.Duration = time.UnixMicro(end.End.Time), 1500*time.Microsecond
	check()

	put(t, s, "run_b", startAt("run_b", 5), end) // start and end in one commit
	want.ID, want.Started = "run_b", time.UnixMicro(5)
	got, err := s.Run(t.Context(), "run_b")
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("run in one commit: %v (-want +got):\n%s", err, d)
	}
}

func TestRunsFilterAndPages(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	var newest []string
	for i := range 25 {
		r := startAt(fmt.Sprintf("run_%02d", i), int64(1000+i/3)) // three share each instant
		r.Start.User, r.Start.Session = "u"+fmt.Sprint(i%2), "s"+fmt.Sprint(i%5)
		records := []journal.Record{r}
		if i%3 == 0 {
			records = append(records, endAt(2000))
		}
		put(t, s, r.Start.Run, records...)
		newest = append(newest, r.Start.Run)
	}
	slices.Reverse(newest)
	for _, c := range []struct {
		name   string
		filter journal.Filter
		keep   func(i int) bool
	}{
		{"all", journal.Filter{}, func(int) bool { return true }},
		{"user", journal.Filter{User: "u1"}, func(i int) bool { return i%2 == 1 }},
		{"session", journal.Filter{Session: "s3"}, func(i int) bool { return i%5 == 3 }},
		{"status", journal.Filter{Status: "succeeded"}, func(i int) bool { return i%3 == 0 }},
		{"running of a user", journal.Filter{User: "u0", Status: "running"}, func(i int) bool { return i%2 == 0 && i%3 != 0 }},
		{"nobody", journal.Filter{User: "u9"}, func(int) bool { return false }},
	} {
		var want []string
		for i := 24; i >= 0; i-- {
			if c.keep(i) {
				want = append(want, fmt.Sprintf("run_%02d", i))
			}
		}
		for _, limit := range []int{0, 1, 4, 7, 5000} {
			var got []string
			f := c.filter
			f.Limit = limit
			for pages := 1; ; pages++ {
				runs, next, err := s.Runs(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
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
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, limit %d (-want +got):\n%s", c.name, limit, d)
			}
		}
	}
	_, _, err := s.Runs(t.Context(), journal.Filter{Cursor: "x"})
	wantIs(t, "bad cursor", err, journal.ErrCursor)
}

func TestRunByPrefix(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	for _, run := range []string{
		"run_ab1", "run_ab2", "run_ab", "run_c", "run_é", "run_d1", "run_d2", "run_d3", "run_d4", "run_d5",
	} {
		put(t, s, run, journaltest.Start(run))
	}
	for given, want := range map[string]string{
		"run_ab1": "run_ab1", "run_ab": "run_ab", "run_c": "run_c", "run_é": "run_é", "run_d5": "run_d5", "run_ab2": "run_ab2",
	} {
		if got, err := s.MatchRun(t.Context(), given); err != nil || got.ID != want {
			t.Errorf("Run(%q) = %q, %v, want %q", given, got.ID, err, want)
		}
	}
	_, err := s.MatchRun(t.Context(), "run_a")
	wantText(t, "ambiguous", err, `run "run_a"`, "give more of the id: run_ab, run_ab1, run_ab2")
	_, err = s.MatchRun(t.Context(), "run_d")
	wantText(t, "very ambiguous", err, "run_d1, run_d2, run_d3, run_d4, ...")
	for _, id := range []string{"", "x", "run_c_", "%", "run_c' OR 1=1"} {
		_, err := s.MatchRun(t.Context(), id)
		wantIs(t, id, err, journal.ErrNotFound)
	}
}

// An owner is alive as long as it holds its lock; its unfinished runs are then nobody else's.
func TestOwners(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "[h].db") // the name is no pattern
	a := reopenAt(t, path, Options{})
	b := reopenAt(t, path, Options{})
	put(t, a, "parked", journaltest.Start("parked"))
	put(t, a, "done", journaltest.Start("done"), journaltest.End())

	for name, s := range map[string]*Store{"its own": a, "another": b} {
		if orphans, err := s.Orphans(t.Context()); err != nil || len(orphans) != 0 {
			t.Errorf("orphans seen by %s store while the owner lives: %v, %v", name, orphans, err)
		}
	}
	_, _, err := b.Resume(t.Context(), "parked")
	wantIs(t, "resume of another's run", err, journal.ErrBusy)
	wantText(t, "resume of another's run", err, fmt.Sprintf("process %d", os.Getpid()))
	w, _, err := a.Resume(t.Context(), "parked")
	if err != nil {
		t.Fatalf("resume by the owner: %v", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	orphans, err := b.Orphans(t.Context())
	if err != nil || len(orphans) != 1 || orphans[0].ID != "parked" {
		t.Fatalf("orphans: %v, %v, want the parked run", orphans, err)
	}
	w, records, err := b.Resume(t.Context(), "parked")
	if err != nil || len(records) != 1 {
		t.Fatalf("resume: %d records, %v", len(records), err)
	}
	defer w.Close(t.Context())
	c := reopenAt(t, path, Options{})
	_, _, err = c.Resume(t.Context(), "parked")
	wantIs(t, "resume of an adopted run", err, journal.ErrBusy)
	if info, err := b.Run(t.Context(), "parked"); err != nil || info.Owner != b.lease.ID() {
		t.Errorf("owner after resume: %q, %v", info.Owner, err)
	}
}

// Two processes that want the same orphan: one gets it.
func TestAdoptOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	dead := reopenAt(t, path, Options{})
	put(t, dead, "run_a", journaltest.Start("run_a"))
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	const n = 6
	errs := make(chan error, n)
	for range n {
		s := reopenAt(t, path, Options{})
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

// A process that only reads leaves no trace of itself.
func TestReadersAreNoOwners(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	if _, _, err := s.Runs(t.Context(), journal.Filter{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Orphans(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(s.path + ".owner-*")
	if err != nil || len(names) != 0 {
		t.Errorf("owner files: %v, %v", names, err)
	}
	stale := s.path + ".owner-dead"
	if err := os.WriteFile(stale, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, s, "run_a", journaltest.Start("run_a"))
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the file of a dead owner is still there: %v", err)
	}
	if !strings.HasPrefix(s.lease.(*fileLease).file.Name(), s.path+".owner-") {
		t.Errorf("owner file %s", s.lease.(*fileLease).file.Name())
	}
}
