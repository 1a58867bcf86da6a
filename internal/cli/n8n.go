package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
)

type n8nCmd struct {
	Export n8nExportCmd `cmd:"" help:"Make an n8n workflow of a run or a skill: it calls the harness, or holds the program where that needs nothing of the harness."`
	Skill  n8nSkillCmd  `cmd:"" help:"Save the skill n8n-workflow-builder, with which programs build, store and mend workflows." example:"n8n skill"`
}

type n8nExportCmd struct {
	What       string `arg:"" help:"A run that succeeded: its id, or the beginning of it. Or a skill, as listed." names:"runs"`
	Function   string `help:"Function of the skill; by default its default export, or the only one." placeholder:"NAME"`
	Name       string `help:"Name of the workflow." placeholder:"NAME"`
	User       string `help:"Whose skill." default:"local"`
	HTTP       bool   `name:"http" help:"Have n8n call the harness also where the program needs nothing of it."`
	Harness    string `help:"Address of the harness as n8n reaches it; by default server.listen." placeholder:"URL"`
	Credential string `help:"Name of the Header Auth credentials in n8n that hold a key of the harness." default:"harness" placeholder:"NAME"`
	Create     bool   `help:"Create it in the n8n of the configuration; it is not active."`
	Call       bool   `name:"run" help:"With --create: activate it for one call, compare what it answers with what the harness gave, and deactivate it."`
	Input      string `help:"With --run: the input of a skill, a JSON object." placeholder:"JSON"`
}

// Help implements kong.HelpProvider.
func (n8nExportCmd) Help() string {
	return `Without --create the workflow is printed, for the menu Import from File of n8n. The webhook of the workflow takes the input of a
skill as a JSON object; the value of the program is its answer, as {"result": …} if it is no object.

Examples:
  harness n8n export run_4f2a > workflow.json
  harness n8n export sales_summary --create --run --input '{"year": 2024}'`
}

func (c *n8nExportCmd) check() error {
	switch {
	case c.Call && !c.Create:
		return errors.New("--run calls the workflow in n8n, so it needs --create")
	case c.Input != "" && !c.Call:
		return errors.New("--input is for the call of --run")
	case c.Input != "" && json.Unmarshal([]byte(c.Input), &map[string]any{}) != nil:
		return errors.New(`--input is no JSON object, such as {"year": 2024}`)
	}
	return nil
}

// exported is the result of the command.
type exported struct {
	Form     string         `json:"form"`            // code or http
	Needs    []string       `json:"needs,omitempty"` // features of the harness that the program needs
	Workflow map[string]any `json:"workflow"`
	*n8n.Created
	Compared *compared `json:"compared,omitempty"`
}

// compared has the results of the harness and of the workflow.
type compared struct {
	Equal   bool            `json:"equal"`
	Harness json.RawMessage `json:"harness"`
	N8N     json.RawMessage `json:"n8n"`
}

// exportable is a run or skill to be exported to n8n.
type exportable struct {
	n8n.Program
	needs []string
	// value returns the result of the program in the harness.
	value func(ctx context.Context) (json.RawMessage, error)
}

func (c *n8nExportCmd) Run(ctx context.Context, a *app, h harness, cfg *config.Config, saved *skills.Store) error {
	if c.Create && h.N8N() == nil {
		return usage(errors.New("--create needs an n8n: set n8n.url and n8n.apiKey, or leave --create out and import the printed workflow"))
	}
	var of *exportable
	var err error
	if strings.HasPrefix(c.What, "run_") {
		of, err = c.ofRun(ctx, a, h)
	} else {
		of, err = c.ofSkill(ctx, h, saved)
	}
	if err != nil {
		return err
	}
	of.URL = cmp.Or(c.Harness, "http://"+cfg.Server.Listen)
	of.Credential, of.Name = c.Credential, cmp.Or(c.Name, of.Name)
	out := exported{Form: "code", Needs: of.needs}
	if c.HTTP || len(of.needs) > 0 {
		out.Form, of.Plain = "http", ""
	}
	out.Workflow = of.Workflow()
	if h.N8N() != nil {
		valid, findings, err := h.N8N().Check(ctx, out.Workflow)
		if err != nil {
			return err
		}
		for _, finding := range findings {
			fmt.Fprintln(a.Stderr, "harness: n8n:", finding)
		}
		if !valid && c.Create {
			return errors.New("the workflow was not created, because n8n could not run it")
		}
	}
	if !c.Create {
		if out.Form == "http" && !a.flags.JSON {
			fmt.Fprintf(a.Stderr, "it calls the harness at %s, with the Header Auth credentials %q of n8n: Authorization, Bearer and a key (harness keys create)%s\n",
				of.URL, of.Credential, because(of.needs))
		}
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(out.Workflow); err != nil {
			return err
		}
		return a.answer(out.Workflow, "%s", text.String())
	}
	if out.Created, err = h.N8N().Create(ctx, out.Workflow); err != nil {
		return err
	}
	if c.Call {
		if out.Compared, err = c.compare(ctx, h, of, out.ID); err != nil {
			return fmt.Errorf("workflow %s was created, and its call failed: %w", out.ID, err)
		}
	}
	verdict := ""
	switch {
	case out.Compared != nil && out.Compared.Equal:
		verdict = "it gives what the harness gave\n"
	case out.Compared != nil:
		verdict = fmt.Sprintf("it gives something else\nharness: %s\nn8n:     %s\n", out.Compared.Harness, out.Compared.N8N)
	}
	err = a.answer(out, "%s  %s\n%s, not active%s\n%s", out.ID, out.Address, out.Form, because(of.needs), verdict)
	return ended(err, out.Compared == nil || out.Compared.Equal)
}

