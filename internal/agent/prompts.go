package agent

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// Prompts are all texts for the model except tasks and results. They are templates of package text/template:
//
//	system.md    the system prompt: {{.Skill}} is skill.md; {{.Private}}, {{.Natural}}, {{.Fetch}} and {{.Packages}} are those of Features
//	skill.md     how to save a skill: {{.Name}}, {{.Description}}, {{.Parameters}}
//	task.md      the first message of a task: {{.User}}, {{.Task}}, {{.Context}}, {{.Skills}} (each with Name and Description),
//	             {{.MoreSkills}} (number of skills that are left out)
//	recovery.md  the text after the report of a program that failed: {{.Run}}, {{.Code}}, {{.Kind}}, {{.Name}}, {{.Message}},
//	             {{.File}}, {{.Line}}, {{.Column}}, {{.Source}}, {{.Hint}}, {{.Effects}}, {{.Done}}, {{.InDoubt}} (lists of writes)
type Prompts struct {
	system       *template.Template
	skill        string
	task, failed *template.Template
}

//go:embed prompts/*.md
var embedded embed.FS

// Features are features that programs have only if the configuration enables them.
type Features struct {
	Private  bool // personal data is hidden
	Natural  bool // tokens of e-mail and IP addresses have their natural form
	Fetch    bool // programs may fetch from some hosts
	Packages bool // programs may import npm packages
}

// systemData is the data of system.md.
type systemData struct {
	Skill string
	Features
}

// systemSamples returns data for all combinations of features.
func systemSamples() (samples []any) {
	for i := range 16 {
		samples = append(samples, systemData{"skill", Features{i&1 > 0, i&2 > 0, i&4 > 0, i&8 > 0}})
	}
	return samples
}

// skillData is the data of skill.md.
type skillData struct {
	Name        string
	Description string
	Parameters  []string
}

// taskData is the data of task.md.
type taskData struct {
	User, Task string
	Context    string // JSON; empty if there is none
	Skills     []modelview.Skill
	MoreSkills int
}

// failureData is the data of recovery.md.
type failureData struct {
	run.Error
	Run, Code     string
	Effects       []string // all writes: Done, InDoubt, and those that the server refused
	Done, InDoubt []string
}

// anySkill is the example skill in the system prompt.
var anySkill = skillData{Name: "sales_by_region", Description: "What it does and when to use it.", Parameters: []string{"rows", "region"}}

// anyFailure is the sample data of recovery.md: a failed run with all optional fields.
var anyFailure = &run.Outcome{
	RunID: "run_sample",
	Error: &run.Error{Kind: frame.KindTool, Name: "ToolError", Message: "message", File: "a.js", Line: 1, Column: 1, Source: "source", Hint: "hint"},
	Effects: []run.Effect{
		{Call: 1, Name: "a__b", State: "done"}, {Call: 2, Name: "c__d", State: "in_doubt"}, {Call: 3, Name: "e__f", State: "failed"},
	},
}

// builtin returns the built-in prompts.
var builtin = sync.OnceValue(func() *Prompts {
	p, err := LoadPrompts("")
	if err != nil {
		panic(err) // the templates are compiled in
	}
	return p
})

// LoadPrompts reads the prompts in a directory. A built-in prompt replaces each missing file. If dir is empty, all prompts are built-in. Each
// prompt is executed with sample data, without and with all optional fields. Errors name file and line.
func LoadPrompts(dir string) (*Prompts, error) {
	if dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("read the prompts: %w", err)
		}
	}
	var loaded []*template.Template
	for _, prompt := range []struct {
		file    string
		samples []any
	}{
		{"system.md", systemSamples()},
		{"skill.md", []any{anySkill}},
		{"task.md", []any{taskData{}, taskData{User: "u", Task: "t", Context: "{}", Skills: []modelview.Skill{{Name: "/skills/a.js", Description: "Adds."}}, MoreSkills: 1}}},
		{"recovery.md", []any{failureData{}, failureOf(anyFailure, "code")}},
	} {
		t, err := load(dir, prompt.file, prompt.samples)
		if err != nil {
			return nil, err
		}
		loaded = append(loaded, t)
	}
	skill, err := render(loaded[1], anySkill)
	if err != nil {
		return nil, err
	}
	return &Prompts{loaded[0], strings.TrimSpace(skill), loaded[2], loaded[3]}, nil
}

// systemFor renders the system prompt.
func (p *Prompts) systemFor(has Features) string {
	text, err := render(p.system, systemData{p.skill, has})
	if err != nil {
		panic(err) // LoadPrompts has rendered it with all combinations of features
	}
	return strings.TrimSpace(text)
}

// load parses a prompt and executes it with samples of its data, which reveals unknown keys.
func load(dir, file string, samples []any) (*template.Template, error) {
	name, text, err := "", []byte(nil), fs.ErrNotExist
	if dir != "" {
		name = filepath.Join(dir, file)
		text, err = os.ReadFile(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		name = file
		text, err = embedded.ReadFile("prompts/" + file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the prompts: %w", err)
	}
	t, err := template.New(name).Parse(string(text))
	if err != nil {
		return nil, promptError(err)
	}
	for _, sample := range samples {
		if _, err := render(t, sample); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// promptError rewrites an error of a template so that it begins with file and line.
func promptError(err error) error {
	return fmt.Errorf("prompt %s", strings.TrimPrefix(err.Error(), "template: "))
}

func render(t *template.Template, data any) (string, error) {
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", promptError(err)
	}
	return b.String(), nil
}

// prompt renders the first message of a task.
func (p *Prompts) prompt(d taskData) (string, error) {
	text, err := render(p.task, d)
	return strings.TrimSpace(text), err
}

// recovery renders the text after the report of a program that failed.
func (p *Prompts) recovery(d failureData) (string, error) {
	text, err := render(p.failed, d)
	return strings.TrimSpace(text) + "\n", err
}

// failureOf returns the data of recovery.md for a failed run.
func failureOf(out *run.Outcome, code string) failureData {
	d := failureData{Error: *out.Error, Run: out.RunID, Code: code}
	var w writes
	for _, e := range out.Effects {
		d.Effects = append(d.Effects, w.add(task.Effect(e), ""))
	}
	d.Done, d.InDoubt = w.done, w.doubt
	return d
}
