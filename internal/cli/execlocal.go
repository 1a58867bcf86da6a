package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// localFiles is the folder of a program, whose files it may import. Nothing leads out of it.
type localFiles struct {
	root *os.Root

	mu    sync.Mutex
	asked map[string]bool // names that were looked for
}

// local opens the folder of the program; nil for a program that is no file.
func (c *execCmd) local(a *app) (*localFiles, error) {
	if c.File == "" || c.File == "-" {
		return nil, nil
	}
	root, err := os.OpenRoot(filepath.Dir(a.path(c.File)))
	if err != nil {
		return nil, usage(fmt.Errorf("open the program's folder: %w", err))
	}
	return &localFiles{root: root, asked: map[string]bool{}}, nil
}

func (l *localFiles) files() fs.FS {
	if l == nil {
		return nil
	}
	return l
}

func (l *localFiles) close() {
	if l != nil {
		l.root.Close()
	}
}

// Open implements fs.FS.
func (l *localFiles) Open(name string) (fs.File, error) { return l.root.FS().Open(name) }

// Stat implements fs.StatFS.
func (l *localFiles) Stat(name string) (fs.FileInfo, error) {
	l.mu.Lock()
	l.asked[name] = true
	l.mu.Unlock()
	return fs.Stat(l.root.FS(), name)
}
