package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/installation"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/trust"
)

type backupCmd struct {
	File     string `arg:"" help:"Archive to write, such as harness.tar.gz; - is standard output."`
	WithKeys bool   `help:"Also keys and secrets: who has such an archive can read the personal data in it, and use the secrets."`
	Force    bool   `help:"Replace a file that is there."`
}

func (backupCmd) Help() string {
	return `The archive has the store, workspaces, skills, inputs, what was learned of tools, the audit log and harness.yaml. It is a
tar.gz with checksums that harness restore verifies, and any tar unpacks. Servers may go on working: the store is that of one moment,
and files are at least as new. For a while, the directory of the archive needs room for a second copy of the store.

Without --with-keys these are left out, and are yours to keep apart: the key of personal data (pii.key), without which the tokens in
the backup stand for nothing; the key of approvals; local.token; .env; secrets of harness servers add. What harness.yaml names
elsewhere, such as certificates and documents, is never in it.

Examples:
  harness backup harness-monday.tar.gz
  harness backup --with-keys /media/safe/harness.tar.gz
  harness backup - | ssh backup.example.com 'cat > harness.tar.gz'`
}

func (c *backupCmd) Run(ctx context.Context, a *app, cfg *config.Config) error {
	o := installation.Options{Version: Version, Now: a.Now(), Keys: c.WithKeys, Scratch: os.TempDir(), Secrets: map[string]string{}}
	var missed []string
	for _, name := range secretsOf(cfg) {
		if !c.WithKeys {
			break
		}
		value, err := a.secrets().Get(name, trust.Path(cfg.File))
		if err != nil {
			missed = append(missed, name)
			continue
		}
		o.Secrets[name] = value
	}
	if c.File == "-" {
		if a.flags.JSON {
			return usage(errors.New("--json has no place on standard output beside the archive; name a file"))
		}
		if a.stdout.terminal != nil {
			return usage(errors.New("an archive is not for a terminal; name a file, or send it to another program"))
		}
	}
	s, err := c.write(ctx, a, cfg, o)
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			return usage(fmt.Errorf("%s is there already; --force replaces it", a.path(c.File)))
		}
		return fmt.Errorf("back up: %w", err)
	}
	notes := leftOut(cfg, c.WithKeys, s, missed)
	a.record(ctx, cfg, telemetry.Event{
		Type: telemetry.BackupMade, Severity: telemetry.Medium, Details: map[string]any{"files": s.Files, "keys": c.WithKeys},
	})
	for _, note := range notes {
		fmt.Fprintln(a.Stderr, "harness:", note)
	}
	if c.File == "-" {
		return nil
	}
	return a.answer(map[string]any{"file": a.path(c.File), "files": s.Files, "bytes": s.Bytes, "keys": c.WithKeys, "notes": list(notes)},
		"wrote %s: %d files, %s before compression\n", a.path(c.File), s.Files, humanize.IBytes(uint64(s.Bytes)))
}

// write writes the archive. A file appears under its name only when it is complete.
func (c *backupCmd) write(ctx context.Context, a *app, cfg *config.Config, o installation.Options) (s installation.Summary, err error) {
	defer a.progress("backing up").stop()
	if c.File == "-" {
		return installation.Backup(ctx, cfg, a.Stdout, o)
	}
	path := a.path(c.File)
	if _, err := os.Lstat(path); err == nil && !c.Force {
		return s, fs.ErrExist
	}
	o.Scratch = filepath.Dir(path)
	f, err := os.CreateTemp(o.Scratch, "."+filepath.Base(path)+".*")
	if err != nil {
		return s, usage(err)
	}
	s, err = installation.Backup(ctx, cfg, f, o)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = c.name(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return s, err
}

// name renames the complete archive to its final name.
func (c *backupCmd) name(from, to string) error {
	if c.Force {
		return os.Rename(from, to)
	}
	if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
		return errors.Join(err, os.Remove(from))
	}
	return os.Rename(from, to) // file systems such as FAT have no links
}

// secretsOf returns the names of the secrets in harness.yaml.
func secretsOf(cfg *config.Config) (names []string) {
	if cfg.File == "" {
		return nil
	}
	for _, s := range cfg.MCPServers {
		names = append(names, config.SecretsOf(cfg.File, s.Name)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// leftOut returns notes about what a restored installation needs that the backup does not contain.
func leftOut(cfg *config.Config, keys bool, s installation.Summary, missed []string) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case !cfg.Store.InFile():
		note("the store %s is not in the backup: copy it with pg_dump, before or at the same time", cfg.Store.Name())
	case s.Manifest.Schema == 0:
		note("there is no store %s yet, so the backup has none", cfg.Store.Name())
	}
	if len(s.Manifest.KeyIDs) > 0 {
		switch _, err := os.Stat(cfg.PII.KeyFile); {
		case cfg.PII.Key != "":
			note("the key of personal data is in the configuration (pii.key, HARNESS_PII_KEY): keep it, without it the tokens in the backup stand for nothing")
		case err == nil && !keys:
			note("the key of personal data is not in the backup: keep a copy of %s apart from it, or use --with-keys; without it the tokens in the backup stand for nothing",
				cfg.PII.KeyFile)
		}
	}
	if cfg.PII.Enabled && cfg.PII.Vault != "store" {
		note("the values of tokens are not in the backup: pii.vault is %s", cfg.PII.Vault)
	}
	if names := secretsOf(cfg); !keys && len(names) > 0 {
		note("secrets that harness.yaml names are not in the backup, or use --with-keys: %s", strings.Join(names, ", "))
	}
	if len(missed) > 0 {
		note("secrets that harness.yaml names were not found, and are not in the backup: %s", strings.Join(missed, ", "))
	}
	if keys {
		note("the backup has keys and secrets: keep it as safe as they are")
	}
	return notes
}

// source opens an archive for reading.
func (a *app) source(ctx context.Context, file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(interrupted{ctx, a.Stdin}), nil
	}
	f, err := a.openFile(a.path(file))
	if err != nil {
		return nil, usage(fmt.Errorf("read the backup: %w", err))
	}
	return f, nil
}
