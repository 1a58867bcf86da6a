package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Bounds of a walk. Programs stay far below them because of quotas and limits of paths; other processes may not.
const (
	maxWalk = 1 << 20 // maximum number of files and directories
	maxDeep = 200     // maximum depth of directories, each of which stays open
	batch   = 1024    // number of entries read at a time
)

var (
	errMany = noSpace("there are more than %d files and directories; remove some", maxWalk)
	errDeep = noSpace("there are more than %d directories in each other; remove them with fs.rm(path, {recursive: true})", maxDeep)
)

// found is a file or directory that a walk has found.
type found struct {
	dir   *os.Root // parent directory
	entry fs.DirEntry
	depth int // number of names in its path below the top
	size  int // size of that path in bytes
}

// walk calls visit for everything below dir, for each directory after its content. It skips entries that vanish during the walk. Each
// directory is opened in its parent, so that the work is linear in the number of entries. If ctx ends, walk stops and returns the
// error of ctx.
func walk(ctx context.Context, dir *os.Root, visit func(found) error) error {
	left := maxWalk
	var within func(dir *os.Root, depth, size int) error
	within = func(dir *os.Root, depth, size int) error {
		if depth > maxDeep {
			return errDeep
		}
		entries, err := readDir(ctx, dir, left)
		if err != nil {
			return err
		}
		if left -= len(entries); left < 0 {
			return errMany
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			at := found{dir: dir, entry: e, depth: depth, size: size + len(e.Name())}
			if e.IsDir() {
				err := below(dir, e.Name(), func(sub *os.Root) error { return within(sub, depth+1, at.size+1) })
				if ignoreVanished(err) != nil {
					return err
				}
			}
			if err := visit(at); ignoreVanished(err) != nil {
				return err
			}
		}
		return nil
	}
	return within(dir, 1, 0)
}

// below calls fn with a subdirectory of dir.
func below(dir *os.Root, name string, fn func(*os.Root) error) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	sub, err := enter(dir, name, info)
	if err != nil {
		return err
	}
	defer sub.Close()
	return fn(sub)
}

// readDir returns the entries of a directory: all of them, or more than limit if there are more.
func readDir(ctx context.Context, dir *os.Root, limit int) ([]fs.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []fs.DirEntry
	for len(all) <= limit {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		entries, err := f.ReadDir(batch)
		all = append(all, entries...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func ignoreVanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
