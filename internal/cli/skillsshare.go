package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/versions"
)

type skillsShareCmd struct {
	skillArg
	With string `help:"User, team:NAME of auth.teams, or everyone. Without it, all with whom the skill is shared see its present content from now on." placeholder:"WHO"`
	Role string `help:"read: people see it; use: programs use it; write: also propose versions; approve: also approve them." default:"use" enum:"read,use,write,approve"`
}

func (skillsShareCmd) Help() string {
	return `Others see one version of the skill, as /skills/@OWNER/NAME: the content at the first share. What changes in the files later reaches nobody before another
share without --with. The content must have no personal data and no secret.

Examples:
  harness skills share double --with bob
  harness skills share double --with team:sales --role write
  harness skills share double`
}

func (c *skillsShareCmd) Run(ctx context.Context, a *app, cfg *config.Config, h harness, saved *skills.Store) error {
	check := h.Runs().CheckShared(ctx, c.User)
	if c.With == "" {
		v, err := saved.ShowOthers(ctx, c.User, c.Name, check)
		if err != nil {
			return c.refused(saved, err)
		}
		c.record(ctx, a, cfg, map[string]any{"skill": v.Name, "change": "shown", "digest": v.Digest})
		return a.answer(v, "others see version %d of %s now\n", v.Num, v.Name)
	}
	of, err := saved.Share(ctx, c.User, c.Name, c.With, versions.Role(c.Role), check)
	if err != nil {
		return c.refused(saved, err)
	}
	c.record(ctx, a, cfg, map[string]any{"skill": of.Name, "change": "shared", "with": of.With, "role": of.Role})
	return a.answer(of, "%s sees version %d of %s as /skills/%s, with the role %s\n", of.With, of.Version, of.Name, skills.SharedName(c.User, of.Name), of.Role)
}

// refused marks errors of sharing that are the caller's.
func (c *skillArg) refused(saved *skills.Store, err error) error {
	invalid, isInvalid := errors.AsType[skills.InvalidError](err)
	personal, isPersonal := errors.AsType[runs.InvalidError](err)
	switch {
	case isInvalid:
		return usage(invalid)
	case isPersonal:
		return usage(personal)
	case errors.Is(err, skills.ErrRole), errors.Is(err, versions.ErrBase), errors.Is(err, versions.ErrState), errors.Is(err, versions.ErrShares), errors.Is(err, versions.ErrFull), errors.Is(err, versions.ErrNotFound):
		return usage(err)
	case errors.Is(err, fs.ErrNotExist) && skills.IsShared(c.Name):
		return usage(err)
	}
	return c.unknown(saved, c.Name, err)
}

// record puts a change of what is shared into the audit log.
func (c *skillUser) record(ctx context.Context, a *app, cfg *config.Config, details map[string]any) {
	details["by"] = auth.Local().Principal
	a.record(ctx, cfg, telemetry.Event{UserID: c.User, Type: telemetry.SkillChange, Severity: telemetry.Medium, Details: details})
}

type skillsUnshareCmd struct {
	skillArg
	With string `help:"Only with this user, team:NAME or everyone." placeholder:"WHO"`
}

func (c *skillsUnshareCmd) Run(ctx context.Context, a *app, cfg *config.Config, saved *skills.Store) error {
	ended, err := saved.Unshare(ctx, c.User, c.Name, c.With)
	if err != nil {
		return c.refused(saved, err)
	}
	if ended == 0 {
		return usage(fmt.Errorf("%s is not shared so; %s lists all", c.Name, a.commandLine("skills shares")))
	}
	c.record(ctx, a, cfg, map[string]any{"skill": c.Name, "change": "unshared", "with": c.With})
	return a.answer(map[string]any{"unshared": c.Name, "ended": ended}, "ended %d %s of %s; the next read by a program of them fails\n", ended, plural(ended, "share", "shares"), c.Name)
}

type skillsSharesCmd struct{ skillUser }

func (c *skillsSharesCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	own, err := saved.Shares(ctx, c.User, "")
	if err != nil {
		return err
	}
	others, err := saved.Others(ctx, c.User, "")
	if err != nil {
		return err
	}
	var lines []string
	for _, of := range own {
		lines = append(lines, fmt.Sprintf("%s\t%d\t%s\t%s\t", of.Name, of.Version, of.With, of.Role))
	}
	for _, o := range others {
		lines = append(lines, fmt.Sprintf("%s\t%d\tme\t%s\t%s", strings.TrimPrefix(o.Path, "/skills/"), o.Version, o.Role, stateText(&o)))
	}
	return answerList(a, map[string]any{"shares": list(own), "others": list(others)}, lines, "nothing is shared by or with user "+c.User, "SKILL\tVERSION\tWITH\tROLE\tSTATE",
		func(line string) string { return line })
}

