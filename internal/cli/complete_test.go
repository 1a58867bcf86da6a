package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestComplete calls the command as the completion scripts of shells do: the last argument is the word to complete.
func TestComplete(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("crm", "database")
	f.run("tools", "list").want(0) // stores the names of the tools
	f.run("exec", "-e", "return 1").want(0)
	id := strings.TrimSpace(f.run("runs", "list", "--json").want(0).stdout)
	_, id, _ = strings.Cut(id, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	for _, c := range []struct {
		args []string
		want string // expected line
		not  string
	}{
		{[]string{"ser"}, "servers\t", "tools"},
		{[]string{"servers", "t"}, "test\t", "remove"},
		{[]string{"exec", "--sess"}, "--session", "--sandbox"},
		{[]string{"servers", "test", ""}, "crm\n", "file"},
		{[]string{"servers", "test", "d"}, "database\n", "crm"},
		{[]string{"tools", "call", "crm__g"}, "crm__get\tOne customer", "crm__search"},
		{[]string{"tools", "types", ""}, "database\n", "crm__get"},
		{[]string{"runs", "show", "run_"}, id + "\t", "crm"},
		{[]string{"runs", "list", "--status", "f"}, "failed\n", "running"},
		{[]string{"completion", ""}, "zsh\n", "tcsh"},
		{[]string{"exec", ""}, ":0\n", "crm"}, // files, whose names the shell completes itself
		{[]string{"tools", "show", "crm__get", ""}, ":4\n", "crm__get"},
	} {
		r := f.run(append([]string{"__complete"}, c.args...)...).want(0)
		if !strings.Contains(r.stdout, c.want) || strings.Contains(r.stdout, c.not) || r.stderr != "" {
			t.Errorf("%q: got %q, %q; want %q and not %q", c.args, r.stdout, r.stderr, c.want, c.not)
		}
	}
	// If the configuration cannot be read, there are no completions, and the command prints no error into the line of the shell.
	f.write("harness.yaml", "sandbox: [")
	if r := f.run("__complete", "servers", "test", "").want(0); r.stdout != ":4\n" || r.stderr != "" {
		t.Errorf("got %q, %q", r.stdout, r.stderr)
	}
}

func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for shell, want := range map[string]string{
		"bash": "complete -o default -F __start_harness harness", "zsh": "#compdef harness", "fish": "complete -c harness",
		"powershell": "Register-ArgumentCompleter",
	} {
		script := f.run("completion", shell).want(0).stdout
		if !strings.Contains(script, want) {
			t.Errorf("%s: no %q in %s", shell, want, script)
		}
		if path, err := exec.LookPath(shell); err == nil && shell == "bash" {
			cmd := exec.Command(path, "-n")
			cmd.Stdin = strings.NewReader(script)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", shell, err, out)
			}
		}
	}
	f.run("completion", "tcsh").want(2)
}

func TestMan(t *testing.T) {
	t.Parallel()
	f := setup(t)
	page := f.run("man", "tools", "call").want(0).stdout
	for _, want := range []string{`.TH "HARNESS-TOOLS-CALL" "1"`, "harness tools call NAME", "Standard", "--raw", "timeout_ms=5000"} {
		if !strings.Contains(strings.ToLower(page), strings.ToLower(want)) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if r := f.run("man", "tols").want(2); !strings.Contains(r.stderr, "did you mean tools?") {
		t.Error(r.stderr)
	}
	f.run("man", "tools", "--dir", "x").want(2)
	f.run("man", "--dir", "man1").want(0)
	pages, err := filepath.Glob(filepath.Join(f.dir, "man1", "*.1"))
	if err != nil || len(pages) < 50 {
		t.Errorf("%d pages, %v", len(pages), err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "man1", "harness-servers-add.1")); err != nil {
		t.Error(err)
	}
}
