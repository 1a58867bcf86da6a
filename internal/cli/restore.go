package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/backup"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/installation"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/trust"
)

type restoreCmd struct {
	File  string `arg:"" help:"Archive of harness backup; - is standard input."`
	Force bool   `help:"Replace what is there. It is removed once everything of the archive is in its place; an audit log stays."`
}

func (restoreCmd) Help() string {
	return `The archive is read to its end and verified before anything changes. harness.yaml goes into the working directory, or where --config says;
everything else goes where that harness.yaml says. Where approvals have a passphrase, --force asks for it. A user's own configuration (~/.config/harness) goes back there.

A backup has a configuration, which says what programs are started and where files go: restore only what you trust.

No process of the harness may use the store. Tasks and schedules that were under way or waiting when the backup was made go on
when harness serve starts; what they did after the backup, they do again: harness tasks cancel ends those that must not.

Examples:
  harness restore harness-monday.tar.gz
  harness restore --force harness-monday.tar.gz
  ssh backup.example.com cat harness.tar.gz | harness restore -`
}

// maxBackupConfig is the maximum size of harness.yaml and of .env in an archive, in bytes.
const maxBackupConfig = 16 << 20

func (c *restoreCmd) Run(ctx context.Context, a *app) error {
	from, err := a.source(ctx, c.File)
	if err != nil {
		return err
	}
	defer from.Close()
	r, err := backup.NewReader(from, os.TempDir())
	if err != nil {
		return c.explain(err)
	}
	defer r.Close()
	m := r.Manifest()
	if m.Schema > installation.Schema() {
		return c.explain(fmt.Errorf("%w: version %s, whose store has version %d; this harness knows %d", backup.ErrNewer, m.Version, m.Schema, installation.Schema()))
	}
	settings, err := c.readConfig(r)
	if err != nil {
		return c.explain(err)
	}
	written, err := c.putConfig(a, m, settings)
	if err != nil {
		return errors.Join(usage(err), written.undo())
	}
	result, err := c.restore(ctx, a, r)
	for _, data := range settings {
		result.Total.Files++
		result.Total.Bytes += int64(len(data))
	}
	if err != nil {
		return errors.Join(c.explain(err), written.undo())
	}
	if err := a.trustOwn(written.paths()); err != nil {
		result.Notes = append(result.Notes, err.Error())
	}
	if err := written.keep(); err != nil {
		result.Notes = append(result.Notes, err.Error())
	}
	for _, note := range result.Notes {
		fmt.Fprintln(a.Stderr, "harness:", note)
	}
	return a.answer(result, "restored %d files, %s, of %s\n", result.Files, humanize.IBytes(uint64(result.Bytes)), m.Created.Local().Format("2006-01-02 15:04:05"))
}

// explain adds advice to an error.
func (c *restoreCmd) explain(err error) error {
	switch {
	case errors.Is(err, backup.ErrNewer):
		return usage(fmt.Errorf("%s: %w; use that version or a later one", c.File, err))
	case errors.Is(err, backup.ErrNoBackup):
		return usage(fmt.Errorf("%s: %w; harness backup makes one", c.File, err))
	case errors.Is(err, backup.ErrDamaged):
		return &exitError{exitFailed, fmt.Errorf("%s: %w; nothing was changed: use another backup", c.File, err)}
	}
	return err
}

// readConfig reads harness.yaml and .env, which are the first entries of an archive.
func (c *restoreCmd) readConfig(r *backup.Reader) (map[string][]byte, error) {
	all := map[string][]byte{}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: it has no parts", backup.ErrDamaged)
		}
		if err != nil {
			return nil, err
		}
		if e.Dir || e.Name != installation.ConfigPart && e.Name != installation.EnvPart {
			r.Unread()
			return all, nil
		}
		if e.Size > maxBackupConfig || all[e.Name] != nil {
			return nil, fmt.Errorf("%w: %s is too large, or there twice", backup.ErrDamaged, e.Name)
		}
		if all[e.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}

// replacedFiles are written files with the paths of their former versions.
type replacedFiles []replacedFile

type replacedFile struct {
	path string
	old  string // path of the former version; empty: there was none
}

