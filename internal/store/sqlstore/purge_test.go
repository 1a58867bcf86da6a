package sqlstore

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

func TestPurge(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	put(t, s, "old", startAt("old", 10), bigAnswer(1, "shared"), bigAnswer(2, "of old"), endAt(100))
	put(t, s, "new", startAt("new", 20), bigAnswer(1, "shared"), bigAnswer(2, "of new"), endAt(2000))
	put(t, s, "unfinished", startAt("unfinished", 1), bigAnswer(1, "shared"))
	n, err := s.Purge(t.Context(), time.UnixMicro(1000))
	if err != nil || n != 1 {
		t.Fatalf("Purge = %d, %v, want 1", n, err)
	}
	_, err = s.Read(t.Context(), "old")
	wantIs(t, "read of the purged run", err, journal.ErrNotFound)
	for run, want := range map[string]int{"new": 4, "unfinished": 2} {
		if records, err := s.Read(t.Context(), run); err != nil || len(records) != want {
			t.Errorf("run %s: %d records, %v, want %d", run, len(records), err, want)
		}
	}
	if n := count(t, s, "SELECT count(*) FROM blobs"); n != 2 {
		t.Errorf("%d blobs are left, want the shared one and that of the new run", n)
	}
	checkIntegrity(t, s)
	if n, err := s.Purge(t.Context(), time.UnixMicro(1000)); err != nil || n != 0 {
		t.Errorf("second Purge = %d, %v", n, err)
	}
	// The id is free again.
	put(t, s, "old", startAt("old", 10), endAt(5000))
	if records, err := s.Read(t.Context(), "old"); err != nil || len(records) != 2 {
		t.Errorf("a new run of the old id: %d records, %v", len(records), err)
	}
}

// Purge deletes the doubts of a run with the run.
func TestPurgeDoubts(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	put(t, s, "old", startAt("old", 10), journaltest.Call(1), journaltest.Intent(1), endAt(100))
	put(t, s, "new", startAt("new", 20), journaltest.Call(1), journaltest.Intent(1), endAt(2000))
	if n, err := s.Purge(t.Context(), time.UnixMicro(1000)); err != nil || n != 1 {
		t.Fatalf("Purge = %d, %v, want 1", n, err)
	}
	doubts, _, err := s.Doubts(t.Context(), journal.DoubtFilter{})
	if err != nil || len(doubts) != 1 || doubts[0].Run != "new" {
		t.Errorf("in doubt: %+v, %v", doubts, err)
	}
	if n := count(t, s, "SELECT count(*) FROM doubts"); n != 1 {
		t.Errorf("%d rows are left", n)
	}
}

