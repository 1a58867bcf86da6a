package agent

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"

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

// builtin are the prompts without a directory.
var builtin = sync.OnceValue(func() *Prompts {
	p, err := LoadPrompts("")
	if err != nil {
		panic(err) // they are part of the program
	}
	return p
})

// LoadPrompts reads the prompts of a directory; those that it does not have are the built-in ones, as are all with an
// empty dir. Errors name file and line, also those of keys that no prompt has.
func LoadPrompts(dir string) (*Prompts, error) {
	if dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("read the prompts: %w", err)
		}
	}
	var loaded []*template.Template
	for _, prompt := range []struct {
		file string
		data any
	}{{"system.md", systemData{}}, {"skill.md", skillData{}}, {"task.md", taskData{}}, {"recovery.md", failureData{}}} {
		t, err := load(dir, prompt.file, prompt.data)
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

// load parses a prompt and checks the keys it uses.
func load(dir, file string, data any) (*template.Template, error) {
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
	for _, part := range t.Templates() {
		c := checker{tree: part.Tree, root: reflect.TypeOf(data)}
		if part != t {
			c.root = nil // called with whatever the caller gives it
		}
		if c.node(part.Root, c.root); c.err != nil {
			return nil, c.err
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

// checker finds keys that a prompt uses and that it does not have. Where the type of a value cannot be known, nothing is
// checked.
type checker struct {
	tree *parse.Tree
	root reflect.Type
	err  error
}

// node checks a part of a template in which the dot is of type dot; nil is not known.
func (c *checker) node(n parse.Node, dot reflect.Type) {
	if n == nil || reflect.ValueOf(n).IsNil() || c.err != nil {
		return
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			c.node(child, dot)
		}
	case *parse.ActionNode:
		c.node(n.Pipe, dot)
	case *parse.IfNode:
		c.branch(&n.BranchNode, dot, dot)
	case *parse.WithNode:
		c.branch(&n.BranchNode, dot, c.typeOf(n.Pipe, dot))
	case *parse.RangeNode:
		of := c.typeOf(n.Pipe, dot)
		if of != nil && of.Kind() == reflect.Slice {
			of = of.Elem()
		} else {
			of = nil
		}
		c.branch(&n.BranchNode, dot, of)
	case *parse.TemplateNode:
		c.node(n.Pipe, dot)
	case *parse.PipeNode:
		for _, cmd := range n.Cmds {
			for _, arg := range cmd.Args {
				c.node(arg, dot)
			}
		}
	case *parse.FieldNode:
		c.field(n, dot, n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			c.field(n, c.root, n.Ident[1:])
		}
	}
}

func (c *checker) branch(n *parse.BranchNode, dot, inside reflect.Type) {
	c.node(n.Pipe, dot)
	c.node(n.List, inside)
	c.node(n.ElseList, dot)
}

// typeOf is the type of a pipeline that is nothing but a key.
func (c *checker) typeOf(p *parse.PipeNode, dot reflect.Type) reflect.Type {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return nil
	}
	switch n := p.Cmds[0].Args[0].(type) {
	case *parse.FieldNode:
		return c.field(n, dot, n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return c.field(n, c.root, n.Ident[1:])
		}
	}
	return nil
}

// field is the type of a key.
func (c *checker) field(n parse.Node, of reflect.Type, names []string) reflect.Type {
	for _, name := range names {
		if of == nil {
			return nil
		}
		if of.Kind() != reflect.Struct {
			c.unknown(n, name, "a value without keys")
			return nil
		}
		field, ok := of.FieldByName(name)
		if !ok {
			var known []string
			for i := range of.NumField() {
				known = append(known, "."+of.Field(i).Name)
			}
			c.unknown(n, name, strings.Join(known, ", "))
			return nil
		}
		of = field.Type
	}
	return of
}

func (c *checker) unknown(n parse.Node, name, known string) {
	if c.err == nil {
		at, _ := c.tree.ErrorContext(n)
		c.err = fmt.Errorf("prompt %s: there is no key .%s here; there are %s", at, name, known)
	}
}
