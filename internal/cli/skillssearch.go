package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/config"
	skillsource "mcp-code-exec-harness/internal/skills/source"
)

type skillsSearchCmd struct {
	Query        []string `arg:"" help:"Words that the name or the description has, all of them."`
	AllowPrivate bool     `help:"The hosts of the sources may be at addresses of this machine or of private networks, and use http."`
}

func (c *skillsSearchCmd) Run(ctx context.Context, a *app, cfg *config.Config) error {
	if len(cfg.Skills.Sources) == 0 {
		return usage(errors.New("no sources are configured; set skills.sources, such as [anthropics/skills]"))
	}
	words := strings.Fields(strings.ToLower(strings.Join(c.Query, " ")))
	dir := a.Dir
	if cfg.File != "" {
		dir = filepath.Dir(cfg.File)
	}
	found, failed := []skillsource.Listed{}, 0
	for _, where := range cfg.Skills.Sources {
		all, err := skillsource.List(ctx, where, skillsource.Options{Dir: dir, Environ: a.Environ, AllowPrivate: c.AllowPrivate})
		if err != nil {
			failed++
			fmt.Fprintf(a.Stderr, "harness: warning: %v\n", err)
		}
		for _, s := range all {
			text := strings.ToLower(s.Name + " " + s.Description)
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
				found = append(found, s)
			}
		}
	}
	if failed == len(cfg.Skills.Sources) {
		return errors.New("no source could be read")
	}
	return answerShort(a, found, found, "no skill of the sources has these words", "SKILL\tSOURCE\tDESCRIPTION", func(s skillsource.Listed) string {
		return clip.Visible(s.Name) + "\t" + clip.Visible(s.Source) + "\t" + cut(clip.Visible(firstLine(s.Description)), shownText)
	})
}
