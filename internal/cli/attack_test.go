package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAttack checks that the command finds holes, suggests rules that stop them, fails for CI, calls no configured server and records nothing.
func TestAttack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("crm", "mailer", "web")
	f.write("harness.yaml", strings.Replace(f.read("harness.yaml"), "  crm:", "  crm:\n    untrusted: true", 1))
	type report struct {
		Attempts, Planned int
		Marked            bool
		Servers           []string
		Pairs             []struct{ Source, Sink, Path string }
		Simulated         string
		Holes             []struct {
			Sink, Path     string
			Sources, Forms []string
			Stops          bool
			Hinders        []string
		}
	}
	var open report
	f.run("attack", "--json").want(1).value(&open)
	if len(open.Holes) != 2 || !open.Marked || !slices.Equal(open.Servers, []string{"crm"}) || open.Attempts < 100 || !strings.Contains(open.Simulated, "simulated") {
		t.Fatalf("without rules: %+v", open)
	}
	for _, h := range open.Holes {
		if !h.Stops || len(h.Forms) < 20 || len(h.Hinders) != 1 || !strings.Contains(h.Hinders[0], "await callMCPTool('crm__") {
			t.Errorf("%+v", h)
		}
	}
	r := f.run("attack").want(1)
	for _, want := range []string{
		"SINK          PATH   THROUGH  ASKED  DENIED  FAILED  FROM", "mailer__send $.to: what crm says gets there", `  rule     - {tools: "mailer__send", destinations: ["$.to"], action: deny}`, "  hinders  const said = await callMCPTool('crm__",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if !strings.Contains(r.stderr, "Servers are simulated: none of the configured ones was called, and nothing was sent.") {
		t.Error(r.stderr)
	}
	// The suggested rule closes its own sink and leaves the other sink open. The presets close both.
	var one report
	f.run("attack", "--json", "--policy", f.write("one.yaml", `[{tools: "mailer__send", destinations: ["$.to"], action: deny}]`)).want(1).value(&one)
	if len(one.Holes) != 1 || one.Holes[0].Sink != "web__post" {
		t.Errorf("with a rule for the mailer: %+v", one.Holes)
	}
	for _, preset := range []string{"careful", "strict"} {
		var none report
		f.run("attack", "--json", "--policy", f.write(preset+".yaml", "preset: "+preset)).want(0).value(&none)
		if len(none.Holes) != 0 || len(none.Pairs) != 2 {
			t.Errorf("%s: %+v", preset, none)
		}
	}
	for _, name := range []string{"outbox", "posts.jsonl"} {
		if _, err := os.Stat(filepath.Join(f.dir, "demo", name)); err == nil {
			t.Errorf("the servers wrote %s", name)
		}
	}
	if r := f.run("runs", "list", "--json").want(0); strings.Contains(r.stdout, "run_") {
		t.Errorf("recorded: %s", r.stdout)
	}
	f.run("attack", "--time", "1ms").want(2)
	f.run("attack", "--role", "boss").want(2)
}