// stateText says whether programs use another user's skill.
func stateText(o *skills.Other) string {
	switch o.State {
	case skills.Used:
		return "in use"
	case skills.Superseded:
		return fmt.Sprintf("version %d in use, review the new one", o.Accepted)
	case skills.Unreviewed:
		return "review it first"
	}
	return "to read only"
}

type skillsProposeCmd struct {
	skillArg
	From string `required:"" help:"Skill of your own whose content is proposed." placeholder:"NAME"`
	Base int    `required:"" help:"Version that it was made from, as harness skills show says it." placeholder:"N"`
}

func (skillsProposeCmd) Help() string {
	return `Takes the role write. The proposal waits in the history of the owner, who decides with harness skills review, as may those with the role approve. If others have
proposed or approved a version since --base, the proposal is refused, so that no change is lost.

Examples:
  harness skills add @bob/double
  harness skills propose @bob/double --from double --base 3`
}

func (c *skillsProposeCmd) Run(ctx context.Context, a *app, cfg *config.Config, h harness, saved *skills.Store) error {
	v, err := saved.Propose(ctx, c.User, c.Name, c.From, c.Base, h.Runs().CheckShared(ctx, c.User))
	if errors.Is(err, versions.ErrBase) {
		return usage(fmt.Errorf("%w; compare with %s, take over what differs, and propose again from it", err, a.commandLine("skills diff "+c.Name)))
	}
	if err != nil {
		return c.refused(saved, err)
	}
	c.record(ctx, a, cfg, map[string]any{"skill": c.Name, "change": "proposed", "digest": v.Digest})
	return a.answer(v, "proposed as version %d of %s; it waits for a review\n", v.Num, c.Name)
}

// showOther shows a skill of another user.
func (c *skillsShowCmd) showOther(ctx context.Context, a *app, saved *skills.Store) error {
	o, err := saved.Other(ctx, c.User, c.Name)
	if err != nil {
		return c.refused(saved, err)
	}
	v, content, err := saved.OtherContent(ctx, o, c.Version)
	if err != nil {
		return c.refused(saved, err)
	}
	text := string(content.Main())
	if a.flags.JSON {
		return a.json(map[string]any{"shared": o, "version": v, "text": text, "resources": content.Files()})
	}
	fmt.Fprintf(a.Stdout, "%s, version %d (role %s, %s)\n\n%s\n", o.Path, v.Num, o.Role, stateText(&o), text)
	c.files(a, content)
	return nil
}

// diffOther shows what differs between versions of another user's skill that the user may see: by default, the one that programs use and the newest.
func (c *skillsDiffCmd) diffOther(ctx context.Context, a *app, saved *skills.Store) error {
	o, err := saved.Other(ctx, c.User, c.Name)
	if err != nil {
		return c.refused(saved, err)
	}
	if c.To == 0 {
		c.To = o.Version
		if o.Role.Includes(versions.Write) {
			if c.To, err = saved.Newest(ctx, o); err != nil {
				return err
			}
		}
	}
	if c.From == 0 {
		c.From = o.Version
		if c.To == o.Version && o.Accepted > 0 {
			c.From = o.Accepted
		}
	}
	var contents [2]skills.Content
	for i, num := range []int{c.From, c.To} {
		if _, contents[i], err = saved.OtherContent(ctx, o, num); err != nil {
			return c.refused(saved, err)
		}
	}
	return c.print(a, c.Name, contents)
}

// addOther copies a skill of another user, as programs use it, to the user's own.
func (c *skillsAddCmd) addOther(ctx context.Context, a *app, saved *skills.Store) error {
	v, err := saved.Copy(ctx, c.User, c.Source, auth.Local().Principal)
	if err != nil {
		return usage(err)
	}
	s := addedSkill{Name: v.Name, State: "added", Version: v.Num, Digest: v.Digest, Origin: *v.Origin}
	return a.answer(map[string]any{"skills": []addedSkill{s}}, "/skills/%s is a copy of %s, %s\n", v.Name, v.Origin.Source, v.Origin.Commit)
}
