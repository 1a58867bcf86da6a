package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// spot is the place that a path leads to. Its directory stays open during an operation, so that changes of the directories above it do
// not redirect the operation.
type spot struct {
	path    string // canonical path, relative to top
	top     *os.Root
	dir     *os.Root    // the last existing directory on the path; nil if top is nil
	missing []string    // the names of missing directories below dir
	name    string      // the last name of the path; "." for top itself
	info    fs.FileInfo // nil if there is no file or directory with the path
}

// close releases the spot, but not top.
func (at *spot) close() {
	if at.dir != at.top {
		_ = at.dir.Close()
	}
}

// isDir reports whether there is a directory at the spot.
func (at *spot) isDir() bool { return at.info != nil && at.info.IsDir() }

// find follows a canonical path, one name at a time. It refuses links, which os.Root would follow inside the directory, because
// their meaning differs from system to system. The caller closes the spot.
func find(top *os.Root, p string) (_ *spot, err error) {
	names := strings.Split(p, "/")
	last := len(names) - 1
	at := &spot{path: p, top: top, dir: top, name: names[last]}
	if top == nil { // the Dir does not exist yet
		at.missing = names[:last]
		return at, nil
	}
	defer func() {
		if err != nil {
			at.close()
		}
	}()
	for i, name := range names {
		info, err := at.dir.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			at.missing = names[i:last]
			return at, nil
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, &Error{Code: Denied, Detail: "symbolic links are not followed"}
		case i == last && !info.IsDir() && !info.Mode().IsRegular():
			return nil, &Error{Code: Denied, Detail: "it is neither a file nor a directory"}
		case i == last && hardLinked(info):
			return nil, errHardLink
		case i == last:
			at.info = info
		case !info.IsDir():
			return nil, &Error{Code: NotDir}
		default:
			if err := at.enter(name, info); err != nil {
				return nil, err
			}
		}
	}
	return at, nil
}

// enter makes a subdirectory of at.dir the directory of the spot.
func (at *spot) enter(name string, info fs.FileInfo) error {
	next, err := enter(at.dir, name, info)
	if err != nil {
		return err
	}
	at.close()
	at.dir = next
	return nil
}

// enter opens the directory that info describes. It fails if a link or another directory has replaced that directory since info was read.
func enter(dir *os.Root, name string, info fs.FileInfo) (*os.Root, error) {
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := next.Stat("."); err != nil || !os.SameFile(info, opened) {
		_ = next.Close()
		return nil, errors.Join(fmt.Errorf("%q was replaced while it was opened; try again", name), err)
	}
	return next, nil
}

// errHardLink reports a file with several names. One of them may be outside of the directory, and then a program could read or change a file there.
var errHardLink = &Error{Code: Denied, Detail: "hard links are not followed; replace it by a copy"}

// openFile opens the plain file at the spot for reading.
func (at *spot) openFile() (*os.File, fs.FileInfo, error) {
	switch {
	case at.isDir() || at.info == nil && at.name == ".":
		return nil, nil, &Error{Code: IsDirectory}
	case at.info == nil:
		return nil, nil, &Error{Code: NotFound}
	}
	f, err := at.dir.Open(at.name)
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil && !opened.Mode().IsRegular() { // another process has replaced the file since find examined it
		err = &Error{Code: Denied, Detail: "it is not a file"}
	} else if err == nil && hardLinked(opened) {
		err = errHardLink
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, opened, nil
}

// HardLinked reports whether a file has more than one name. It is false on systems that do not say.
func HardLinked(info fs.FileInfo) bool { return hardLinked(info) }
