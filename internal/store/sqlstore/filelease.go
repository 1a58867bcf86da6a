package sqlstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/journal"
)

// fileLease is a lease in the form of a file beside the database. The file stays locked until the process ends, however it ends. An owner whose
// file is missing or not locked is dead.
type fileLease struct {
	id     string
	prefix string // prefix of all owners' files

	mu       sync.Mutex
	file     *os.File // locked; nil before the first claim
	released bool

	othersMu sync.Mutex
	others   bool
	asOf     time.Time // modification time of the directory when others was computed
}

// clockGrain is an upper bound of the resolution of file times: two changes within this time may leave the same modification time.
const clockGrain = 50 * time.Millisecond

// Others reports whether a file of another owner exists. It reads the directory again only if the directory has changed.
func (o *fileLease) Others() bool {
	o.othersMu.Lock()
	defer o.othersMu.Unlock()
	dir := filepath.Dir(o.prefix)
	info, err := os.Stat(dir)
	if err == nil && !o.asOf.IsZero() && info.ModTime().Equal(o.asOf) {
		return o.others
	}
	files, listed := os.ReadDir(dir)
	if o.others, o.asOf = true, (time.Time{}); errors.Join(err, listed) != nil {
		return true // another owner is assumed if the directory cannot be read
	}
	o.others = slices.ContainsFunc(files, func(f fs.DirEntry) bool {
		id, ok := strings.CutPrefix(f.Name(), filepath.Base(o.prefix))
		return ok && id != o.id
	})
	if time.Since(info.ModTime()) > clockGrain {
		o.asOf = info.ModTime()
	}
	return o.others
}

// ID returns the owner id of this process.
func (o *fileLease) ID() string { return o.id }

func newFileLease(db string) *fileLease {
	return &fileLease{id: strings.ToLower(rand.Text()[:16]), prefix: db + ".owner-"}
}

// Claim makes this process an owner: the first call creates and locks the file. Processes that only read have no file.
func (o *fileLease) Claim() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.released:
		return journal.ErrClosed
	case o.file != nil:
		return nil
	}
	sweepUnlocked(o.prefix)
	// Before the new file is locked, another process's sweep may delete it as a dead owner's file. Then it is created again.
	for begin := time.Now(); time.Since(begin) < busyTimeout; time.Sleep(writeWait) {
		f, err := lockPid(o.prefix + o.id)
		if err == nil && f != nil {
			if isAt(f, f.Name()) {
				o.file = f
				return nil
			}
			err = f.Close()
		}
		if err != nil {
			return fmt.Errorf("lock the store for this process: %w", err)
		}
	}
	return fmt.Errorf("lock the store for this process: %s is deleted again and again", o.prefix+o.id)
}

// lockPid opens and locks a file, and writes this process's id into it. It returns nil if another process has the lock.
func lockPid(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	locked, err := disk.TryLock(f, true)
	if err == nil && locked {
		// The width is fixed, so that the id overwrites an earlier one completely.
		if _, err = f.WriteAt(fmt.Appendf(nil, "%-10d\n", os.Getpid()), 0); err == nil {
			return f, nil
		}
	}
	return nil, errors.Join(err, f.Close())
}

// isAt reports whether the path still names the open file.
func isAt(f *os.File, path string) bool {
	a, aerr := f.Stat()
	b, berr := os.Stat(path)
	return aerr == nil && berr == nil && os.SameFile(a, b)
}

// Alive reports whether the process of an owner id lives.
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
	// The lock is shared, so that two processes that check at the same time do not take each other for the owner.
	locked, err := disk.TryLock(f, false)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("find out whether the owner of %s is alive: %w", f.Name(), err)
	}
	return !locked, nil
}

// Describe names an owner's process for people: by the process id in its file or, if that cannot be read, by the owner id.
func (o *fileLease) Describe(id string) string {
	if pid := readPid(o.prefix + id); pid != "" {
		return pid
	}
	return "of owner " + id
}

// readPid returns the id of the process that locked a file, "" if it cannot be read.
func readPid(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// sweepUnlocked deletes the files of dead processes among the files with a prefix. If a file cannot be deleted, a later sweep tries again.
func sweepUnlocked(prefix string) {
	files, _ := os.ReadDir(filepath.Dir(prefix))
	for _, f := range files {
		id, ok := strings.CutPrefix(f.Name(), filepath.Base(prefix))
		if !ok {
			continue
		}
		f, err := os.OpenFile(prefix+id, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		// The file is deleted while it is locked, so that a new owner that locks it afterwards sees that it is gone.
		if locked, err := disk.TryLock(f, false); err == nil && locked && os.Remove(f.Name()) != nil {
			defer os.Remove(f.Name()) // Windows does not delete an open file
		}
		f.Close()
	}
}

// Release deletes the file and gives up the lock: other processes take over what this process owns.
func (o *fileLease) Release() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.released = true
	if o.file == nil {
		return nil
	}
	f := o.file
	o.file = nil
	// The file is closed first, because Windows does not delete an open file. Until the file is deleted, another process that finds it unlocked
	// takes this owner for dead, which is right.
	err := f.Close()
	if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
