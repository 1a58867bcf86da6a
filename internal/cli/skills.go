package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

type skillsCmd struct {
	List skillsListCmd `cmd:"" help:"Skills that programs have saved."`
	Show skillsShowCmd `cmd:"" help:"One skill, with its text."`
}

func (skillsCmd) Help() string { return "Example:\n  harness skills list" }

type skillsListCmd struct {
	User string `help:"Whose skills." default:"local"`
}

func (skillsListCmd) Help() string { return "Example:\n  harness skills list" }

func (c *skillsListCmd) Run(ctx context.Context, a *app) error {
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	saved, err := h.Skills()
	if err != nil {
		return missing(h, err)
	}
	all, err := saved.List(c.User)
	if err != nil {
		return err
	}
	if a.flags.JSON {
		return a.json(list(all))
	}
	if len(all) == 0 {
		fmt.Fprintf(a.Stderr, "user %s has no skills; programs save them with fs.writeFile('/skills/NAME.js', …)\n", c.User)
		return nil
	}
	rows := [][]string{{"SKILL", "PATH", "DESCRIPTION"}}
	for _, s := range all {
		description := s.Description
		if s.Problem != "" {
			description = "problem: " + s.Problem
		}
		rows = append(rows, []string{s.Name, s.Path, clip(firstLine(description))})
	}
	a.table(rows)
	return nil
}

type skillsShowCmd struct {
	Name string `arg:"" help:"Skill, as listed."`
	User string `help:"Whose skills." default:"local"`
}

func (skillsShowCmd) Help() string { return "Example:\n  harness skills show sales_summary" }

func (c *skillsShowCmd) Run(ctx context.Context, a *app) error {
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	saved, err := h.Skills()
	if err != nil {
		return missing(h, err)
	}
	skill, text, err := saved.Show(c.User, c.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return usage(err)
	}
	if err != nil {
		return err
	}
	if a.flags.JSON {
		return a.json(map[string]any{"skill": skill, "text": text})
	}
	fmt.Fprintf(a.Stdout, "%s\n%s\n\n%s\n", skill.Path, skill.Description, text)
	return nil
}
