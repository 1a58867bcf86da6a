package sqlite

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/journal"
)

// fileLease is a lease by a file beside the database that is locked as long as the process lives, whatever ends it. An owner
// whose file is gone, or whose lock can be had, is dead.
type fileLease struct {
	id     string
	prefix string // of all owners' files

	mu       sync.Mutex
	file     *os.File // locked; nil before the first claim
	released bool
}

// ID implements lease.
func (o *fileLease) ID() string { return o.id }

func newFileLease(db string) *fileLease {
	return &fileLease{id: strings.ToLower(rand.Text()[:16]), prefix: db + ".owner-"}
}

// Claim locks the file, once; processes that only read never make one.
func (o *fileLease) Claim() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.released:
		return journal.ErrClosed
	case o.file != nil:
		return nil
	}
	o.sweep()
	// A sweep elsewhere may take the new file for a dead owner's before it is locked: then it is made again.
	for range 10 {
		f, err := os.OpenFile(o.prefix+o.id, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return fmt.Errorf("lock the store for this process: %w", err)
		}
		locked, err := lockFile(f, true)
		if err == nil && locked && isAt(f, f.Name()) {
			if err := writePid(f); err != nil {
				return errors.Join(fmt.Errorf("lock the store for this process: %w", err), f.Close())
			}
			o.file = f
			return nil
		}
		if cerr := f.Close(); err != nil || cerr != nil {
			return fmt.Errorf("lock %s: %w", f.Name(), errors.Join(err, cerr))
		}
	}
	return fmt.Errorf("lock the store for this process: %s is deleted again and again", o.prefix+o.id)
}

// isAt says whether the path still names the open file.
func isAt(f *os.File, path string) bool {
	a, aerr := f.Stat()
	b, berr := os.Stat(path)
	return aerr == nil && berr == nil && os.SameFile(a, b)
}

// Alive says whether the process of an owner id lives.
func (o *fileLease) Alive(id string) (bool, error) {
	if id == o.id {
		return true, nil
	}
	f, err := os.OpenFile(o.prefix+id, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find out whether an owner of runs is alive: %w", err)
	}
	// A shared lock, so that two processes which ask at the same time do not see each other as the owner.
	locked, err := lockFile(f, false)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("find out whether the owner of %s is alive: %w", f.Name(), err)
	}
	return !locked, nil
}

// Describe names the process of an owner as well as its file can.
func (o *fileLease) Describe(id string) string {
	if pid := readPid(o.prefix + id); pid != "" {
		return pid
	}
	return "of owner " + id
}

// writePid makes this process's id the content of a locked file. Its width is fixed, so that it covers an earlier one.
func writePid(f *os.File) error {
	_, err := f.WriteAt(fmt.Appendf(nil, "%-10d\n", os.Getpid()), 0)
	return err
}

// readPid is the id of the process that locked a file, empty where the file does not say.
func readPid(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// sweep deletes the files of dead owners. What it cannot delete, another sweep will.
func (o *fileLease) sweep() {
	names, err := filepath.Glob(escapeGlob(o.prefix) + "*")
	if err != nil {
		return
	}
	for _, name := range names {
		if alive, err := o.Alive(strings.TrimPrefix(name, o.prefix)); err == nil && !alive {
			_ = os.Remove(name)
		}
	}
}

func escapeGlob(path string) string {
	if os.PathSeparator == '\\' {
		return path // Windows has no escapes; a path with [ is not swept
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Release deletes the file and gives up the lock.
func (o *fileLease) Release() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.released = true
	if o.file == nil {
		return nil
	}
	f := o.file
	o.file = nil
	// Closed first: Windows does not delete an open file. A process that finds it unlocked in between sees a dead owner, which is true.
	return errors.Join(f.Close(), ignoreNotExist(os.Remove(f.Name())))
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
