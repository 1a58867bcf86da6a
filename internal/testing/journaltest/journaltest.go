// Package journaltest is the suite that every journal.Store must pass.
package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/journal"
)

// Reopener is implemented by a Store whose journals are kept after it is closed.
type Reopener interface {
	// Reopen closes the store and opens another one on the same place.
	Reopen(t *testing.T) journal.Store
}

// Exercise runs the suite. open returns an empty store and arranges that it is closed.
func Exercise(t *testing.T, open func(t *testing.T) journal.Store) {
	for name, test := range map[string]func(*testing.T, journal.Store){
		"round trip":        roundTrip,
		"order":             order,
		"visibility":        visibility,
		"appended is past":  appendedIsPast,
		"create":            create,
		"create is atomic":  createOnce,
		"unknown run":       unknown,
		"resume":            resume,
		"resume refused":    resumeRefused,
		"after close":       afterClose,
		"abandoned":         abandoned,
		"cancelled context": cancelled,
		"misuse":            misuse,
		"concurrent runs":   concurrent,
		"concurrent calls":  concurrentCalls,
		"reopen":            reopen,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// The records below have every field set, so that the suite notices a field that a store forgets.

// Start returns a start record of a run.
func Start(run string) journal.Record {
	return journal.Record{Start: &journal.Start{
		Run: run, User: "ann", Session: "s1", File: "report.ts",
		Source:  "return 1 < 2 && '\u2028é'",
		Program: json.RawMessage(`{"code":"(async()=>{return 1<2})","b":1,"a":2}`),
		Map:     `{"version":3}`,
		Seed:    strings.Repeat("ab", 32), Time: 1_700_000_000_000_000,
		Tier: "wasm", Engine: "e1", Prelude: "p1",
		Limits: json.RawMessage(`{"memory":104857600}`),
		Env:    map[string]string{"B": "2", "A": "<1>"},
	}}
}

// Call returns the record of call n, a write.
func Call(n int) journal.Record {
	return journal.Record{Call: &journal.Call{
		N: n, Kind: "tool", Name: "crm__search", Args: json.RawMessage(`{"input":{"q":"a<b"}}`), Sync: true,
	}}
}

// Intent returns the intent of call n.
func Intent(n int) journal.Record {
	return journal.Record{Intent: &journal.Intent{
		N: n, Key: fmt.Sprintf("run/%d", n), Retry: true, Conn: 3, Time: 1_700_000_000_000_001,
		Before: json.RawMessage(`{"size":10}`),
	}}
}

// Answer returns the answer to call n.
func Answer(n int) journal.Record {
	return journal.Record{Answer: &journal.Answer{
		N: n, Delivery: n, Now: 1_700_000_000_000_002,
		Value: json.RawMessage(fmt.Sprintf(`{"z":1.0,"n":%d,"a":"\u0041<&>"}`, n)),
		Error: json.RawMessage(`{"message":"no"}`),
	}}
}

// Log returns a console line.
func Log(text string) journal.Record {
	return journal.Record{Log: &journal.Log{Level: "warn", Text: text}}
}

// End returns the record of a success.
func End() journal.Record {
	return journal.Record{End: &journal.End{
		Status: "succeeded", Output: json.RawMessage(`[1,"<>"]`), Error: json.RawMessage(`{"kind":"runtime","message":"x"}`),
		Calls: 1, DurationUS: 1500, Time: 1_700_000_000_001_500,
	}}
}

// asText makes cmp compare large values as texts, not byte by byte.
var asText = cmp.Transformer("text", func(r json.RawMessage) string { return string(r) })

func numbered(records []journal.Record) []journal.Record {
	for i := range records {
		records[i].Seq = int64(i + 1)
	}
	return records
}

func mustCreate(t *testing.T, s journal.Store, run string) journal.Writer {
	t.Helper()
	w, err := s.Create(t.Context(), run)
	if err != nil {
		t.Fatalf("create %q: %v", run, err)
	}
	return w
}

func mustCommit(t *testing.T, w journal.Writer, records ...journal.Record) {
	t.Helper()
	for _, r := range records {
		w.Append(r)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func mustClose(t *testing.T, w journal.Writer) {
	t.Helper()
	if err := w.Close(t.Context()); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func wantRecords(t *testing.T, s journal.Store, run string, want []journal.Record) {
	t.Helper()
	got, err := s.Read(t.Context(), run)
	if err != nil {
		t.Fatalf("read %q: %v", run, err)
	}
	if d := cmp.Diff(numbered(want), got, asText); d != "" {
		t.Errorf("records of %q (-want +got):\n%s", run, d)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// roundTrip: every field is kept, small or large.
func roundTrip(t *testing.T, s journal.Store) {
	for _, size := range []int{0, 4096, 4097, 300_000} {
		run := fmt.Sprintf("run_%d", size)
		pad := strings.Repeat("é<", size/3)
		text := func(s string) json.RawMessage { return json.RawMessage(`{"b":"` + s + `","a":1}`) }
		records := []journal.Record{Start(run), Call(1), Intent(1), Answer(1), Log("one"), End()}
		if size > 0 {
			st, ca, in := records[0].Start, records[1].Call, records[2].Intent
			an, lo, en := records[3].Answer, records[4].Log, records[5].End
			st.Source, st.Map, st.Program, st.Limits = pad+"1", pad+"2", text(pad+"3"), text(pad+"4")
			ca.Args, in.Before = text(pad+"5"), text(pad+"6")
			an.Value, an.Error = text(pad+"7"), text(pad+"5") // equal to another field's
			lo.Text = pad
			en.Output, en.Error = text(pad+"8"), text(pad+"9")
		}
		w := mustCreate(t, s, run)
		mustCommit(t, w, records...)
		mustClose(t, w)
		wantRecords(t, s, run, records)
	}
}

// order: records keep the order of Append and are numbered without gaps, however they are committed.
func order(t *testing.T, s journal.Store) {
	w := mustCreate(t, s, "run_a")
	want := []journal.Record{Start("run_a")}
	w.Append(want[0])
	for i := 1; i <= 50; i++ {
		for _, r := range []journal.Record{Call(i), Log(fmt.Sprint(i)), Answer(i)} {
			w.Append(r)
			want = append(want, r)
		}
		if i%7 == 0 {
			mustCommit(t, w)
		}
	}
	w.Append(End())
	mustClose(t, w)
	wantRecords(t, s, "run_a", append(want, End()))
}

// visibility: only committed records are read.
func visibility(t *testing.T, s journal.Store) {
	w := mustCreate(t, s, "run_a")
	w.Append(Start("run_a"))
	_, err := s.Read(t.Context(), "run_a")
	wantError(t, "read before the first commit", err, journal.ErrNotFound)
	mustCommit(t, w)
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a")})
	w.Append(Log("later"))
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a")})
	mustCommit(t, w)
	mustCommit(t, w) // nothing to do
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a"), Log("later")})
	w.Append(End())
	mustClose(t, w)
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a"), Log("later"), End()})
}

// appendedIsPast: changes that the caller makes to its records after Append have no effect.
func appendedIsPast(t *testing.T, s journal.Store) {
	given := []journal.Record{Start("run_a"), Call(1), Intent(1), Answer(1), Log("x"), End()}
	w := mustCreate(t, s, "run_a")
	for _, r := range given {
		w.Append(r)
	}
	*given[0].Start, *given[1].Call, *given[2].Intent = journal.Start{}, journal.Call{}, journal.Intent{}
	*given[3].Answer, *given[4].Log, *given[5].End = journal.Answer{}, journal.Log{}, journal.End{}
	mustClose(t, w)
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a"), Call(1), Intent(1), Answer(1), Log("x"), End()})
}

func create(t *testing.T, s journal.Store) {
	w := mustCreate(t, s, "run_a")
	_, err := s.Create(t.Context(), "run_a")
	wantError(t, "create of an open run", err, journal.ErrExists)
	mustCommit(t, w, Start("run_a"))
	mustClose(t, w)
	if w, err = s.Create(t.Context(), "run_a"); err == nil {
		w.Append(Start("run_a"))
		err = w.Commit(t.Context())
		_ = w.Close(t.Context()) // Close returns the same error as Commit.
	}
	wantError(t, "create of a stored run", err, journal.ErrExists)
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a")})
}

func createOnce(t *testing.T, s journal.Store) {
	const n = 16
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			w, err := s.Create(t.Context(), "run_a")
			if err == nil {
				w.Append(Start("run_a"))
				err = w.Close(t.Context())
			}
			errs[i] = err
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			wantError(t, "concurrent create", err, journal.ErrExists)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d concurrent creates succeeded, want 1", won, n)
	}
}

func unknown(t *testing.T, s journal.Store) {
	_, err := s.Read(t.Context(), "run_a")
	wantError(t, "read", err, journal.ErrNotFound)
	_, _, err = s.Resume(t.Context(), "run_a")
	wantError(t, "resume", err, journal.ErrNotFound)
}

func resume(t *testing.T, s journal.Store) {
	want := []journal.Record{Start("run_a"), Call(1)}
	w := mustCreate(t, s, "run_a")
	mustCommit(t, w, want...)
	mustClose(t, w)
	w, got, err := s.Resume(t.Context(), "run_a")
	if err != nil {
		t.Fatalf("resume: %v", err)
	}
	if d := cmp.Diff(numbered(want), got, asText); d != "" {
		t.Errorf("resumed records (-want +got):\n%s", d)
	}
	mustCommit(t, w, Answer(1))
	w.Append(End())
	mustClose(t, w)
	wantRecords(t, s, "run_a", append(want, Answer(1), End()))
}

func resumeRefused(t *testing.T, s journal.Store) {
	w := mustCreate(t, s, "run_a")
	mustCommit(t, w, Start("run_a"))
	_, _, err := s.Resume(t.Context(), "run_a")
	wantError(t, "resume of an open run", err, journal.ErrBusy)
	w.Append(End())
	mustClose(t, w)
	_, _, err = s.Resume(t.Context(), "run_a")
	wantError(t, "resume of an ended run", err, journal.ErrEnded)
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a"), End()})
}

func afterClose(t *testing.T, s journal.Store) {
	w := mustCreate(t, s, "run_a")
	mustCommit(t, w, Start("run_a"))
	mustClose(t, w)
	mustClose(t, w) // idempotent
	w.Append(End())
	wantError(t, "commit after close", w.Commit(t.Context()), journal.ErrClosed)
	mustClose(t, w)
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a")})
}

// abandoned: a run that never committed anything leaves no journal.
func abandoned(t *testing.T, s journal.Store) {
	mustClose(t, mustCreate(t, s, "run_a"))
	_, err := s.Read(t.Context(), "run_a")
	wantError(t, "read", err, journal.ErrNotFound)
	w := mustCreate(t, s, "run_a")
	w.Append(Start("run_a"))
	mustClose(t, w)
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a")})
}

// cancelled: if a context ends while Commit waits, no record is lost or stored twice.
func cancelled(t *testing.T, s journal.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Create(ctx, "run_a")
	wantError(t, "create", err, context.Canceled)
	_, err = s.Read(ctx, "run_a")
	wantError(t, "read", err, context.Canceled)
	_, _, err = s.Resume(ctx, "run_a")
	wantError(t, "resume", err, context.Canceled)

	w := mustCreate(t, s, "run_a")
	want := []journal.Record{Start("run_a")}
	w.Append(want[0])
	for i := 1; i <= 20; i++ {
		wantError(t, "commit", w.Commit(ctx), context.Canceled)
		w.Append(Log(fmt.Sprint(i)))
		want = append(want, Log(fmt.Sprint(i)))
	}
	w.Append(End())
	mustClose(t, w)
	wantRecords(t, s, "run_a", append(want, End()))
}

// misuse: Commit refuses a record that would make the journal unreadable, and every later Commit fails, too.
func misuse(t *testing.T, s journal.Store) {
	for name, bad := range map[string][]journal.Record{
		"no start":     {Log("x")},
		"two starts":   {Start("run"), Start("run")},
		"empty record": {Start("run"), {}},
		"two in one":   {Start("run"), {Log: Log("x").Log, End: End().End}},
		"after end":    {Start("run"), End(), Log("x")},
	} {
		w := mustCreate(t, s, name)
		good := bad[:len(bad)-1]
		if len(good) > 0 {
			mustCommit(t, w, good...)
		}
		w.Append(bad[len(bad)-1])
		err := w.Commit(t.Context())
		if err == nil {
			t.Errorf("%s: commit succeeded", name)
			continue
		}
		w.Append(Log("later"))
		if again := w.Commit(t.Context()); again == nil {
			t.Errorf("%s: a second commit succeeded", name)
		}
		if cerr := w.Close(t.Context()); cerr == nil {
			t.Errorf("%s: close did not report the failure", name)
		}
		if len(good) > 0 {
			wantRecords(t, s, name, good)
		}
	}
}

func concurrent(t *testing.T, s journal.Store) {
	var wg sync.WaitGroup
	const runs, calls = 24, 20
	for i := range runs {
		wg.Go(func() {
			run := fmt.Sprintf("run_%d", i)
			w, err := s.Create(t.Context(), run)
			if err != nil {
				t.Errorf("create %q: %v", run, err)
				return
			}
			w.Append(Start(run))
			for n := 1; n <= calls; n++ {
				w.Append(Call(n))
				if err := w.Commit(t.Context()); err != nil {
					t.Errorf("commit %q: %v", run, err)
				}
				w.Append(Answer(n))
				if n%5 == 0 { // read while others write
					if got, err := s.Read(t.Context(), run); err != nil || len(got) != 2*n {
						t.Errorf("read %q after call %d: %d records, %v", run, n, len(got), err)
					}
				}
			}
			w.Append(End())
			if err := w.Close(t.Context()); err != nil {
				t.Errorf("close %q: %v", run, err)
			}
		})
	}
	wg.Wait()
	for i := range runs {
		run := fmt.Sprintf("run_%d", i)
		want := []journal.Record{Start(run)}
		for n := 1; n <= calls; n++ {
			want = append(want, Call(n), Answer(n))
		}
		wantRecords(t, s, run, append(want, End()))
	}
}

// concurrentCalls: the calls in flight of one run append and commit at the same time.
func concurrentCalls(t *testing.T, s journal.Store) {
	w := mustCreate(t, s, "run_a")
	w.Append(Start("run_a"))
	const calls = 40
	var wg sync.WaitGroup
	for n := 1; n <= calls; n++ {
		wg.Go(func() {
			w.Append(Call(n))
			w.Append(Intent(n))
			if err := w.Commit(t.Context()); err != nil {
				t.Errorf("commit of call %d: %v", n, err)
				return
			}
			// Records that were appended before Commit are stored when it returns, by this commit or another.
			got, err := s.Read(t.Context(), "run_a")
			if err != nil {
				t.Errorf("read after call %d: %v", n, err)
				return
			}
			found := false
			for _, r := range got {
				found = found || r.Intent != nil && r.Intent.N == n
			}
			if !found {
				t.Errorf("the intent of call %d is not stored after its commit", n)
			}
			w.Append(Answer(n))
		})
	}
	wg.Wait()
	w.Append(End())
	mustClose(t, w)
	got, err := s.Read(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	last := make(map[int]string) // kind of the last record of each call
	for i, r := range got {
		if r.Seq != int64(i+1) {
			t.Fatalf("record %d is numbered %d", i+1, r.Seq)
		}
		switch {
		case r.Call != nil && last[r.Call.N] == "":
			last[r.Call.N] = "call"
		case r.Intent != nil && last[r.Intent.N] == "call":
			last[r.Intent.N] = "intent"
		case r.Answer != nil && last[r.Answer.N] == "intent":
			last[r.Answer.N] = "answer"
		case i > 0 && i < len(got)-1:
			t.Errorf("record %d is out of order", r.Seq)
		}
	}
	if len(got) != 3*calls+2 {
		t.Errorf("%d records, want %d", len(got), 3*calls+2)
	}
}

// reopen: committed records are still there when the store is opened again, and an unfinished run can be resumed.
func reopen(t *testing.T, s journal.Store) {
	r, ok := s.(Reopener)
	if !ok {
		return // the store does not keep journals after it is closed
	}
	w := mustCreate(t, s, "run_a")
	mustCommit(t, w, Start("run_a"), Call(1))
	mustClose(t, w)
	s = r.Reopen(t)
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a"), Call(1)})
	w, _, err := s.Resume(t.Context(), "run_a")
	if err != nil {
		t.Fatalf("resume: %v", err)
	}
	w.Append(Answer(1))
	w.Append(End())
	mustClose(t, w)
	wantRecords(t, s, "run_a", []journal.Record{Start("run_a"), Call(1), Answer(1), End()})
}
