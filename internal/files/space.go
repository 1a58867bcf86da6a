package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// Virtual is a read-only tree that is made up on demand: ./servers, from the catalog. Paths are slash-separated and
// relative, "." is the top. Methods are safe for concurrent use and return an error matching fs.ErrNotExist for what
// is not there; any other error's text is shown to the program. Cancelling ctx ends the call.
type Virtual interface {
	// ReadDir lists a directory, sorted by name. Of an entry only Name, IsDir and Size are used.
	ReadDir(ctx context.Context, path string) ([]Entry, error)
	// ReadFile returns a file's content, which the caller does not change.
	ReadFile(ctx context.Context, path string) ([]byte, error)
	// Stat describes a file or directory.
	Stat(ctx context.Context, path string) (Entry, error)
}

// Space is what one run sees of the file system: /skills, /workspace and ./servers. It is safe for concurrent use;
// that the changes of a run happen in its order is the caller's part.
type Space struct {
	skills, workspace *Dir
	servers           Virtual // may be nil
}

// NewSpace makes the view of two directories and, if servers is not nil, the virtual tree. The caller keeps and
// closes the Dirs.
func NewSpace(skills, workspace *Dir, servers Virtual) *Space {
	return &Space{skills: skills, workspace: workspace, servers: servers}
}

// place is where a path leads.
type place struct {
	tree string // "" (the directory above all), skills, workspace, servers
	rel  string // inside the tree
}

func (p place) String() string { return path.Join("/", p.tree, p.rel) }

// The sandbox of the original system lived in this home directory.
const home = "/home/sandboxuser"

// route finds the place of a path as a program writes it. Relative paths are those of /workspace, except ./servers.
// ".." is resolved in the text, before anything is looked up: without links that is what it means.
func (s *Space) route(p string) (place, *Error) {
	if err := checkGiven(p); err != nil {
		return place{}, &Error{Code: Invalid, Detail: err.Error()}
	}
	switch {
	case p == "":
		return place{}, &Error{Code: Invalid, Detail: "the path is empty"}
	case !utf8.ValidString(p) || strings.ContainsRune(p, 0):
		return place{}, &Error{Code: Invalid, Detail: "the path is not valid text"}
	}
	abs := p
	switch {
	case p == "~" || strings.HasPrefix(p, "~/"):
		abs = home + p[1:]
	case !strings.HasPrefix(p, "/"):
		abs = path.Join("/workspace", p)
		if rest, ok := under(abs, "/workspace/servers"); ok && s.servers != nil {
			abs = path.Join("/servers", rest)
		}
	}
	abs = path.Clean(abs)
	if rest, ok := under(abs, home); ok {
		abs = path.Join("/", rest)
	}
	for _, tree := range [...]string{"skills", "workspace", "servers"} {
		if rest, ok := under(abs, "/"+tree); ok && (tree != "servers" || s.servers != nil) {
			rel, err := clean(rest)
			if err != nil {
				return place{}, &Error{Code: Invalid, Detail: err.Error()}
			}
			return place{tree, rel}, nil
		}
	}
	if abs == "/" {
		return place{rel: "."}, nil
	}
	detail := "there are only /skills (kept for the user) and /workspace (kept for the session)"
	if s.servers != nil {
		detail += ", and ./servers to read"
	}
	return place{}, &Error{Code: Denied, Detail: detail}
}

