package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/trust"
)

type trustCmd struct {
	Dir string `arg:"" optional:"" help:"Folder with a harness.yaml or .env; by default the one that commands here would use."`
}

func (trustCmd) Help() string {
	return `Lets the configuration in a folder act: harness.yaml in the working directory or above it, and .env beside it, can start programs, use your
secrets and weaken what protects you, so what came with a folder does nothing until then. A file that changes afterwards by another hand
than a command of the harness has to be trusted again. A file given with --config or HARNESS_CONFIG needs no trust.

Examples:
  harness trust
  harness trust ~/projects/shop`
}

func (c *trustCmd) Run(a *app) error {
	folder, err := config.Examine(a.environment(), c.where(a))
	if err != nil {
		return usage(err)
	}
	does := folder.Summary(a.environment())
	if err := a.trustStore().Trust(folder.Files); err != nil {
		return usage(err)
	}
	shown := map[string][]string{"trusted": folder.Names(), "does": list(does)}
	return a.answer(shown, "trusted as it is now: %s\n%s", strings.Join(folder.Names(), ", "), indented(does))
}

func (c *trustCmd) where(a *app) string {
	if c.Dir == "" {
		return ""
	}
	return a.path(c.Dir)
}

type untrustCmd struct {
	Dir string `arg:"" optional:"" help:"Folder; by default the one that commands here would use."`
}

func (c *untrustCmd) Run(a *app) error {
	dir := a.path(c.Dir)
	if c.Dir == "" {
		if folder, err := config.Examine(a.environment(), ""); err == nil {
			dir = folder.Dir
		} else if !errors.Is(err, fs.ErrNotExist) {
			return usage(err)
		}
	}
	forgotten, err := a.trustStore().Forget(dir)
	if err != nil {
		return usage(err)
	}
	slices.Sort(forgotten)
	if len(forgotten) == 0 {
		return a.answer(map[string][]string{"untrusted": {}}, "nothing in %s was trusted\n", dir)
	}
	return a.answer(map[string][]string{"untrusted": forgotten}, "not trusted any more: %s\n", strings.Join(forgotten, ", "))
}

// trustStore returns the store of the files that the user trusts.
func (a *app) trustStore() *trust.Store {
	s := &trust.Store{}
	if dir := config.UserDir(a.environment()); dir != "" {
		s.File = filepath.Join(dir, "trust.json")
	}
	return s
}

// withoutFolder are the commands that also work if the folder is not trusted; they then ignore the configuration of the folder. They report this:
// harness mcp to its client, others to the user.
var withoutFolder = []string{"mcp", "doctor"}

// needNoFolder are the commands that do not use the configuration of a folder.
var needNoFolder = []string{"demo", "init", "trust", "untrust", "completion", "man", "version", "restore"}

// askTrust asks the user at a terminal whether to trust the configuration of the folder, if it is not trusted yet or has changed since.
func (a *app) askTrust(ctx context.Context) error {
	name, _, _ := strings.Cut(a.command, " ")
	if a.flags.JSON || a.stderr.terminal == nil || a.keyboard() == nil || slices.Contains(needNoFolder, name) {
		return nil
	}
	_, err := config.Locate(a.configSource())
	u, untrusted := errors.AsType[*config.UntrustedError](err)
	if !untrusted {
		return nil // the command reports other errors
	}
	why := "is not trusted yet"
	if u.Changed {
		why = "has changed since you trusted it"
	}
	fmt.Fprintf(a.Stderr, "%s %s. It\n%sMay it act, as it is now? [y/N] ", strings.Join(u.Names(), " and "), why, indented(u.Summary(a.environment())))
	if a.input == nil {
		a.input = bufio.NewReader(a.Stdin)
	}
	line, err := readLine(ctx, a.input)
	if answer := strings.ToLower(strings.TrimSpace(line)); err == nil && (answer == "y" || answer == "yes") {
		return a.trustStore().Trust(u.Files)
	}
	return context.Cause(ctx)
}

// indented returns a list of what a configuration does, one line each.
func indented(lines []string) string {
	const most = 40
	var b strings.Builder
	for i, line := range lines {
		if i == most {
			fmt.Fprintf(&b, "  … and %d more; the file has all\n", len(lines)-most)
			break
		}
		fmt.Fprintf(&b, "  %s\n", cut(firstLine(line), 300))
	}
	return b.String()
}
