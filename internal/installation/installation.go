// Package installation knows what an installation of the harness consists of and where: configuration, store, files, keys. It backs them up with package
// backup, and reads and reserves the store for a restore, which works on the files of the store and not through it.
package installation

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/audit"
	"mcp-code-exec-harness/internal/backup"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/pii/seal"
	"mcp-code-exec-harness/internal/store/sqlite"
)

// The parts of a backup that are read before the places of the others are known, and that of secrets, which have no place of their own.
const (
	ConfigPart  = "config/harness.yaml"
	EnvPart     = "config/.env"
	SecretsPart = "keys/secrets.json"
	storePart   = "store/harness.db"
	auditPart   = "audit/log"
)

// places are where the parts of an installation are, without its configuration. Keys are those that make an archive as secret as what they
// protect.
func places(cfg *config.Config) (all, keys []backup.Place, err error) {
	store, err := sqlite.Path(cfg.Store.URL)
	if err != nil {
		return nil, nil, err
	}
	all = []backup.Place{
		{Name: storePart, Path: store, With: []string{"-wal", "-shm"}},
		{Name: "workspace", Path: cfg.Workspace.Dir, Kind: backup.Dir},
		{Name: "skills", Path: cfg.Skills.Dir, Kind: backup.Dir},
		{Name: "inputs", Path: filepath.Join(cfg.StateDir, "inputs"), Kind: backup.Dir},
		{Name: "state/shapes.json", Path: filepath.Join(cfg.StateDir, "shapes.json")},
	}
	if cfg.Audit.File != "" {
		all = append(all, backup.Place{Name: auditPart, Path: cfg.Audit.File, Kind: backup.Series, Keep: true})
	}
	return all, []backup.Place{
		{Name: "keys/pii.key", Path: cfg.PII.KeyFile},
		{Name: "keys/approvals.key", Path: filepath.Join(cfg.StateDir, "approvals.key")},
		{Name: "keys/confirm.key", Path: filepath.Join(cfg.StateDir, approval.ConfirmKeyFile)},
		{Name: "keys/local.token", Path: filepath.Join(cfg.StateDir, "local.token")},
	}, nil
}

// Places are where the parts of an archive go that was made with these settings, without its configuration and its secrets.
func Places(cfg *config.Config) ([]backup.Place, error) {
	all, keys, err := places(cfg)
	return append(all, keys...), err
}

// Options say what Backup writes.
type Options struct {
	Version string
	Now     time.Time
	Keys    bool              // also keys, .env and Secrets
	Secrets map[string]string // secrets that harness.yaml names, by name
	Scratch string            // directory for a copy of the store and of the audit log
}

// Summary says what an archive holds.
type Summary struct {
	Manifest backup.Manifest `json:"manifest"`
	backup.Total
}

// Backup writes an archive of everything that an installation consists of, while other processes work with it. The store is that of one
// moment; files are at least as new as the store.
func Backup(ctx context.Context, cfg *config.Config, w io.Writer, o Options) (s Summary, err error) {
	all, keys, err := places(cfg)
	if err != nil {
		return s, err
	}
	m := backup.Manifest{Version: o.Version, Created: o.Now.UTC(), Keys: o.Keys, KeyIDs: keyIDs(cfg.PII)}
	dir := filepath.Dir(cfg.File)
	if cfg.File != "" {
		m.Personal = cfg.StateDir != filepath.Join(dir, "data")
		m.Parts = append(m.Parts, ConfigPart)
		if o.Keys {
			m.Parts = append(m.Parts, EnvPart)
		}
	}
	for _, p := range all {
		m.Parts = append(m.Parts, p.Name)
	}
	if o.Keys {
		for _, p := range keys {
			m.Parts = append(m.Parts, p.Name)
		}
		m.Parts = append(m.Parts, SecretsPart)
	}
	// The store first: the files that it speaks of are there afterwards.
	scratch, err := os.MkdirTemp(o.Scratch, ".harness-backup-*")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	store := filepath.Join(scratch, "store")
	m.Schema, err = sqlite.Copy(ctx, cfg.Store.URL, store)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	b, err := backup.NewWriter(w, m, scratch)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, b.Abort()) }()
	if cfg.File != "" {
		err = b.File(ctx, ConfigPart, cfg.File)
		if err == nil && o.Keys {
			err = b.File(ctx, EnvPart, filepath.Join(dir, ".env"))
		}
	}
	for _, p := range all {
		switch {
		case err != nil:
			return s, err
		case p.Name == storePart:
			err = b.File(ctx, p.Name, store)
		case p.Kind == backup.Dir:
			err = b.Dir(ctx, p.Name, p.Path)
		case p.Kind == backup.Series:
			err = audit.Snapshot(p.Path, scratch, func(suffix, file string) error { return b.File(ctx, p.Name+suffix, file) })
		default:
			err = b.File(ctx, p.Name, p.Path)
		}
	}
	if err == nil && o.Keys {
		err = addKeys(ctx, b, keys, o.Secrets)
	}
	if err != nil {
		return s, err
	}
	s = Summary{Manifest: m, Total: b.Total()}
	return s, b.Finish()
}

func addKeys(ctx context.Context, b *backup.Writer, keys []backup.Place, secrets map[string]string) error {
	for _, p := range keys {
		if err := b.File(ctx, p.Name, p.Path); err != nil {
			return err
		}
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return err
	}
	return b.Bytes(SecretsPart, append(text, '\n'), 0o600)
}

// keyIDs names the keys of personal data, and makes none.
func keyIDs(c config.PII) []string {
	if _, err := os.Stat(c.KeyFile); !c.Enabled || c.Key == "" && err != nil {
		return nil
	}
	keys, err := seal.Open(seal.Options{Keys: c.Key, Name: "pii.key", File: c.KeyFile})
	if err != nil {
		return nil
	}
	return keys.IDs()
}

// MissingKeys are the keys of personal data that an archive needs and this installation does not have, by their ids.
func MissingKeys(cfg *config.Config, m backup.Manifest) (missing []string) {
	has := map[string]bool{}
	for _, id := range keyIDs(cfg.PII) {
		has[id] = true
	}
	for _, id := range m.KeyIDs {
		if !has[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

// Schema is the version of the store's tables that this harness knows.
func Schema() int { return sqlite.Schema() }

// ReserveStore keeps every other process from the store of these settings until release is called, and returns the path of its file.
func ReserveStore(ctx context.Context, cfg *config.Config) (file string, release func() error, err error) {
	return sqlite.Reserve(ctx, cfg.Store.URL)
}

// Unended counts what goes on when a harness opens a file of a store.
func Unended(ctx context.Context, file string) (tasks, runs, schedules int64, err error) {
	return sqlite.Unended(ctx, file)
}
