package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

// intent returns the intent of call n, sent n seconds after begin.
func intent(n int) journal.Record {
	r := journaltest.Intent(n)
	r.Intent.Time = at(n).UnixMicro()
	return r
}

// unknown returns an answer that leaves call n in doubt. Its error is too long to be stored in the record's row.
func unknown(n int) journal.Record {
	r := journaltest.Answer(n)
	r.Answer.Error = json.RawMessage(`{"kind":"in_doubt","message":"` + strings.Repeat("who knows ", 1000) + `"}`)
	return r
}

// written stores the journal of a user's run: its start, then the records.
func written(t *testing.T, s Store, run, user string, records ...journal.Record) journal.Writer {
	t.Helper()
	w, err := s.Create(t.Context(), run)
	must(t, "create", err)
	start := journaltest.Start(run)
	start.Start.User, start.Start.Session = user, "s"
	w.Append(start)
	for _, r := range records {
		w.Append(r)
	}
	must(t, "commit", w.Commit(t.Context()))
	return w
}

// inDoubt lists all doubts, page by page, each as "run call".
func inDoubt(t *testing.T, s Store, f journal.DoubtFilter) string {
	t.Helper()
	var all []string
	for {
		page, next, err := s.Doubts(t.Context(), f)
		must(t, "list", err)
		for _, d := range page {
			all = append(all, fmt.Sprint(d.Run, " ", d.Call.N))
		}
		if f.Cursor = next; next == "" {
			return strings.Join(all, ", ")
		}
	}
}

// doubts tests that a write is in doubt after an answer with an unknown outcome, or after the end of its run without an answer, until the doubt is
// settled.
func doubts(t *testing.T, open Place) {
	s, other := open(t), open(t)
	large := journaltest.Call(2)
	large.Call.Args = json.RawMessage(`{"input":{"text":"` + strings.Repeat("long ", 10_000) + `"}}`)
	w := written(t, s, "run_1", "ann",
		journaltest.Call(1), large, journaltest.Call(3), journaltest.Call(4), intent(1), intent(2), intent(3), unknown(1), journaltest.Answer(3), unknown(4))
	wantEqual(t, "in doubt while the run goes on", "run_1 1", inDoubt(t, other, journal.DoubtFilter{}))
	_, _, err := other.Settle(t.Context(), "run_1", 2, journal.Settlement{Verdict: journal.Done, At: pointer(at(5))})
	wantIs(t, "settle what may still be answered", err, journal.ErrNoDoubt)
	w.Append(journaltest.End())
	must(t, "end", w.Close(t.Context()))
	all, _, err := other.Doubts(t.Context(), journal.DoubtFilter{})
	must(t, "list", err)
	of := func(call journal.Record, sent int) journal.Doubt {
		return journal.Doubt{Run: "run_1", User: "ann", Session: "s", Call: *call.Call, Sent: at(sent)}
	}
	wantEqual(t, "in doubt after the end", []journal.Doubt{of(large, 2), of(journaltest.Call(1), 1)}, all)

	said := journal.Settlement{Verdict: journal.NotDone, At: pointer(at(9)), By: "key_1", Note: "it is not in the list"}
	now, changed, err := other.Settle(t.Context(), "run_1", 2, said)
	must(t, "settle", err)
	wantEqual(t, "settled", said, now)
	if !changed {
		t.Error("nothing has changed")
	}
	now, changed, err = s.Settle(t.Context(), "run_1", 2, journal.Settlement{Verdict: journal.NotDone, At: pointer(at(10)), By: "key_2"})
	if err != nil || changed {
		t.Errorf("settled again: %t, %v", changed, err)
	}
	wantEqual(t, "settled again", said, now)
	_, changed, err = s.Settle(t.Context(), "run_1", 2, journal.Settlement{Verdict: journal.Done, At: pointer(at(10))})
	wantIs(t, "settle with another verdict", err, journal.ErrSettled)
	if changed {
		t.Error("a refused settlement has changed something")
	}
	for _, n := range []int{3, 4, 5} {
		_, _, err = s.Settle(t.Context(), "run_1", n, said)
		wantIs(t, fmt.Sprint("settle call ", n), err, journal.ErrNoDoubt)
	}
	_, _, err = s.Settle(t.Context(), "run_none", 1, said)
	wantIs(t, "settle a call of an unknown run", err, journal.ErrNoDoubt)
	got, err := s.Settlements(t.Context(), "run_1", []int{1, 2, 3})
	must(t, "settlements", err)
	wantEqual(t, "settlements", map[int]journal.Settlement{1: {Verdict: journal.Open}, 2: said}, got)
	wantEqual(t, "in doubt after a settlement", "run_1 1", inDoubt(t, s, journal.DoubtFilter{}))
}

