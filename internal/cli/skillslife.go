package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

// createFile writes a file that does not exist yet.
func (a *app) createFile(name string, data []byte) error {
	return disk.Create(a.path(name), data, 0o600)
}

type skillsNewCmd struct {
	Name        string `arg:"" help:"Name of the skill: lower-case words joined by hyphens, also below a folder (crm/dedupe)."`
	From        string `required:"" help:"Run whose program becomes the skill, or a file with a program." placeholder:"RUN|FILE" names:"runs"`
	Description string `help:"What the skill does and when to use it; by default what the comment at the beginning of the program says." placeholder:"TEXT"`
	Input       string `help:"The file that the run was given; - is standard input." placeholder:"FILE"`
	Replace     bool   `help:"Replace a skill of this name; its history keeps the former one."`
	skillUser
}

func (skillsNewCmd) Help() string {
	return `The skill is a folder with SKILL.md, the program as a function of its input, and the run as a test.
It is saved if the function does what the run did. A program with personal data in it is refused: let it read them from input.

Examples:
  harness skills new double --from run_4f2a
  harness skills new crm/dedupe --from dedupe.ts --description 'Finds customers that occur twice.'`
}

func (c *skillsNewCmd) Run(ctx context.Context, a *app, h harness) error {
	req := runs.NewSkill{User: c.User, Name: c.Name, Description: c.Description, Author: c.User, Replace: c.Replace}
	info, err := h.Runs().Match(ctx, c.From)
	if err == nil {
		req.Run = info.ID
	} else {
		code, failed := a.readFile(a.path(c.From))
		if failed != nil && strings.HasPrefix(c.From, "run_") {
			return (&runArg{ID: c.From}).unknown(ctx, a, err)
		} else if failed != nil {
			return usage(fmt.Errorf("%q is neither a run (harness runs list) nor a file: %w", c.From, failed))
		}
		req.Code, req.File = string(code), filepath.Base(c.From)
	}
	given, closeInput, err := openInput(ctx, a, c.Input, "")
	if err != nil {
		return err
	}
	defer closeInput()
	req.Input = given
	made, err := h.Runs().NewSkill(ctx, req)
	if invalid, ok := errors.AsType[runs.InvalidError](err); ok {
		return usage(invalid)
	}
	if errors.Is(err, journal.ErrNotFound) {
		return usage(err)
	}
	if err != nil {
		return err
	}
	if made.Untested != "" && !a.flags.JSON {
		fmt.Fprintf(a.Stderr, "harness: note: the skill has no test: %s\n", made.Untested)
	}
	return a.answer(made, "%s\n%s\nharness skills test %s\n", made.Skill.Path, made.Skill.Description, made.Skill.Name)
}

type skillsTestCmd struct {
	Names []string `arg:"" optional:"" name:"name" help:"Skills; all by default." names:"skills"`
	skillUser
}

func (skillsTestCmd) Help() string {
	return `Each file tests/NAME.json of a skill is a recorded run, as harness exec --record writes it. It passes if the present
code makes the same calls and returns the same. The exit code is 1 if a test fails.

Examples:
  harness skills test
  harness skills test double --json`
}

func (c *skillsTestCmd) Run(ctx context.Context, a *app, h harness, saved *skills.Store) error {
	for _, name := range c.Names {
		if _, err := saved.Find(c.User, name); err != nil {
			return c.unknown(saved, name, err)
		}
	}
	reports, err := h.Runs().TestSkills(ctx, c.User, nil, c.Names)
	if err != nil {
		return err
	}
	counts, touched := map[string]int{}, map[string][]string{} // touched: the skills that call a changed tool of a server, by the server
	for _, r := range reports {
		counts[r.Status]++
		for _, t := range r.Changed {
			if !slices.Contains(touched[t.Server], r.Skill) {
				touched[t.Server] = append(touched[t.Server], r.Skill)
			}
		}
	}
	if a.flags.JSON {
		err = a.json(map[string]any{"skills": reports, "passed": counts[runs.SkillPassed], "failed": counts[runs.SkillFailed], "untested": counts[runs.SkillUntested], "touched": touched})
		return ended(err, counts[runs.SkillFailed] == 0)
	}
	for _, r := range reports {
		fmt.Fprintf(a.Stdout, "%-8s  %s\n", r.Status, r.Skill)
		if r.Problem != "" {
			fmt.Fprintf(a.Stdout, "          problem: %s\n", r.Problem)
		}
		for _, t := range r.Changed {
			fmt.Fprintf(a.Stdout, "          note: tool %s of server %s has changed since: %s\n", t.Tool, t.Server, strings.Join(t.Parts, ", "))
		}
		for _, t := range r.Tests {
			if t.Passed {
				continue
			}
			fmt.Fprintf(a.Stdout, "          %s: %s\n", t.Test, t.Problem)
			if d := t.Diverges; d != nil {
				fmt.Fprintf(a.Stdout, "            expected call %d: %s\n            got:             %s\n", d.Call, callText(d.Expected), callText(d.Got))
			}
		}
	}
	for _, server := range slices.Sorted(maps.Keys(touched)) {
		fmt.Fprintf(a.Stdout, "note: server %s has changed since these skills were made: %s\n", server, strings.Join(touched[server], ", "))
	}
	fmt.Fprintf(a.Stdout, "%d passed, %d failed, %d without tests\n", counts[runs.SkillPassed], counts[runs.SkillFailed], counts[runs.SkillUntested])
	return ended(nil, counts[runs.SkillFailed] == 0)
}

// maxCallText is the maximum length of the arguments of a call that people see of a failed test.
const maxCallText = 300

