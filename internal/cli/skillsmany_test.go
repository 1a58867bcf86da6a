package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/testing/leaktest"
)

// skillsDir returns the directory of the skills of the only user of a fixture.
func skillsDir(t *testing.T, f *fixture) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(f.dir, "*", "skills", "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("directories of skills: %v, %v", dirs, err)
	}
	return dirs[0]
}

// Many skills are tested in one process, in the same order and with the same results each time.
func TestManySkills(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	f.write("double.js", doubling)
	f.write("in.json", `{"n": 3}`)
	var o outcome
	f.run("exec", "double.js", "--input", "in.json", "--json").want(0).value(&o)
	f.run("skills", "new", "double", "--from", o.RunID, "--input", "in.json").want(0)
	dir := skillsDir(t, f)
	const copies = 30
	for i := range copies {
		if err := os.CopyFS(filepath.Join(dir, fmt.Sprint("double-", i)), os.DirFS(filepath.Join(dir, "double"))); err != nil {
			t.Fatal(err)
		}
	}
	f.run("exec", "-e", `await fs.writeFile('/skills/double-7/index.js', 'export default (input) => ({ doubled: input.n * 2 })')
await fs.writeFile('/skills/double-8/tests/cut.json', '{"version": 1, "runs": [')
await fs.writeFile('/skills/plain.js', 'export default () => 1')`).want(0)
	var report skillTests
	first := f.run("skills", "test", "--json").want(1).value(&report)
	if report.Passed != copies-1 || report.Failed != 2 || report.Untested != 1 {
		t.Errorf("%d passed, %d failed, %d untested", report.Passed, report.Failed, report.Untested)
	}
	for _, r := range report.Skills {
		switch r.Skill {
		case "double-7":
			if d := r.Tests[0].Diverges; d == nil || d.Got != nil || d.Expected.Name != "database__query" || !strings.Contains(r.Tests[0].Problem, "did not make the recorded call") {
				t.Errorf("a call that is missing: %+v", r)
			}
		case "double-8":
			if len(r.Tests) != 2 || !strings.Contains(r.Tests[0].Problem, "truncated") || !r.Tests[1].Passed {
				t.Errorf("a recording that is cut: %+v", r)
			}
		}
	}
	if again := f.run("skills", "test", "--json").want(1); again.stdout != first.stdout {
		t.Errorf("the second report differs:\n%s\n%s", first.stdout, again.stdout)
	}
}

// A skill holds no value of a person: a program with one is refused, and a test holds tokens.
func TestSkillsHoldNoPersonalData(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	const email, phone = "ada.lovelace@example.org", "+44 20 7946 0958"
	f.write("raw.js", "return '"+email+"'")
	if r := f.run("skills", "new", "raw", "--from", "raw.js").want(2); !strings.Contains(r.stderr, "EMAIL") || strings.Contains(r.stderr, email) {
		t.Errorf("a file with a value: %s", r.stderr)
	}
	var o outcome
	f.run("exec", "raw.js", "--json").want(0).value(&o)
	if r := f.run("skills", "new", "raw", "--from", o.RunID).want(2); !strings.Contains(r.stderr, "has a token in place of personal data") {
		t.Errorf("a run with a token: %s", r.stderr)
	}
	f.write("contact.js", `import { query } from './servers/database'
const rows = await query({ query: "SELECT '" + input.email + "' AS email, 'd-' || '" + input.phone + "' AS phone" })
console.log(rows[0].email)
return { to: rows[0].email, phone: rows[0].phone, domain: 'x' }`)
	f.write("in.json", `{"email": "`+email+`", "phone": "`+phone+`"}`)
	f.run("exec", "contact.js", "--input", "in.json", "--json").want(0).value(&o)
	f.run("skills", "new", "contact", "--from", o.RunID, "--input", "in.json").want(0)
	f.run("skills", "test").want(0)
	files := 0
	check := func(dir string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			text, err := os.ReadFile(path)
			for _, value := range []string{email, phone} {
				for how, spelled := range leaktest.Spellings(value) {
					if strings.Contains(string(text), spelled) {
						t.Errorf("%s holds %s, %s", path, value, how)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	check(skillsDir(t, f))
	if files != 4 {
		t.Errorf("%d files", files)
	}
	// Another user, who knows no tokens of the run, gets the same result.
	f.run("skills", "export", "contact", "contact.zip").want(0)
	if err := os.CopyFS(filepath.Join(filepath.Dir(skillsDir(t, f)), "bob"), os.DirFS(skillsDir(t, f))); err != nil {
		t.Fatal(err)
	}
	f.run("skills", "test", "--user", "bob").want(0)
	f.write("index.js", strings.Replace(f.run("files", "get", "/skills", "contact/index.js", "-").want(0).stdout, "'d-'", "'e-"+email+"'", 1))
	f.run("files", "put", "/skills", "index.js", "contact/index.js").want(0)
	if r := f.run("skills", "test", "contact").want(1); strings.Contains(r.stdout, email) {
		t.Errorf("a report:\n%s", r.stdout)
	}
}

// After a server has changed a tool, a test says which skills call it, although their recorded runs still pass.
func TestSkillsOfAChangedServer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.offering()
	offer := func(name, schema string) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(schema)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found"}}}, nil
		})
	}
	const schema = `{"type":"object","properties":{"q":{"type":"string"}}}`
	offer("find", schema)
	offer("other", schema)
	for _, name := range []string{"find", "other"} {
		var o outcome
		f.run("exec", "-e", "return await tools.up."+name+"({q: 'x'})", "--json").want(0).value(&o)
		f.run("skills", "new", "call-"+name, "--from", o.RunID).want(0)
	}
	var report struct {
		Passed  int
		Touched map[string][]string
		Skills  []struct {
			Skill   string
			Changed []struct {
				Tool, Server string
				Parts        []string
			}
		}
	}
	f.run("skills", "test", "--json").want(0).value(&report)
	if report.Passed != 2 || len(report.Touched) != 0 {
		t.Errorf("before: %+v", report)
	}
	offer("find", strings.Replace(schema, `"q"`, `"query"`, 1))
	f.run("servers", "test", "up").want(0)
	r := f.run("skills", "test", "--json").want(0).value(&report)
	if got := fmt.Sprint(report.Touched, report.Skills[0].Changed); got != "map[up:[call-find]] [{up__find up [input]}]" || report.Passed != 2 {
		t.Errorf("after: %s", r.stdout)
	}
	if r := f.run("skills", "test").want(0); !strings.Contains(r.stdout, "server up has changed since these skills were made: call-find\n") {
		t.Errorf("after:\n%s", r.stdout)
	}
}
