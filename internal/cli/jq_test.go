package cli_test

import (
	"strings"
	"testing"
)

// TestJQ checks that --jq applies to the result of every command and keeps every digit. A command with an invalid expression does nothing.
func TestJQ(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.run("exec", "-e", "return 1").want(0)
	for _, c := range []struct{ args, want string }{
		{"runs list --jq .runs[].status", "succeeded\n"},
		{"--jq [.runs[]|.calls] runs list", "[0]\n"},
		{"exec --jq .output,.status -e return({a:9007199254740993n})", "{\"a\":9007199254740993}\nsucceeded\n"},
		{"runs list --jq empty", ""},
		{"runs list --jq env|length", "0\n"},
	} {
		if r := f.run(strings.Fields(c.args)...).want(0); r.stdout != c.want {
			t.Errorf("%s: got %q, want %q", c.args, r.stdout, c.want)
		}
	}
	before := f.run("runs", "list", "--jq", ".runs|length").want(0).stdout
	for _, bad := range []string{".[", "nothing_of_that_name", "input_line_number+"} {
		if r := f.run("exec", "--jq", bad, "-e", "return 2").want(2); r.stdout != "" || !strings.Contains(r.stderr, "--jq") {
			t.Errorf("%s: %q, %s", bad, r.stdout, r.stderr)
		}
	}
	if after := f.run("runs", "list", "--jq", ".runs|length").want(0).stdout; after != before {
		t.Errorf("%s runs, then %s", before, after)
	}
	if r := f.run("runs", "list", "--jq", ".runs.x").want(1); r.stdout != "" || !strings.Contains(r.stderr, "--jq") {
		t.Errorf("%q, %s", r.stdout, r.stderr)
	}
	if r := f.run("exec", "--jq", ".error.kind", "-e", "throw new Error('x')").want(1); r.stdout != "runtime\n" {
		t.Errorf("a failed run: %q", r.stdout)
	}
}