// Purge deletes runs with more records and bytes than one step deletes, and more runs than one step marks.
func TestPurgeInSteps(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	long := []journal.Record{startAt("long", 10)}
	for i := range 3*purgeRecords + 7 {
		long = append(long, journaltest.Log(fmt.Sprint(i)))
	}
	put(t, s, "long", append(long, endAt(100))...)
	heavy := []journal.Record{startAt("heavy", 10)}
	for i := range 5 {
		a := bigAnswer(i+1, fmt.Sprint(i))
		a.Answer.Value = append(append([]byte{'"'}, make([]byte, purgeBytes/2)...), byte('0'+i))
		heavy = append(heavy, a)
	}
	put(t, s, "heavy", append(heavy, endAt(100))...)
	for i := range purgeRuns + 5 {
		run := fmt.Sprintf("run_%03d", i)
		put(t, s, run, startAt(run, 10), endAt(100))
	}
	before := s.writer.transactions.Load()
	n, err := s.Purge(t.Context(), time.UnixMicro(1000))
	if err != nil || n != purgeRuns+7 {
		t.Errorf("Purge = %d, %v, want %d", n, err, purgeRuns+7)
	}
	if steps := s.writer.transactions.Load() - before; steps < 6 {
		t.Errorf("%d transactions, want a long purge cut up", steps)
	}
	for _, table := range []string{"runs", "journal", "blobs", "blob_refs"} {
		if n := count(t, s, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	checkIntegrity(t, s)
}

// The next purge completes an interrupted purge. Until then, readers do not see the runs that are marked.
func TestPurgeCutOff(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	put(t, s, "old", startAt("old", 10), bigAnswer(1, "x"), endAt(100))
	if n, err := s.purgeStep(t.Context(), markRuns, time.UnixMicro(1000), purgeRuns, 0, int64(math.MaxInt64)); err != nil || n != 1 {
		t.Fatalf("purgeStep = %d, %v", n, err)
	}
	_, err := s.Read(t.Context(), "old")
	wantIs(t, "read", err, journal.ErrNotFound)
	_, err = s.Run(t.Context(), "old")
	wantIs(t, "run", err, journal.ErrNotFound)
	if runs, _, err := s.Runs(t.Context(), journal.Filter{}); err != nil || len(runs) != 0 {
		t.Errorf("listed: %v, %v", runs, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Purge(ctx, time.UnixMicro(1000))
	wantIs(t, "cancelled purge", err, context.Canceled)
	if _, err := s.Purge(t.Context(), time.UnixMicro(0)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, "SELECT count(*) FROM runs"); n != 0 {
		t.Errorf("%d runs are left", n)
	}
	checkIntegrity(t, s)
}

// Purges of two processes run while runs begin, write values that purged runs share with them, and end.
func TestPurgeWhileRunsGoOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	stores := []*Store{reopenAt(t, path, Options{}), reopenAt(t, path, Options{})}
	ended := make(chan struct{}, 100) // receives a value after each run, so that a process purges
	var purges, writers sync.WaitGroup
	for _, s := range stores {
		purges.Go(func() {
			for range ended {
				if _, err := s.Purge(context.Background(), time.UnixMicro(1000)); err != nil {
					t.Errorf("purge: %v", err)
					return
				}
			}
		})
	}
	const each = 15
	for i := range 6 {
		writers.Go(func() {
			s := stores[i%2]
			for j := range each {
				run := fmt.Sprintf("run_%d_%d", i, j)
				end := int64(100) // to be purged as soon as it has ended
				if j%3 == 0 {
					end = 2000
				}
				w, err := s.Create(context.Background(), run)
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				w.Append(startAt(run, 10))
				for n := 1; n <= 4; n++ {
					w.Append(bigAnswer(n, fmt.Sprint("shared", n)))
					if err := w.Commit(context.Background()); err != nil {
						t.Errorf("commit: %v", err)
					}
					if got, err := s.Read(context.Background(), run); err != nil || len(got) != n+1 {
						t.Errorf("read %s: %d records, %v, want %d", run, len(got), err, n+1)
					}
				}
				w.Append(endAt(end))
				if err := w.Close(context.Background()); err != nil {
					t.Errorf("close: %v", err)
				}
				ended <- struct{}{}
			}
		})
	}
	writers.Wait()
	close(ended)
	purges.Wait()
	s := stores[0]
	if _, err := s.Purge(t.Context(), time.UnixMicro(1000)); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		for j := range each {
			got, err := s.Read(t.Context(), fmt.Sprintf("run_%d_%d", i, j))
			if j%3 != 0 {
				wantIs(t, "read of a purged run", err, journal.ErrNotFound)
				continue
			}
			if err != nil || len(got) != 6 {
				t.Errorf("kept run: %d records, %v, want 6", len(got), err)
				continue
			}
			for n := 1; n <= 4; n++ {
				if string(got[n].Answer.Value) != string(bigAnswer(n, fmt.Sprint("shared", n)).Answer.Value) {
					t.Errorf("run_%d_%d: the value of answer %d is damaged", i, j, n)
				}
			}
		}
	}
	checkIntegrity(t, s)
}

// The store purges by itself, when it is opened and every hour, and stops when it is closed.
func TestRetention(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	synctest.Test(t, func(t *testing.T) {
		now := time.Now() // time of the bubble
		s, err := Open(context.Background(), path, Options{Retention: 90 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		micros := func(d time.Duration) int64 { return now.Add(d).UnixMicro() }
		synctest.Wait()
		put(t, s, "old", startAt("old", micros(-3*time.Hour)), endAt(micros(-2*time.Hour)))
		put(t, s, "recent", startAt("recent", micros(-3*time.Hour)), endAt(micros(-time.Minute)))
		put(t, s, "unfinished", startAt("unfinished", micros(-3*time.Hour)))
		left := func(want ...string) {
			t.Helper()
			runs, _, err := s.Runs(t.Context(), journal.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range runs {
				got = append(got, r.ID)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v after the opening: %v are left, want %v", time.Since(now), got, want)
			}
		}
		left("unfinished", "recent", "old")
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		left("unfinished", "recent")
		time.Sleep(time.Hour)
		synctest.Wait()
		left("unfinished")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
