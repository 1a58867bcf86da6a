package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"mcp-code-exec-harness/internal/config"
)

type configCmd struct {
	Show configShowCmd `cmd:"" help:"Effective values with their origin; secrets are masked."`
}

func (configCmd) Help() string { return "Example:\n  harness config show" }

type configShowCmd struct{}

func (configShowCmd) Help() string { return "Example:\n  harness config show" }

func (c *configShowCmd) Run(_ context.Context, a *app) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if a.flags.JSON {
		return a.json(list(cfg.Effective()))
	}
	var rows [][]string
	for _, e := range cfg.Effective() {
		rows = append(rows, []string{e.Key, e.Value, e.Origin})
	}
	a.table(rows)
	return nil
}

type initCmd struct {
	Dir string `arg:"" optional:"" help:"Directory to write harness.yaml and its schema into." default:"."`
}

func (initCmd) Help() string { return "Example:\n  harness init && harness doctor" }

func (c *initCmd) Run(_ context.Context, a *app) error {
	if a.flags.Config != "" {
		return usage(errors.New("init has no use for --config: it writes harness.yaml into a directory, which is its argument"))
	}
	written, err := config.Init(a.path(c.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return usage(fmt.Errorf("%w; make the directory first", err))
	}
	if err != nil {
		return usage(err)
	}
	if a.flags.JSON {
		return a.json(map[string][]string{"written": written})
	}
	fmt.Fprintf(a.Stdout, "wrote %s; add servers with harness servers add, then try harness doctor\n", strings.Join(written, " and "))
	return nil
}
