package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/testing/fake"
)

func TestExec(t *testing.T) {
	t.Parallel()
	f := setup(t)
	program := f.write("analysis.ts", "const n: number = 41\nconsole.log('working')\nreturn { n: n + 1 }")
	f.write("-dash.js", "return 'dashed'")
	for _, c := range []struct {
		name, stdin    string
		args           []string
		stdout, stderr string
	}{
		{"code", "", []string{"exec", "-e", "return 1+1"}, "2\n", ""},
		{"inline form", "", []string{"exec", "--eval=-1 + 3"}, "2\n", ""},
		{"text", "", []string{"exec", "-e", "return 'a\\nb'"}, "a\nb\n", ""},
		{"object", "", []string{"exec", "-e", "return {a: [1]}"}, "{\n  \"a\": [\n    1\n  ]\n}\n", ""},
		{"nothing returned", "", []string{"exec", "-e", "const a = 1"}, "null\n", ""},
		{"no code", "", []string{"exec", "-e", ""}, "null\n", ""},
		{"file", "", []string{"exec", program}, "{\n  \"n\": 42\n}\n", "working\n"},
		{"relative file", "", []string{"exec", "analysis.ts"}, "{\n  \"n\": 42\n}\n", "working\n"},
		{"standard input", "return 'from stdin'", []string{"exec", "-"}, "from stdin\n", ""},
		{"name begins with a dash", "", []string{"exec", "./-dash.js"}, "dashed\n", ""},
		{"name behind --", "", []string{"exec", "--", "-dash.js"}, "dashed\n", ""},
		{"levels", "", []string{"exec", "-e", "console.error('e'); console.warn('w'); console.debug('d'); return 0"}, "0\n", "e\nw\nd\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := f.runIn(t.Context(), c.stdin, c.args...).want(0)
			if r.stdout != c.stdout || r.stderr != c.stderr {
				t.Errorf("stdout %q, want %q\nstderr %q, want %q", r.stdout, c.stdout, r.stderr, c.stderr)
			}
		})
	}
}

// TestExecJSON checks the documented keys of the JSON result, with --json at different places of the command line.
func TestExecJSON(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, args := range [][]string{
		{"exec", "--json", "-e", "console.log('x'); return 1+1"},
		{"--json", "exec", "-e", "console.log('x'); return 1+1"},
		{"exec", "-e", "console.log('x'); return 1+1", "--json"},
		{"--log-level=error", "exec", "-e", "console.log('x'); return 1+1", "--json=true"},
	} {
		var keys map[string]json.RawMessage
		var o outcome
		r := f.run(args...).want(0).value(&keys).value(&o)
		for _, key := range []string{"runId", "status", "output", "logs", "calls", "durationMs", "sandbox"} {
			if keys[key] == nil {
				t.Errorf("%q: no key %q in %s", args, key, r.stdout)
			}
		}
		if len(keys) != 7 || o.Status != "succeeded" || string(o.Output) != "2" || o.Sandbox != "wasm" || o.DurationMs <= 0 ||
			!strings.HasPrefix(o.RunID, "run_") || len(o.Logs) != 1 || o.Logs[0].Level != "log" || o.Logs[0].Text != "x" {
			t.Errorf("%q: %s", args, r.stdout)
		}
		if r.stderr != "" {
			t.Errorf("%q: standard error %q", args, r.stderr)
		}
	}
	var o outcome
	f.run("exec", "--json", "-e", "let a\nreturn a.b").want(1).value(&o)
	if o.Status != "failed" || o.Error == nil || o.Error.Kind != "runtime" || o.Error.Line != 2 || o.Error.Column != 8 ||
		o.Error.Source != "return a.b" || o.Error.Hint == "" || string(o.Output) != "null" {
		t.Errorf("got %+v, error %+v", o, o.Error)
	}
	f.run("exec", "--json", "-e", "return 1 +").want(1).value(&o)
	if o.Error.Kind != "syntax" || o.Error.Line != 1 {
		t.Errorf("got %+v", o.Error)
	}
	f.run("exec", "--json", "--timeout", "100ms", "-e", "while (true) {}").want(1).value(&o)
	if o.Error.Kind != "timeout" {
		t.Errorf("got %+v", o.Error)
	}
}

