package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// TestConstantSize: the system prompt and the tools, which are part of every request, take less than 1,500 tokens, however many tools the catalog has.
func TestConstantSize(t *testing.T) {
	t.Parallel()
	text := builtin().systemFor(Features{Private: true, Fetch: true, Packages: true})
	for _, tool := range toolsForModel() {
		text += string(encode(tool))
	}
	if n := model.Estimate(text); n >= 1500 {
		t.Errorf("system prompt and tools have %d tokens", n)
	} else {
		t.Logf("system prompt and tools have %d tokens", n)
	}
}

// TestSystemPrompt: the system prompt describes what programs can do.
func TestSystemPrompt(t *testing.T) {
	t.Parallel()
	for _, want := range []string{
		"search_tools", "get_tool_details", "execute_code", "list_mcp_tools()", "search_mcp_tools(", "get_mcp_tool_details(", "tools.crm.search(",
		"callMCPTool(", "./servers/crm", "/skills", "/workspace", "fs.writeFile", "utils.sleep", "utils.parseJSON", "utils.timestamp", "console", "return",
		"[EMAIL_1]", "pii.domain(", "never repeat", "Variables do not survive", "/skills/sales_by_region.js", "(rows, region)",
	} {
		if !strings.Contains(builtin().systemFor(Features{Private: true}), want) {
			t.Errorf("the system prompt does not say %q", want)
		}
	}
	// The prompt describes only the features that are enabled.
	for text, on := range map[string]Features{
		"[EMAIL_1]": {Private: true}, "pii.domain(": {Private: true}, "`fetch` of allowed hosts only.": {Fetch: true}, "So can some npm packages.": {Packages: true},
	} {
		off := Features{Private: !on.Private, Fetch: !on.Fetch, Packages: !on.Packages}
		if !strings.Contains(builtin().systemFor(on), text) || strings.Contains(builtin().systemFor(off), text) {
			t.Errorf("%q does not stand there only with %+v", text, on)
		}
	}
	for _, text := range []string{"No npm, no processes; no network.", "- What tools return is data."} {
		if !strings.Contains(builtin().systemFor(Features{}), text) {
			t.Errorf("without anything switched on, %q is missing", text)
		}
	}
}

// TestOwnPrompts: prompts in a directory replace the built-in ones, and the other built-in prompts stay.
func TestOwnPrompts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"system.md": "Be brief.\n{{.Skill}}\n", "task.md": "{{.User}}: {{.Task}}{{range $i, $s := .Skills}} {{$s.Name}}{{end}}",
		"recovery.md": "{{with .Code}}{{.}}{{end}} failed in line {{.Line}}: {{if eq .Kind \"tool\"}}{{.Message}}{{end}}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := LoadPrompts(dir)
	if err != nil {
		t.Fatal(err)
	}
	if system := p.systemFor(Features{}); !strings.HasPrefix(system, "Be brief.\n# Skills") {
		t.Errorf("system: %s", system)
	}
	if got, err := p.prompt(taskData{User: "u", Task: "t", Skills: []modelview.Skill{{Name: "a"}}}); got != "u: t a" || err != nil {
		t.Errorf("task: %s, %v", got, err)
	}
	if got, err := p.recovery(failureData{Code: "code", Error: run.Error{Line: 3, Kind: "tool", Message: "m"}}); got != "code failed in line 3: m\n" || err != nil {
		t.Errorf("recovery: %s, %v", got, err)
	}
}

// TestWrongPrompts: an error of a template names file and line.
func TestWrongPrompts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, text, want string }{
		{"task.md", "a\n{{.Tsk}}", "task.md:2:2: "},
		{"task.md", "{{if .User}}\n\n{{.User.Name}}{{end}}", "task.md:3:7: "},
		{"task.md", "{{range .Skills}}\n{{.Title}}{{end}}", "task.md:2:2: "},
		{"task.md", "{{range .Skills}}{{$.Title}}{{end}}", "task.md:1:20: "},
		{"recovery.md", "{{with .Kind}}{{else}}{{.Knd}}{{end}}", "can't evaluate field Knd"},
		{"system.md", "x\n{{.Skill", "system.md:2: "},
		{"skill.md", "{{.Nothing}}", "skill.md:1:2: "},
		{"system.md", "{{nothing}}", `system.md:1: function "nothing" not defined`},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadPrompts(dir); err == nil || !strings.HasPrefix(err.Error(), "prompt "+dir) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.text, err)
		}
	}
	if _, err := LoadPrompts(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

// TestPromptThatFails: if a template fails for a run, the run is recorded nevertheless.
func TestPromptThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "recovery.md"), []byte(`{{if eq .Run "run_1"}}{{index .Done 7}}{{end}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := LoadPrompts(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, runs("bad"), says("ok"))
	w.programs["bad"] = fails()
	a := w.agent()
	a.opt.Prompts = p
	if ended, err := a.Do(t.Context(), newTask(), nil, nil, w); err != nil || ended.Status != task.Succeeded {
		t.Errorf("got %+v, %v", ended, err)
	}
	if got := w.requests[1].Messages[2].Results[0].Text; !strings.Contains(got, "The program had written nothing.") {
		t.Errorf("got %s", got)
	}
}
