package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

type skillsCmd struct {
	List     skillsListCmd     `cmd:"" help:"Skills of a user: version, last test, description." example:"skills list"`
	Show     skillsShowCmd     `cmd:"" help:"One skill, with its text." example:"skills show sales_summary"`
	New      skillsNewCmd      `cmd:"" help:"Make a skill of a run or a program: code, input, description, and the run as a test." example:"skills new double --from run_4f2a"`
	Test     skillsTestCmd     `cmd:"" help:"Replay the recorded runs of skills with their present code; no server is contacted."`
	Versions skillsVersionsCmd `cmd:"" help:"Versions of a skill, the newest first." example:"skills versions double"`
	Diff     skillsDiffCmd     `cmd:"" help:"What differs between two versions of a skill, or between one and its present files." example:"skills diff double 1"`
	Restore  skillsRestoreCmd  `cmd:"" help:"Make a version the content of a skill again, also of a removed one." example:"skills restore double 1"`
	Promote  skillsPromoteCmd  `cmd:"" help:"Make a skill, as it is now, a tool of its user's MCP clients." example:"skills promote double"`
	Demote   skillsDemoteCmd   `cmd:"" help:"Make a skill no tool any more." example:"skills demote double"`
	Export   skillsExportCmd   `cmd:"" help:"Write a skill into a zip archive." example:"skills export double double.zip"`
	Remove   skillsRemoveCmd   `cmd:"" help:"Remove a skill; its history stays." example:"skills remove double"`

	Add    skillsAddCmd    `cmd:"" help:"Fetch skills from elsewhere, and hold them for a review."`
	Search skillsSearchCmd `cmd:"" help:"Search the sources of skills.sources." example:"skills search invoice"`
	Review skillsReviewCmd `cmd:"" help:"What waits for a person: skills from elsewhere and of other users, proposals. Show, approve, refuse."`

	Share   skillsShareCmd   `cmd:"" help:"Let others see a version of a skill."`
	Unshare skillsUnshareCmd `cmd:"" help:"End shares of a skill; the next read fails." example:"skills unshare double --with bob"`
	Shares  skillsSharesCmd  `cmd:"" help:"What a user shares, and what others share with the user." example:"skills shares"`
	Propose skillsProposeCmd `cmd:"" help:"Propose a version of another user's skill."`
}

// skillUser is the user whose skills a command is about.
type skillUser struct {
	User string `help:"Whose skills." default:"local"`
}

// skillArg names a skill of a user.
type skillArg struct {
	Name string `arg:"" help:"Skill, as listed." names:"skills"`
	skillUser
}

// unknown explains the error of a skill that does not exist. It returns any other error unchanged.
func (c *skillUser) unknown(saved *skills.Store, name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if skills.IsShared(name) {
		return usage(fmt.Errorf("%s is a skill of another user, and this takes one of your own; harness skills add %[1]s makes a copy", name))
	}
	all, _ := saved.List(c.User) // needed only for a hint
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return usage(fmt.Errorf("unknown skill %q; %s", name, meant(ident.Closest(name, names), "harness skills list shows all")))
}

type skillsListCmd struct{ skillUser }

func (c *skillsListCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	all, err := saved.Overview(ctx, c.User)
	if err != nil {
		return err
	}
	none := fmt.Sprintf("user %s has no skills; harness skills new makes one of a run, and programs save them with fs.writeFile('/skills/NAME.js', …)", c.User)
	return answerShort(a, all, all, none, "SKILL\tVERSION\tTESTS\tRUNS\tPATH\tDESCRIPTION", func(s skills.Entry) string {
		description := s.Description
		if s.Problem != "" {
			description = "problem: " + s.Problem
		}
		version, result := "", s.Result
		if s.Current > 0 {
			version = fmt.Sprint(s.Current)
		}
		if s.Promoted {
			result += ", promoted"
		}
		if s.Shared != nil {
			result = stateText(s.Shared)
		}
		return s.Name + "\t" + version + "\t" + result + "\t" + usesText(s.Uses) + "\t" + s.Path + "\t" + cut(firstLine(description), shownText)
	})
}

// usesText says how many runs have used a skill.
func usesText(u *versions.Uses) string {
	switch {
	case u == nil:
		return ""
	case u.Failed == 0:
		return fmt.Sprint(u.Runs)
	}
	return fmt.Sprintf("%d, %d failed", u.Runs, u.Failed)
}

