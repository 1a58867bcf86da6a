package files

import (
	"context"
	"fmt"
	"os"
)

func (s *hostDir) Delete(p string) error {
	return s.change("unlink", p, func(at *spot) error {
		switch {
		case at.info == nil:
			return nil
		case at.isDir():
			return errDeleteDir
		}
		return s.remove(at)
	})
}

func (s *hostDir) Remove(ctx context.Context, p string, recursive, force bool) error {
	return s.change("rm", p, func(at *spot) error {
		switch {
		case at.path == ".":
			return errTop
		case at.info == nil && force:
			return nil
		case at.info == nil:
			return &Error{Code: NotFound}
		case at.isDir() && recursive:
			left := maxWalk
			if err := below(at.dir, at.name, func(dir *os.Root) error { return s.empty(ctx, dir, 1, &left) }); err != nil {
				return ignoreVanished(err)
			}
		}
		err := s.remove(at)
		if isNotEmpty(err) && !recursive {
			return errNotEmpty
		}
		return err
	})
}

var (
	errDeleteDir = &Error{Code: IsDirectory, Detail: "use fs.rm"}
	errNotEmpty  = &Error{Code: NotEmpty, Detail: "use {recursive: true} to remove what is in it too"}
)

var errTop = &Error{Code: Denied, Detail: "this directory itself stays; remove what is in it"}

// remove removes the file or empty directory at a spot.
func (s *hostDir) remove(at *spot) error {
	if err := at.dir.Remove(at.name); err != nil {
		return ignoreVanished(err)
	}
	s.add(-counted(at.info), -1)
	return nil
}

// empty removes the content of a directory in batches. left is the number of files and directories that this call may still remove.
func (s *hostDir) empty(ctx context.Context, dir *os.Root, depth int, left *int) error {
	for {
		entries, err := readDir(ctx, dir, 0)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			if *left--; *left < 0 {
				return &Error{Code: NotEmpty, Detail: fmt.Sprintf("%d files and directories are removed, and there are more; do it again", maxWalk)}
			}
			if err := s.removeEntry(ctx, dir, e.Name(), depth, left); ignoreVanished(err) != nil {
				return err
			}
		}
	}
}

// removeEntry removes anything in a directory. It removes a link itself, not its target.
func (s *hostDir) removeEntry(ctx context.Context, dir *os.Root, name string, depth int, left *int) error {
	info, err := dir.Lstat(name)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
	case depth == maxDeep: // too deep to have been made by a program
		s.known = false
		return dir.RemoveAll(name)
	default:
		if err := below(dir, name, func(sub *os.Root) error { return s.empty(ctx, sub, depth+1, left) }); err != nil {
			return err
		}
	}
	if err := dir.Remove(name); err != nil {
		return err
	}
	if !isTemp(name) || !info.Mode().IsRegular() {
		s.add(-counted(info), -1)
	}
	return nil
}
