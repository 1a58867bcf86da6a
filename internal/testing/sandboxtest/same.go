package sandboxtest

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/generated"
)

// same has programs, and for each a text with its outcome and its journal.
//
//go:embed same
var same embed.FS

// updateVar is the environment variable that makes the tests of the wasm tier write these texts.
const updateVar = "HARNESS_TEST_UPDATE"

// onlySame are programs that depend only on the runner of Node.js and the host; see [Tier.Shares]. The others use streams, files, calls, and what
// Node.js takes from its environment.
var onlySame = []string{
	"error_calls", "error_cycle", "error_rejection", "error_settles", "error_syntax", "error_tool", "error_type", "language", "modules", "timers", "values",
}

// alike executes programs whose output, error, lines and journal are the same in every tier, and replays them.
func (w *world) alike(t *testing.T) {
	entries, err := same.ReadDir("same")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range onlySame {
		if _, err := same.Open("same/" + name + ".js"); err != nil {
			t.Fatal(err)
		}
	}
	w.openPool()
	for _, e := range entries {
		name, program := strings.CutSuffix(e.Name(), ".js")
		if !program || w.of.Shares && !generated.Long() && slices.Contains(onlySame, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			code, err := same.ReadFile("same/" + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			out, _ := w.execute(t, w.runs, runs.Request{User: "ann", Code: string(code)})
			records, err := w.runs.Journal(t.Context(), out.RunID)
			if err != nil {
				t.Fatal(err)
			}
			got := told(t, out, records)
			if os.Getenv(updateVar) != "" && w.tier == "wasm" {
				if err := os.WriteFile(filepath.Join("..", "..", "testing", "sandboxtest", "same", name+".txt"), []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := same.ReadFile("same/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the run (-want +got; %s=1 writes them):\n%s", updateVar, diff)
			}
			if records[0].Start == nil || len(records[0].Start.Program) == 0 {
				return // the program was not compiled
			}
			again, err := w.runs.Replay(t.Context(), records, runs.Replay{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, told(t, again, records)); diff != "" {
				t.Errorf("its replay (-run +replay):\n%s", diff)
			}
		})
	}
}

// told returns an outcome and a journal as text, without what differs from run to run.
func told(t testing.TB, out *run.Outcome, records []journal.Record) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d calls\noutput %s\n", out.Status, out.Calls, out.Output)
	if e := out.Error; e != nil {
		fmt.Fprintf(&b, "error %s %s at %d: %s\n", e.Kind, e.Name, e.Line, e.Message)
	}
	if len(out.Logs) <= 100 {
		for _, l := range out.Logs {
			fmt.Fprintf(&b, "log %s %q\n", l.Level, l.Text)
		}
	}
	fmt.Fprintf(&b, "%d lines\n\n", len(out.Logs))
	for _, r := range records {
		switch {
		case r.Seq > 100:
			continue // equal to the others
		case r.Call != nil:
			fmt.Fprintf(&b, "call %d %s %s %s\n", r.Call.N, r.Call.Kind, r.Call.Name, r.Call.Args)
		case r.Intent != nil:
			fmt.Fprintf(&b, "intent %d\n", r.Intent.N)
		case r.Answer != nil:
			fmt.Fprintf(&b, "answer %d, delivery %d: %s%s\n", r.Answer.N, r.Answer.Delivery, r.Answer.Value, r.Answer.Error)
		case r.Log != nil:
			fmt.Fprintf(&b, "log %q\n", r.Log.Text)
		}
	}
	if !json.Valid(out.Output) {
		t.Errorf("the output is %q", out.Output)
	}
	return b.String()
}