// TestFailure checks the text of failures for people.
func TestFailure(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.run("exec", "-e", "await fs.writeFile('/skills/bad.js', 'exports.f = (o) => {\\n\\treturn o.x.y\\n}'); return 0").want(0)
	for _, c := range []struct{ name, code, want string }{
		{"runtime, with a tab", "const a = 1\n\tlet b = a.foo.bar\n", "TypeError (runtime): cannot read property 'bar' of undefined: a.foo is undefined\n" +
			"  at program.js:2:10\n    \tlet b = a.foo.bar\n    \t        ^\n  hint: "},
		{"syntax", "return 1 +", "SyntaxError (syntax): unexpected end of the program\n  at program.js:1:11\n    return 1 +\n              ^\n  run: run_"},
		{"skill", "return require('/skills/bad.js').f({})", "  at /skills/bad.js:2:9\n    \treturn o.x.y\n    \t       ^\n"},
		{"effects", "await fs.writeFile('/workspace/a', 'x'); throw new Error('late')", "  effect: call 1, fs writeFile: done\n  run: run_"},
		{"no place", "await new Promise(() => {})", "never_settles"},
	} {
		r := f.run("exec", "-e", c.code).want(1)
		if r.stdout != "" || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: stdout %q, stderr:\n%s\nwant in it:\n%s", c.name, r.stdout, r.stderr, c.want)
		}
	}
}

// TestRecordAndReplay records a run and replays it without its server. A program that does not run leaves an existing recording unchanged.
func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	program := "const rows = await callMCPTool('database__query', {query: 'SELECT 41 AS n'}); return rows[0].n + Math.random()"
	f.write("p.js", program)
	first := f.run("exec", "p.js", "--record", "run.json").want(0)
	text := f.read("run.json")
	f.run("servers", "remove", "database").want(0) // a replay needs no server
	if again := f.run("exec", "p.js", "--replay", "run.json").want(0); again.stdout != first.stdout {
		t.Errorf("replay gave %q, recorded %q", again.stdout, first.stdout)
	}
	if again := f.run("exec", "--replay", "run.json").want(0); again.stdout != first.stdout {
		t.Errorf("replay of the recorded program gave %q, recorded %q", again.stdout, first.stdout)
	}
	f.write("p.js", strings.Replace(program, "41", "42", 1))
	var o outcome
	r := f.run("exec", "p.js", "--replay", "run.json", "--json").want(1).value(&o)
	if o.Error.Kind != "diverged" || !strings.Contains(o.Error.Message, "call 1") {
		t.Errorf("got %s", r.stdout)
	}
	f.run("exec", "-e", "return 1 +", "--record", "run.json").want(1) // a program that does not run is not recorded
	if f.read("run.json") != text {
		t.Error("the recording was changed by a program that did not run")
	}
	if left, _ := filepath.Glob(filepath.Join(f.dir, "*.tmp")); len(left) != 0 {
		t.Errorf("temporary files are left: %v", left)
	}
	info, err := os.Stat(filepath.Join(f.dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("the recording, which holds data, has mode %v", info.Mode())
	}
}