// put writes a file. It first moves an existing file aside.
func (all *replacedFiles) put(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f := replacedFile{path: path}
	if _, err := os.Lstat(path); err == nil {
		f.old = path + ".before-restore"
		if err := os.Rename(path, f.old); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	*all = append(*all, f)
	return disk.Create(path, data, 0o600)
}

func (all replacedFiles) paths() (paths []string) {
	for _, f := range all {
		paths = append(paths, f.path)
	}
	return paths
}

// undo restores the former files.
func (all replacedFiles) undo() (err error) {
	for _, f := range slices.Backward(all) {
		if gone := os.Remove(f.path); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		if f.old != "" {
			err = errors.Join(err, os.Rename(f.old, f.path))
		}
	}
	return err
}

// keep keeps the new files and removes the former ones.
func (all replacedFiles) keep() (err error) {
	for _, f := range all {
		if f.old != "" {
			err = errors.Join(err, os.Remove(f.old))
		}
	}
	return err
}

// putConfig writes harness.yaml and .env. They determine where the other parts of the backup go.
func (c *restoreCmd) putConfig(a *app, m backup.Manifest, settings map[string][]byte) (written replacedFiles, err error) {
	if len(settings) == 0 {
		return nil, nil
	}
	file := filepath.Join(a.Dir, "harness.yaml")
	switch asked := a.flags.Config; {
	case asked != "":
		file = a.path(asked)
	case a.env("HARNESS_CONFIG") != "":
		file = a.path(a.env("HARNESS_CONFIG"))
	case m.Personal:
		dir := config.UserDir(a.environment())
		if dir == "" {
			return nil, errors.New("the home directory is unknown: set HOME, or give --config")
		}
		file = filepath.Join(dir, "harness.yaml")
	}
	for name, path := range map[string]string{installation.ConfigPart: file, installation.EnvPart: filepath.Join(filepath.Dir(file), ".env")} {
		data, there := settings[name]
		if old, err := os.ReadFile(path); !there || err == nil && bytes.Equal(old, data) {
			continue
		} else if err == nil && !c.Force {
			return written, fmt.Errorf("%s is there already, and differs from that of the backup; --force replaces it", path)
		}
		if err := written.put(path, data); err != nil {
			return written, err
		}
	}
	if a.flags.Config == "" && a.env("HARNESS_CONFIG") == "" && !m.Personal {
		a.flags.Config = file // a file named by the flag applies even below a directory of another user
	}
	return written, nil
}

// restored is the result of the command.
type restored struct {
	backup.Total
	Config    string          `json:"config,omitempty"`
	Store     string          `json:"store"`
	Tasks     int64           `json:"unendedTasks"`
	Runs      int64           `json:"unendedRuns"`
	Schedules int64           `json:"schedules"`
	Manifest  backup.Manifest `json:"manifest"`
	Notes     []string        `json:"notes"`
}

// restore restores the parts of the backup to their places.
func (c *restoreCmd) restore(ctx context.Context, a *app, r *backup.Reader) (result restored, err error) {
	cfg, err := a.load()
	if err != nil {
		return result, err
	}
	m := r.Manifest()
	result = restored{Config: cfg.File, Manifest: m, Notes: []string{}}
	places, err := installation.Places(cfg)
	if err != nil {
		return result, usage(err)
	}
	places = append(places, backup.Place{Name: installation.SecretsPart, Path: filepath.Join(cfg.StateDir, ".secrets.json")})
	if err := backup.Check(places, filepath.Join(a.Dir, "harness.yaml"), cfg.File, a.Executable); err != nil {
		return result, usage(fmt.Errorf("%w: give it a directory of its own in harness.yaml", err))
	}
	there, err := backup.Occupied(m, places)
	if err != nil {
		return result, err
	}
	if len(there) > 0 && !c.Force {
		return result, usage(fmt.Errorf("there is already: %s; --force replaces it, or restore into another directory", strings.Join(there, ", ")))
	}
	// The files that would be replaced contain approvals and the key that signs them, so the command asks for the passphrase of that key.
	if _, err := approval.LoadSealedKey(cfg.StateDir); len(there) > 0 && !errors.Is(err, fs.ErrNotExist) {
		if _, err := a.unlock(ctx, &approval.Presence{Dir: cfg.StateDir, Now: a.Now}, "replace what is in "+cfg.StateDir); err != nil {
			return result, err
		}
	}
	store, release, err := installation.ReserveStore(ctx, cfg)
	if err != nil {
		return result, &exitError{exitUnavailable, err}
	}
	defer func() { err = errors.Join(err, release()) }()
	result.Store = store
	defer a.progress("restoring").stop()
	staged, err := backup.Stage(ctx, r, places)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, staged.Abort()) }()
	result.Total = staged.Total()
	if at := staged.At(store); at != "" {
		if result.Tasks, result.Runs, result.Schedules, err = installation.Unended(ctx, at); err != nil {
			return result, fmt.Errorf("read the store of the backup: %w", err)
		}
	}
	if err := staged.Commit(); err != nil {
		return result, err
	}
	if kept := staged.Kept(); len(kept) > 0 {
		result.Notes = append(result.Notes, "the audit log that was here is kept: "+strings.Join(kept, ", "))
	}
	err = c.putSecrets(a, filepath.Join(cfg.StateDir, ".secrets.json"), trust.Path(cfg.File))
	result.note(cfg, m)
	a.record(ctx, cfg, telemetry.Event{
		Type: telemetry.BackupRestored, Severity: telemetry.Medium,
		Details: map[string]any{"created": m.Created.Format("2006-01-02T15:04:05Z"), "version": m.Version, "files": result.Files},
	})
	if err != nil {
		result.Notes = append(result.Notes, "the secrets of the backup could not be kept: "+err.Error())
	}
	return result, nil
}

// note adds notes about what the restored installation needs.
func (r *restored) note(cfg *config.Config, m backup.Manifest) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if missing := installation.MissingKeys(cfg, m); len(missing) > 0 {
		note("the key of personal data that the backup was made with is not here (%s): put it into %s, or set HARNESS_PII_KEY; until then the tokens in it stand for nothing",
			strings.Join(missing, ", "), cfg.PII.KeyFile)
	}
	if r.Tasks+r.Runs > 0 {
		note("%d tasks and %d runs had not ended; harness serve resumes them, and repeats what they did after the backup: look with harness tasks list, and end with harness tasks cancel what must not",
			r.Tasks, r.Runs)
	}
	if r.Schedules > 0 {
		note("%d schedules are there; those that were due since are due once when harness serve starts", r.Schedules)
	}
	if m.Schema > 0 && m.Schema < installation.Schema() {
		note("the store has version %d; the next command brings it to %d and keeps a copy", m.Schema, installation.Schema())
	}
}

// putSecrets moves the secrets in a file to the keyring, or to the user's file of secrets. Only the configuration file whose path is owner may use
// these secrets. Without --force, putSecrets replaces no existing secret.
func (c *restoreCmd) putSecrets(a *app, file, owner string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var all map[string]string
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	store := a.secrets()
	for name, value := range all {
		if had, getErr := store.Get(name, owner); getErr == nil && (had == value || !c.Force) {
			continue
		}
		_, putErr := store.Put(name, value, owner)
		err = errors.Join(err, putErr)
	}
	return errors.Join(err, os.Remove(file))
}