// because returns the features that the program needs, as the end of a sentence about why the harness has to run the program.
func because(needs []string) string {
	if len(needs) == 0 {
		return ""
	}
	return "; the program needs " + strings.Join(needs[:min(5, len(needs))], ", ")
}

func (c *n8nExportCmd) ofRun(ctx context.Context, a *app, h harness) (*exportable, error) {
	id := runArg{ID: c.What}
	info, err := id.find(ctx, a, h)
	if err != nil {
		return nil, err
	}
	outcome, start, err := h.Runs().Recorded(ctx, info.ID)
	switch {
	case err != nil:
		return nil, err
	case outcome == nil || outcome.Error != nil:
		return nil, usage(fmt.Errorf("%s is %s; a run that succeeded can be exported", info.ID, info.Status))
	case start.Input != nil:
		return nil, usage(fmt.Errorf("%s worked on a file that it was given (--input), which a workflow has not; save the program as a skill that takes the data as its input", info.ID))
	}
	of := &exportable{Program: n8n.Program{Name: cmp.Or(start.File, info.ID), Origin: info.ID, User: start.User, Session: start.Session}}
	if of.Plain, of.needs, err = h.Runs().StandaloneRun(ctx, start); err != nil {
		return nil, err
	}
	if of.Code, err = sourceOf(ctx, h, start); err != nil {
		return nil, err
	}
	if of.Code != start.Source && runs.ToolOf(start) == "" {
		fmt.Fprintf(a.Stderr, "harness: warning: %s holds personal data, which the workflow gets\n", info.ID)
	}
	of.value = func(ctx context.Context) (json.RawMessage, error) {
		shown, err := h.Runs().Shown(ctx, start.User, start.Session, outcome)
		if err != nil {
			return nil, err
		}
		return shown.Output, nil
	}
	return of, nil
}

// sourceOf returns the program of a run as its owner wrote it: values replace the tokens.
func sourceOf(ctx context.Context, h harness, start *journal.Start) (string, error) {
	code := start.Source
	if tool := runs.ToolOf(start); tool != "" {
		name, _ := json.Marshal(tool) // a string can always be encoded
		code = "return await callMCPTool(" + string(name) + ", " + cmp.Or(start.Env["HARNESS_ARGUMENTS"], "{}") + ")"
	}
	return h.Privacy().In(cmp.Or(start.User, runs.DefaultUser), cmp.Or(start.Session, start.Run)).Restore(ctx, code)
}

func (c *n8nExportCmd) ofSkill(ctx context.Context, h harness, saved *skills.Store) (*exportable, error) {
	skill, _, err := saved.Show(c.User, c.What)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage(err)
	}
	if err != nil {
		return nil, err
	}
	if skill.Problem != "" {
		return nil, usage(fmt.Errorf("%s cannot be used: %s", skill.Path, skill.Problem))
	}
	function, err := c.function(skill)
	if err != nil {
		return nil, err
	}
	name, _ := json.Marshal(function) // a string can always be encoded
	from, _ := json.Marshal(skill.Path)
	// If the input is an array, its items are the arguments of the function.
	code := "import * as skill from " + string(from) + ";\nreturn await skill[" + string(name) + "](...(Array.isArray(input) ? input : [input]));\n"
	of := &exportable{Program: n8n.Program{Name: skill.Name, Origin: skill.Path, User: c.User, Code: code, TakesInput: true}}
	if of.Plain, of.needs, err = h.Runs().Standalone(ctx, c.User, code); err != nil {
		return nil, err
	}
	of.value = func(ctx context.Context) (json.RawMessage, error) {
		out, err := h.Runs().Execute(ctx, runs.Request{User: c.User, Code: "const input = " + cmp.Or(c.Input, "{}") + ";\n" + code})
		if err == nil && out.Status == run.WaitingApproval {
			err = fmt.Errorf("run %s waits for an approval; harness approvals list", out.RunID)
		}
		if err == nil && out.Error != nil {
			err = fmt.Errorf("the skill fails in the harness: %s", out.Error.Message)
		}
		if err == nil {
			out, err = h.Runs().Shown(ctx, c.User, "", out)
		}
		if err != nil {
			return nil, err
		}
		return out.Output, nil
	}
	return of, nil
}

// function returns the name of the skill's exported function that the workflow calls.
func (c *n8nExportCmd) function(skill skills.Skill) (string, error) {
	all := skill.Exports
	switch {
	case c.Function != "" && (len(all) == 0 || slices.Contains(all, c.Function)):
		return c.Function, nil
	case c.Function != "":
		return "", usage(fmt.Errorf("%s exports no %s; it exports %s", skill.Path, c.Function, strings.Join(all, ", ")))
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0 || slices.Contains(all, "default"):
		return "default", nil
	}
	return "", usage(fmt.Errorf("%s exports %s; choose one with --function", skill.Path, strings.Join(all, ", ")))
}

// compare runs the program once in the harness and once in n8n.
func (c *n8nExportCmd) compare(ctx context.Context, h harness, of *exportable, id string) (*compared, error) {
	value, err := of.value(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := h.N8N().Try(ctx, id, json.RawMessage(c.Input))
	if err != nil {
		return nil, err
	}
	var ours, theirs any
	if err := errors.Join(json.Unmarshal(value, &ours), json.Unmarshal(answer, &theirs)); err != nil {
		return nil, err
	}
	if _, is := ours.(map[string]any); !is {
		ours = map[string]any{"result": ours}
	}
	return &compared{Equal: reflect.DeepEqual(ours, theirs), Harness: value, N8N: answer}, nil
}
