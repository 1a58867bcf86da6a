package cli_test

import (
	"strings"
	"testing"
)

// TestLists checks that lists can be filtered and continued with the same flags, and that one command removes several servers.
func TestLists(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("crm", "mailer")
	for args, want := range map[string]string{"crm": "crm__", "mailer__*": "mailer__"} {
		for line := range strings.Lines(f.run("tools", "list", args).want(0).stdout) {
			if !strings.HasPrefix(line, want) {
				t.Errorf("tools list %s shows %s", args, line)
			}
		}
	}
	f.run("tools", "list", "none__*").want(2)
	for range 3 {
		f.run("exec", "-e", "return 1").want(0)
	}
	r := f.run("runs", "list", "--limit", "1", "--status", "succeeded").want(0)
	_, more, _ := strings.Cut(r.stderr, "more: harness ")
	next := f.run(strings.Fields(more)...).want(0)
	if !strings.HasPrefix(more, "runs list --limit 1 --status succeeded --cursor ") || strings.Count(next.stdout, "run_") != 1 || next.stdout == r.stdout {
		t.Errorf("the next page is %s: %s", more, next.stdout)
	}
	if _, last, _ := strings.Cut(next.stderr, "more: harness "); strings.Count(last, "--cursor") != 1 {
		t.Errorf("the page after that is %s", last)
	}
	f.run("servers", "add", "x", "--", "y").want(0)
	if r := f.run("servers", "remove", "crm", "mailer", "x").want(0); !strings.Contains(r.stdout, "crm, mailer, x") || strings.Contains(f.read("harness.yaml"), "mailer") {
		t.Error(r.stdout)
	}
	f.run("exec", "--tier", "wasm", "-e", "return 1").want(0)
}
