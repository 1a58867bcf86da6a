package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/skills"
	skillreview "mcp-code-exec-harness/internal/skills/review"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/versions"
)

type skillsReviewCmd struct {
	Name    string `arg:"" optional:"" help:"Skill that is held; without a name, all of them are listed."`
	Approve string `help:"Approve the content with this digest, which the review shows." placeholder:"DIGEST"`
	Refuse  bool   `help:"Refuse everything that is held of the skill."`
	User    string `help:"Whose skills." default:"local"`
}

func (skillsReviewCmd) Help() string {
	return `Shows what harness skills add holds, what other users share (@OWNER/NAME), and proposals for a skill: where it is from, its files, what a reader could
overlook, and all differences from the content in use. Hidden characters are visible as codes. An approval is for the one content that was shown.

Examples:
  harness skills review
  harness skills review pdf
  harness skills review @bob/pdf
  harness skills review pdf --refuse`
}

func (c *skillsReviewCmd) check() error {
	switch {
	case c.Name == "" && (c.Approve != "" || c.Refuse):
		return errors.New("--approve and --refuse take the name of a skill: harness skills review NAME --refuse")
	case c.Approve != "" && c.Refuse:
		return errors.New("--approve or --refuse: leave out one")
	}
	return nil
}

// heldSkill is a held version as a person reviews it.
type heldSkill struct {
	versions.Version
	Description string               `json:"description,omitempty"`
	Report      skillreview.Report   `json:"report"`
	Changes     []skillreview.Change `json:"changes"` // differences from the content in use; all files if there is none
	// Conflict says why the version cannot be approved at present; empty if it can.
	Conflict string `json:"conflict,omitempty"`

	replaces bool // a content is in use
}