type skillsShowCmd struct {
	skillArg
	Version int `arg:"" optional:"" help:"This version in place of the present files."`
}

func (c *skillsShowCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	if skills.IsShared(c.Name) {
		return c.showOther(ctx, a, saved)
	}
	if c.Version > 0 {
		return c.version(ctx, a, saved)
	}
	entry, content, err := saved.Entry(ctx, c.User, c.Name)
	if err != nil {
		return c.unknown(saved, c.Name, err)
	}
	text := string(content.Main())
	if a.flags.JSON {
		return a.json(map[string]any{"skill": entry, "text": text, "resources": content.Files()})
	}
	fmt.Fprintf(a.Stdout, "%s\n%s\n", entry.Path, entry.Description)
	if u := entry.Uses; u != nil {
		fmt.Fprintf(a.Stdout, "runs: %s, the latest at %s\n", usesText(u), u.Last.Format(time.DateTime))
	}
	for _, w := range entry.Warnings {
		fmt.Fprintf(a.Stdout, "note: %s\n", w)
	}
	fmt.Fprintf(a.Stdout, "\n%s\n", text)
	if entry.Kind == skills.Folder {
		c.files(a, content)
	}
	return nil
}

// version shows a stored version.
func (c *skillsShowCmd) version(ctx context.Context, a *app, saved *skills.Store) error {
	key, err := saved.Key(ctx, c.User, c.Name)
	if err != nil {
		return c.unknown(saved, c.Name, err)
	}
	v, content, err := saved.Version(ctx, c.User, key, c.Version)
	if err != nil {
		return usage(err)
	}
	text := string(content.Main())
	if a.flags.JSON {
		return a.json(map[string]any{"version": v, "text": text, "resources": content.Files()})
	}
	fmt.Fprintf(a.Stdout, "/skills/%s, version %d\n\n%s\n", v.Name, v.Num, text)
	c.files(a, content)
	return nil
}

// files lists the files of a folder.
func (c *skillsShowCmd) files(a *app, content skills.Content) {
	for _, f := range content.Files() {
		note := ""
		if f.Language != "" {
			note = "  not executable here: " + f.Language
		}
		fmt.Fprintf(a.Stdout, "%8d  %s%s\n", f.Bytes, f.Path, note)
	}
}

type skillsRemoveCmd struct {
	skillArg
	Forget bool `help:"Also remove its history; nothing brings it back then."`
}

func (c *skillsRemoveCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	if err := saved.Remove(ctx, c.User, c.Name, c.User, c.Forget); err != nil {
		return c.unknown(saved, c.Name, err)
	}
	text := "removed skill " + c.Name
	if !c.Forget {
		text += "; harness skills versions " + c.Name + " shows what harness skills restore can bring back"
	}
	return a.answer(map[string]string{"removed": c.Name}, "%s\n", text)
}

type skillsExportCmd struct {
	skillArg
	File string `arg:"" help:"Zip archive to write; an existing file is not replaced."`
}

func (c *skillsExportCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	k, content, err := c.content(ctx, saved)
	if err != nil {
		return c.refused(saved, err)
	}
	archive, err := content.Zip(exportFolder(k))
	if err != nil {
		return err
	}
	if err := a.createFile(c.File, archive); err != nil {
		return usage(fmt.Errorf("write the archive: %w", err))
	}
	return a.answer(map[string]any{"file": a.path(c.File), "bytes": len(archive), "digest": content.Digest()}, "wrote %s, %d bytes\n", a.path(c.File), len(archive))
}

// content returns the skill and its content: the present one, or of another user's skill the version that others see.
func (c *skillsExportCmd) content(ctx context.Context, saved *skills.Store) (skills.Skill, skills.Content, error) {
	if !skills.IsShared(c.Name) {
		return saved.Content(c.User, c.Name)
	}
	o, err := saved.Other(ctx, c.User, c.Name)
	if err != nil {
		return skills.Skill{}, nil, err
	}
	_, content, err := saved.OtherContent(ctx, o, o.Version)
	return o.Describe(content), content, err
}

// exportFolder returns the folder of a skill in its archive: the last part of its name, and none for a module.
func exportFolder(k skills.Skill) string {
	if k.Kind != skills.Folder {
		return ""
	}
	return k.Name[strings.LastIndex(k.Name, "/")+1:]
}
