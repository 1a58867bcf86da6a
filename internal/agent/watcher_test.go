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
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// TestWatcherBatches: events that occur at about the same time share a commit, and the run does not wait for commits. The last events are returned for the
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
		time.Sleep(500 * time.Millisecond) // the commit is in progress
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

// TestWatcherReports: progress reports of servers follow the event of their call, and their rate is limited.
func TestWatcherReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var order []string
		w := newWatcher("run_1", time.Now, func(events []task.Event) error {
			order = append(order, events[0].Type)
			return nil
		})
		w.stream = func(data json.RawMessage) { order = append(order, string(data)) }
		w.observe(run.Event{Call: &journal.Call{N: 1, Kind: "tool", Name: "crm__list"}})
		for i := range 30 {
			w.report(1, mcpclient.Progress{Progress: float64(i), Total: 30, Message: "ann@example.com"})
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if left, err := w.end(); err != nil || len(left) > 0 {
			t.Error(left, err)
		}
		want := []string{
			task.EventCall, `{"runId":"run_1","n":1,"progress":0,"total":30}`, `{"runId":"run_1","n":1,"progress":20,"total":30}`,
		}
		if !slices.Equal(order, want) {
			t.Errorf("got %q, want %q", order, want)
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

// TestDirectOfRun: the estimate adds up the tool calls of a run.
func TestDirectOfRun(t *testing.T) {
	t.Parallel()
	w := newWatcher("run_1", time.Now, func([]task.Event) error { return nil })
	long := json.RawMessage(`"` + strings.Repeat("x", 350_000-2) + `"`)
	for n := range 3 {
		w.observe(run.Event{Call: &journal.Call{N: n + 1, Kind: "tool", Name: "crm__list", Args: json.RawMessage(`{"page":12}`)}})
		w.observe(run.Event{Answer: &journal.Answer{N: n + 1, Value: long}})
		w.observe(run.Event{Call: &journal.Call{N: 100 + n, Kind: "fs", Name: "readFile", Args: json.RawMessage(`{"path":"x"}`)}})
		w.observe(run.Event{Answer: &journal.Answer{N: 100 + n, Value: long}})
	}
	w.end()
	const per = 100_000 + 6
	if got, want := directOfRun(w.tools), (task.Direct{Intermediate: 3 * per, Input: 3 * per, Output: 3 * 6}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDirect(t *testing.T) {
	t.Parallel()
	var d task.Direct
	for range 2 { // two runs, each with two calls of 10 and 5 tokens
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
