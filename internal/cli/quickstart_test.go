package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/fake"
)

// step is a command in a document, with the output that the document shows.
type step struct {
	line    int
	command string
	want    string
}

// steps returns the commands in the console blocks of a document. "$ " begins a command, "> " continues it, and other lines are its output.
func steps(text string) []step {
	var all []step
	console := false
	for i, line := range strings.Split(text, "\n") {
		more, goesOn := strings.CutPrefix(line, ">")
		switch {
		case strings.HasPrefix(line, "```"):
			console = line == "```console"
		case !console:
		case strings.HasPrefix(line, "$ "):
			all = append(all, step{line: i + 1, command: line[2:]})
		case goesOn && all[len(all)-1].want == "":
			all[len(all)-1].command += "\n" + strings.TrimPrefix(more, " ")
		default:
			all[len(all)-1].want += line + "\n"
		}
	}
	return all
}

// matches reports whether output matches what a document shows. In the document, … stands for any text.
func matches(want, got string) bool {
	parts := strings.Split(want, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(got)
}

// typeIn executes commands in one shell, in a directory and with the given environment, and compares their outputs with the document. If a command fails, the
// test ends.
func typeIn(t *testing.T, document, shell, dir string, environ []string, all []step) {
	t.Helper()
	const mark = "@@ end of step, code "
	script := "exec 2>&1\n"
	for _, s := range all {
		script += fmt.Sprintf("%s\necho '%s'$?\n", s.command, mark)
	}
	cmd := exec.Command(shell, "-c", script)
	cmd.Dir, cmd.Env = dir, environ
	shown, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	rest := string(shown)
	for _, s := range all {
		got, after, found := strings.Cut(rest, mark)
		code, after, _ := strings.Cut(after, "\n")
		rest = after
		if !found || code != "0" {
			t.Fatalf("%s:%d: %s\nended with code %s:\n%s", document, s.line, s.command, code, got)
		}
		if !matches(s.want, got) {
			t.Errorf("%s:%d: %s\nshows\n%s\nthe document says\n%s", document, s.line, s.command, got, s.want)
		}
	}
}

// newUser returns a user who has used neither the harness nor npm on this machine. Only Go's caches of compiled packages and modules are shared.
func newUser(t *testing.T) (f *fixture, environ []string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the document is written for a Unix shell: run this test on Linux or macOS")
	}
	f = setup(t)
	f.environ = append(f.environ, "HARNESS_CACHE_DIR="+filepath.Join(f.dir, "cache"))
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(caches), "\n")
	return f, append(slices.Clone(f.environ), "GOCACHE="+lines[0], "GOMODCACHE="+lines[1], "PATH="+filepath.Join(f.dir, "bin")+":"+os.Getenv("PATH"),
		"GOFLAGS="+os.Getenv("GOFLAGS"), "CGO_ENABLED=0") // the flags of the tests, because Go would compile every package again for other flags
}

// document reads a document and its commands. least is the minimum number of commands.
func document(t *testing.T, name string, least int) (text string, all []step) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	if all = steps(string(raw)); len(all) < least {
		t.Fatalf("%s has only %d commands", name, len(all))
	}
	return string(raw), all
}

// TestQuickStart executes the commands in docs/QUICK_START.md in one shell, as a new user.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	_, environ := newUser(t)
	_, all := document(t, "docs/QUICK_START.md", 20)
	typeIn(t, "docs/QUICK_START.md", "sh", "../..", environ, all)
}

// TestReadme executes the commands in README.md in one shell, in a separate checkout, as a new user. It leaves out make test, which would run this test again.
// The MCP server comes from npm. The model is a fake that lists the files.
func TestReadme(t *testing.T) {
	t.Parallel()
	f, environ := newUser(t)
	for _, program := range []string{"npx", "make", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip("install ", program)
		}
	}
	checkout := filepath.Join(f.dir, "checkout")
	copied := exec.Command("sh", "-c", `mkdir "$0" && git ls-files -z --cached --others --exclude-standard | tar cf - --null --ignore-failed-read -T - 2>/dev/null | tar xf - -C "$0"`, checkout)
	copied.Dir = filepath.Join("..", "..")
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("copy the source: %v %s", err, out)
	}
	before := len(f.environ)
	f.modelled(func(r fake.Request) fake.Reply {
		if r.Last().Role == "tool" {
			return fake.Reply{Text: "There is one file: " + strings.TrimSpace(r.Last().Text)}
		}
		return code(`return (await tools.files.listDirectory({ path: "." })).content`)
	})
	_, all := document(t, "README.md", 10)
	all = slices.DeleteFunc(all, func(s step) bool { return strings.HasPrefix(s.command, "make test") })
	typeIn(t, "README.md", "sh", checkout, append(environ, f.environ[before:]...), all)
}