// under returns what follows dir in a clean absolute path.
func under(abs, dir string) (string, bool) {
	rest, ok := strings.CutPrefix(abs, dir)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// dir returns the Dir of a place that is in one.
func (s *Space) dir(p place) (*Dir, *Error) {
	switch p.tree {
	case "skills":
		return s.skills, nil
	case "workspace":
		return s.workspace, nil
	case "servers":
		return nil, &Error{Code: Denied, Detail: "./servers is made from the connected servers and cannot be changed"}
	}
	return nil, &Error{Code: Denied, Detail: "only /skills and /workspace can be written to"}
}

// ReadFile returns a whole file, of /skills, /workspace or ./servers. It fails for one of more than 8 MiB.
func (s *Space) ReadFile(ctx context.Context, p string) ([]byte, error) {
	data, err := s.read(ctx, p, 0, -1)
	if err != nil {
		return nil, hostError("open", p, err)
	}
	return data, nil
}

// Stat describes a file or directory; Path is its canonical absolute path.
func (s *Space) Stat(ctx context.Context, p string) (Entry, error) {
	e, err := s.stat(ctx, p)
	if err != nil {
		return Entry{}, hostError("stat", p, err)
	}
	return e, nil
}

func (s *Space) stat(ctx context.Context, p string) (Entry, error) {
	at, bad := s.route(p)
	if bad != nil {
		return Entry{}, bad
	}
	var e Entry
	var err error
	switch at.tree {
	case "":
		e = Entry{IsDir: true}
	case "servers":
		e, err = s.servers.Stat(ctx, at.rel)
		err = virtualError(err)
	default:
		d, _ := s.dir(at)
		e, err = d.Stat(at.rel)
	}
	e.Path = at.String()
	e.Name = path.Base(e.Path)
	return e, err
}

// read returns a part of a file; the whole if length is negative.
func (s *Space) read(ctx context.Context, p string, offset, length int64) ([]byte, error) {
	at, bad := s.route(p)
	switch {
	case bad != nil:
		return nil, bad
	case at.tree == "":
		return nil, &Error{Code: IsDirectory}
	case offset < 0:
		return nil, &Error{Code: Invalid, Detail: "the offset is negative"}
	}
	limit := int64(maxRead + 1)
	if length >= 0 {
		limit = min(length, limit)
	}
	data, err := s.fetch(ctx, at, offset, limit)
	if err == nil && len(data) > maxRead {
		e, err := s.stat(ctx, p)
		if err != nil {
			return nil, err
		}
		return nil, tooLarge(max(length, e.Size-offset))
	}
	return data, err
}

func (s *Space) fetch(ctx context.Context, at place, offset, length int64) ([]byte, error) {
	if at.tree != "servers" {
		d, _ := s.dir(at)
		return d.ReadFile(at.rel, offset, length)
	}
	data, err := s.servers.ReadFile(ctx, at.rel)
	if err != nil {
		return nil, virtualError(err)
	}
	data = data[min(offset, int64(len(data))):]
	return data[:min(length, int64(len(data)))], nil
}

func tooLarge(n int64) error {
	return &Error{Code: Invalid, Detail: fmt.Sprintf("%d bytes are more than the %d one read may return; "+
		"read a part at a time with {offset, length}", n, maxRead)}
}

func (s *Space) listPlace(ctx context.Context, at place, recursive bool) ([]Entry, error) {
	switch at.tree {
	case "":
		return s.listTop(ctx, recursive)
	case "servers":
		list, err := s.listServers(ctx, nil, at.rel, recursive)
		return list, virtualError(err)
	}
	d, _ := s.dir(at)
	list, err := d.ReadDir(ctx, at.rel, recursive)
	for i := range list {
		list[i].Path = place{at.tree, list[i].Path}.String()
	}
	return list, err
}

func (s *Space) listTop(ctx context.Context, recursive bool) ([]Entry, error) {
	var list []Entry
	for _, tree := range [...]string{"skills", "workspace"} {
		list = append(list, Entry{Name: tree, Path: "/" + tree, IsDir: true})
		if !recursive {
			continue
		}
		below, err := s.listPlace(ctx, place{tree, "."}, true)
		if err != nil {
			return nil, err
		}
		list = append(list, below...)
	}
	return list, nil
}

func (s *Space) listServers(ctx context.Context, list []Entry, dir string, recursive bool) ([]Entry, error) {
	entries, err := s.servers.ReadDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		rel := path.Join(dir, e.Name)
		e.Path = place{"servers", rel}.String()
		list = append(list, e)
		if recursive && e.IsDir {
			if list, err = s.listServers(ctx, list, rel, true); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// virtualError gives the errors of a Virtual their codes.
func virtualError(err error) error {
	var e *Error
	switch {
	case err == nil || errors.As(err, &e):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Code: NotFound, Detail: "list ./servers to see what exists"}
	}
	return &Error{Code: IO, Detail: err.Error()}
}
