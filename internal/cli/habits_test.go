package cli_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/cli"
)

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	f := setup(t)
	version := f.run("version").want(0).stdout
	if got := f.run("--version").want(0).stdout; got != version {
		t.Errorf("--version: %q, want %q", got, version)
	}
	var value struct{ Version string }
	f.run("--version", "--json").want(0).value(&value)
	if value.Version == "" {
		t.Error("no version")
	}
	for _, command := range [][]string{{}, {"exec"}, {"servers", "add"}} {
		want := f.run(append(command, "--help")...).want(0).stdout
		if got := f.run(append([]string{"help"}, command...)...).want(0).stdout; got != want {
			t.Errorf("help %v: %q, want %q", command, got, want)
		}
	}
	if r := f.run("help", "fly").want(2); !strings.Contains(r.stderr, "fly") {
		t.Error(r.stderr)
	}
}

// TestUpwards runs commands below the folder of the configuration. They use the configuration file and the store of that folder.
func TestUpwards(t *testing.T) {
	t.Parallel()
	f := setup(t)
	file := f.write("harness.yaml", "# mine\n")
	below := *f
	below.dir = filepath.Join(f.dir, "a", "b")
	if err := os.MkdirAll(below.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if r := below.run("servers", "add", "x", "--", "cmd").want(2); !strings.Contains(r.stderr, "harness trust "+f.dir) {
		t.Error(r.stderr)
	}
	below.run("trust").want(0)
	below.run("servers", "add", "x", "--", "cmd").want(0)
	if text := f.read("harness.yaml"); !strings.Contains(text, "# mine") || !strings.Contains(text, "command: cmd") {
		t.Errorf("got\n%s", text)
	}
	var out outcome
	below.run("exec", "--json", "-e", "return 1").want(0).value(&out)
	f.run("runs", "show", out.RunID).want(0)
	if r := below.run("config", "show").want(0); !strings.Contains(r.stdout, file) || !strings.Contains(r.stdout, "above the working directory") ||
		!strings.Contains(r.stdout, filepath.Join(f.dir, "data", "harness.db")) {
		t.Errorf("got %s", r.stdout)
	}
	// The nearest file above applies.
	other := below.write("harness.yaml", "")
	below.dir = filepath.Join(below.dir, "c")
	if err := os.Mkdir(below.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	below.run("trust").want(0)
	if r := below.run("config", "show").want(0); !strings.Contains(r.stdout, other) {
		t.Errorf("got %s", r.stdout)
	}
}

func TestToolsCallArguments(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	f.write("query.sql", "SELECT 'a=b' AS x")
	f.write("args.json", `{"query": "SELECT 'a=b' AS x"}`)
	const want = `"x": "a=b"`
	for _, c := range []struct {
		stdin string
		args  []string
	}{
		{"", []string{`{"query": "SELECT 'a=b' AS x"}`}},
		{"", []string{"@args.json"}},
		{`{"query": "SELECT 'a=b' AS x"}`, []string{"-"}},
		{"", []string{"query=SELECT 'a=b' AS x"}},
		{"", []string{"query=SELECT 'a=b' AS x", "timeout_ms=5000"}}, // the schema makes the value a number
		{"", []string{"query=@query.sql"}},
		{"", []string{`query:="SELECT 'a=b' AS x"`}},
		{"", []string{"query=SELECT ? AS x", `params:=["a=b"]`}},
		{"", []string{"query=SELECT ? AS x", `params=["a=b"]`}},
	} {
		if r := f.runIn(t.Context(), c.stdin, append([]string{"tools", "call", "database__query"}, c.args...)...).want(0); !strings.Contains(r.stdout, want) {
			t.Errorf("%q: got %s", c.args, r.stdout)
		}
	}
	for _, c := range []struct {
		stdin, want string
		args        []string
	}{
		{"", "given twice", []string{"query=a", "query=b"}},
		{"", "is not JSON", []string{"query:=SELECT"}},
		{"", "not a JSON object", []string{"query=a", "b"}},
		{"[1]", "not a JSON object", []string{"-"}},
		{"", "none.json", []string{"@none.json"}},
		{"", "none.sql", []string{"query=@none.sql"}},
		{"", "NAME=VALUE", []string{"=b", "c=d"}},
	} {
		if r := f.runIn(t.Context(), c.stdin, append([]string{"tools", "call", "database__query"}, c.args...)...).want(2); !strings.Contains(r.stderr, c.want) {
			t.Errorf("%q: got %s, want %s", c.args, r.stderr, c.want)
		}
	}
}

// TestPipedArguments pipes arguments to a tool with required properties. A call of any other tool does not read standard input, because the text may be for a
// loop of the shell.
func TestPipedArguments(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	call := func(stdin, tool string) (r *result, left string) {
		t.Helper()
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		if _, err := write.WriteString(stdin); err != nil {
			t.Fatal(err)
		}
		write.Close()
		var stdout, stderr strings.Builder
		w := f.world([]string{"tools", "call", tool}, "", &stdout, &stderr)
		w.Stdin = read
		r = &result{t, w.Args, cli.Main(t.Context(), w), stdout.String(), stderr.String()}
		rest, err := io.ReadAll(read)
		if err != nil {
			t.Fatal(err)
		}
		return r, string(rest)
	}
	const args = `{"query": "SELECT 'a=b' AS x"}`
	if r, _ := call(args, "database__query"); !strings.Contains(r.want(0).stdout, `"x": "a=b"`) {
		t.Errorf("got %s", r.stdout)
	}
	if r, _ := call("[1]", "database__query"); !strings.Contains(r.want(2).stderr, "not a JSON object") {
		t.Errorf("got %s", r.stderr)
	}
	if r, _ := call(" \n", "database__query"); !strings.Contains(r.want(1).stderr, "query") {
		t.Errorf("got %s", r.stderr)
	}
	if r, left := call(args, "database__list_tables"); r.want(0).stdout == "" || left != args {
		t.Errorf("got %s, left %q", r.stdout, left)
	}
}

func TestPipedProgram(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if r := f.runIn(t.Context(), "return 1 + 2", "exec").want(0); r.stdout != "3\n" {
		t.Errorf("got %q", r.stdout)
	}
	if r := f.runIn(t.Context(), " \n", "exec").want(2); !strings.Contains(r.stderr, "no program") {
		t.Errorf("got %q", r.stderr)
	}
}

func TestDurationsWithDays(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var key struct{ Expires string }
	f.run("keys", "create", "--expires", "30d", "--json").want(0).value(&key)
	if key.Expires == "" {
		t.Error("the key does not expire")
	}
	for _, bad := range []string{"30", "-1d", "soon", "d"} {
		if r := f.run("keys", "create", "--expires="+bad).want(2); !strings.Contains(r.stderr, "--expires") || !strings.Contains(r.stderr, "30d") && !strings.Contains(r.stderr, "30s") {
			t.Errorf("%s: %s", bad, r.stderr)
		}
	}
}

// TestForeignKeys checks that only commands about the configuration warn about keys of other clients, and that every command warns about misspelt keys.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "mcpServers:\n  x: {command: cmd, alwaysAllow: [a]}\n")
	if r := f.run("exec", "-e", "return 1").want(0); r.stderr != "" {
		t.Errorf("exec says %s", r.stderr)
	}
	for _, command := range []string{"config show", "servers disable x"} {
		if r := f.run(strings.Fields(command)...).want(0); !strings.Contains(r.stderr, "mcpServers.x.alwaysAllow: this key is not known and is ignored") {
			t.Errorf("%s says %s", command, r.stderr)
		}
	}
	f.write("harness.yaml", "mcpServers:\n  x: {command: cmd, arg: [a]}\n")
	if r := f.run("exec", "-e", "return 1").want(0); !strings.Contains(r.stderr, "did you mean args?") {
		t.Errorf("exec says %s", r.stderr)
	}
}

// TestRunsListPrograms checks that the list of runs shows the beginning of a program without a file.
func TestRunsListPrograms(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("sum.js", "return 1 + 1")
	f.run("exec", "-e", "const a = 1\nreturn a +\n\t2").want(0)
	f.run("exec", "sum.js").want(0)
	r := f.run("runs", "list").want(0)
	if !strings.Contains(r.stdout, "  const a = 1 return a + 2\n") || !strings.Contains(r.stdout, "  sum.js\n") {
		t.Errorf("got\n%s", r.stdout)
	}
}

// TestMistypedNames checks that errors about misspelt names suggest the right name and, for objects in the store, name the store.
func TestMistypedNames(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database", "crm")
	f.run("exec", "-e", "await fs.writeFile('/skills/summary.js', '// Sums up.\\nexports.run = () => 1')").want(0)
	var out outcome
	f.run("exec", "--json", "--session", "sales", "-e",
		"await fs.writeFile('/workspace/results/report.csv', 'a'); await fs.writeFile('/workspace/notes.txt', 'b')").want(0).value(&out)
	f.run("exec", "--session", "monday", "-e", "return 1").want(0)
	f.run("servers", "add", "off", "--", "cmd").want(0)
	f.run("servers", "disable", "off").want(0)
	f.write("clients.json", `{"mcpServers": {"office": {"command": "a"}, "other": {"command": "b"}}}`)
	var key struct{ ID string }
	f.run("keys", "create", "--json").want(0).value(&key)
	for _, c := range []struct{ args, want, not string }{
		{"tools show database__qery", "did you mean database__query?", "list_tables"},
		{"tools show qery", "did you mean database__query?", " or "},
		{"tools show sendmail", "harness tools list", "did you mean"},
		{"tools show database", "is a server", "did you mean"},
		{"tools types databse", "did you mean database?", "crm"},
		{"servers test databse", "did you mean database?", "crm"},
		{"servers remove databse", "did you mean database?", "crm"},
		{"servers login databse", "did you mean database?", "crm"},
		{"servers logout databse", "did you mean database?", "crm"},
		{"servers review databse", "did you mean database?", "crm"},
		{"keys revoke key_x", "harness.db", "revoke key"},
		{"tasks show task_x", `unknown task "task_x"`, "not found"},
		{"skills show summaryx", "did you mean summary?", "not exist"},
		{"runs show run_x", "harness.db", "did you mean"},
		{"runs show " + swapped(out.RunID), "did you mean " + out.RunID + "?", " or "},
		{"runs replay " + swapped(out.RunID), "did you mean " + out.RunID + "?", " or "},
		{"keys revoke " + swapped(key.ID), "did you mean " + key.ID + "?", " or "},
		{"sessions show salse", "did you mean sales?", "monday"},
		{"sessions delete salse", "did you mean sales?", "monday"},
		{"files ls salse", "did you mean sales?", "monday"},
		{"files get sales reprot.csv", "did you mean results/report.csv?", "notes"},
		{"files get sales results/reprt.csv", "did you mean results/report.csv?", "notes"},
		{"files rm sales note.txt", "did you mean notes.txt?", "report"},
		{"files get sales other.txt", "there is no /workspace/other.txt in session sales; harness files ls sales", "did you mean"},
		{"files ls sales result", "did you mean results?", "notes"},
		{"files get sales results", "is a directory; name a file in it: harness files ls sales results", "EISDIR"},
		{"exec --sandbox wsam -e 1", "flag --sandbox: sandbox.tier: ", "none"},
		{"--config . exec -e 1", "is a directory; give the path of the harness.yaml in it", "no file"},
		{"servers test off", "harness servers enable off", "SERVER"},
		{"servers import --server ofice clients.json", "did you mean office?", "other"},
		{"init", "harness.yaml exists already; edit it", "file already exists"},
	} {
		r := f.run(strings.Fields(c.args)...).want(2)
		if !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, c.not) {
			t.Errorf("%s: got %s; want %q and not %q", c.args, r.stderr, c.want, c.not)
		}
	}
	if r := f.run("run", " ").want(2); !strings.Contains(r.stderr, "the task is empty") {
		t.Error(r.stderr)
	}
}

// swapped returns a name with its last two letters swapped. If they are equal, it replaces the last one.
func swapped(name string) string {
	head, a, b := name[:len(name)-2], name[len(name)-2], name[len(name)-1]
	if a == b {
		a = 'z'
	}
	return head + string([]byte{b, a})
}

// TestUnreachableModel checks that an unreachable model gives exit code 3, not that of a failed task.
func TestUnreachableModel(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "model: {provider: compatible, name: m, baseUrl: 'http://127.0.0.1:1/v1', maxRetries: 0}\n")
	if r := f.run("run", "x").want(3); !strings.Contains(r.stderr, "model.baseUrl") {
		t.Errorf("got %s", r.stderr)
	}
}
