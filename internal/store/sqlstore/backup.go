package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/disk"
)

// Schema returns the version of the schema that this package uses. Opening a store migrates an older schema to it.
func Schema() int {
	entries, _ := migrations.ReadDir("migrations") // cannot fail, because the files are embedded
	return len(entries)
}

// Copy copies a store, as of its last commit, into a new file and returns the version of its schema. Other processes can write meanwhile. If the
// store does not exist, the error matches fs.ErrNotExist. Cancelling ctx ends the copying. After an error the new file is useless.
func Copy(ctx context.Context, url, to string) (schema int, err error) {
	path, err := filePath(url)
	if err == nil {
		schema, err = copyFile(ctx, path, to)
	}
	if err != nil {
		return 0, fmt.Errorf("copy the store %s: %w", path, explain(err))
	}
	return schema, nil
}

func readParams() url.Values {
	return url.Values{"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())}}
}

func copyFile(ctx context.Context, from, to string) (schema int, err error) {
	if _, err := os.Stat(from); err != nil { // opening a missing file would create it
		return 0, err
	}
	// SQLite fills an empty file, which keeps its permissions.
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	c, err := connect(ctx, dsn(from, readParams()))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if schema = schemaVersion(c); c.err != nil {
		return 0, c.err
	}
	if _, err := c.only.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return 0, err
	}
	if f, err = os.OpenFile(to, os.O_RDWR, 0); err != nil {
		return 0, err
	}
	return schema, errors.Join(f.Sync(), f.Close())
}

// Parts of the names of the copies that are made before a migration of the schema. The copies lie beside the store; their names contain the
// version of their schema.
const (
	beforePrefix = ".v"
	beforeSuffix = ".bak"
)

// copyBefore copies the store's file before a migration. The caller holds the write lock, so no process can write to the file meanwhile.
func copyBefore(path string, version int, now time.Time) (copied string, err error) {
	name := fmt.Sprintf("%s%s%d-%s%s", path, beforePrefix, version, now.UTC().Format("20060102-150405"), beforeSuffix)
	if _, err := copyFile(context.Background(), path, name); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			err = errors.Join(err, os.Remove(name))
		}
		return "", fmt.Errorf("copy it before its tables change: %w", err)
	}
	return name, nil
}

// copiesBefore finds the copies that copyBefore made. It returns the versions of their schemas, by path.
func copiesBefore(path string) map[string]int {
	entries, _ := os.ReadDir(filepath.Dir(path))
	all := map[string]int{}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), filepath.Base(path)+beforePrefix)
		rest, complete := strings.CutSuffix(rest, beforeSuffix)
		number, _, _ := strings.Cut(rest, "-")
		if version, err := strconv.Atoi(number); ours && complete && err == nil {
			all[filepath.Join(filepath.Dir(path), e.Name())] = version
		}
	}
	return all
}

// tooNew returns the error for a file whose schema a newer harness has migrated.
func tooNew(path string, version, known int) error {
	back, best := "", -1
	for copied, v := range copiesBefore(path) {
		if v <= known && (v > best || v == best && copied > back) {
			back, best = copied, v
		}
	}
	if back != "" {
		back = fmt.Sprintf("; or go back to what it was before: end all processes of the harness, delete the files beside it that end with -wal and -shm, "+
			"and copy %s over it", back)
	}
	return fmt.Errorf("its schema has version %d, this harness knows %d: use a newer harness, or another file in store.url%s", version, known, back)
}

// sweepCopies removes the copies that copyBefore made before the given time, because they contain data that has been purged since.
func (d *file) sweepCopies(before time.Time) (err error) {
	for copied := range copiesBefore(d.path) {
		if info, statErr := os.Stat(copied); statErr == nil && info.ModTime().Before(before) {
			err = errors.Join(err, os.Remove(copied))
		}
	}
	return err
}

// Reserve makes sure that no process uses a store. Until release is called, no other process can serve the store or, except on Windows, read it.
// release does not fail if the file was replaced. A damaged file can be reserved, too. If the store does not exist when release is called, no
// file is left.
func Reserve(ctx context.Context, url string) (path string, release func() error, err error) {
	if path, err = filePath(url); err != nil {
		return "", nil, err
	}
	defer wrap(&err, "reserve the store %s", path)
	made, err := disk.MakeDirs(filepath.Dir(path))
	if err != nil {
		disk.RemoveDirs(made)
		return "", nil, err
	}
	lock := path + ".queue-lock"
	_, missing := os.Lstat(lock)
	f, err := lockPid(lock)
	if err != nil {
		return "", nil, err
	}
	if f == nil {
		return "", nil, fmt.Errorf("process %s serves it: end it first", readPid(lock))
	}
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return path, func() error {
				if _, err := os.Stat(path); err == nil || missing == nil {
					return f.Close()
				}
				err := errors.Join(f.Close(), os.Remove(lock)) // Windows cannot remove an open file
				disk.RemoveDirs(made)
				return err
			}, nil
		}
		return "", nil, errors.Join(err, f.Close())
	}
	if user := newFileLease(path).other(); user != "" {
		return "", nil, errors.Join(fmt.Errorf("process %s uses it: end it first", user), f.Close())
	}
	// SQLite grants exclusive locking only if no other connection is open. Closing the connection writes the write-ahead log into the file.
	c, err := connect(ctx, dsn(path, map[string][]string{"_pragma": {"locking_mode(exclusive)"}}))
	if err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	var tables int64
	c.row("SELECT count(*) FROM sqlite_master", nil, &tables)
	c.script("BEGIN EXCLUSIVE; COMMIT; PRAGMA wal_checkpoint(truncate)")
	if isBusy(c.err) {
		return "", nil, errors.Join(errors.New("another process has it open: end all processes of the harness first"), c.close(), f.Close())
	}
	c.err = nil                    // any other error: the file is damaged and is to be replaced
	if runtime.GOOS == "windows" { // Windows cannot rename an open file
		if err := c.close(); err != nil {
			return "", nil, errors.Join(err, f.Close())
		}
		return path, f.Close, nil
	}
	return path, func() error { return errors.Join(c.close(), f.Close()) }, nil
}

// other describes a process, besides this one, that owns runs or tasks. It returns "" if there is none.
func (o *fileLease) other() string {
	files, _ := os.ReadDir(filepath.Dir(o.prefix))
	for _, f := range files {
		id, ok := strings.CutPrefix(f.Name(), filepath.Base(o.prefix))
		if !ok {
			continue
		}
		if alive, err := o.Alive(id); alive || err != nil {
			return o.Describe(id)
		}
	}
	return ""
}

// Unended counts the tasks and runs in a file that have not ended, and its schedules. If a file of an earlier version lacks one of the tables,
// Unended returns an error.
func Unended(ctx context.Context, path string) (tasks, runs, schedules int64, err error) {
	c, err := connect(ctx, dsn(path, readParams()))
	if err != nil {
		return 0, 0, 0, err
	}
	for query, count := range map[string]*int64{
		"SELECT count(*) FROM tasks WHERE ended IS NULL": &tasks,
		"SELECT count(*) FROM runs WHERE ended IS NULL":  &runs,
		"SELECT count(*) FROM schedules":                 &schedules,
	} {
		c.row(query, nil, count)
	}
	return tasks, runs, schedules, errors.Join(c.err, c.close())
}
