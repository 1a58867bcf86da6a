package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/dustin/go-humanize"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/installation"
	"mcp-code-exec-harness/internal/telemetry"
)

type storeCmd struct {
	Copy storeCopyCmd `cmd:"" help:"Copy a store into another database, such as one of PostgreSQL, and compare the two."`
}

type storeCopyCmd struct {
	From string `arg:"" help:"Store to copy: sqlite:PATH, or postgres://USER@HOST/DATABASE."`
	To   string `arg:"" help:"New store, in the same form. It must be empty, or not exist."`
}

func (storeCopyCmd) Help() string {
	return `Runs, tasks, sessions, approvals, keys, tokens and all else of a store are copied, from a file of SQLite to PostgreSQL or back. Afterwards
every value of the two is compared. End the processes of the harness first. If the copying is interrupted, the same command continues
it; until it has finished, no harness opens the new store. The old one stays as it is.

Files of sessions, skills, the key of personal data and the key of approvals are not in a store: they stay where they are, for the
harness that uses the new store next. Set store.url to it. A password for PostgreSQL comes from PGPASSWORD or ~/.pgpass, so that it is
not seen in lists of processes.

Examples:
  harness store copy sqlite:./data/harness.db postgres://harness@db.example.com/harness
  harness store copy postgres://harness@db.example.com/harness sqlite:./harness.db --json`
}

func (c *storeCopyCmd) Run(ctx context.Context, a *app, cfg *config.Config) error {
	from, to := a.storeURL(c.From), a.storeURL(c.To)
	progress := a.progress("copying")
	tables, err := installation.CopyStore(ctx, from, to, func(table string, rows int64) {
		progress.did(fmt.Sprintf("%s: %s rows", table, humanize.Comma(rows)))
	})
	progress.stop()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usage(fmt.Errorf("there is no store to copy: %w", err))
	case err != nil:
		return err
	}
	a.record(ctx, cfg, telemetry.Event{
		Type: telemetry.BackupMade, Severity: telemetry.Medium, Details: map[string]any{"from": config.Masked(from), "to": config.Masked(to)},
	})
	var rows, bytes, replaced int64
	for _, t := range tables {
		rows, bytes, replaced = rows+t.Rows, bytes+t.Bytes, replaced+t.Replaced
	}
	if replaced > 0 {
		fmt.Fprintf(a.Stderr, "harness: %s texts had characters that PostgreSQL does not store (U+0000, or bytes that are not UTF-8); U+FFFD stands for them\n", humanize.Comma(replaced))
	}
	return a.answer(map[string]any{"from": config.Masked(from), "to": config.Masked(to), "rows": rows, "bytes": bytes, "replaced": replaced, "tables": tables},
		"copied and compared: %s rows of %d tables, %s; now set store.url to %s\n", humanize.Comma(rows), len(tables), humanize.IBytes(uint64(bytes)), config.Masked(to))
}

// storeURL returns the URL of a store that an argument names, with an absolute path.
func (a *app) storeURL(arg string) string {
	if strings.Contains(arg, "://") && !strings.HasPrefix(arg, "sqlite:") {
		return arg
	}
	return "sqlite:" + a.path(strings.TrimPrefix(strings.TrimPrefix(arg, "sqlite:"), "//"))
}
