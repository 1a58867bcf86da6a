package files

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// Virtual is a read-only tree that is made on demand: ./servers, from the catalog, and the skills of other users. Paths are slash-separated and relative;
// "." is the top. Methods are safe for concurrent use. Their errors match fs.ErrNotExist if nothing has the path. The
// program sees the text of any other error.
type Virtual interface {
	// ReadDir lists a directory, sorted by name. Callers use only Name, IsDir and Size of an entry.
	ReadDir(ctx context.Context, path string) ([]Entry, error)
	// ReadFile returns a file's content. The caller must not change it.
	ReadFile(ctx context.Context, path string) ([]byte, error)
	// Stat describes a file or directory.
	Stat(ctx context.Context, path string) (Entry, error)
}

// Space is the view of the file system that one run has: /skills, /workspace and ./servers. It is safe for concurrent use; the caller
// orders the changes of a run.
type Space struct {
	// Keep returns the data to write into a file of /skills, which outlives the session; old is the file's present content. If Keep is nil, data is
	// written unchanged.
	Keep func(ctx context.Context, old, data []byte) ([]byte, error)

	// Shared has the skills of other users, in directories whose names begin with SharedPrefix; programs see them below /skills. It may be nil.
	Shared Virtual

	skills, workspace *Dir
	servers           Virtual // nil if no such tree exists
}

// SharedPrefix begins the names of the directories in /skills that have what other users share.
const SharedPrefix = "@"

// NewSpace makes the view of two directories and, if servers is not nil, the virtual tree. The caller closes the Dirs.
func NewSpace(skills, workspace *Dir, servers Virtual) *Space {
	return &Space{skills: skills, workspace: workspace, servers: servers}
}

// place is a file or directory that a program names: the tree and the path inside the tree.
type place struct {
	tree string // "" (the directory above the trees), skills, workspace, servers
	rel  string // path inside the tree
	dir  *Dir   // directory of skills or workspace; nil for what is made on demand
}

func (p place) String() string { return path.Join("/", p.tree, p.rel) }

// virtual returns the tree of a place that is made on demand; nil for any other place.
func (s *Space) virtual(at place) Virtual {
	switch {
	case at.dir != nil || at.tree == "":
		return nil
	case at.tree == "servers":
		return s.servers
	}
	return s.Shared
}

// home is the directory that contained /skills and /workspace in the original system's sandbox.
const home = "/home/sandboxuser"

// route returns the place of a path that a program wrote. Relative paths are below /workspace, except ./servers.
// route resolves ".." in the text before it looks anything up, which is correct because there are no links.
func (s *Space) route(p string) (place, error) {
	if err := checkGiven(p); err != nil {
		return place{}, err
	}
	switch {
	case p == "":
		return place{}, invalid("the path is empty")
	case !utf8.ValidString(p) || strings.ContainsRune(p, 0):
		return place{}, invalid("the path is not valid text")
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
			dir := map[string]*Dir{"skills": s.skills, "workspace": s.workspace}[tree]
			if tree == "skills" && s.Shared != nil && strings.HasPrefix(rel, SharedPrefix) {
				dir = nil
			}
			return place{tree, rel, dir}, err
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

// under returns the rest of a clean absolute path below dir.
func under(abs, dir string) (string, bool) {
	rest, ok := strings.CutPrefix(abs, dir)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// ReadFile returns a whole file of /skills, /workspace or ./servers. It fails for a file of more than 8 MiB.
func (s *Space) ReadFile(ctx context.Context, p string) ([]byte, error) {
	data, err := s.read(ctx, p, 0, -1)
	if err != nil {
		return nil, hostError("open", p, err)
	}
	return data, nil
}

// stat describes a file or directory. Path is the canonical absolute path.
func (s *Space) stat(ctx context.Context, p string) (Entry, error) {
	at, err := s.route(p)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	switch {
	case at.tree == "":
		e = Entry{IsDir: true}
	case s.virtual(at) != nil:
		e, err = s.virtual(at).Stat(ctx, at.rel)
		err = virtualError(err)
	default:
		e, err = at.dir.Stat(at.rel)
	}
	e.Path = at.String()
	e.Name = path.Base(e.Path)
	return e, err
}

// read returns a part of a file; all bytes from offset on if length is negative.
func (s *Space) read(ctx context.Context, p string, offset, length int64) ([]byte, error) {
	at, err := s.route(p)
	switch {
	case err != nil:
		return nil, err
	case at.tree == "":
		return nil, &Error{Code: IsDirectory}
	case offset < 0:
		return nil, invalid("the offset is negative")
	}
	limit := int64(MaxRead + 1)
	if length >= 0 {
		limit = min(length, limit)
	}
	data, err := s.fetch(ctx, at, offset, limit)
	if err == nil && len(data) > MaxRead {
		e, err := s.stat(ctx, p)
		if err != nil {
			return nil, err
		}
		return nil, invalid("%d bytes are more than the %d one read may return; read a part at a time with {offset, length}",
			max(length, e.Size-offset), MaxRead)
	}
	return data, err
}

func (s *Space) fetch(ctx context.Context, at place, offset, length int64) ([]byte, error) {
	if s.virtual(at) == nil {
		return at.dir.ReadFile(at.rel, offset, length)
	}
	data, err := s.virtual(at).ReadFile(ctx, at.rel)
	if err != nil {
		return nil, virtualError(err)
	}
	data = data[min(offset, int64(len(data))):]
	return data[:min(length, int64(len(data)))], nil
}

func (s *Space) listPlace(ctx context.Context, at place, recursive bool) ([]Entry, error) {
	switch {
	case at.tree == "":
		return s.listTop(ctx, recursive)
	case s.virtual(at) != nil:
		list, err := s.listVirtual(ctx, nil, at, recursive)
		return list, virtualError(err)
	}
	list, err := at.dir.ReadDir(ctx, at.rel, recursive)
	for i := range list {
		list[i].Path = path.Join("/", at.tree, list[i].Path)
	}
	if err == nil && at.tree == "skills" && at.rel == "." && s.Shared != nil {
		// The directories of other users are listed without their contents, because there can be many.
		shared, err := s.listVirtual(ctx, nil, place{at.tree, ".", nil}, false)
		return append(list, shared...), virtualError(err)
	}
	return list, err
}

func (s *Space) listTop(ctx context.Context, recursive bool) ([]Entry, error) {
	var list []Entry
	for _, at := range []place{{"skills", ".", s.skills}, {"workspace", ".", s.workspace}} {
		list = append(list, Entry{Name: at.tree, Path: at.String(), IsDir: true})
		if !recursive {
			continue
		}
		below, err := s.listPlace(ctx, at, true)
		if err != nil {
			return nil, err
		}
		list = append(list, below...)
	}
	return list, nil
}

// listVirtual appends the entries of a directory that is made on demand to list.
func (s *Space) listVirtual(ctx context.Context, list []Entry, at place, recursive bool) ([]Entry, error) {
	entries, err := s.virtual(at).ReadDir(ctx, at.rel)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		in := at
		in.rel = path.Join(at.rel, e.Name)
		e.Path = in.String()
		if list = append(list, e); len(list) > maxList {
			return nil, errLong
		}
		if recursive && e.IsDir {
			if list, err = s.listVirtual(ctx, list, in, true); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// virtualError returns the error of a Virtual as an Error with a code.
func virtualError(err error) error {
	_, coded := errors.AsType[*Error](err)
	switch {
	case err == nil || coded:
		return err
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Code: NotFound, Detail: "list ./servers to see what exists"}
	}
	return &Error{Code: IO, Detail: err.Error()}
}
