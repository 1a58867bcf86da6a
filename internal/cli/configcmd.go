package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mcp-code-exec-harness/internal/config"
)

type configCmd struct {
	Show configShowCmd `cmd:"" help:"Effective values with their origin; secrets are masked." example:"config show"`
}

type configShowCmd struct{}

func (configShowCmd) Run(a *app, cfg *config.Config) error {
	file := config.Entry{Key: "file", Value: "none", Origin: "state in " + cfg.StateDir}
	if cfg.File != "" {
		file.Value, file.Origin = cfg.File, cfg.FileOrigin
	}
	entries := append([]config.Entry{file}, cfg.Effective()...)
	return answerList(a, entries, entries, "", "", func(e config.Entry) string {
		return e.Key + "\t" + e.Value + "\t" + e.Origin
	})
}

type initCmd struct {
	Dir string `arg:"" optional:"" help:"Directory to write harness.yaml and its schema into." default:"."`
}

func (c *initCmd) Run(a *app) error {
	if a.flags.Config != "" {
		return usage(errors.New("init does not take --config: it writes harness.yaml into the directory that is its argument"))
	}
	written, err := config.Init(a.path(c.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; make the directory first", err)
	}
	if err == nil {
		err = a.trustOwn(written)
	}
	if err != nil {
		return usage(err)
	}
	return a.answer(map[string][]string{"written": written}, "wrote %s; add servers with harness servers add, then try harness doctor\n",
		strings.Join(written, " and "))
}

// trustOwn trusts the configuration files among the files that the command has written.
func (a *app) trustOwn(written []string) error {
	own := map[string][]byte{}
	for _, path := range written {
		if name := filepath.Base(path); name != "harness.yaml" && name != ".env" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		own[path] = text
	}
	store := a.trustStore()
	if store.File == "" || len(own) == 0 {
		return nil // commands without a trust store read only configuration files that --config or HARNESS_CONFIG names
	}
	return store.Trust(own)
}
