package files

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// tempPrefix begins the names of files being written.
const tempPrefix = reserved + "tmp-"

// change runs a changing operation with the directory created and the quota known. An operation that fails in the
// file system of the host leaves the quota to be counted again.
func (d *Dir) change(op, p string, fn func(s *state, name string) error) error {
	name, err := clean(p)
	if err != nil {
		return &Error{Code: Invalid, Op: op, Path: p, Detail: err.Error()}
	}
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err = s.openRoot(true); err == nil {
		err = fn(s, name)
	}
	if err == nil {
		return nil
	}
	var own *Error
	if !errors.As(err, &own) {
		s.known = false
	}
	return hostError(op, p, err)
}

// WriteFile replaces the content of a file, creating it and the directories above it. It is atomic: whoever reads the
// file, also after a crash in the middle, finds the old content or the new one.
func (d *Dir) WriteFile(p string, data []byte) error {
	return d.change("open", p, func(s *state, name string) error {
		return s.put(name, int64(len(data)), bytes.NewReader(data))
	})
}

// Copy copies a file, within a Dir or between two, atomically like WriteFile.
func Copy(dst *Dir, to string, src *Dir, from string) error {
	const op = "copyfile"
	var f *os.File
	err := src.view(op, from, func(root *os.Root, name string) (err error) {
		f, _, err = openFile(root, name)
		return err
	})
	if err != nil {
		return err
	}
	defer f.Close()
	return dst.change(op, to, func(s *state, name string) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return s.put(name, info.Size(), f)
	})
}

// put writes size bytes to a temporary file beside name and renames it.
func (s *state) put(name string, size int64, r io.Reader) error {
	old, err := look(s.root, name)
	if err != nil {
		return err
	}
	mode, before, more := fs.FileMode(0o600), int64(0), int64(1)
	switch {
	case name == "." || old != nil && old.IsDir():
		return &Error{Code: IsDirectory}
	case old != nil:
		mode, before, more = old.Mode().Perm(), old.Size(), 0
	}
	if err := s.fileFits(size); err != nil {
		return err
	}
	missing, err := s.missing(path.Dir(name))
	if err != nil {
		return err
	}
	if err := s.room(size-before, more+int64(len(missing))); err != nil {
		return err
	}
	if err := s.mkdirs(missing); err != nil {
		return err
	}
	temp := path.Join(path.Dir(name), tempPrefix+rand.Text())
	if err := s.fill(temp, mode, size, r); err != nil {
		return errors.Join(err, ignoreVanished(s.root.Remove(temp)))
	}
	if err := s.root.Rename(temp, name); err != nil {
		return errors.Join(err, ignoreVanished(s.root.Remove(temp)))
	}
	s.add(size-before, more)
	if !s.base.opts.Durable {
		return nil
	}
	for _, dir := range missing {
		if err := s.syncDir(path.Dir(dir)); err != nil {
			return err
		}
	}
	return s.syncDir(path.Dir(name))
}

func (s *state) fill(temp string, mode fs.FileMode, size int64, r io.Reader) (err error) {
	f, err := s.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.CopyN(f, r, size); err != nil {
		return err
	}
	if mode != 0o600 {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if s.base.opts.Durable {
		return f.Sync()
	}
	return nil
}

// AppendFile adds data to the end of a file, creating it and the directories above it. A crash in the middle can
// leave a part of data; see Space.AlreadyDone for how it is repeated.
func (d *Dir) AppendFile(p string, data []byte) error {
	return d.change("open", p, func(s *state, name string) error {
		old, err := look(s.root, name)
		switch {
		case err != nil:
			return err
		case name == "." || old != nil && old.IsDir():
			return &Error{Code: IsDirectory}
		case old == nil:
			return s.put(name, int64(len(data)), bytes.NewReader(data))
		}
		if err := s.fileFits(old.Size() + int64(len(data))); err != nil {
			return err
		}
		if err := s.room(int64(len(data)), 0); err != nil {
			return err
		}
		return s.extend(name, old.Size(), data)
	})
}

func (s *state) extend(name string, size int64, data []byte) (err error) {
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if n, err := f.Write(data); err != nil {
		if n > 0 { // a full disk: take the part back
			err = errors.Join(err, f.Truncate(size))
		}
		return err
	}
	s.add(int64(len(data)), 0)
	if s.base.opts.Durable {
		return f.Sync()
	}
	return nil
}

// truncate cuts a file to size bytes, if it is longer.
func (d *Dir) truncate(p string, size int64) error {
	return d.change("open", p, func(s *state, name string) error {
		info, err := look(s.root, name)
		if err != nil || info == nil || info.IsDir() || info.Size() <= size {
			return err
		}
		f, err := s.root.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
			return err
		}
		if s.known {
			s.add(size-info.Size(), 0)
		}
		return nil
	})
}

