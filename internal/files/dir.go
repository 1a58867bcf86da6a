package files

import (
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
func (d *Dir) Usage() (Usage, error) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	root, err := d.s.openRoot(false)
	if err == nil && root != nil && !d.s.known {
		err = d.s.count()
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

// ReadDir lists a directory, sorted by path, directories before what is in them.
func (d *Dir) ReadDir(p string, recursive bool) ([]Entry, error) {
	list := []Entry{}
	err := d.view("scandir", p, func(root *os.Root, name string) error {
		info, err := look(root, name)
		switch {
		case err != nil:
			return err
		case info == nil && name != ".":
			return &Error{Code: NotFound}
		case info == nil:
			return nil
		case !info.IsDir():
			return &Error{Code: NotDir}
		}
		list, err = appendDir(list, root, name, recursive)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func appendDir(list []Entry, root *os.Root, dir string, recursive bool) ([]Entry, error) {
	entries, err := readDir(root, dir)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		if !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		if canonical, err := clean(p); err != nil || canonical != p {
			continue // nothing that a program could name
		}
		info, err := root.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		list = append(list, entry(p, info))
		if recursive && info.IsDir() {
			if list, err = appendDir(list, root, p, true); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// Stat describes a file or directory.
func (d *Dir) Stat(p string) (Entry, error) {
	var e Entry
	err := d.view("stat", p, func(root *os.Root, name string) error {
		info, err := look(root, name)
		switch {
		case err != nil:
			return err
		case info != nil:
			e = entry(name, info)
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
		return &Error{Code: Invalid, Op: op, Path: p, Detail: err.Error()}
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

// look returns what is at name, nil if there is nothing. It refuses links in every component: os.Root follows them
// inside the directory, and what a link means would differ from system to system.
func look(root *os.Root, name string) (fs.FileInfo, error) {
	if root == nil {
		return nil, nil
	}
	for i := 0; ; {
		end := strings.IndexByte(name[i:], '/')
		prefix, last := name, end < 0
		if !last {
			prefix = name[:i+end]
		}
		info, err := root.Lstat(prefix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, &Error{Code: Denied, Detail: "symbolic links are not followed"}
		case last && !info.IsDir() && !info.Mode().IsRegular():
			return nil, &Error{Code: Denied, Detail: "it is neither a file nor a directory"}
		case last:
			return info, nil
		case !info.IsDir():
			return nil, &Error{Code: NotDir}
		}
		i += end + 1
	}
}

// openFile opens a plain file for reading.
func openFile(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := look(root, name)
	switch {
	case err != nil:
		return nil, nil, err
	case info == nil && name != ".":
		return nil, nil, &Error{Code: NotFound}
	case info == nil || info.IsDir():
		return nil, nil, &Error{Code: IsDirectory}
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil && !opened.Mode().IsRegular() { // replaced since by another process
		err = &Error{Code: Denied, Detail: "it is not a file"}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, opened, nil
}
