package sqlite

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

// fileLease is a lease that is a file beside the database, locked as long as the process lives, whatever ends it. An owner whose
// file is gone, or is not locked, is dead.
type fileLease struct {
	id     string
	prefix string // prefix of all owners' files

	mu       sync.Mutex
	file     *os.File // locked; nil before the first claim
	released bool

	othersMu sync.Mutex
	others   bool
	asOf     time.Time // time of the directory when others was computed
}

// clockGrain is how much later than a change its time may be the same: the clock of files ticks slowly.
const clockGrain = 50 * time.Millisecond

// Others says whether another process has an owner's file. The directory is read again when it has changed.
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
		return true // assumed, for lack of evidence
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

// ID names this process.
func (o *fileLease) ID() string { return o.id }

func newFileLease(db string) *fileLease {
	return &fileLease{id: strings.ToLower(rand.Text()[:16]), prefix: db + ".owner-"}
}

// Claim makes this process an owner: it locks the file, once. Processes that only read never make one.
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
	// Another process's sweep may take the new file for a dead owner's before it is locked: then it is made again.
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
		// The width is fixed, so that the id covers an earlier one.
		if _, err = f.WriteAt(fmt.Appendf(nil, "%-10d\n", os.Getpid()), 0); err == nil {
			return f, nil
		}
	}
	return nil, errors.Join(err, f.Close())
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
	locked, err := disk.TryLock(f, false)
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

// readPid is the id of the process that locked a file, empty where the file does not say.
func readPid(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// sweepUnlocked deletes the files with a prefix whose processes are dead. What it cannot delete, another sweep will.
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
		// It is deleted while it is locked, so that a new owner which locks it afterwards sees that it is gone.
		if locked, err := disk.TryLock(f, false); err == nil && locked && os.Remove(f.Name()) != nil {
			defer os.Remove(f.Name()) // Windows does not delete an open file
		}
		f.Close()
	}
}

// Release deletes the file and gives up the lock: other processes take over what this one owns.
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
	err := f.Close()
	if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
