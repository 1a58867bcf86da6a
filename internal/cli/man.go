package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra/doc"

	"mcp-code-exec-harness/internal/catalog/ident"
)

type manCmd struct {
	Command []string `arg:"" optional:"" help:"Command whose page is printed; by default that of harness."`
	Dir     string   `help:"Write the pages of all commands into this directory instead." placeholder:"DIR"`
}

func (manCmd) Help() string {
	return `Examples:
  harness man | man -l -
  harness man servers add | man -l -
  harness man --dir /usr/local/share/man/man1`
}

func (c *manCmd) Run(a *app) error {
	root := mirror(a.model, nil)
	now := a.Now()
	if seconds, err := strconv.ParseInt(a.env("SOURCE_DATE_EPOCH"), 10, 64); err == nil { // https://reproducible-builds.org/specs/source-date-epoch/
		now = time.Unix(seconds, 0).UTC()
	}
	header := &doc.GenManHeader{Section: "1", Source: "harness " + Version, Manual: "Harness", Date: &now}
	if c.Dir != "" {
		if len(c.Command) > 0 {
			return usage(errors.New("give a command or --dir, not both"))
		}
		dir := a.path(c.Dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return usage(err)
		}
		if err := doc.GenManTree(root, header, dir); err != nil {
			return err
		}
		return a.answer(map[string]string{"written": dir}, "wrote the manual pages into %s\n", dir)
	}
	page := root
	for _, name := range c.Command {
		next := page
		var names []string
		for _, child := range page.Commands() {
			names = append(names, child.Name())
			if child.Name() == name {
				next = child
			}
		}
		if next == page {
			return usage(fmt.Errorf("%s has no command %q; %s", page.CommandPath(), name, meant(ident.Closest(name, names), page.CommandPath()+" --help shows all")))
		}
		page = next
	}
	var text strings.Builder
	if err := doc.GenMan(page, header, &text); err != nil {
		return err
	}
	return a.answer(map[string]string{"page": text.String()}, "%s", text.String())
}

// meant returns a hint: the closest names, if there are any, followed by the text in otherwise.
func meant(closest []string, otherwise string) string {
	if len(closest) == 0 {
		return otherwise
	}
	return "did you mean " + strings.Join(closest, " or ") + "? " + otherwise
}
