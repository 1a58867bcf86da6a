package program

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// LocalRoot is the prefix of the ids of modules in the program's folder and its subfolders. The rest of an id is the path relative to the program's
// folder. People see only this rest.
const LocalRoot = "/program/"

// shownName returns the name under which people see a module.
func shownName(id string) string { return strings.TrimPrefix(id, LocalRoot) }

// shownError returns an error in which modules have their shown names.
func shownError(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	shown := *e
	shown.File = shownName(e.File)
	shown.Message, shown.Hint = strings.ReplaceAll(e.Message, LocalRoot, ""), strings.ReplaceAll(e.Hint, LocalRoot, "")
	return &shown
}

// local resolves a relative path in the program or in a module beside it. If the file does not exist, local looks for it in /workspace.
func (l *loader) local(specifier, name, from string) (string, error) {
	at := path.Join(LocalRoot, name)
	if strings.HasPrefix(from, LocalRoot) {
		at = path.Join(path.Dir(from), name)
	}
	rest, inside := strings.CutPrefix(at, LocalRoot)
	switch {
	case !l.opts.Local:
		return "", errorf("import it in a declaration at the top, so that it is recorded with the program",
			"cannot import %q: the files beside the program were there only while it was executed for the first time", specifier)
	case !inside || !fs.ValidPath(rest):
		return "", errorf("move it beside the program, into its folder or below, or into a file of the workspace and read it with fs.readFile",
			"cannot import %q: it is not in the program's folder", specifier)
	}
	return l.file(specifier, at, "/workspace/"+rest)
}

// isLocal reports whether relative paths in the module from may mean files beside the program.
func (l *loader) isLocal(from string) bool {
	return l.opts.Local && from == ProgramFile || strings.HasPrefix(from, LocalRoot)
}

// LocalFile reads a module from the program's folder by its id. The error wraps fs.ErrNotExist if no such file exists. The error contains no path of
// the host.
func LocalFile(dir fs.FS, id string) ([]byte, error) {
	name := strings.TrimPrefix(id, LocalRoot)
	text, err := readLocal(dir, name)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	switch {
	case err == nil:
		return text, nil
	case errors.Is(err, syscall.ENOTDIR):
		err = fs.ErrNotExist
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}

func readLocal(dir fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(dir, name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fs.ErrNotExist
	case !info.Mode().IsRegular(): // reading a pipe would block
		return nil, errors.New("it is neither a file nor a directory")
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxText+1)) // the loader refuses more
}
