package simulation_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/simulation"
	"mcp-code-exec-harness/internal/task"
)

// history has recorded runs, the oldest first. The calls of each run follow one another.
type history struct {
	infos   []journal.RunInfo
	records map[string][]journal.Record
	tasks   []task.Task
}

var start = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// add adds a run. Each element of calls has a tool, its arguments and its answer.
func (h *history) add(id, session string, calls ...[3]string) {
	at := start.Add(time.Duration(len(h.infos)) * time.Minute)
	h.infos = append(h.infos, journal.RunInfo{ID: id, User: "ann", Session: session, Started: at, Calls: len(calls)})
	all := []journal.Record{{Start: &journal.Start{Run: id, User: "ann", Session: session, Source: "the program", Time: at.UnixMicro()}}}
	for i, c := range calls {
		all = append(all,
			journal.Record{Call: &journal.Call{N: i + 1, Kind: "tool", Name: c[0], Args: json.RawMessage(`{"input":` + c[1] + `}`)}},
			journal.Record{Answer: &journal.Answer{N: i + 1, Value: json.RawMessage(c[2])}})
	}
	for i := range all {
		all[i].Seq = int64(i + 1)
	}
	if h.records == nil {
		h.records = map[string][]journal.Record{}
	}
	h.records[id] = all
}

// List implements simulation.Runs. A page has two runs.
func (h *history) List(_ context.Context, _ auth.Identity, f journal.Filter) (page []journal.RunInfo, next string, err error) {
	all := slices.Clone(h.infos)
	slices.Reverse(all)
	from := 0
	if f.Cursor != "" {
		from = slices.IndexFunc(all, func(i journal.RunInfo) bool { return i.ID == f.Cursor }) + 1
	}
	to := min(len(all), from+min(f.Limit, 2))
	if to < len(all) {
		next = all[to-1].ID
	}
	return all[from:to], next, nil
}

// JournalPage implements simulation.Runs. A page has three records.
func (h *history) JournalPage(_ context.Context, id string, after int64, _ int) ([]journal.Record, error) {
	all := h.records[id]
	return all[min(int(after), len(all)):min(int(after)+3, len(all))], nil
}

// Tasks implements simulation.Tasks.
func (h *history) Tasks(context.Context, task.Filter) ([]task.Task, string, error) {
	return slices.Clone(h.tasks), "", nil
}

func (h *history) source(b simulation.Bounds) *simulation.Source {
	c := catalog.New()
	yes := true
	c.SetServer(catalog.Server{Name: "crm", Tools: []catalog.Tool{{Server: "crm", Name: "get", Annotations: catalog.Annotations{ReadOnly: &yes}}}})
	c.SetServer(catalog.Server{Name: "mail", Tools: []catalog.Tool{{Server: "mail", Name: "send"}}})
	b.Runs = cmp.Or(b.Runs, 1000)
	return &simulation.Source{Runs: h, Tasks: h, Catalog: c, Who: auth.Local(), Bounds: b}
}

func compiled(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := config.ParsePolicy([]byte(text), "text")
	if err != nil {
		t.Fatal(err)
	}
	return (&config.Config{}).Compiled(p)
}