func TestForModel(t *testing.T) {
	t.Parallel()
	f := setup(t)
	code := "console.warn('careful'); return 'x '.repeat(20000)"
	r := f.run("exec", "--session", "s", "--for-model=200", "-e", code).want(0)
	_, rest, found := strings.Cut(r.stdout, "the whole is in ")
	path, _, _ := strings.Cut(rest, " ")
	if !found || !strings.HasPrefix(path, "/workspace/results/run_") || r.stderr != "" || !strings.Contains(r.stdout, "warn: careful") {
		t.Fatalf("stdout %s\nstderr %s", r.stdout, r.stderr)
	}
	var o outcome
	f.run("exec", "--session", "s", "--json", "-e", "return (await fs.readFile('"+path+"')).length").want(0).value(&o)
	if string(o.Output) != "40002" {
		t.Errorf("the whole has %s characters", o.Output)
	}
	r = f.run("exec", "--for-model=200", "-e", code).want(0)
	if !strings.Contains(r.stdout, "the run has no session") {
		t.Errorf("got %s", r.stdout)
	}
	r = f.run("exec", "--for-model", "-e", "throw new Error('sorry')").want(1)
	if !strings.HasPrefix(r.stdout, "failed\nError (runtime): sorry\n") || r.stderr != "" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	var v struct{ RunID, Status, Text string }
	f.run("exec", "--for-model", "--json", "-e", "return 7").want(0).value(&v)
	if v.Text != "output:\n7\n" || v.Status != "succeeded" || v.RunID == "" {
		t.Errorf("got %+v", v)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if r := f.run("tools", "list").want(0); r.stdout != "" || !strings.Contains(r.stderr, "no server offers a tool") {
		t.Errorf("without servers: stdout %q, stderr %q", r.stdout, r.stderr)
	}
	f.addDemo("database", "mailer")
	f.run("servers", "add", "broken", "--", "no-such-command").want(0)
	r := f.run("tools", "list").want(0)
	if !strings.Contains(r.stdout, "database__query") || !strings.Contains(r.stdout, "mailer__send") ||
		strings.Count(r.stderr, "no-such-command") == 0 || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("stdout %s\nstderr %s", r.stdout, r.stderr)
	}
	var listed []struct{ Name, Server, Description string }
	f.run("tools", "list", "--json").want(0).value(&listed)
	if len(listed) < 4 || listed[0].Name == "" || listed[0].Server == "" || listed[0].Description == "" {
		t.Errorf("listed %v", listed)
	}
	var hits []struct{ Name string }
	f.run("--json", "tools", "search", "send", "mail").want(0).value(&hits)
	if len(hits) == 0 || hits[0].Name != "mailer__send" {
		t.Errorf("found %v", hits)
	}
	f.run("tools", "search", "xyzzy", "--json").want(0).value(&hits)
	if len(hits) != 0 {
		t.Errorf("found %v", hits)
	}
	if r := f.run("tools", "show", "database__query").want(0); !strings.Contains(r.stdout, "function query(") {
		t.Errorf("got %s", r.stdout)
	}
	var details struct{ Name, TypeScript string }
	f.run("tools", "show", "database.query", "--json").want(0).value(&details)
	if details.Name != "database__query" || details.TypeScript == "" {
		t.Errorf("got %+v", details)
	}
	if r := f.run("tools", "types", "mailer").want(0); !strings.Contains(r.stdout, "namespace tools.mailer") || strings.Contains(r.stdout, "tools.database") {
		t.Errorf("got %s", r.stdout)
	}
	var types struct{ Types string }
	f.run("tools", "types", "--json").want(0).value(&types)
	if !strings.Contains(types.Types, "tools.database") || !strings.Contains(types.Types, "tools.mailer") {
		t.Errorf("got %s", types.Types)
	}
	var o outcome
	f.run("tools", "call", "database__query", `{"query": "SELECT 41 + 1 AS n"}`, "--json").want(0).value(&o)
	if string(o.Output) != `[{"n":42}]` || o.Calls != 1 {
		t.Errorf("got %s after %d calls", o.Output, o.Calls)
	}
	var raw struct{ Output struct{ Content []any } }
	f.run("tools", "call", "database__query", `{"query": "SELECT 1 AS n"}`, "--raw", "--json").want(0).value(&raw)
	if len(raw.Output.Content) == 0 {
		t.Errorf("got %+v", raw)
	}
	// A literal in a program would lose the key __proto__.
	r = f.run("tools", "call", "database__query", `{"query": "SELECT 1", "__proto__": 1}`).want(1)
	if !strings.Contains(r.stderr, `"__proto__"`) || strings.Contains(r.stderr, "JSON.parse") {
		t.Errorf("got %s", r.stderr)
	}
}

