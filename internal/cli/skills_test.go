package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type skillTests struct {
	Passed, Failed, Untested int
	Skills                   []struct {
		Skill, Status, Problem, Digest string
		Tests                          []struct {
			Test, Problem string
			Passed        bool
			Calls         int
			Diverges      *struct {
				Call          int
				Expected, Got *struct{ Kind, Name string }
			}
		}
	}
}

const doubling = `// Doubles a number with the database.
import { query } from './servers/database'
const rows = await query({ query: 'SELECT ' + input.n + ' * 2 AS n' })
return { doubled: rows[0].n }`

// A task done twice becomes a skill by one command. The skill fails loudly after a change, and is mended by going back.
func TestSkillsLifeCycle(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	f.write("double.js", doubling)
	var o outcome
	for _, n := range []string{"3", "21"} {
		f.write("in.json", `{"n": `+n+`}`)
		f.run("exec", "double.js", "--input", "in.json", "--json").want(0).value(&o)
	}
	var made struct {
		Skill struct {
			Name, Path, Description string
			Input                   struct{ Required []string }
		}
		Version  struct{ Num int }
		Tests    []string
		Untested string
	}
	f.run("skills", "new", "double", "--from", o.RunID, "--json").want(2) // the run was given an input
	f.run("skills", "new", "double", "--from", o.RunID, "--input", "in.json", "--json").want(0).value(&made)
	if made.Skill.Path != "/skills/double" || made.Skill.Description != "Doubles a number with the database. Calls database__query." || made.Version.Num != 1 ||
		len(made.Tests) != 1 || made.Tests[0] != "tests/"+o.RunID+".json" || made.Untested != "" || strings.Join(made.Skill.Input.Required, "") != "n" {
		t.Errorf("made %+v", made)
	}
	if r := f.run("exec", "-e", "import double from '/skills/double'\nreturn await double({n: 4})").want(0); !strings.Contains(r.stdout, "\"doubled\": 8") {
		t.Errorf("a program imports %q", r.stdout)
	}
	f.run("servers", "remove", "database").want(0) // tests need no server
	var report, again skillTests
	first := f.run("skills", "test", "--json").want(0).value(&report)
	if report.Passed != 1 || report.Failed+report.Untested != 0 || report.Skills[0].Tests[0].Calls != 1 {
		t.Errorf("report %s", first.stdout)
	}
	if second := f.run("skills", "test", "double", "--json").want(0).value(&again); first.stdout != second.stdout {
		t.Errorf("again: %s", second.stdout)
	}
	f.write("index.js", strings.Replace(f.run("files", "get", "/skills", "double/index.js", "-").want(0).stdout, "* 2", "* 3", 1))
	f.run("files", "put", "/skills", "index.js", "double/index.js").want(0)
	f.run("skills", "promote", "double").want(2)
	r := f.run("skills", "test", "--json").want(1).value(&report)
	if report.Failed != 1 || report.Skills[0].Tests[0].Passed || report.Skills[0].Tests[0].Diverges == nil {
		t.Fatalf("report %s", r.stdout)
	}
	if d := report.Skills[0].Tests[0].Diverges; d.Call != 1 || d.Expected == nil || d.Got == nil || d.Got.Name != "database__query" || d.Expected.Name != d.Got.Name {
		t.Errorf("report %s", r.stdout)
	}
	r = f.run("skills", "test", "double").want(1)
	for _, want := range []string{"failed    double\n", "diverged at call 1", `SELECT 21 * 2 AS n`, `SELECT 21 * 3 AS n`, "0 passed, 1 failed, 0 without tests\n"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if r := f.run("skills", "promote", "double").want(2); !strings.Contains(r.stderr, "1 of its tests fail") {
		t.Errorf("promoted: %s", r.stderr)
	}
	if r := f.run("skills", "diff", "double").want(0); !strings.Contains(r.stdout, "\n-const rows") || !strings.Contains(r.stdout, "* 3 AS n'") {
		t.Errorf("diff\n%s", r.stdout)
	}
	if r := f.run("skills", "versions", "double").want(0); !strings.Contains(r.stdout, "present") || strings.Count(r.stdout, "\n") != 3 {
		t.Errorf("versions\n%s", r.stdout)
	}
	f.run("skills", "restore", "double", "7").want(2)
	f.run("skills", "restore", "double", "1").want(0)
	f.run("skills", "test").want(0)
	f.run("skills", "promote", "double").want(0)
	if r := f.run("tools", "search", "double").want(0); !strings.HasPrefix(r.stdout, "skills__double\n") || strings.Contains(r.stderr, "no server offers") {
		t.Errorf("a search for a promoted skill: %s%s", r.stdout, r.stderr)
	}
	if r := f.run("skills", "list").want(0); !strings.Contains(r.stdout, "passed, promoted") {
		t.Errorf("list\n%s", r.stdout)
	}
	f.addDemo("database")
	g := f.gateway(nil)
	list, err := g.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tool := list.Tools[len(list.Tools)-1]
	if schema := fmt.Sprint(tool.InputSchema); tool.Name != "skill_double" || !strings.Contains(tool.Description, "Doubles a number") || !strings.Contains(schema, "n:map[type:integer]") {
		t.Errorf("the last tool is %+v", tool)
	}
	if text, failed := g.call("skill_double", map[string]any{"n": "4; DROP TABLE x"}, nil); !failed || !strings.Contains(text, "invalid input") {
		t.Errorf("a wrong type: %s", text)
	}
	var out gatewayRun
	if text, failed := g.call("skill_double", map[string]any{"n": 4}, &out); failed || string(out.Output) != `{"doubled":8}` {
		t.Errorf("the right type: %s", text)
	}
	f.write("index.js", "export default () => 'other'")
	f.run("files", "put", "/skills", "index.js", "double/index.js").want(0)
	if text, failed := g.call("skill_double", map[string]any{"n": 4}, nil); !failed || !strings.Contains(text, "has changed since it was promoted") {
		t.Errorf("after a change: %s", text)
	}
	f.run("skills", "restore", "double", "1").want(0)
	f.run("skills", "demote", "double").want(0)
	if r, err := g.CallTool(t.Context(), &mcp.CallToolParams{Name: "skill_double", Arguments: map[string]any{"n": 4}}); err == nil {
		t.Errorf("after it was demoted: %+v", r)
	}
	f.run("servers", "remove", "database").want(0)
	f.run("skills", "show", "double", "2").want(0)
	f.run("skills", "export", "double", "double.zip").want(0)
	f.run("skills", "export", "double", "double.zip").want(2)
	f.run("skills", "remove", "double").want(0)
	f.run("skills", "show", "double").want(2)
	f.run("skills", "restore", "double", "1").want(0)
	f.run("skills", "test", "double").want(0)
	f.run("skills", "remove", "double", "--forget").want(0)
	f.run("skills", "versions", "double").want(2)
}