// callText describes a call as text for people.
func callText(c *runs.TestCall) string {
	if c == nil {
		return "no call"
	}
	args := c.Args
	var tool struct {
		Input json.RawMessage `json:"input"`
	}
	if c.Kind == "tool" && json.Unmarshal(args, &tool) == nil && len(tool.Input) > 0 {
		args = tool.Input
	}
	return c.Name + " " + cut(string(args), maxCallText)
}

type skillsVersionsCmd struct{ skillArg }

func (c *skillsVersionsCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	all, current, err := c.recorded(ctx, saved)
	if err != nil {
		return err
	}
	type line struct {
		versions.Version
		Current bool `json:"current,omitempty"` // whether it is the present content
		Shown   bool `json:"shown,omitempty"`   // whether others see it
	}
	lines, shown := []line{}, 0
	if len(all) > 0 {
		shares, err := saved.Shares(ctx, c.User, all[0].Name)
		if err != nil {
			return err
		}
		if len(shares) > 0 {
			shown = shares[0].Version
		}
	}
	for _, v := range all {
		lines = append(lines, line{v, v.Digest == current, v.Num == shown})
	}
	return answerList(a, map[string]any{"versions": lines}, lines, "no version is stored of "+c.Name, "VERSION\tCREATED\tSTATE\tBY\tDIGEST", func(v line) string {
		state := string(v.State)
		if v.Current {
			state = "present"
		}
		if v.Shown {
			state += ", shared"
		}
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", v.Num, v.Created.Local().Format(time.DateTime), state, v.Author, v.Digest[:12])
	})
}

// recorded stores the present content of the skill, if it exists, and returns the versions and the digest of the present content.
func (c *skillArg) recorded(ctx context.Context, saved *skills.Store) (all []versions.Version, current string, err error) {
	key, err := saved.Key(ctx, c.User, c.Name)
	if err != nil {
		return nil, "", c.unknown(saved, c.Name, err)
	}
	if _, err := saved.Find(c.User, "/skills/"+key); err == nil {
		_, _, v, err := saved.Record(ctx, c.User, "/skills/"+key, "")
		if err != nil {
			return nil, "", err
		}
		current = v.Digest
	}
	all, err = saved.Versions(ctx, c.User, key)
	return all, current, err
}

type skillsDiffCmd struct {
	skillArg
	From int `arg:"" optional:"" help:"Version; by default the one before the present files."`
	To   int `arg:"" optional:"" help:"Version; by default the present files."`
}

func (c *skillsDiffCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	if skills.IsShared(c.Name) {
		return c.diffOther(ctx, a, saved)
	}
	all, current, err := c.recorded(ctx, saved)
	if err != nil {
		return err
	}
	numOf := func(ok func(versions.Version) bool) int {
		for _, v := range all { // the newest first
			if v.State == versions.Kept && ok(v) {
				return v.Num
			}
		}
		return 0
	}
	if c.To == 0 {
		c.To = numOf(func(v versions.Version) bool { return v.Digest == current || current == "" })
	}
	if c.From == 0 {
		c.From = numOf(func(v versions.Version) bool { return v.Num < c.To })
	}
	if c.From == 0 {
		c.From = numOf(func(v versions.Version) bool { return v.Num != c.To })
	}
	if c.From == 0 || c.To == 0 {
		return usage(fmt.Errorf("there is only one version of %s", c.Name))
	}
	var contents [2]skills.Content
	for i, num := range []int{c.From, c.To} {
		if _, contents[i], err = saved.Version(ctx, c.User, all[0].Name, num); err != nil {
			return usage(err)
		}
	}
	return c.print(a, all[0].Name, contents)
}

func (c *skillsDiffCmd) print(a *app, name string, contents [2]skills.Content) error {
	files := skills.Diff(contents[0], contents[1])
	if a.flags.JSON {
		return a.json(map[string]any{"from": c.From, "to": c.To, "files": files})
	}
	fmt.Fprintf(a.Stdout, "%s, version %d and version %d\n", name, c.From, c.To)
	for _, f := range files {
		fmt.Fprintf(a.Stdout, "%s %s\n%s", f.Kind, f.Path, f.Diff)
	}
	return nil
}

type skillsRestoreCmd struct {
	skillArg
	Version int `arg:"" help:"Version, as harness skills versions lists it."`
}

func (c *skillsRestoreCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	v, err := saved.Restore(ctx, c.User, c.Name, c.Version, c.User)
	switch {
	case errors.Is(err, versions.ErrNotFound), errors.Is(err, versions.ErrState):
		return usage(fmt.Errorf("%w; harness skills versions %s shows all", err, c.Name))
	case err != nil:
		return c.unknown(saved, c.Name, err)
	}
	return a.answer(v, "/skills/%s is version %d again\n", v.Name, v.Num)
}

type skillsPromoteCmd struct {
	skillArg
	Untested bool `help:"Also if it has no tests. A skill whose tests fail is not promoted."`
}

func (c *skillsPromoteCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	entry, err := saved.Promote(ctx, c.User, c.Name, c.User, c.Untested, a.Now())
	if errors.Is(err, skills.ErrNotPromotable) {
		return usage(err)
	}
	if err != nil {
		return c.unknown(saved, c.Name, err)
	}
	return a.answer(entry, "%s is a function of programs (tools.skills) and a tool of the MCP clients of %s, as it is now; after a change, test and promote it again\n", entry.Name, c.User)
}

type skillsDemoteCmd struct{ skillArg }

func (c *skillsDemoteCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	if err := saved.Demote(ctx, c.User, c.Name); err != nil {
		return c.unknown(saved, c.Name, err)
	}
	return a.answer(map[string]string{"demoted": c.Name}, "%s is no tool any more\n", c.Name)
}