func TestServers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if r := f.run("servers", "list").want(0); r.stdout != "" || !strings.Contains(r.stderr, "harness servers add") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	var states []struct{ Name, State, Reason string }
	f.run("servers", "list", "--json").want(0).value(&states)
	f.addDemo("database")
	f.run("servers", "test", "--json").want(0).value(&states)
	if len(states) != 1 || states[0].State != "ready" {
		t.Errorf("got %+v", states)
	}
	f.run("servers", "add", "broken", "--", "no-such-command").want(0)
	r := f.run("servers", "test", "--json").want(3).value(&states)
	if len(states) != 2 || !strings.Contains(r.stderr, "1 of 2 servers cannot be used") {
		t.Errorf("stdout %s\nstderr %s", r.stdout, r.stderr)
	}
	f.run("servers", "test", "database").want(0)
	r = f.run("servers", "test", "broken").want(3)
	if !strings.Contains(r.stderr, `command "no-such-command" was not found`) {
		t.Errorf("got %s", r.stderr)
	}
	if r := f.run("servers", "list").want(0); !strings.Contains(r.stdout, "broken") || !strings.Contains(r.stderr, "no-such-command") {
		t.Errorf("stdout %s\nstderr %s", r.stdout, r.stderr)
	}
	var removed struct{ Removed string }
	f.run("servers", "remove", "broken", "--json").want(0).value(&removed)
	if removed.Removed != "broken" || strings.Contains(f.read("harness.yaml"), "no-such-command") {
		t.Errorf("got %+v, file\n%s", removed, f.read("harness.yaml"))
	}
}

func TestSkills(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var list []struct{ Name, Path string }
	f.run("skills", "list", "--json").want(0).value(&list)
	if r := f.run("skills", "list").want(0); r.stdout != "" || !strings.Contains(r.stderr, "has no skills") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	f.run("exec", "-e", "await fs.writeFile('/skills/add.js', '/** Adds numbers. */\\nexports.add = (a, b) => a + b'); return 1").want(0)
	f.run("skills", "list", "--json").want(0).value(&list)
	if len(list) != 1 || list[0].Name != "add" || list[0].Path != "/skills/add.js" {
		t.Errorf("got %+v", list)
	}
	if r := f.run("skills", "show", "add").want(0); !strings.Contains(r.stdout, "exports.add") {
		t.Errorf("got %s", r.stdout)
	}
	var shown struct {
		Skill struct{ Name string }
		Text  string
	}
	f.run("skills", "show", "add", "--json").want(0).value(&shown)
	if shown.Skill.Name != "add" || !strings.Contains(shown.Text, "exports.add") {
		t.Errorf("got %+v", shown)
	}
	f.run("skills", "show", "add", "--user", "another").want(2)
}