// The result lists what was left out because of a bound, and covers everything else.
func TestBounds(t *testing.T) {
	t.Parallel()
	h := &history{}
	for i := range 5 {
		h.add(fmt.Sprint("run_", i), "", [3]string{"crm__get", `{"id":1}`, `"x"`}, [3]string{"mail__send", `{"to":"a"}`, `"sent"`})
	}
	h.add("run_5", "", [3]string{"crm__get", `{"q":"` + strings.Repeat("x", 2<<10) + `"}`, `"x"`}, [3]string{"crm__get", `{}`, `"` + strings.Repeat("y", 2<<20) + `"`})
	h.infos = append(h.infos, journal.RunInfo{ID: "run_6", Started: start.Add(time.Hour)}) // The journal of this run was deleted.
	for name, c := range map[string]struct {
		bounds      simulation.Bounds
		runs, calls int
		unread      []simulation.Unread
	}{
		"none":   {simulation.Bounds{}, 6, 12, []simulation.Unread{{Run: "run_6", Reason: "it was deleted meanwhile"}}},
		"runs":   {simulation.Bounds{Runs: 3}, 2, 4, []simulation.Unread{{Reason: "runs before 2026-03-01 10:04:00 UTC: the newest 3 runs were read"}, {Run: "run_6", Reason: "it was deleted meanwhile"}}},
		"calls":  {simulation.Bounds{Calls: 5}, 2, 4, []simulation.Unread{{Reason: "runs before 2026-03-01 10:04:00 UTC: together with the next one, the newest 3 runs have more than 5 calls"}, {Run: "run_6", Reason: "it was deleted meanwhile"}}},
		"since":  {simulation.Bounds{Since: start.Add(5 * time.Minute)}, 1, 2, []simulation.Unread{{Run: "run_6", Reason: "it was deleted meanwhile"}}},
		"bytes":  {simulation.Bounds{Bytes: 1 << 20}, 5, 10, []simulation.Unread{{Run: "run_5", Reason: "its journal has more than 1 MiB"}, {Run: "run_6", Reason: "it was deleted meanwhile"}}},
		"args":   {simulation.Bounds{Args: 1 << 10}, 6, 11, []simulation.Unread{{Run: "run_5", Call: 1, Reason: "its arguments have more than 1 KiB"}, {Run: "run_6", Reason: "it was deleted meanwhile"}}},
		"future": {simulation.Bounds{Since: start.Add(2 * time.Hour)}, 0, 0, nil},
	} {
		got, err := h.source(c.bounds).Simulate(t.Context(), compiled(t, "[]"), compiled(t, "- {tools: '*', action: deny}"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Runs != c.runs || got.Calls != c.calls || got.Changed != c.calls || !slices.Equal(got.Unread, c.unread) || got.Truncated != (len(c.unread) > 0) {
			t.Errorf("%s: %d runs, %d calls, %d changed, %+v", name, got.Runs, got.Calls, got.Changed, got.Unread)
		}
	}
	if _, err := h.source(simulation.Bounds{Runs: -1}).Simulate(t.Context(), compiled(t, "[]"), compiled(t, "[]")); err == nil {
		t.Error("no runs are read")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the client is gone")
	cancel(cause)
	if _, err := h.source(simulation.Bounds{}).Simulate(ctx, compiled(t, "[]"), compiled(t, "[]")); !errors.Is(err, cause) {
		t.Errorf("cancelled: %v", err)
	}
}

// Calls count for limits in the order in which they were recorded. The list of changes begins with the newest run.
func TestChanges(t *testing.T) {
	t.Parallel()
	h := &history{}
	for i := range 3 {
		h.add(fmt.Sprint("run_", i), "", [3]string{"mail__send", `{"to":"a"}`, `1`}, [3]string{"mail__send", `{"to":"b"}`, `1`}, [3]string{"crm__get", `{}`, `1`})
	}
	got, err := h.source(simulation.Bounds{}).Simulate(t.Context(), compiled(t, "- {tools: crm__get, action: ask}"), compiled(t, "- {tools: mail__send, limit: {calls: 3, per: 1d}, action: allow}"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range got.Changes {
		all = append(all, fmt.Sprintf("%s %d %s→%s", c.Run, c.Call, c.Now.Action, c.Then.Action))
	}
	want := []string{"run_2 1 allow→deny", "run_2 2 allow→deny", "run_2 3 ask→allow", "run_1 2 allow→deny", "run_1 3 ask→allow", "run_0 3 ask→allow"}
	if !slices.Equal(all, want) {
		t.Errorf("changes: %q", all)
	}
	if want := []simulation.Kind{{From: policy.Allow, To: policy.Deny, Calls: 3}, {From: policy.Ask, To: policy.Allow, Calls: 3}}; !slices.Equal(got.Kinds, want) || len(got.Tools) != 2 {
		t.Errorf("counts: %+v, %+v", got.Kinds, got.Tools)
	}
}

// Each preset, after the rules of the configuration, decides each recorded call. For each tool, it also decides a call without arguments.
func TestCompare(t *testing.T) {
	t.Parallel()
	h := &history{}
	h.add("run_0", "", [3]string{"mail__send", `{"to":"[EMAIL_1]"}`, `1`}, [3]string{"mail__send", `{"to":""}`, `1`}, [3]string{"gone__tool", `{}`, `1`})
	cfg := &config.Config{}
	var err error
	if cfg.Policy, err = config.ParsePolicy([]byte("preset: guarded\nrules: [{tools: gone__tool, action: allow}]"), "text"); err != nil {
		t.Fatal(err)
	}
	got, err := h.source(simulation.Bounds{}).Compare(t.Context(), cfg, 10)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, tool := range got.Tools {
		line := fmt.Sprintf("%s %v %d", tool.Tool, tool.Known, tool.Calls)
		for _, p := range tool.Presets {
			line += fmt.Sprintf(" %s %d %d %d %s", p.Preset, p.Allow, p.Ask, p.Deny, p.Plain)
		}
		lines = append(lines, line)
	}
	want := []string{
		"mail__send true 2 open 2 0 0 allow guarded 0 2 0 ask careful 0 2 0 ask strict 0 1 1 ask",
		"gone__tool false 1 open 1 0 0 allow guarded 1 0 0 allow careful 1 0 0 allow strict 1 0 0 allow",
		"crm__get true 0 open 0 0 0 allow guarded 0 0 0 allow careful 0 0 0 allow strict 0 0 0 allow",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("compared:\n%s", strings.Join(lines, "\n"))
	}
	if got.InEffect != "guarded" || got.Calls != 3 || len(got.Presets) != 4 || got.Presets[3] != (simulation.PresetTotal{Preset: "strict", Tally: simulation.Tally{Allow: 1, Ask: 1, Deny: 1}}) {
		t.Errorf("in all: %+v", got)
	}
	if got, err = h.source(simulation.Bounds{}).Compare(t.Context(), cfg, 1); err != nil || len(got.Tools) != 1 || got.More != 2 {
		t.Errorf("one tool: %+v, %v", got, err)
	}
}
