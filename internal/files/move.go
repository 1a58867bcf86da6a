package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
)

func (s *hostDir) Rename(ctx context.Context, from, to string) error {
	target, err := clean(to)
	err = s.change("rename", from, func(src *spot) error {
		if err != nil {
			return err
		}
		return s.rename(ctx, src, target)
	})
	if e, ok := errors.AsType[*Error](err); ok {
		e.To = shown(to)
	}
	return err
}

func (s *hostDir) rename(ctx context.Context, src *spot, to string) error {
	switch {
	case src.path == "." || to == ".":
		return errTop
	case src.info == nil:
		return &Error{Code: NotFound}
	case src.path == to:
		return nil
	case strings.HasPrefix(to, src.path+"/"):
		return invalid("a directory cannot be moved into itself")
	}
	return s.at(to, func(dst *spot) error { return s.replace(ctx, src, dst) })
}

var errNoParent = &Error{Code: NotFound, Detail: "the directory of the new path does not exist; create it with fs.mkdir"}

// replace moves the file or directory at src to dst.
func (s *hostDir) replace(ctx context.Context, src, dst *spot) error {
	if len(dst.missing) > 0 {
		return errNoParent
	}
	replaced := dst.info != nil && !os.SameFile(src.info, dst.info) // both are the same file if only the case of the name changes, in a file system that ignores case
	switch {
	case replaced && src.isDir() && !dst.isDir():
		return &Error{Code: NotDir}
	case replaced && !src.isDir() && dst.isDir():
		return &Error{Code: IsDirectory}
	}
	if err := s.fitsAt(ctx, src, dst.path); err != nil {
		return err
	}
	if replaced && dst.isDir() { // Windows does not replace directories, not even empty ones
		if err := s.remove(dst); err != nil {
			return err
		}
		replaced = false
	}
	if err := s.root.Rename(src.path, dst.path); err != nil {
		return err
	}
	if replaced {
		s.add(-dst.info.Size(), -1)
	}
	return errors.Join(s.sync(src.dir), s.sync(dst.dir), s.moved(ctx, src.path, dst.path))
}

// fitsAt returns an error if, after a directory is moved, a path of its content would exceed the limits of paths.
func (s *hostDir) fitsAt(ctx context.Context, src *spot, to string) error {
	depth := strings.Count(to, "/") + 1
	if !src.isDir() || depth <= strings.Count(src.path, "/")+1 && len(to) <= len(src.path) {
		return nil
	}
	return below(src.dir, src.name, func(dir *os.Root) error {
		return walk(ctx, dir, func(at found) error {
			switch {
			case depth+at.depth > maxDepth:
				return invalid("a path in the directory would be deeper than %d directories", maxDepth)
			case len(to)+1+at.size > maxPath:
				return invalid("a path in the directory would be longer than %d bytes", maxPath)
			}
			return nil
		})
	})
}

// Move moves a file from one Dir to another by copying and deleting it. Repeating a move after a crash in between leads to the
// same state.
func Move(ctx context.Context, dst *Dir, to string, src *Dir, from string) error {
	const op = "rename"
	f, err := src.open(op, from)
	if err != nil {
		return err
	}
	defer f.Close()
	copied, err := f.Stat()
	if err != nil {
		return hostError(op, from, err)
	}
	if err := dst.copy(ctx, op, to, f, src.Hand(from)); err != nil {
		return err
	}
	return src.removeCopied(op, from, copied)
}

// errMoved reports a file that was changed while it was moved.
var errMoved = &Error{Code: IO, Detail: "another run changed the file while it was moved: it is still there, and its old content at the new path"}

func (s *hostDir) removeCopied(op, from string, copied fs.FileInfo) error {
	return s.change(op, from, func(at *spot) error {
		switch {
		case at.info == nil:
			return nil
		case !os.SameFile(copied, at.info) || at.info.Size() != copied.Size() || !at.info.ModTime().Equal(copied.ModTime()):
			return errMoved
		}
		return s.remove(at)
	})
}
