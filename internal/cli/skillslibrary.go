package cli

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/skills/library"
	"mcp-code-exec-harness/internal/versions"
)

// librarySource is the source of the skills that the harness brings along; librarySource/NAME is one of them.
const librarySource = "library"

// ofLibrary returns the names of the skills that a source names if it is the library. An unknown name is an error.
func (c *skillsAddCmd) ofLibrary() (names []string, is bool, err error) {
	name, one := strings.CutPrefix(c.Source, librarySource+"/")
	if !one && c.Source != librarySource {
		return nil, false, nil
	}
	names = library.Names()
	wanted := c.Skill
	if one {
		wanted = append(slices.Clone(wanted), name)
	}
	for _, w := range wanted {
		if !slices.Contains(names, w) {
			return nil, true, usage(fmt.Errorf("the library has no skill %q; %s", w, meant(ident.Closest(w, names), "it has "+strings.Join(names, ", "))))
		}
	}
	if len(wanted) > 0 {
		names = wanted
	}
	return names, true, nil
}

// addLibrary puts skills of the library among the user's skills. They are a part of the harness and need no review. The content that they
// replace stays in the history, and a skill from elsewhere is not replaced.
func (c *skillsAddCmd) addLibrary(ctx context.Context, a *app, saved *skills.Store, names []string) error {
	added := []addedSkill{}
	for _, name := range names {
		content, err := libraryContent(name)
		if err != nil {
			return err
		}
		origin := versions.Origin{Source: librarySource}
		if _, err := saved.Present(ctx, c.User, name, &origin); err != nil {
			return fmt.Errorf("add the skill %s: %w", name, err)
		}
		v, err := saved.Hold(ctx, c.User, name, content, origin)
		if err == nil && v.State == versions.Held {
			v, err = saved.Approve(ctx, c.User, name, v.Digest, auth.Local().Principal)
		} else if err == nil {
			_, err = saved.Restore(ctx, c.User, name, v.Num, auth.Local().Principal)
		}
		if err != nil {
			return fmt.Errorf("add the skill %s: %w", name, err)
		}
		s := addedSkill{Name: name, State: "added", Version: v.Num, Digest: v.Digest, Files: len(content), Origin: origin}
		for _, data := range content {
			s.Bytes += len(data)
		}
		added = append(added, s)
	}
	return answerShort(a, map[string]any{"skills": added}, added, "", "SKILL\tVERSION\tIMPORT", func(s addedSkill) string {
		return fmt.Sprintf("%s\t%d\t/skills/%s", s.Name, s.Version, s.Name)
	})
}

func libraryContent(name string) (skills.Content, error) {
	of, err := library.Open(name)
	if err != nil {
		return nil, err
	}
	content := skills.Content{}
	err = fs.WalkDir(of, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content[path], err = fs.ReadFile(of, path)
		return err
	})
	return content, err
}
