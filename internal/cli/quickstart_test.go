package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// step is one command of a document and what it shows.
type step struct {
	line    int
	command string
	want    string
}

// steps reads the fenced console blocks of a document. "$ " begins a command, "> " goes on with it, the rest is output.
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

// matches holds output against what a document shows, where … stands for anything.
func matches(want, got string) bool {
	parts := strings.Split(want, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(got)
}

// TestQuickStart types everything in docs/QUICK_START.md into one shell.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the document is written for a Unix shell: run this test on Linux or macOS")
	}
	text, err := os.ReadFile("../../docs/QUICK_START.md")
	if err != nil {
		t.Fatal(err)
	}
	all := steps(string(text))
	if len(all) < 20 {
		t.Fatalf("the document has only %d commands", len(all))
	}
	f := setup(t)
	const mark = "@@ end of step, code "
	var script strings.Builder
	script.WriteString("exec 2>&1\n")
	for _, s := range all {
		fmt.Fprintf(&script, "%s\necho '%s'$?\n", s.command, mark)
	}
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(caches), "\n")
	shell := exec.Command("sh", "-c", script.String())
	shell.Dir = "../.."
	shell.Env = append(f.environ, "GOCACHE="+lines[0], "GOMODCACHE="+lines[1], "PATH="+filepath.Join(f.dir, "bin")+":"+os.Getenv("PATH"))
	shown, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	rest := string(shown)
	for _, s := range all {
		got, after, found := strings.Cut(rest, mark)
		code, after, _ := strings.Cut(after, "\n")
		rest = after
		if !found || code != "0" {
			t.Fatalf("docs/QUICK_START.md:%d: %s\nended with code %s:\n%s", s.line, s.command, code, got)
		}
		if !matches(s.want, got) {
			t.Errorf("docs/QUICK_START.md:%d: %s\nshows\n%s\nthe document says\n%s", s.line, s.command, got, s.want)
		}
	}
}
