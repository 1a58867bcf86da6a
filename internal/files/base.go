// Package files keeps the files of sandboxed programs: directories of the host behind os.Root, with quotas, that no
// path, link or name leads out of, and the view of them that a program has (Space).
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"
)

// Limits are the quotas of one directory. The zero value of each means that there is none.
type Limits struct {
	MaxBytes     int64 // sum of the sizes of all files
	MaxFiles     int64 // number of files and directories
	MaxFileBytes int64 // size of one file
}

// Options say how the directories of a Base behave.
type Options struct {
	Limits Limits
	// Section is the part of the configuration the limits come from; errors name it ("skills").
	Section string
	// Durable makes a write survive a power failure before it is answered. Without it a crash of the machine can
	// lose the last writes; a crash of the harness cannot.
	Durable bool
}

// Base is a directory of the host that holds one directory per owner. It is safe for concurrent use.
type Base struct {
	root *os.Root
	opts Options
	now  func() time.Time

	mu   sync.Mutex
	open map[string]*state // by path inside the base
}

// OpenBase opens a directory of the host, creating it if it does not exist. The directory itself may be a symbolic
// link: where it lives is the administrator's choice. Links inside it are never followed.
func OpenBase(dir string, opts Options) (*Base, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the %s directory: %w", opts.Section, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the %s directory: %w", opts.Section, err)
	}
	return &Base{root: root, opts: opts, now: time.Now, open: map[string]*state{}}, nil
}

// Path returns the directory of the host. It is for messages to the person who runs the harness only.
func (b *Base) Path() string { return b.root.Name() }

// Close releases the base. Dirs that are still open fail from then on.
func (b *Base) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, s := range b.open {
		s.retire()
		delete(b.open, key)
	}
	return b.root.Close()
}

// Open returns the directory of an owner, given as one or more ids (user, then session) of any text. Nothing is
// created before the first write. Dirs of the same owner share their quota. The caller closes the Dir.
func (b *Base) Open(ids ...string) (*Dir, error) {
	names, err := dirNames(ids)
	if err != nil {
		return nil, fmt.Errorf("open the %s directory: %w", b.opts.Section, err)
	}
	key := path.Join(names...)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.open[key]
	if s == nil {
		s = &state{base: b, names: names}
		b.open[key] = s
	}
	s.refs++
	return &Dir{s: s, release: sync.OnceFunc(func() { b.release(key, s) })}, nil
}

// Remove deletes the directory of an owner and everything in it, and parents of it that it leaves empty. Dirs that
// are open on it fail from then on. Removing what does not exist is no error.
func (b *Base) Remove(ids ...string) error {
	names, err := dirNames(ids)
	if err != nil {
		return fmt.Errorf("remove a %s directory: %w", b.opts.Section, err)
	}
	key := path.Join(names...)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.open[key]; s != nil {
		s.retire()
		delete(b.open, key)
	}
	parent, ok, err := descend(b.root, names[:len(names)-1], false)
	if ok {
		err = parent.RemoveAll(names[len(names)-1])
		if parent != b.root {
			_ = parent.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("remove a %s directory: %w", b.opts.Section, err)
	}
	for parent := path.Dir(key); parent != "."; parent = path.Dir(parent) {
		if b.root.Remove(filepath.FromSlash(parent)) != nil {
			break // other sessions are in it, or it never existed
		}
	}
	return nil
}

func (b *Base) release(key string, s *state) {
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

// descend opens the directory at names below root, one name at a time, so that a link planted in the base is refused
// instead of leading to the directory of another owner. With create it makes what is missing; without, it returns
// false. The caller closes the returned root, which is root itself if names is empty.
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
