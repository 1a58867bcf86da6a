package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// spot is where a path leads. Its directory stays open during an operation, so that changes of the directories above it do
// not redirect the operation.
type spot struct {
	path    string // canonical, from top
	top     *os.Root
	dir     *os.Root    // the last directory on the way that exists; nil if top is
	missing []string    // the names below dir of directories that do not exist
	name    string      // the last name of the path; "." for top itself
	info    fs.FileInfo // nil if nothing stands there
}

// close releases the spot, but not top.
func (at *spot) close() {
	if at.dir != at.top {
		_ = at.dir.Close()
	}
}

// isDir says whether a directory stands there.
func (at *spot) isDir() bool { return at.info != nil && at.info.IsDir() }

// find goes to a canonical path, one name at a time. It refuses links, which os.Root follows inside the directory, because
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

// enter makes a directory in at.dir the one of the spot.
func (at *spot) enter(name string, info fs.FileInfo) error {
	next, err := enter(at.dir, name, info)
	if err != nil {
		return err
	}
	at.close()
	at.dir = next
	return nil
}

// enter opens the directory that info describes. A link that has taken its place since is refused.
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

// errHardLink reports a file that may have another name outside of the directory, and would be read or changed there.
var errHardLink = &Error{Code: Denied, Detail: "hard links are not followed; replace it by a copy"}

// openFile opens the plain file that stands at the spot for reading.
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
	if err == nil && !opened.Mode().IsRegular() { // replaced since by another process
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
