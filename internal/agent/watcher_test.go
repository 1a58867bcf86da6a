package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// TestWatcherBatches: events that come together share a commit, the run waits for none, and the last ones are left for the
// commit of the result.
func TestWatcherBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var commits []int
		w := newWatcher("run_1", time.Now, func(events []task.Event) error {
			time.Sleep(time.Second) // a slow disk
			commits = append(commits, len(events))
			return nil
		})
		line := run.Event{Log: &run.Log{Level: "log", Text: "x"}}
		began := time.Now()
		for range 10 {
			w.observe(line)
		}
		time.Sleep(500 * time.Millisecond) // the commit is under way
		for range 5 {
			w.observe(line)
		}
		if waited := time.Since(began); waited != 500*time.Millisecond {
			t.Errorf("the run waited %s", waited)
		}
		left, err := w.end()
		if err != nil || !slices.Equal(commits, []int{10}) || len(left) != 5 {
			t.Errorf("commits of %v, %d left, %v", commits, len(left), err)
		}
		if left[4].Key != "run_1/log/15" {
			t.Errorf("the last key is %s", left[4].Key)
		}
	})
}

// TestWatcherBounds: a program cannot fill the store with events.
func TestWatcherBounds(t *testing.T) {
	t.Parallel()
	for text, most := range map[string]int{"x": maxRunEvents, strings.Repeat("x", 100<<10): maxRunBytes/maxEventValue + 2} {
		w := newWatcher("run_1", time.Now, func([]task.Event) error { return nil })
		total := 0
		w.commit = func(events []task.Event) error { total += len(events); return nil }
		for range 3 * maxRunEvents {
			w.observe(run.Event{Log: &run.Log{Level: "log", Text: text}})
		}
		left, _ := w.end()
		if total += len(left); total > most || total < most/2 {
			t.Errorf("%d events", total)
		}
	}
}

// TestLedgerCounts by samples what is long.
func TestLedgerCounts(t *testing.T) {
	t.Parallel()
	w := newWatcher("run_1", time.Now, func([]task.Event) error { return nil })
	row := `{"id":12345,"name":"Acme Corporation","email":"jo@acme.example"},`
	long := json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(row, 10_000), ",") + "]")
	for n := range 30 {
		w.observe(run.Event{Call: &journal.Call{N: n + 1, Kind: "tool", Name: "crm__list", Args: json.RawMessage(`{"page":1}`)}})
		w.observe(run.Event{Answer: &journal.Answer{N: n + 1, Value: long}})
		w.observe(run.Event{Call: &journal.Call{N: 100 + n, Kind: "fs", Name: "readFile", Args: json.RawMessage(`{"path":"x"}`)}})
		w.observe(run.Event{Answer: &journal.Answer{N: 100 + n, Value: long}})
	}
	began := time.Now()
	w.end()
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %s", took)
	}
	d := w.direct()
	per := estimate(strings.Repeat(row, 50)) * 200
	if d.Intermediate < 30*per*8/10 || d.Intermediate > 30*per*12/10 || d.Output < 30*4 || d.Output > 30*12 {
		t.Errorf("got %+v, a call has about %d", d, per)
	}
	if want := d.Intermediate / 30 * 29 * 30 / 2; d.Input < want*9/10 || d.Input > want*11/10 {
		t.Errorf("input is %d, want about %d", d.Input, want)
	}
}

// TestEstimate is right for texts of every kind, and quick for long ones.
func TestEstimate(t *testing.T) {
	t.Parallel()
	if estimate("") != 0 || estimate("hello") != 1 {
		t.Errorf("got %d and %d", estimate(""), estimate("hello"))
	}
	if n := estimate(strings.Repeat("ж", 1<<20)); n < 1<<17 || n > 1<<20 {
		t.Errorf("got %d", n)
	}
}

func TestDirect(t *testing.T) {
	t.Parallel()
	var d task.Direct
	for range 2 { // two runs of two calls, each of 10 and 5 tokens
		d = addRun(d, &task.Result{Calls: 2, Direct: task.Direct{Intermediate: 30, Input: 15, Output: 20}})
	}
	got := *directOf(d, 4, 1000, "")
	// Turns read 1000, 1015, 1030, 1045 and, for the answer, 1060 tokens.
	want := task.Direct{Definitions: 1000, Intermediate: 60, Context: 1060, Input: 5150, Output: 40, Estimated: true}
	if got != want {
		t.Errorf("got %+v", got)
	}
}

func TestPathOf(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`{"path":"/workspace/a b\nc"}`: "/workspace/a b c", `{"from":"/a","to":"/b"}`: "/a to /b", `[]`: "", "": "",
	} {
		if got := pathOf(json.RawMessage(args)); got != want {
			t.Errorf("%s: %q", args, got)
		}
	}
	if got := pathOf(json.RawMessage(fmt.Sprintf(`{"path":%q}`, strings.Repeat("x", 1000)))); len(got) > 400 {
		t.Errorf("%d bytes", len(got))
	}
}
