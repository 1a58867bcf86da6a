// Package installation lists the parts of an installation of the harness and their places: configuration, store, files, keys. It writes these parts into an
// archive of package backup. For a restore, which replaces the file of the store, it keeps other processes from opening the store. It also copies a store to
// another database.
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
	"mcp-code-exec-harness/internal/store/sqlstore"
)

// Names of parts of a backup. ConfigPart and EnvPart are read before the places of the other parts are known; SecretsPart has no place of its own.
const (
	ConfigPart  = "config/harness.yaml"
	EnvPart     = "config/.env"
	SecretsPart = "keys/secrets.json"
	storePart   = "store/harness.db"
	auditPart   = "audit/log"
)

// places returns the places of the parts of an installation except its configuration. keys are those parts that make an archive as secret as the data that they
// protect.
func places(cfg *config.Config) (all, keys []backup.Place, err error) {
	if cfg.Store.InFile() {
		store, err := sqlstore.Path(cfg.Store.URL)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, backup.Place{Name: storePart, Path: store, With: []string{"-wal", "-shm"}})
	}
	if cfg.Files.Bucket == "" {
		all = append(all,
			backup.Place{Name: "workspace", Path: cfg.Workspace.Dir, Kind: backup.Dir},
			backup.Place{Name: "skills", Path: cfg.Skills.Dir, Kind: backup.Dir},
			backup.Place{Name: "inputs", Path: filepath.Join(cfg.StateDir, "inputs"), Kind: backup.Dir})
	}
	all = append(all, backup.Place{Name: "state/shapes.json", Path: filepath.Join(cfg.StateDir, "shapes.json")})
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

// Places returns the places for the parts of an archive that was made with these settings, except its configuration and its secrets.
func Places(cfg *config.Config) ([]backup.Place, error) {
	all, keys, err := places(cfg)
	return append(all, keys...), err
}

// Options are the options of Backup.
type Options struct {
	Version string
	Now     time.Time
	Keys    bool              // whether to include keys, .env and Secrets
	Secrets map[string]string // secrets that harness.yaml names, by name
	Scratch string            // directory for a copy of the store and of the audit log
}

// Summary describes the content of an archive.
type Summary struct {
	Manifest backup.Manifest `json:"manifest"`
	backup.Total
}

// Backup writes an archive of all parts of an installation, except a store on a server. Other processes may use the installation meanwhile. A store in
// a file is copied as a snapshot of one moment; the other files in the archive are at least as new as the store.
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
	// Copy the store first, so that the files that it refers to are copied afterwards.
	scratch, err := os.MkdirTemp(o.Scratch, ".harness-backup-*")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	store := filepath.Join(scratch, "store")
	if cfg.Store.InFile() {
		m.Schema, err = sqlstore.Copy(ctx, cfg.Store.URL, store)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
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

// keyIDs returns the ids of the keys that encrypt personal data, without creating a key.
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

// MissingKeys returns the ids of the keys that are needed to decrypt the personal data of an archive, and that this installation lacks.
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

// Schema returns the schema version of the store that this harness uses.
func Schema() int { return sqlstore.Schema() }

// ReserveStore prevents other processes from opening the store of these settings until release is called, and returns the path of its file. No archive
// contains a store that is not in a file: for such a store, ReserveStore does nothing and returns "".
func ReserveStore(ctx context.Context, cfg *config.Config) (file string, release func() error, err error) {
	if !cfg.Store.InFile() {
		return "", func() error { return nil }, nil
	}
	return sqlstore.Reserve(ctx, cfg.Store.URL)
}

// Unended counts the tasks, runs and schedules that continue when a harness opens the file of a store.
func Unended(ctx context.Context, file string) (tasks, runs, schedules int64, err error) {
	return sqlstore.Unended(ctx, file)
}

// TransferredTable describes a table that CopyStore has copied and compared.
type TransferredTable = sqlstore.Transferred

// CopyStore copies a store that no process uses into a new one, which may be in another database, and compares the two. It calls step again and again
// with a table and the number of its rows that the new store has. If CopyStore is interrupted, another call with the same URLs continues. If the
// source does not exist, the error wraps fs.ErrNotExist.
func CopyStore(ctx context.Context, from, to string, step func(table string, rows int64)) ([]TransferredTable, error) {
	return sqlstore.Transfer(ctx, from, to, sqlstore.TransferOptions{Step: step})
}