func TestRuns(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if r := f.run("runs", "list").want(0); r.stdout != "" || !strings.Contains(r.stderr, "no runs") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	f.addDemo("database")
	var good, bad outcome
	f.run("exec", "--json", "-e", "console.log('hello'); return (await callMCPTool('database__query', {query: 'SELECT 7 AS n'}))[0].n").want(0).value(&good)
	f.run("exec", "--json", "--user", "eve", "-e", "throw new Error('lost')").want(1).value(&bad)
	var page struct {
		Runs []struct{ ID, Status, Error, User string }
		Next string
	}
	f.run("runs", "list", "--json").want(0).value(&page)
	if len(page.Runs) != 2 || page.Runs[0].ID != bad.RunID || page.Runs[0].Error != "runtime" || page.Next != "" {
		t.Errorf("got %+v", page)
	}
	f.run("runs", "list", "--json", "--limit", "1").want(0).value(&page)
	if len(page.Runs) != 1 || page.Next == "" {
		t.Errorf("got %+v", page)
	}
	f.run("runs", "list", "--json", "--limit", "1", "--cursor", page.Next).want(0).value(&page)
	if len(page.Runs) != 1 || page.Runs[0].ID != good.RunID {
		t.Errorf("got %+v", page)
	}
	f.run("runs", "list", "--json", "--status", "failed", "--user", "eve").want(0).value(&page)
	if len(page.Runs) != 1 || page.Runs[0].ID != bad.RunID {
		t.Errorf("got %+v", page)
	}
	if r := f.run("runs", "show", good.RunID).want(0); !strings.Contains(r.stdout, "call 1: database__query") || !strings.Contains(r.stdout, "output: 7") {
		t.Errorf("got %s", r.stdout)
	}
	var shown struct {
		Run     struct{ ID string }
		Source  string
		Records []any
	}
	f.run("runs", "show", good.RunID[:12], "--json").want(0).value(&shown)
	if shown.Run.ID != good.RunID || shown.Source == "" || len(shown.Records) < 3 {
		t.Errorf("got %+v", shown)
	}
	var records []struct{ Seq int }
	f.run("runs", "journal", good.RunID, "--json").want(0).value(&records)
	r := f.run("runs", "journal", good.RunID).want(0)
	if lines := strings.Count(r.stdout, "\n"); lines != len(records) || lines < 4 {
		t.Errorf("%d lines, %d records", lines, len(records))
	}
	f.run("servers", "remove", "database").want(0)
	r = f.run("runs", "replay", good.RunID).want(0)
	if r.stdout != "7\n" || !strings.Contains(r.stderr, "identical: 1 tool calls") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	// The replay of a failed run succeeds if the run fails in the same way.
	var again outcome
	f.run("runs", "replay", bad.RunID).want(0)
	f.run("runs", "replay", bad.RunID, "--json").want(0).value(&again)
	if again.Error == nil || again.Error.Message != bad.Error.Message {
		t.Errorf("got %+v", again)
	}
}

func TestOthers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var version struct{ Version, Engine string }
	f.run("version", "--json").want(0).value(&version)
	if version.Version == "" || version.Engine == "" {
		t.Errorf("got %+v", version)
	}
	if r := f.run("version").want(0); !strings.HasPrefix(r.stdout, "harness ") {
		t.Errorf("got %q", r.stdout)
	}
	var entries []struct{ Key, Value, Origin string }
	f.run("config", "show", "--json", "--log-level", "debug").want(0).value(&entries)
	for _, e := range entries {
		if e.Key == "log.level" && (e.Value != "debug" || e.Origin == "default") {
			t.Errorf("got %+v", e)
		}
	}
	var written struct{ Written []string }
	f.run("init", "--json").want(0).value(&written)
	if len(written.Written) != 2 || !strings.Contains(f.read("harness.yaml"), "$schema") {
		t.Errorf("got %+v", written)
	}
	f.run("config", "show").want(0) // the template is valid
	var findings []struct {
		Name, State string
		Walls       []struct{ Name, State, Detail, Fix string }
	}
	f.run("doctor", "--json").want(0).value(&findings)
	tiers := 0
	for _, is := range findings {
		if !strings.HasPrefix(is.Name, "sandbox ") {
			continue
		}
		if tiers++; len(is.Walls) < 5 {
			t.Errorf("%s has the walls %+v", is.Name, is.Walls)
		}
		for _, w := range is.Walls {
			if held := w.State == "held"; !held && w.State != "missing" && w.State != "impossible" || !held && (w.Detail == "" || w.Fix == "") {
				t.Errorf("%s: a wall is %+v", is.Name, w)
			}
		}
	}
	if len(findings) < 4 || tiers != 3 {
		t.Errorf("got %+v", findings)
	}
	f.run("servers", "add", "broken", "--", "no-such-command").want(0)
	if r := f.run("doctor").want(3); !strings.Contains(r.stdout, "failed") || !strings.Contains(r.stdout, "fix: harness servers test broken") {
		t.Errorf("got %s", r.stdout)
	}
	var figures []struct{ Name string }
	f.run("bench", "--json", "--quick", "--only", "no such figure").value(&figures)
}

