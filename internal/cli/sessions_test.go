package cli_test

import (
	"strings"
	"testing"
)

// TestSessionsAndFiles: what a program writes can be found and taken out, with the values of its tokens, until the session is deleted.
func TestSessionsAndFiles(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if r := f.run("sessions", "list").want(0); !strings.Contains(r.stderr, "no sessions") {
		t.Errorf("got %s", r.stderr)
	}
	f.run("exec", "--session", "s1", "-e", `await fs.mkdir('/workspace/out'); await fs.writeFile('/workspace/out/a.txt', 'mail ada@example.com')`).want(0)
	f.run("exec", "--session", "s2", "--user", "ann", "-e", "return 1").want(0)
	if r := f.run("sessions", "list").want(0); !strings.Contains(r.stdout, "s1") || !strings.Contains(r.stdout, "ann") {
		t.Errorf("got %s", r.stdout)
	}
	if r := f.run("sessions", "show", "s1").want(0); !strings.Contains(r.stdout, "2 files and directories") {
		t.Errorf("got %s", r.stdout)
	}
	if r := f.run("files", "ls", "s1").want(0); !strings.Contains(r.stdout, "out/a.txt") {
		t.Errorf("got %s", r.stdout)
	}
	if r := f.run("files", "ls", "s1", "/workspace/out").want(0); !strings.Contains(r.stdout, "a.txt") {
		t.Errorf("got %s", r.stdout)
	}
	var listed struct {
		Files []struct {
			Path string
			Size int
		}
	}
	f.run("files", "ls", "s1", "--json").want(0).value(&listed)
	if len(listed.Files) != 2 {
		t.Errorf("got %+v", listed)
	}
	if r := f.run("files", "ls", "s2", "--user", "ann").want(0); !strings.Contains(r.stderr, "no files") {
		t.Errorf("got %s %s", r.stdout, r.stderr)
	}
	f.run("files", "get", "s1", "/workspace/out/a.txt").want(0)
	if got := f.read("a.txt"); got != "mail ada@example.com" {
		t.Errorf("got %q", got)
	}
	if r := f.run("files", "get", "s1", "out/a.txt", "-", "--raw").want(0); r.stdout != "mail [EMAIL_1]" {
		t.Errorf("got %q", r.stdout)
	}
	for _, c := range []struct{ args, want string }{
		{"files get s1 none.txt", "none.txt"},
		{"files get s1 ../../x", "x"},
		{"files get s1 out", "out"},
		{"files ls none", `no session "none"`},
		{"files ls s2", `user local has no session "s2"`}, // it is ann's
		{"sessions delete none", "harness sessions list"},
	} {
		if r := f.run(strings.Fields(c.args)...).want(2); !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: %s", c.args, r.stderr)
		}
	}
	f.run("sessions", "delete", "s1").want(0)
	f.run("files", "ls", "s1").want(2)
	if r := f.run("sessions", "list").want(0); strings.Contains(r.stdout, "s1") || !strings.Contains(r.stdout, "s2") {
		t.Errorf("got %s", r.stdout)
	}
}
