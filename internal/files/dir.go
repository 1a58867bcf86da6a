package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// hostDir is the directory of an owner in the host's file system. All Dirs of the owner in this process share it. It contains only plain files and
// directories: listings leave out links, devices and pipes, and other operations refuse them. Other processes may use the same directory: each
// operation still works, but quotas are then approximate.
type hostDir struct {
	base  *hostBase
	names []string
	refs  int // guarded by base.mu

	mu      sync.RWMutex // every change holds it for writing
	root    *os.Root     // nil until the directory exists
	retired bool
	used    Usage
	known   bool // whether used is valid: it was counted, and no failed change has made it doubtful since
	counted time.Time

	handsMu   sync.Mutex
	handsRead *hands // content of handFile; nil until it is read
}

// Entry describes a file or directory.
type Entry struct {
	Name    string
	Path    string // relative to the Dir
	IsDir   bool
	Size    int64 // 0 for a directory
	ModTime time.Time
}

var _ directory = (*hostDir)(nil)

func (s *hostDir) Pause() {
	b := s.base
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.refs != 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root != nil {
		_ = s.root.Close()
		s.root = nil
	}
}

func (s *hostDir) ReadFile(p string, offset, length int64) ([]byte, error) {
	var data []byte
	err := s.view("open", p, func(at *spot) error {
		if offset < 0 {
			return invalid("the offset is negative")
		}
		f, info, err := at.openFile()
		if err != nil {
			return err
		}
		defer f.Close()
		left := max(0, info.Size()-offset)
		if length >= 0 {
			left = min(left, length)
		}
		data = make([]byte, left)
		n, err := io.ReadFull(io.NewSectionReader(f, offset, left), data)
		data = data[:n]
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the file shrank meanwhile
			return nil
		}
		return err
	})
	return data, err
}

// Bounds of a listing.
const (
	maxList      = 50_000  // maximum number of entries
	maxListBytes = 8 << 20 // maximum total size of the paths in bytes
)

// listing collects the entries of directories, in order.
type listing struct {
	entries []Entry
	bytes   int
	opts    *Options
}

func (l *listing) add(e Entry) error {
	l.entries = append(l.entries, e)
	l.bytes += len(e.Path)
	if len(l.entries) > maxList || l.bytes > maxListBytes {
		return errLong
	}
	return nil
}

var errLong = invalid("there are more than %d entries, or %s of paths; list one directory at a time", maxList, size(maxListBytes))

func (s *hostDir) ReadDir(ctx context.Context, p string, recursive bool) ([]Entry, error) {
	list := listing{entries: []Entry{}, opts: &s.base.opts}
	err := s.view("scandir", p, func(at *spot) error {
		switch {
		case at.info == nil && at.path != ".":
			return &Error{Code: NotFound}
		case at.info == nil:
			return nil
		case !at.isDir():
			return &Error{Code: NotDir}
		}
		return below(at.dir, at.name, func(dir *os.Root) error { return list.read(ctx, dir, at.path, recursive) })
	})
	if err != nil {
		return nil, err
	}
	return list.entries, nil
}

// read lists the directory at p and, if recursive, its subdirectories. It leaves out entries that programs could not name.
func (l *listing) read(ctx context.Context, dir *os.Root, p string, recursive bool) error {
	entries, err := readDir(ctx, dir, maxList)
	if err != nil {
		return err
	}
	if len(entries) > maxList {
		return errLong
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := path.Join(p, e.Name())
		if canonical, err := clean(at); err != nil || canonical != at || l.opts.reservedName(at) != nil {
			continue
		}
		info, err := dir.Lstat(e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case !info.IsDir() && !info.Mode().IsRegular(), hardLinked(info):
			continue
		}
		if err := l.add(entry(at, info)); err != nil {
			return err
		}
		if !recursive || !info.IsDir() {
			continue
		}
		err = below(dir, e.Name(), func(sub *os.Root) error { return l.read(ctx, sub, at, true) })
		if ignoreVanished(err) != nil {
			return err
		}
	}
	return nil
}

func (s *hostDir) Stat(p string) (Entry, error) {
	var e Entry
	err := s.view("stat", p, func(at *spot) error {
		switch {
		case at.info != nil:
			e = entry(at.path, at.info)
		case at.path == ".": // not created yet
			e = Entry{Name: ".", Path: ".", IsDir: true}
		default:
			return &Error{Code: NotFound}
		}
		return nil
	})
	return e, err
}

func entry(p string, info fs.FileInfo) Entry {
	e := Entry{Name: path.Base(p), Path: p, IsDir: info.IsDir(), ModTime: info.ModTime()}
	if !e.IsDir {
		e.Size = info.Size()
	}
	return e
}

// view runs an operation that only reads.
func (s *hostDir) view(op, p string, fn func(*spot) error) error {
	name, err := clean(p)
	if err != nil {
		return hostError(op, p, err)
	}
	s.mu.RLock()
	if s.root == nil { // opening it needs the lock for writing
		s.mu.RUnlock()
		s.mu.Lock()
		err = s.openRoot(false)
		s.mu.Unlock()
		s.mu.RLock()
	}
	defer s.mu.RUnlock()
	if err == nil && s.retired {
		err = fs.ErrClosed
	}
	if err == nil {
		err = s.at(name, fn)
	}
	if err != nil {
		return hostError(op, p, err)
	}
	return nil
}

// change runs a changing operation after it has created the directory if necessary. If an operation fails in the file system of the host,
// the usage is counted again later.
func (s *hostDir) change(op, p string, fn func(*spot) error) error {
	name, err := clean(p)
	if err != nil {
		return hostError(op, p, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.openRoot(true); err == nil {
		err = s.at(name, fn)
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); !ok {
		s.known = false
	}
	return hostError(op, p, err)
}

// at runs an operation on the spot of a canonical path.
func (s *hostDir) at(name string, fn func(*spot) error) error {
	if err := s.base.opts.reservedName(name); err != nil {
		return err
	}
	at, err := find(s.root, name)
	if err != nil {
		return err
	}
	defer at.close()
	return fn(at)
}

// openRoot opens the directory if it is not open. If the directory does not exist, openRoot creates it if create is true. The caller holds mu for writing.
func (s *hostDir) openRoot(create bool) error {
	if s.retired {
		return fs.ErrClosed
	}
	if s.root != nil {
		return nil
	}
	s.base.parents.RLock()
	defer s.base.parents.RUnlock()
	root, ok, err := descend(s.base.root, s.names, create)
	if ok && err == nil {
		s.root, s.known = root, false
	}
	return err
}

// retire closes the directory permanently, after the operation in progress.
func (s *hostDir) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	if s.root != nil {
		_ = s.root.Close()
		s.root = nil
	}
}
