package agent

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"text/template"

	"mcp-code-exec-harness/internal/run"
)

// Prompts are the texts that the model is given besides tasks and results. They are templates of package text/template:
//
//	system.md    the system prompt; {{.Skill}} is skill.md
//	skill.md     how to save a skill: {{.Name}}, {{.Description}}, {{.Parameters}}
//	task.md      the first message of a task: {{.User}}, {{.Task}}, {{.Context}}, {{.Skills}} (of Name and Description),
//	             {{.MoreSkills}} (how many are left out)
//	recovery.md  what follows the report of a program that failed: {{.Run}}, {{.Code}}, {{.Kind}}, {{.Name}}, {{.Message}},
//	             {{.File}}, {{.Line}}, {{.Column}}, {{.Source}}, {{.Hint}}, {{.Effects}}, {{.Done}}, {{.InDoubt}} (lists of writes)
type Prompts struct {
	system       string
	task, failed *template.Template
}

//go:embed prompts/*.md
var embedded embed.FS

// systemData is what system.md is made of.
type systemData struct{ Skill string }

// skillData is what skill.md is made of.
type skillData struct {
	Name        string
	Description string
	Parameters  []string
}

// taskData is what task.md is made of.
type taskData struct {
	User, Task string
	Context    string // JSON; empty if there is none
	Skills     []Skill
	MoreSkills int
}

// failureData is what recovery.md is made of.
type failureData struct {
	Run, Code, Kind, Name, Message, File, Source, Hint string
	Line, Column                                       int
	Effects                                            []string // Done, InDoubt, and those that the server refused
	Done, InDoubt                                      []string
}

// anySkill is the skill in the system prompt.
var anySkill = skillData{Name: "sales_by_region", Description: "What it does and when to use it.", Parameters: []string{"rows", "region"}}

// anyFailure is a run with everything that a failed one can have.
var anyFailure = &run.Outcome{
	RunID: "run_sample",
	Error: &run.Error{Kind: run.KindTool, Name: "ToolError", Message: "message", File: "a.js", Line: 1, Column: 1, Source: "source", Hint: "hint"},
	Effects: []run.Effect{
		{Call: 1, Name: "a__b", State: effectDone}, {Call: 2, Name: "c__d", State: effectInDoubt}, {Call: 3, Name: "e__f", State: "failed"},
	},
}

// builtin are the prompts without a directory.
var builtin = sync.OnceValue(func() *Prompts {
	p, err := LoadPrompts("")
	if err != nil {
		panic(err) // they are part of the program
	}
	return p
})

// LoadPrompts reads the prompts of a directory; those that it does not have are the built-in ones, as are all with an
// empty dir. Each is executed once with sample data, without and with all that may be missing; errors name file and line.
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
		{"system.md", []any{systemData{"skill"}}},
		{"skill.md", []any{anySkill}},
		{"task.md", []any{taskData{}, taskData{User: "u", Task: "t", Context: "{}", Skills: []Skill{{"/skills/a.js", "Adds."}}, MoreSkills: 1}}},
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
	system, err := render(loaded[0], systemData{strings.TrimSpace(skill)})
	if err != nil {
		return nil, err
	}
	return &Prompts{strings.TrimSpace(system), loaded[2], loaded[3]}, nil
}

// load parses a prompt and executes it with samples of its data, which finds keys that it does not have.
func load(dir, file string, samples []any) (*template.Template, error) {
	name := file
	text, err := fs.ReadFile(embedded, "prompts/"+file)
	if dir != "" {
		at := filepath.Join(dir, file)
		switch own, failed := os.ReadFile(at); {
		case failed == nil:
			name, text = at, own
		case !errors.Is(failed, fs.ErrNotExist):
			return nil, fmt.Errorf("read the prompts: %w", failed)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the prompts: %w", err)
	}
	t, err := template.New(name).Parse(string(text))
	if err != nil {
		return nil, placed(err)
	}
	for _, sample := range samples {
		if _, err := render(t, sample); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// templateError is how package template begins its messages.
var templateError = regexp.MustCompile(`^template: `)

// placed is an error of a template that begins with file and line.
func placed(err error) error {
	return fmt.Errorf("prompt %s", templateError.ReplaceAllString(err.Error(), ""))
}

func render(t *template.Template, data any) (string, error) {
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", placed(err)
	}
	return b.String(), nil
}

// prompt is the first message of a task.
func (p *Prompts) prompt(d taskData) (string, error) {
	text, err := render(p.task, d)
	return strings.TrimSpace(text), err
}

// recovery is what the model is told besides the report of a program that failed.
func (p *Prompts) recovery(d failureData) (string, error) {
	text, err := render(p.failed, d)
	return strings.TrimSpace(text) + "\n", err
}

// failureOf is a failed run as recovery.md sees it.
func failureOf(out *run.Outcome, code string) failureData {
	e := out.Error
	d := failureData{
		Run: out.RunID, Code: code, Kind: e.Kind, Name: e.Name, Message: e.Message, File: e.File, Line: e.Line,
		Column: e.Column, Source: e.Source, Hint: e.Hint,
	}
	for _, effect := range out.Effects {
		line := fmt.Sprintf("%s (call %d)", effect.Name, effect.Call)
		d.Effects = append(d.Effects, line)
		switch effect.State {
		case effectDone:
			d.Done = append(d.Done, line)
		case effectInDoubt:
			d.InDoubt = append(d.InDoubt, line)
		}
	}
	return d
}
