package skills

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/versions"
)

// Shared returns the skills of other users as a user's programs read them, by paths such as "@bob/pdf/SKILL.md". Each read looks in the store whether the
// skill is still shared with the user, so that the end of a share takes effect at the next read.
func (s *Store) Shared(user string) files.Virtual { return &sharedTree{s, user} }

type sharedTree struct {
	s    *Store
	user string
}

var _ files.Virtual = (*sharedTree)(nil)

var errNotShared = &files.Error{Code: files.NotFound, Detail: "no such skill of another user is shared with you; list /skills to see whose are"}

// within returns the skill of another user that a path is in, and the rest of the path. If no skill has the path, o is nil, and others are the skills whose
// paths begin with it.
func (t *sharedTree) within(ctx context.Context, p string) (o *Other, rest string, others []Other, err error) {
	owner, inside, _ := strings.Cut(strings.TrimPrefix(p, files.SharedPrefix), "/")
	all, err := t.s.of(ctx, t.user, owner)
	if err != nil {
		return nil, "", nil, err
	}
	for i := range all { // The innermost usable skill wins.
		k := &all[i]
		below, ok := strings.CutPrefix(inside+"/", k.Name+"/")
		if inside == "" {
			ok = false
		}
		switch {
		case ok && (o == nil || k.use() > 0 || o.use() == 0):
			o, rest = k, strings.TrimSuffix(below, "/")
		case inside == "" || strings.HasPrefix(k.Name, inside+"/"):
			others = append(others, *k)
		}
	}
	if o == nil && len(others) == 0 {
		return nil, "", nil, errNotShared
	}
	return o, rest, others, nil
}

// ReadDir implements files.Virtual. It leaves out skills that programs may not use.
func (t *sharedTree) ReadDir(ctx context.Context, p string) ([]files.Entry, error) {
	found := map[string]files.Entry{}
	if p == "." {
		all, err := t.s.Others(ctx, t.user, "")
		for _, o := range all {
			if name := files.SharedPrefix + ownerName(o.Owner); o.use() > 0 {
				found[name] = files.Entry{Name: name, IsDir: true}
			}
		}
		return sorted(found), err
	}
	o, rest, others, err := t.within(ctx, p)
	if err != nil {
		return nil, err
	}
	if o != nil {
		c, err := t.s.used(ctx, o)
		if err != nil {
			return nil, err
		}
		if _, isFile, ok := c.at(o.Name, rest); !ok {
			return nil, errNoFile
		} else if isFile {
			return nil, &files.Error{Code: files.NotDir}
		}
		for file, data := range c {
			below, ok := strings.CutPrefix(file, strings.TrimPrefix(rest+"/", "/"))
			if name, _, isDir := strings.Cut(below, "/"); ok && isDir {
				found[name] = files.Entry{Name: name, IsDir: true}
			} else if ok {
				found[name] = files.Entry{Name: name, Size: int64(len(data))}
			}
		}
		return sorted(found), nil
	}
	_, inside, _ := strings.Cut(p, "/")
	for i := range others {
		name, more, isDir := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(others[i].Name, inside), "/"), "/")
		if others[i].use() == 0 {
			continue
		}
		e := files.Entry{Name: name, IsDir: isDir || more != ""}
		if !e.IsDir {
			c, err := t.s.used(ctx, &others[i])
			if err != nil {
				return nil, err
			}
			if data, isFile, _ := c.at(others[i].Name, ""); isFile {
				e.Size = int64(len(data))
			} else {
				e.IsDir = true
			}
		}
		found[name] = e
	}
	return sorted(found), nil
}

var errNoFile = &files.Error{Code: files.NotFound, Detail: "the skill has no such file"}

func sorted(found map[string]files.Entry) (all []files.Entry) {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[name])
	}
	return all
}

// at looks for a path inside a skill with a name: a file with its data, or a directory. A module is a file itself.
func (c Content) at(name, rest string) (data []byte, isFile, ok bool) {
	if c[manifest] == nil && isModule(name) {
		return c[path.Base(name)], true, rest == ""
	}
	if data, ok := c[rest]; ok {
		return data, true, true
	}
	for file := range c {
		if rest == "" || strings.HasPrefix(file, rest+"/") {
			return nil, false, true
		}
	}
	return nil, false, false
}

// ReadFile implements files.Virtual.
func (t *sharedTree) ReadFile(ctx context.Context, p string) ([]byte, error) {
	o, rest, _, err := t.within(ctx, p)
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, &files.Error{Code: files.IsDirectory}
	}
	c, err := t.s.used(ctx, o)
	if err != nil {
		return nil, err
	}
	switch data, isFile, ok := c.at(o.Name, rest); {
	case !ok:
		return nil, errNoFile
	case !isFile:
		return nil, &files.Error{Code: files.IsDirectory}
	default:
		return data, nil
	}
}

// Stat implements files.Virtual.
func (t *sharedTree) Stat(ctx context.Context, p string) (files.Entry, error) {
	e := files.Entry{Name: path.Base(p)}
	data, err := t.ReadFile(ctx, p)
	var failed *files.Error
	if errors.As(err, &failed) && failed.Code == files.IsDirectory {
		e.IsDir, err = true, nil
	}
	e.Size = int64(len(data))
	return e, err
}

// Bounds of the contents of shared skills in memory.
const (
	maxCached      = 500
	maxCachedBytes = 32 << 20
)

// contents are contents of skills in memory, by digest. They are safe for concurrent use.
type contents struct {
	mu    sync.Mutex
	all   map[string]Content
	bytes int
}

// get returns the content with a digest, which read reads if it is not in memory. The caller may not change it.
func (m *contents) get(digest string, read func() (Content, error)) (Content, error) {
	m.mu.Lock()
	c := m.all[digest]
	m.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := read()
	if errors.Is(err, versions.ErrNotFound) { // The owner has deleted it meanwhile.
		return nil, errNotShared
	}
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]Content{}
	}
	if m.all[digest] == nil {
		m.all[digest] = c
		m.bytes += c.size()
	}
	for other, old := range m.all { // any of the others makes room
		if len(m.all) <= maxCached && m.bytes <= maxCachedBytes {
			break
		}
		if other != digest {
			delete(m.all, other)
			m.bytes -= old.size()
		}
	}
	return c, nil
}

func (c Content) size() (bytes int) {
	for _, data := range c {
		bytes += len(data)
	}
	return bytes
}
