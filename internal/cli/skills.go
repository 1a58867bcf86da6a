package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/skills"
)

type skillsCmd struct {
	List skillsListCmd `cmd:"" help:"Skills that programs have saved." example:"skills list"`
	Show skillsShowCmd `cmd:"" help:"One skill, with its text." example:"skills show sales_summary"`

	Add    skillsAddCmd    `cmd:"" help:"Fetch skills from elsewhere, and hold them for a review."`
	Review skillsReviewCmd `cmd:"" help:"What is held of skills from elsewhere: show, approve, refuse."`
}

type skillsListCmd struct {
	User string `help:"Whose skills." default:"local"`
}

func (c *skillsListCmd) Run(a *app, saved *skills.Store) error {
	all, err := saved.List(c.User)
	if err != nil {
		return err
	}
	none := fmt.Sprintf("user %s has no skills; programs save them with fs.writeFile('/skills/NAME.js', …)", c.User)
	return answerShort(a, list(all), all, none, "SKILL\tPATH\tDESCRIPTION", func(s skills.Skill) string {
		description := s.Description
		if s.Problem != "" {
			description = "problem: " + s.Problem
		}
		return s.Name + "\t" + s.Path + "\t" + cut(firstLine(description), shownText)
	})
}

type skillsShowCmd struct {
	Name string `arg:"" help:"Skill, as listed." names:"skills"`
	User string `help:"Whose skills." default:"local"`
}

func (c *skillsShowCmd) Run(a *app, saved *skills.Store) error {
	skill, text, err := saved.Show(c.User, c.Name)
	if errors.Is(err, fs.ErrNotExist) {
		all, _ := saved.List(c.User) // needed only for a hint
		var names []string
		for _, s := range all {
			names = append(names, s.Name)
		}
		return usage(fmt.Errorf("unknown skill %q; %s", c.Name, meant(ident.Closest(c.Name, names), "harness skills list shows all")))
	}
	if err != nil {
		return err
	}
	return a.answer(map[string]any{"skill": skill, "text": text}, "%s\n%s\n\n%s\n", skill.Path, skill.Description, text)
}
