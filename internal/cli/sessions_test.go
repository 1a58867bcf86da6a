package cli_test

import (
	"strings"
	"testing"
)

// TestSessionsAndFiles lists and downloads the files that programs have written, with values in place of tokens, and deletes the session.
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
	if r := f.run("files", "get", "s1", "out/a.txt", "-", "--raw").want(0); r.stdout != "mail pii_1e@d1.pii.invalid" {
		t.Errorf("got %q", r.stdout)
	}
	for _, c := range []struct{ args, want string }{
		{"files get s1 none.txt", "none.txt"},
		{"files get s1 ../../x", "x"},
		{"files get s1 out", "out"},
		{"files ls none", `no session "none"`},
		{"files ls s2", `user local has no session "s2"`}, // s2 is a session of ann
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

// TestFilesPut copies a file into a new session. Programs can read the file, and it can be replaced and removed.
func TestFilesPut(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("a.csv", "mail\nada@example.com\n")
	if r := f.run("files", "put", "s1", "a.csv").want(0); !strings.Contains(r.stdout, "/workspace/a.csv") {
		t.Errorf("got %s", r.stdout)
	}
	f.run("files", "put", "s1", "a.csv", "data/").want(0)
	f.runIn(t.Context(), "second", "files", "put", "s1", "-", "/workspace/b.txt").want(0)
	f.runIn(t.Context(), "third", "files", "put", "s1", "-", "b.txt").want(0)
	if r := f.run("exec", "--session", "s1", "-e", `return [await fs.readFile('/workspace/b.txt'), (await fs.readFile('/workspace/data/a.csv')).includes('pii_1e@d1.pii.invalid'), await fs.readdir('/workspace')]`).want(0); !strings.Contains(r.stdout, "third") ||
		!strings.Contains(r.stdout, "true") || strings.Contains(r.stdout, "harness") {
		t.Errorf("got %s", r.stdout)
	}
	f.run("files", "rm", "s1", "b.txt").want(0)
	f.run("files", "rm", "s1", "-r", "data").want(0)
	if r := f.run("files", "ls", "s1").want(0); strings.Contains(r.stdout, "b.txt") || strings.Contains(r.stdout, "data") {
		t.Errorf("got %s", r.stdout)
	}
	f.environ = append(f.environ, "HARNESS_WORKSPACE_MAX_BYTES=1KiB")
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{strings.Repeat("x", 2000), []string{"s1", "-", "large"}, "workspace.maxBytes"},
		{"x", []string{"s1", "-"}, "has no name"},
		{"x", []string{"s1", "-", "../out"}, ".."},
		{"", []string{"s1", "none.txt"}, "none.txt"},
		{"", []string{"s1", "."}, "directory"},
	} {
		if r := f.runIn(t.Context(), c.stdin, append([]string{"files", "put"}, c.args...)...).want(2); !strings.Contains(r.stderr, c.want) {
			t.Errorf("%q: %s, want %q", c.args, r.stderr, c.want)
		}
	}
	f.run("files", "rm", "s1", "none").want(2)
	f.run("files", "rm", "s1", ".", "-r").want(2)
	f.environ = f.environ[:len(f.environ)-1]
	if r := f.run("files", "ls", "s1").want(0); strings.Contains(r.stdout, "large") {
		t.Errorf("got %s", r.stdout)
	}
}

// TestFilesOfSkills uses the same commands with the user's skills.
func TestFilesOfSkills(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("double.js", "export default (n) => n * 2 // pii_1e@d1.pii.invalid")
	if r := f.run("files", "ls", "/skills").want(0); !strings.Contains(r.stderr, "no files in the skills of local") {
		t.Errorf("got %s", r.stderr)
	}
	if r := f.run("files", "put", "/skills", "double.js", "math/").want(0); !strings.Contains(r.stdout, "/skills/math/double.js") {
		t.Errorf("got %s", r.stdout)
	}
	if r := f.run("files", "ls", "/skills", "/skills/math").want(0); !strings.Contains(r.stdout, "math/double.js") {
		t.Errorf("got %s", r.stdout)
	}
	if r := f.run("exec", "-e", "import double from '/skills/math/double.js'; return double(21)").want(0); r.stdout != "42\n" {
		t.Errorf("got %s", r.stdout)
	}
	if r := f.run("files", "get", "/skills", "math/double.js", "-").want(0); r.stdout != f.read("double.js") {
		t.Errorf("got %s", r.stdout)
	}
	f.run("files", "ls", "/skills", "--user", "ann").want(0)
	if r := f.run("files", "get", "/skills/math/double.js", "x").want(2); !strings.Contains(r.stderr, "/skills math/double.js") {
		t.Errorf("got %s", r.stderr)
	}
	f.run("files", "rm", "/skills", "math").want(2)
	f.run("files", "rm", "/skills", "math", "-r").want(0)
	f.run("files", "get", "/skills", "math/double.js").want(2)
}