func (c *skillsReviewCmd) Run(ctx context.Context, a *app, cfg *config.Config, h harness, saved *skills.Store) error {
	switch {
	case c.Approve != "":
		return c.approve(ctx, a, cfg, h, saved, c.Approve)
	case c.Refuse:
		return c.refuse(ctx, a, cfg, saved)
	}
	held, err := saved.Waiting(ctx, c.User, c.Name)
	if err != nil {
		return usage(err)
	}
	if c.Name == "" {
		return answerShort(a, list(held), held, "no skill is held", "SKILL\tSINCE\tSOURCE\tDIGEST", func(v versions.Version) string {
			return v.Name + "\t" + v.Created.Local().Format(time.DateTime) + "\t" + clip.Visible(v.From()) + "\t" + v.Digest
		})
	}
	if len(held) == 0 {
		return usage(fmt.Errorf("nothing of skill %q is held; %s lists what is", c.Name, a.commandLine("skills review")))
	}
	var all []heldSkill
	for _, v := range held {
		s, err := c.look(ctx, saved, v)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	if a.flags.JSON {
		return a.json(all)
	}
	for i, s := range all {
		fmt.Fprint(a.Stdout, s.text())
		command := a.commandLine("skills review " + c.Name)
		if c.User != "local" {
			command += " --user " + c.User
		}
		switch {
		case s.Conflict != "":
			fmt.Fprintf(a.Stderr, "it cannot be approved: %s\n", s.Conflict)
		case !a.asks():
			fmt.Fprintf(a.Stderr, "approve it: %s --approve %s\nrefuse it: %s --refuse\n", command, s.Digest, command)
		default:
			line, err := a.prompt(ctx, "Approve this content? y: yes; r: refuse everything that is held of it; Enter leaves it held: ")
			if err != nil {
				return err
			}
			switch line {
			case "y", "yes":
				return c.approve(ctx, a, cfg, h, saved, s.Digest)
			case "r":
				return c.refuse(ctx, a, cfg, saved)
			}
		}
		if i+1 < len(all) {
			fmt.Fprintln(a.Stdout)
		}
	}
	return nil
}

// look makes the review of a version that waits for one.
func (c *skillsReviewCmd) look(ctx context.Context, saved *skills.Store, v versions.Version) (s heldSkill, err error) {
	s.Version = v
	content, present, err := saved.Compared(ctx, c.User, v)
	if conflict, ok := errors.AsType[skills.ConflictError](err); ok {
		s.Conflict, err = conflict.Error(), nil
	}
	if err != nil {
		return s, err
	}
	k := content.Describe(v.Name)
	others, err := c.others(saved, v.Name, present != nil)
	if err != nil {
		return s, err
	}
	s.Description = k.Description
	s.Report = skillreview.Of(v.Name, content, others, k.AllowedTools)
	s.Changes = skillreview.Changes(present, content)
	s.replaces = present != nil
	return s, nil
}

// others returns the names that a skill could be confused with: those of the user's other skills and of built-in ones.
func (c *skillsReviewCmd) others(saved *skills.Store, name string, own bool) (others []string, err error) {
	all, err := saved.List(c.User)
	for _, k := range all {
		if k.Name != name || !own {
			others = append(others, k.Name)
		}
	}
	return append(others, n8n.SkillName), err
}

// mark begins each line of a text that a skill contains, so that no line of it passes for one of the review.
const mark = "  | "

// text returns the review for people.
func (s heldSkill) text() string {
	var b strings.Builder
	what := "new"
	if s.replaces {
		what = "replaces the content in use"
	}
	fmt.Fprintf(&b, "%s  (%s; version %d, held since %s)\n", s.Name, what, s.Num, s.Created.Local().Format(time.DateTime))
	fmt.Fprintf(&b, "source:      %s\n", clip.Visible(s.From()))
	if s.Origin != nil && s.Origin.Commit != "" {
		fmt.Fprintf(&b, "commit:      %s\n", s.Origin.Commit)
	}
	if s.Origin != nil && s.Origin.Digest != "" {
		fmt.Fprintf(&b, "fetched:     %s\n", s.Origin.Digest)
	}
	fmt.Fprintf(&b, "digest:      %s\n", s.Digest)
	fmt.Fprintf(&b, "description: %s\n", clip.Visible(s.Description))
	if len(s.Report.Hosts) > 0 {
		fmt.Fprintf(&b, "links to:    %s\n", clip.Visible(strings.Join(s.Report.Hosts, " ")))
	}
	fmt.Fprintf(&b, "\n%d %s:\n", len(s.Report.Files), plural(len(s.Report.Files), "file", "files"))
	for _, f := range s.Report.Files {
		fmt.Fprintf(&b, "  %s  %d bytes  %s  %s\n", clip.Visible(f.Path), f.Bytes, f.SHA256, f.Kind)
	}
	if len(s.Report.Notes) > 0 {
		fmt.Fprint(&b, "\nnotes:\n")
	}
	for _, n := range s.Report.Notes {
		at := ""
		switch {
		case n.Line > 0:
			at = fmt.Sprintf("%s, line %d: ", clip.Visible(n.Path), n.Line)
		case n.Path != "":
			at = clip.Visible(n.Path) + ": "
		}
		fmt.Fprintf(&b, "  %s%s\n", at, clip.Visible(strings.ReplaceAll(n.Text, "\n", " ")))
	}
	for _, change := range s.Changes {
		fmt.Fprintf(&b, "\n%s %s:\n", change.Kind, clip.Visible(change.Path))
		for line := range strings.Lines(change.Text) {
			b.WriteString(mark + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return b.String()
}

// approve puts a held content into use, as it was shown.
func (c *skillsReviewCmd) approve(ctx context.Context, a *app, cfg *config.Config, h harness, saved *skills.Store, digest string) error {
	if _, err := a.confirm(ctx, h, "approve the skill "+c.Name); err != nil {
		return err
	}
	v, err := saved.Approve(ctx, c.User, c.Name, digest, auth.Local().Principal)
	if errors.Is(err, skills.ErrNotHeld) || errors.Is(err, versions.ErrState) {
		return usage(fmt.Errorf("%w; %s shows what is held now", err, a.commandLine("skills review "+c.Name)))
	}
	if errors.Is(err, skills.ErrRole) || errors.Is(err, versions.ErrBase) || errors.Is(err, versions.ErrShares) || errors.Is(err, fs.ErrNotExist) {
		return usage(err)
	}
	if err != nil {
		return err
	}
	c.audit(ctx, a, cfg, "approved", v)
	switch {
	case v.Base > 0:
		return a.answer(v, "approved version %d of %s; others see it now\n", v.Num, c.Name)
	case skills.IsShared(c.Name):
		return a.answer(v, "accepted version %d of %s; programs use it now\n", v.Num, c.Name)
	}
	return a.answer(v, "approved version %d of %s; it is /skills/%s now\n", v.Num, v.Name, v.Name)
}

func (c *skillsReviewCmd) refuse(ctx context.Context, a *app, cfg *config.Config, saved *skills.Store) error {
	refused, err := saved.Refuse(ctx, c.User, c.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return usage(err)
	}
	if err != nil {
		return err
	}
	if len(refused) == 0 {
		return usage(fmt.Errorf("nothing of skill %q is held; %s lists what is", c.Name, a.commandLine("skills review")))
	}
	for _, v := range refused {
		c.audit(ctx, a, cfg, "refused", v)
	}
	return a.answer(refused, "refused %d %s of %s\n", len(refused), plural(len(refused), "version", "versions"), c.Name)
}

// audit records a decision.
func (c *skillsReviewCmd) audit(ctx context.Context, a *app, cfg *config.Config, change string, v versions.Version) {
	details := map[string]any{"skill": c.Name, "change": change, "digest": v.Digest, "by": auth.Local().Principal}
	if v.Origin != nil {
		details["source"], details["commit"] = v.Origin.Source, v.Origin.Commit
	}
	a.record(ctx, cfg, telemetry.Event{UserID: c.User, Type: telemetry.SkillChange, Severity: telemetry.Medium, Details: details})
}
