package cli

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"

	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/skills"
)

type n8nSkillCmd struct {
	User  string `help:"Whose skill." default:"local"`
	Force bool   `help:"Replace files of it that were changed."`
}

// Run writes the skill that builds workflows into a user's skills.
func (c *n8nSkillCmd) Run(a *app, saved *skills.Store) error {
	dir, err := saved.Dir(c.User)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := fs.Glob(n8n.Skill(), "*")
	if err != nil {
		return err
	}
	all := map[string][]byte{}
	for _, name := range names {
		if all[name], err = fs.ReadFile(n8n.Skill(), name); err != nil {
			return err
		}
		file := path.Join(n8n.SkillName, name)
		if now, err := dir.ReadFile(file, 0, int64(len(all[name]))+1); err == nil && !bytes.Equal(now, all[name]) && !c.Force {
			return usage(fmt.Errorf("/skills/%s is another one, and was not replaced; use --force, or rename your folder", file))
		}
	}
	for _, name := range names {
		if err := dir.WriteFile(path.Join(n8n.SkillName, name), all[name]); err != nil {
			return fmt.Errorf("save the skill: %w", err)
		}
	}
	where := "/skills/" + n8n.SkillName
	return a.answer(map[string]any{"path": where, "files": names}, "%s\nharness skills show %s\n", where, n8n.SkillName)
}
