package wiring_test

import (
	"encoding/json"
	"testing"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// A program that does not compile has a journal too, with its text and its error.
func TestUnstarted(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	const code = "const a = 1\nreturn a +* 2"
	out, err := f.Runs().Execute(t.Context(), runs.Request{Code: code, User: "ann"})
	if err != nil || out.Error == nil || out.Error.Kind != frame.KindSyntax || out.Error.Line != 2 {
		t.Fatalf("got %+v, %v", out, err)
	}
	records := f.journalOf(out.RunID)
	if start := records[0].Start; start.Source != code || start.User != "ann" {
		t.Errorf("the start record is %+v", start)
	}
	want, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	for name, again := range map[string]func() (*run.Outcome, error){
		"read":     func() (*run.Outcome, error) { return run.Recorded(records) },
		"replayed": func() (*run.Outcome, error) { return f.Runs().Replay(t.Context(), records, runs.Replay{}) },
		"worked again": func() (*run.Outcome, error) {
			return f.Runs().Continue(t.Context(), runs.Request{ID: out.RunID, Code: code})
		},
	} {
		got, err := again()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if text, _ := json.Marshal(got); string(text) != string(want) {
			t.Errorf("%s it is %s, want %s", name, text, want)
		}
	}
	if other, err := f.Runs().Replay(t.Context(), records, runs.Replay{Code: "return 2"}); err != nil || other.Error == nil || other.Error.Kind != frame.KindDiverged {
		t.Errorf("another program ends as %+v, %v", other, err)
	}
}