// TestDemo checks the demo without a terminal: it approves its mail itself and says so, in lines of at most 80 columns and without colours. With the
// configuration of a kept demo, its runs can be shown and replayed.
func TestDemo(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var end struct {
		Status string
		Runs   []string
	}
	r := f.run("demo", "--json", "--keep", "kept").want(0).value(&end)
	if end.Status != "succeeded" || len(end.Runs) != 4 || strings.Contains(r.stderr, "\x1b") {
		t.Errorf("got %+v\n%s", end, r.stderr)
	}
	for line := range strings.Lines(r.stderr) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{
		"What the model says, 4", "\"mailed pii_", "web__post was not called: rule 3 of preset", "the web server was not called",
		"decided approved by the demo itself", "To: <mei.park@cedar-health.example.com>", "+1 316-555-0128", "4 of 4 runs identical", "Kept in kept:",
	} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no %q in\n%s", want, r.stderr)
		}
	}
	demoFigures(t, r.stderr)
	if mails, _ := filepath.Glob(filepath.Join(f.dir, "kept", "servers", "outbox", "*.eml")); len(mails) != 1 {
		t.Errorf("kept mails: %q", mails)
	}
	config := filepath.Join("kept", "harness.yaml")
	if r := f.run("--config", config, "runs", "show", end.Runs[3]).want(0); !strings.Contains(r.stdout+r.stderr, "mailer") {
		t.Errorf("the run is shown as %s", r.stdout)
	}
	f.run("--config", config, "runs", "replay", end.Runs[3]).want(0)
	again := f.run("demo", "--yes", "--keep", "kept").want(0)
	if !strings.Contains(again.stdout, "decided approved by --yes") {
		t.Errorf("the second one shows %s", again.stdout)
	}
	f.write("mine/harness.yaml", "{}")
	if r := f.run("demo", "--keep", "mine").want(2); !strings.Contains(r.stderr, "give --keep another directory") || f.read("mine/harness.yaml") != "{}" {
		t.Errorf("in a directory with another file: %s", r.stderr)
	}
}

// TestDemoModel checks that a configured model works the task of the demo, under the policy of the demo, which approves the mail.
func TestDemoModel(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.modelled(fake.Replies(code(`const {customers: [c]} = await tools.crm.search({q: 'park', limit: 1})
const denied = await tools.web.post({url: 'https://example.com/', body: c.email}).catch((e) => e.name)
await tools.mailer.send({to: c.email, subject: 'Hi', body: 'x'})
return denied`), fake.Reply{Text: "It is sent."}))
	r := f.run("demo", "--keep", "kept").want(0)
	if r.stdout != "It is sent.\n" || !strings.Contains(r.stderr, "works the task") || !strings.Contains(r.stderr, "approved without asking") {
		t.Errorf("got %q, %s", r.stdout, r.stderr)
	}
	if mails, _ := filepath.Glob(filepath.Join(f.dir, "kept", "servers", "outbox", "*.eml")); len(mails) != 1 {
		t.Errorf("kept mails: %q", mails)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "kept", "servers", "posts.jsonl")); !os.IsNotExist(err) {
		t.Errorf("the web server was called: %v", err)
	}
}

// TestReplayWithoutServers checks that a replay does not compile the recorded program again, because compilation would need the servers.
func TestReplayWithoutServers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "mcpServers:\n  database: {command: "+quoted(self(t))+", args: [__demo-server, database, "+quoted(f.dir)+"]}\n")
	f.write("report.ts", "import * as db from './servers/database'\nconst rows: unknown[] = await db.query('SELECT 1 AS n')\nreturn rows.length")
	f.run("exec", "report.ts", "--record", "rec.json").want(0)
	elsewhere := setup(t)
	for _, name := range []string{"report.ts", "rec.json"} {
		text, err := os.ReadFile(filepath.Join(f.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		elsewhere.write(name, string(text))
	}
	if r := elsewhere.run("exec", "report.ts", "--replay", "rec.json").want(0); r.stdout != "1\n" {
		t.Errorf("got %q", r.stdout)
	}
}