// doubtsOfDead tests that calls sent by a dead process are in doubt after the run ends, unless the process that resumes the run gets an
// answer.
func doubtsOfDead(t *testing.T, open Place) {
	s, other := open(t), open(t)
	calls := []journal.Record{journaltest.Call(1), intent(1), journaltest.Call(2), intent(2), journaltest.Call(3), intent(3)}
	written(t, s, "run_1", "ann", calls...)
	must(t, "close", s.Close())
	wantEqual(t, "in doubt while the run can be resumed", "", inDoubt(t, other, journal.DoubtFilter{}))
	w, _, err := other.Resume(t.Context(), "run_1")
	must(t, "resume", err)
	for _, r := range []journal.Record{journaltest.Answer(2), unknown(3), journaltest.End()} {
		w.Append(r)
	}
	must(t, "end", w.Close(t.Context()))
	wantEqual(t, "in doubt after the end", "run_1 1, run_1 3", inDoubt(t, other, journal.DoubtFilter{}))
}

func doubtLists(t *testing.T, open Place) {
	s := open(t)
	for i := range 5 {
		user := "ann"
		if i%2 == 1 {
			user = "bob"
		}
		w := written(t, s, fmt.Sprint("run_", i), user, journaltest.Call(1), intent(1), unknown(1), journaltest.End())
		must(t, "close", w.Close(t.Context()))
	}
	_, _, err := s.Settle(t.Context(), "run_2", 1, journal.Settlement{Verdict: journal.Done, At: pointer(at(1))})
	must(t, "settle", err)
	for _, c := range []struct {
		f    journal.DoubtFilter
		want string
	}{
		{journal.DoubtFilter{}, "run_4 1, run_3 1, run_1 1, run_0 1"},
		{journal.DoubtFilter{User: "ann"}, "run_4 1, run_0 1"},
		{journal.DoubtFilter{User: "bob"}, "run_3 1, run_1 1"},
		{journal.DoubtFilter{User: "eve"}, ""},
	} {
		c.f.Limit = 1
		wantEqual(t, fmt.Sprintf("%+v", c.f), c.want, inDoubt(t, s, c.f))
	}
	_, _, err = s.Doubts(t.Context(), journal.DoubtFilter{Cursor: "x"})
	wantIs(t, "a bad cursor", err, journal.ErrCursor)
}

// settleAtOnce tests that exactly one of several processes that settle a doubt concurrently changes it. Processes with the same verdict get no error;
// processes with another verdict get journal.ErrSettled.
func settleAtOnce(t *testing.T, open Place) {
	stores := []Store{open(t), open(t), open(t), open(t)}
	w := written(t, stores[0], "run_1", "ann", journaltest.Call(1), intent(1), journaltest.End())
	must(t, "close", w.Close(t.Context()))
	var mu sync.Mutex
	var changes int
	var all sync.WaitGroup
	for i, s := range stores {
		verdict := journal.Done
		if i%2 == 1 {
			verdict = journal.NotDone
		}
		all.Go(func() {
			now, changed, err := s.Settle(t.Context(), "run_1", 1, journal.Settlement{Verdict: verdict, At: pointer(at(i)), By: fmt.Sprint(i)})
			mu.Lock()
			defer mu.Unlock()
			if changed {
				changes++
			}
			if err == nil && now.Verdict != verdict || err != nil && !errors.Is(err, journal.ErrSettled) {
				t.Errorf("%s by %d: %+v, %v", verdict, i, now, err)
			}
		})
	}
	all.Wait()
	if changes != 1 {
		t.Errorf("%d settled", changes)
	}
}
