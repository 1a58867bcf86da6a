package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// TestRunsSettle checks a write whose server died during the call: it is listed until a person settles it, and shown with its run.
func TestRunsSettle(t *testing.T) {
	t.Parallel()
	f := setup(t)
	args := []string{"servers", "add", "bad"}
	for key, value := range misbehave.Env(misbehave.Normal, filepath.Join(f.dir, "pids")) {
		args = append(args, "-e", key+"="+value)
	}
	f.run(append(args, "--", self(t))...).want(0)
	if r := f.run("runs", "doubts").want(0); r.stdout != "" || !strings.Contains(r.stderr, "nothing is in doubt") {
		t.Errorf("before: %s%s", r.stdout, r.stderr)
	}
	var out outcome
	f.run("exec", "--json", "-e", "await tools.bad.exit({zeta: 'to ann@example.com'})").want(1).value(&out)
	if out.Error == nil || out.Error.Kind != "in_doubt" {
		t.Fatalf("ended %+v", out.Error)
	}
	var all struct{ Doubts []runs.Doubt }
	f.run("runs", "doubts", "--json").want(0).value(&all)
	if len(all.Doubts) != 1 || all.Doubts[0].Run != out.RunID || all.Doubts[0].N != 1 || string(all.Doubts[0].Arguments) != `{"zeta":"to pii_1e@d1.pii.invalid"}` {
		t.Errorf("the list is %+v", all)
	}
	if r := f.run("runs", "doubts", "--user", "local").want(0); !strings.Contains(r.stdout, "bad__exit") || !strings.Contains(r.stdout, out.RunID) {
		t.Errorf("the list is %s", r.stdout)
	}
	f.run("runs", "doubts", "--user", "ann").want(0)
	f.run("runs", "doubts", "--cursor", "x").want(2)
	settle := "harness runs settle " + out.RunID + " 1 done, or not-done"
	if r := f.run("runs", "show", out.RunID).want(0); !strings.Contains(r.stdout, settle) {
		t.Errorf("the run is shown as %s", r.stdout)
	}
	for _, args := range [][]string{{"1"}, {"1", "maybe"}, {"one", "done"}, {"2", "done"}, {"1", "done", "--note", strings.Repeat("x", 1001)}} {
		f.run(append([]string{"runs", "settle", out.RunID}, args...)...).want(2)
	}
	f.run("runs", "settle", "run_none", "1", "done").want(2)
	var settled journal.Settlement
	f.run("runs", "settle", out.RunID[:12], "1", "not-done", "--note", "ann@example.com got nothing", "--json").want(0).value(&settled)
	if settled.Verdict != journal.NotDone || settled.By != "local" || settled.Note != "pii_1e@d1.pii.invalid got nothing" || settled.At == nil {
		t.Errorf("settled: %+v", settled)
	}
	if r := f.run("runs", "settle", out.RunID, "1", "not-done").want(0); !strings.Contains(r.stdout, "local says that it was not done: pii_1e@d1.pii.invalid got nothing") {
		t.Errorf("settled again: %s", r.stdout)
	}
	if r := f.run("runs", "settle", out.RunID, "1", "done").want(2); !strings.Contains(r.stderr, "it was settled with another verdict; harness runs show "+out.RunID+" says by whom") {
		t.Errorf("another verdict: %s", r.stderr)
	}
	if r := f.run("runs", "show", out.RunID).want(0); strings.Contains(r.stdout, settle) || !strings.Contains(r.stdout, "local says that it was not done: pii_1e@d1.pii.invalid got nothing") {
		t.Errorf("the run is shown as %s", r.stdout)
	}
	var shown struct{ Settlements map[int]journal.Settlement }
	if f.run("runs", "show", out.RunID, "--json").want(0).value(&shown); shown.Settlements[1].Verdict != journal.NotDone {
		t.Errorf("the run as JSON has %+v", shown.Settlements)
	}
	if r := f.run("runs", "doubts").want(0); r.stdout != "" {
		t.Errorf("after: %s", r.stdout)
	}
	f.run("runs", "replay", out.RunID).want(0) // settling does not change the journal
}
