// Package files stores the files of sandboxed programs in directories of the host behind os.Root, or in a bucket, with quotas. No
// path, link or name leads out of the directory of its owner. Space is a program's view of them.
package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/id"
)

// Limits are the quotas of one directory. 0 means no quota.
type Limits struct {
	MaxBytes int64 // sum of the sizes of all files
	MaxFiles int64 // number of files and directories
	// MaxUserBytes is the sum of the sizes of all files of a user: those in all directories whose first id is the user's. Concurrent writes in
	// different directories may exceed the quota by their own size.
	MaxUserBytes int64
}

// Options configure the directories of a Base.
type Options struct {
	Limits  Limits
	Section string // configuration section of the limits, named in errors: "skills"
	// Durable means that a write is answered only when its data survives a power failure. Without Durable, a crash of the machine, but not of the
	// harness, can lose the last writes.
	Durable bool
	// Reserved is the beginning of names that the top of a directory cannot have; empty for none. It holds for the Unicode compatibility form too.
	Reserved string
}

// hostBase is a directory of the host that holds one directory per owner.
type hostBase struct {
	root  *os.Root
	opts  Options
	now   func() time.Time
	clear func(parent *os.Root, name string) error // deletes a tree; tests replace it by a slow one

	mu   sync.Mutex
	open map[string]*hostDir // directories by path inside the base

	usesMu sync.Mutex
	uses   map[string]*use // usage of users, by the name of the user's directory

	parents sync.RWMutex // held for writing while empty parents of removed directories are deleted, else for reading
}

// OpenBase opens a directory of the host, creating it if it does not exist. The directory itself may be a symbolic link.
// Links inside it are never followed.
func OpenBase(dir string, opts Options) (Base, error) {
	b, err := openHost(dir, opts)
	if err != nil {
		return nil, err
	}
	return b, nil
}

var _ Base = (*hostBase)(nil)

func openHost(dir string, opts Options) (*hostBase, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the %s directory: %w", opts.Section, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the %s directory: %w", opts.Section, err)
	}
	return &hostBase{root: root, opts: opts, now: time.Now, clear: (*os.Root).RemoveAll, open: map[string]*hostDir{}, uses: map[string]*use{}}, nil
}

func (b *hostBase) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, s := range b.open {
		s.retire()
		delete(b.open, key)
	}
	return b.root.Close()
}

func (b *hostBase) Open(ids ...string) (*Dir, error) {
	names, err := dirNames(ids)
	if err != nil {
		return nil, fmt.Errorf("open the %s directory: %w", b.opts.Section, err)
	}
	key := path.Join(names...)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.open[key]
	if s == nil {
		s = &hostDir{base: b, names: names}
		b.open[key] = s
	}
	s.refs++
	return &Dir{directory: s, release: sync.OnceFunc(func() { b.release(key, s) })}, nil
}

func (b *hostBase) Remove(ids ...string) error {
	names, err := dirNames(ids)
	if err == nil {
		err = b.remove(names)
	}
	if err != nil {
		return fmt.Errorf("remove a %s directory: %w", b.opts.Section, err)
	}
	return nil
}

// remove detaches the directory and then deletes it without holding the lock, because a tree can be large.
func (b *hostBase) remove(names []string) error {
	parent, name, err := b.detach(names)
	if parent == nil {
		return err
	}
	err = b.clear(parent, name)
	if parent != b.root {
		_ = parent.Close()
	}
	if err != nil {
		return err
	}
	b.parents.Lock()
	defer b.parents.Unlock()
	for up := path.Dir(path.Join(names...)); up != "."; up = path.Dir(up) {
		if b.root.Remove(filepath.FromSlash(up)) != nil {
			break // the parent has other directories, or never existed
		}
	}
	return nil
}

// detach renames a directory so that it is no longer found. It returns the parent directory and the new name. parent is nil if the parent directory does
// not exist. If the directory cannot be renamed, name is its old name.
func (b *hostBase) detach(names []string) (parent *os.Root, name string, err error) {
	key := path.Join(names...)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.open[key]; s != nil {
		s.retire()
		delete(b.open, key)
	}
	if len(names) > 1 && b.opts.Limits.MaxUserBytes > 0 {
		b.use(names).set(key, 0)
	}
	last := names[len(names)-1]
	b.parents.RLock()
	parent, ok, err := descend(b.root, names[:len(names)-1], false)
	b.parents.RUnlock()
	if err != nil || !ok {
		return nil, "", err
	}
	name = tempPrefix + rand.Text()
	if parent.Rename(last, name) != nil { // the directory does not exist, or on Windows another process has one of its files open
		return parent, last, nil
	}
	return parent, name, nil
}

func (b *hostBase) Sweep(ctx context.Context, before time.Time, ended func(run string) bool) error {
	var failed error
	for _, first := range b.list(".") {
		for _, second := range b.list(first.Name()) {
			if err := ctx.Err(); err != nil {
				return err
			}
			names := []string{first.Name(), second.Name()}
			b.mu.Lock()
			inUse := b.open[path.Join(names...)] != nil
			b.mu.Unlock()
			left := isTemp(second.Name()) && b.now().Sub(second.ModTime()) > tempAge
			if inUse || !left && !(id.Is("run", second.Name()) && second.ModTime().Before(before) && ended(second.Name())) {
				continue
			}
			if err := b.remove(names); err != nil {
				failed = fmt.Errorf("remove a %s directory: %w", b.opts.Section, err)
			}
		}
	}
	return failed
}

// list returns the directories in a directory of the base. It returns none if the directory cannot be read.
func (b *hostBase) list(dir string) []fs.FileInfo {
	f, err := b.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1) // after an error, list uses the entries that were read before
	var dirs []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.IsDir() {
			dirs = append(dirs, info)
		}
	}
	return dirs
}

func (b *hostBase) release(key string, s *hostDir) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.refs--; s.refs == 0 {
		s.retire()
		if b.open[key] == s {
			delete(b.open, key)
		}
	}
}

func dirNames(ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, errors.New("no owner is given")
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		var err error
		if names[i], err = DirName(id); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// descend opens the directory at names below root, one name at a time, and refuses links, so that a link planted in the base
// does not lead to the directory of another owner. If create is true, it creates missing directories; otherwise it returns
// ok false for them. The caller closes the returned root, which is root itself if names is empty.
func descend(root *os.Root, names []string, create bool) (_ *os.Root, ok bool, err error) {
	at := root
	defer func() {
		if (err != nil || !ok) && at != root {
			_ = at.Close()
		}
	}()
	for _, name := range names {
		info, err := at.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			if !create {
				return nil, false, nil
			}
			if err = at.Mkdir(name, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
				info, err = at.Lstat(name)
			}
		}
		if err != nil {
			return nil, false, err
		}
		if !info.IsDir() {
			return nil, false, fmt.Errorf("%q is not a plain directory: links are not followed; remove it", name)
		}
		next, err := enter(at, name, info)
		if err != nil {
			return nil, false, err
		}
		if at != root {
			_ = at.Close()
		}
		at = next
	}
	return at, true, nil
}