// Mkdir creates a directory. With parents it also creates those above it and accepts one that exists.
func (d *Dir) Mkdir(p string, parents bool) error {
	return d.change("mkdir", p, func(s *state, name string) error {
		info, err := look(s.root, name)
		switch {
		case err != nil:
			return err
		case info != nil && info.IsDir() && parents:
			return nil
		case info != nil:
			return &Error{Code: Exists}
		}
		missing, err := s.missing(name)
		if err != nil {
			return err
		}
		if len(missing) > 1 && !parents {
			return &Error{Code: NotFound, Detail: "the directory above it does not exist; use {recursive: true}"}
		}
		if err := s.room(0, int64(len(missing))); err != nil {
			return err
		}
		return s.mkdirs(missing)
	})
}

// missing returns the directories of dir, itself included, that do not exist, outermost first.
func (s *state) missing(dir string) ([]string, error) {
	var names []string
	for ; dir != "."; dir = path.Dir(dir) {
		info, err := look(s.root, dir)
		switch {
		case err != nil:
			return nil, err
		case info == nil:
			names = append([]string{dir}, names...)
			continue
		case !info.IsDir():
			return nil, &Error{Code: NotDir}
		}
		break
	}
	return names, nil
}

func (s *state) mkdirs(names []string) error {
	for _, name := range names {
		err := s.root.Mkdir(name, 0o700)
		if errors.Is(err, fs.ErrExist) { // another process was faster
			continue
		}
		if err != nil {
			return err
		}
		s.add(0, 1)
	}
	return nil
}

// Delete removes a file. One that does not exist is no error.
func (d *Dir) Delete(p string) error {
	return d.change("unlink", p, func(s *state, name string) error {
		info, err := look(s.root, name)
		switch {
		case err != nil || info == nil:
			return err
		case info.IsDir():
			return &Error{Code: IsDirectory, Detail: "use fs.rm"}
		}
		return s.remove(name, info)
	})
}

// RemoveDir removes an empty directory.
func (d *Dir) RemoveDir(p string) error {
	return d.change("rm", p, func(s *state, name string) error {
		info, err := look(s.root, name)
		switch {
		case err != nil:
			return err
		case name == ".":
			return errTop()
		case info == nil:
			return &Error{Code: NotFound}
		case !info.IsDir():
			return &Error{Code: NotDir}
		}
		return s.remove(name, info)
	})
}

func errTop() error {
	return &Error{Code: Denied, Detail: "this directory itself stays; remove what is in it"}
}

func (s *state) remove(name string, info fs.FileInfo) error {
	if err := s.root.Remove(name); err != nil {
		return ignoreVanished(err)
	}
	if s.known {
		e := entry(name, info)
		s.add(-e.Size, -1)
	}
	return nil
}

// RemoveAll removes a file, or a directory and everything in it. What does not exist is no error.
func (d *Dir) RemoveAll(p string) error {
	return d.change("rm", p, func(s *state, name string) error {
		info, err := look(s.root, name)
		switch {
		case err != nil || info == nil:
			return err
		case name == ".":
			return errTop()
		case !info.IsDir():
			return s.remove(name, info)
		}
		gone := Usage{Files: 1}
		if err := walk(s.root, name, gone.count(s.root)); err != nil {
			return err
		}
		if err := s.root.RemoveAll(name); err != nil {
			return err
		}
		if s.known {
			s.add(-gone.Bytes, -gone.Files)
		}
		return nil
	})
}

// Rename moves a file or directory. A file that stands at the new path is replaced, and so is an empty directory if
// a directory is moved.
func (d *Dir) Rename(from, to string) error {
	const op = "rename"
	target, err := clean(to)
	if err != nil {
		return &Error{Code: Invalid, Op: op, Path: from, To: to, Detail: err.Error()}
	}
	err = d.change(op, from, func(s *state, name string) error { return s.rename(name, target) })
	var e *Error
	if errors.As(err, &e) {
		e.To = to
	}
	return err
}

func (s *state) rename(from, to string) error {
	src, err := look(s.root, from)
	switch {
	case err != nil:
		return err
	case from == "." || to == ".":
		return errTop()
	case src == nil:
		return &Error{Code: NotFound}
	case from == to:
		return nil
	case strings.HasPrefix(to, from+"/"):
		return &Error{Code: Invalid, Detail: "a directory cannot be moved into itself"}
	}
	dst, err := look(s.root, to)
	if err != nil {
		return err
	}
	parent, err := look(s.root, path.Dir(to))
	switch {
	case err != nil:
		return err
	case parent == nil:
		return &Error{Code: NotFound, Detail: "the directory of the new path does not exist; create it with fs.mkdir"}
	case dst == nil || os.SameFile(src, dst): // the same: only the case changes, on a system that ignores it
		return s.root.Rename(from, to)
	case src.IsDir() && !dst.IsDir():
		return &Error{Code: NotDir}
	case !src.IsDir() && dst.IsDir():
		return &Error{Code: IsDirectory}
	case dst.IsDir(): // Windows replaces no directory, not even an empty one
		if err := s.remove(to, dst); err != nil {
			return err
		}
		return s.root.Rename(from, to)
	}
	if err := s.root.Rename(from, to); err != nil {
		return err
	}
	if s.known {
		s.add(-dst.Size(), -1)
	}
	return nil
}
