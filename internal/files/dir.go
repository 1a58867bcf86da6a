package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Dir is the directory of one owner. Paths in it are relative and slash-separated; "" and "." are the Dir itself.
// Everything it holds is a plain file or a directory: links, devices and pipes are invisible in listings and refused
// otherwise. A Dir is safe for concurrent use; changes happen one after another, reads do not see half of one. Other
// processes may use the same directory: every single operation stays sound, quotas are then approximate.
//
// All errors are of type *Error.
type Dir struct {
	s       *state
	release func()
}

// state is shared by all Dirs of an owner in this process.
type state struct {
	base  *Base
	names []string
	refs  int // guarded by base.mu

	mu      sync.RWMutex // held for writing by every change
	root    *os.Root     // nil until the directory exists
	retired bool
	used    Usage
	known   bool // used was counted and no failed change has made it doubtful
	counted time.Time
}

// Entry describes a file or directory.
type Entry struct {
	Name    string
	Path    string // relative to the Dir
	IsDir   bool
	Size    int64 // 0 for a directory
	ModTime time.Time
}

// Close releases the Dir. It is idempotent.
func (d *Dir) Close() { d.release() }

// Usage returns what the directory holds now.
func (d *Dir) Usage(ctx context.Context) (Usage, error) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	root, err := d.s.openRoot(false)
	if err == nil && root != nil && !d.s.known {
		err = d.s.count(ctx)
	}
	if err != nil {
		return Usage{}, hostError("scandir", ".", err)
	}
	return d.s.used, nil
}

// ReadFile returns length bytes of a file from offset on, fewer at its end; all to the end if length is negative.
func (d *Dir) ReadFile(p string, offset, length int64) ([]byte, error) {
	const op = "open"
	if offset < 0 {
		return nil, &Error{Code: Invalid, Op: op, Path: p, Detail: "the offset is negative"}
	}
	var data []byte
	err := d.view(op, p, func(root *os.Root, name string) error {
		f, info, err := openFile(root, name)
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
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // it shrank meanwhile
			return nil
		}
		return err
	})
	return data, err
}

// The bounds of a listing.
const (
	maxList      = 50_000  // entries
	maxListBytes = 8 << 20 // of their paths
)

// listing is the entries of directories, in order.
type listing struct {
	entries []Entry
	bytes   int
}

func (l *listing) add(e Entry) error {
	l.entries = append(l.entries, e)
	l.bytes += len(e.Path)
	if len(l.entries) > maxList || l.bytes > maxListBytes {
		return errLong
	}
	return nil
}

var errLong = &Error{Code: Invalid, Detail: fmt.Sprintf(
	"there are more than %d entries, or %s of paths; list one directory at a time", maxList, size(maxListBytes))}

// ReadDir lists a directory, sorted by path, directories before what is in them. More than 50,000 entries or 8 MiB of
// paths are an error.
func (d *Dir) ReadDir(ctx context.Context, p string, recursive bool) ([]Entry, error) {
	list := listing{entries: []Entry{}}
	err := d.view("scandir", p, func(root *os.Root, name string) error {
		at, err := find(root, name)
		if err != nil {
			return err
		}
		defer at.close()
		switch {
		case at.info == nil && name != ".":
			return &Error{Code: NotFound}
		case at.info == nil:
			return nil
		case !at.isDir():
			return &Error{Code: NotDir}
		}
		return below(at.dir, at.name, func(dir *os.Root) error { return list.read(ctx, dir, name, recursive) })
	})
	if err != nil {
		return nil, err
	}
	return list.entries, nil
}

// read lists the directory at p and, if recursive, those in it, as far as a program could name what is there.
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
		if canonical, err := clean(at); err != nil || canonical != at {
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

// Stat describes a file or directory.
func (d *Dir) Stat(p string) (Entry, error) {
	var e Entry
	err := d.view("stat", p, func(root *os.Root, name string) error {
		at, err := find(root, name)
		if err != nil {
			return err
		}
		defer at.close()
		switch {
		case at.info != nil:
			e = entry(name, at.info)
		case name == ".": // not created yet
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

// view runs a reading operation. root is nil as long as the directory does not exist.
func (d *Dir) view(op, p string, fn func(root *os.Root, name string) error) error {
	name, err := clean(p)
	if err != nil {
		return &Error{Code: Invalid, Op: op, Path: shown(p), Detail: err.Error()}
	}
	s := d.s
	s.mu.RLock()
	if s.root == nil { // open it now, which needs the other lock
		s.mu.RUnlock()
		s.mu.Lock()
		_, err = s.openRoot(false)
		s.mu.Unlock()
		s.mu.RLock()
	}
	defer s.mu.RUnlock()
	if err == nil && s.retired {
		err = fs.ErrClosed
	}
	if err == nil {
		err = fn(s.root, name)
	}
	if err != nil {
		return hostError(op, p, err)
	}
	return nil
}

// openRoot opens the directory if it is not open; it returns nil if it does not exist and create is false. The
// caller holds mu for writing.
func (s *state) openRoot(create bool) (*os.Root, error) {
	if s.retired {
		return nil, fs.ErrClosed
	}
	if s.root == nil {
		root, ok, err := descend(s.base.root, s.names, create)
		if err != nil || !ok {
			return nil, err
		}
		s.root, s.known = root, false
	}
	return s.root, nil
}

// retire closes the directory for good, after the operation in progress.
func (s *state) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	if s.root != nil {
		_ = s.root.Close()
		s.root = nil
	}
}
