package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// localFiles is the folder of a program, from which the program may import files. It gives no access to files outside the folder. It is safe for concurrent
// use.
type localFiles struct {
	dir  string
	root folder // nil if it could not be opened

	mu   sync.Mutex
	seen map[string]fileState // states of the files that were read or looked for, by path; nil without --watch
}

// fileState is compared to detect that a file has changed.
type fileState struct {
	there    bool
	size     int64
	modified time.Time
}

func stateOf(name string) fileState {
	info, err := os.Stat(name)
	if err != nil {
		return fileState{}
	}
	return fileState{true, info.Size(), info.ModTime()}
}

// local opens the folder of the program. The folder is empty if the program does not come from a file, or if the folder cannot be opened.
func (c *execCmd) local(a *app) *localFiles {
	l := &localFiles{}
	if c.Watch {
		l.seen = map[string]fileState{}
	}
	if c.File != "" && c.File != "-" {
		l.dir = filepath.Dir(a.path(c.File))
		l.root = a.openFolder(l.dir) // a missing folder is reported when a file in it is read
	}
	return l
}

// folder is an open folder that gives no access to files outside it.
type folder interface {
	fs.StatFS
	Close() error
}

// openFolder opens a folder of the command's user, or returns nil if it cannot be opened.
func (a *app) openFolder(dir string) folder {
	if a.served != nil {
		if f, err := a.served.session.Folder(dir); err == nil {
			return f
		}
		return nil
	}
	if root, err := os.OpenRoot(dir); err == nil {
		return ownFolder{root}
	}
	return nil
}

// ownFolder is a folder that this process opened.
type ownFolder struct{ *os.Root }

// Open implements fs.FS.
func (f ownFolder) Open(name string) (fs.File, error) { return f.FS().Open(name) }

// Stat implements fs.StatFS.
func (f ownFolder) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.FS(), name) }

// files returns the folder as a file system, or nil if it is not open.
func (l *localFiles) files() fs.FS {
	if l.root == nil {
		return nil
	}
	return l
}

func (l *localFiles) close() {
	if l.root != nil {
		l.root.Close()
	}
}

// Open implements fs.FS.
func (l *localFiles) Open(name string) (fs.File, error) { return l.root.Open(name) }

// Stat implements fs.StatFS. The loader calls it before it reads a file.
func (l *localFiles) Stat(name string) (fs.FileInfo, error) {
	l.look(filepath.Join(l.dir, filepath.FromSlash(name)))
	return l.root.Stat(name)
}

// look remembers the state of a file.
func (l *localFiles) look(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, seen := l.seen[name]; !seen && l.seen != nil {
		l.seen[name] = stateOf(name)
	}
}

// changed reports whether a file has changed since it was looked at.
func (l *localFiles) changed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, state := range l.seen {
		if stateOf(name) != state {
			return true
		}
	}
	return false
}
