package simulation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/simulation"
	"mcp-code-exec-harness/internal/task"
)

// Each flow has the source of values, the called tool, the decisions of the policy on these calls, and the last of the calls.
func TestFlows(t *testing.T) {
	t.Parallel()
	h := &history{tasks: []task.Task{{Task: "Write to bob@x.example", UserID: "ann", SessionID: "s", CreatedAt: start}}}
	h.add("run_0", "s", [3]string{"crm__get", `{"id":7}`, `{"email":"ann@x.example","note":"the quarterly report","iban":123456789}`},
		[3]string{"mail__send", `{"to":"ann@x.example","cc":["bob@x.example"],"subject":"the program","n":5,"ok":true}`, `"sent"`})
	h.add("run_1", "s", [3]string{"mail__send", `{"to":"ANN@x.example","ann@x.example":"hi","body":{"text":"made of pieces","iban":123456789}}`, `"sent"`})
	h.add("run_2", "", [3]string{"mail__send", `{"to":"ann@x.example"}`, `"sent"`}, [3]string{"crm__get", `{}`, `1`})
	lines := func(got *simulation.Flows) (all []string) {
		for _, f := range got.Flows {
			all = append(all, fmt.Sprintf("%s→%s %d %d %d %s %d", f.From, f.To, f.Allow, f.Ask, f.Deny, f.Run, f.Call))
		}
		return all
	}
	rules := compiled(t, "- {tools: mail__send, args: {$.to: {from: crm__*}}, action: ask}")
	got, err := h.source(simulation.Bounds{}).Flows(t.Context(), rules, false, 100)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"computed→mail__send 1 1 0 run_2 1", "crm__get→mail__send 0 2 0 run_1 1", "code→mail__send 0 1 0 run_0 2", "user→mail__send 0 1 0 run_0 2",
	}
	if !slices.Equal(lines(got), want) || got.Plain != 2 || got.Calls != 5 || got.Truncated {
		t.Errorf("flows: %q, %+v", lines(got), got.Looked)
	}
	if got, err = h.source(simulation.Bounds{}).Flows(t.Context(), rules, true, 2); err != nil || !slices.Equal(lines(got), []string{"computed→mail 1 1 0 run_2 1", "crm→mail 0 2 0 run_1 1"}) || got.More != 2 {
		t.Errorf("by server: %q, %d more", lines(got), got.More)
	}
	// If an earlier run is not read, the origin of a value is unknown. The user has said a part of the value.
	if got, err = h.source(simulation.Bounds{Runs: 2}).Flows(t.Context(), rules, false, 100); err != nil || !slices.Equal(lines(got), []string{"computed→mail__send 1 0 0 run_2 1", "unknown→mail__send 0 1 0 run_1 1", "user→mail__send 0 1 0 run_1 1"}) {
		t.Errorf("the newest runs: %q", lines(got))
	}
	h.add("run_3", "", [3]string{"mail__send", `{"to":["` + strings.Repeat(`aaaa","`, 200) + `bbbb"]}`, `1`})
	if got, err = h.source(simulation.Bounds{Runs: 1}).Flows(t.Context(), rules, false, 100); err != nil || len(got.Unread) != 2 || got.Unread[1].Run != "run_3" || got.Unread[1].Call != 1 {
		t.Errorf("a call with many values: %+v", got)
	}
}
