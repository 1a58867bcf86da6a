package files

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// list is the object that says what a directory in a bucket contains. A change of the directory replaces it under the condition that it is still the
// one that the change began with, so that changes of all processes happen one after another.
type list struct {
	Born    string           `json:"born"`    // ID of this life of the directory, which ends with its removal
	Seq     int64            `json:"seq"`     // number of the last change
	Changes []string         `json:"changes"` // IDs of the last changes, the newest last
	Swept   int64            `json:"swept"`   // Unix time of the last search for objects that nothing refers to
	Nodes   map[string]*node `json:"nodes"`   // files and directories by path, without the directory itself
}

// node is a file or directory. It is never changed, only replaced.
type node struct {
	Dir    bool    `json:"dir,omitempty"`
	Time   int64   `json:"time"`            // modification time in nanoseconds
	Given  int64   `json:"given,omitempty"` // number of bytes at the beginning that the owner wrote
	Chunks []chunk `json:"chunks,omitempty"`
}

// chunk is a part of a file: the first Size bytes of an object.
type chunk struct {
	ID   string `json:"id"`
	Size int64  `json:"size"`
}

const (
	maxChanges     = 64        // number of changes that a list remembers
	maxBucketFiles = 100_000   // maximum number of files and directories in a directory of a bucket, whatever the quota
	maxListObject  = 256 << 20 // maximum size of a list in bytes
)

func (n *node) size() (size int64) {
	for _, c := range n.Chunks {
		size += c.Size
	}
	return size
}

func (n *node) entry(p string) Entry {
	return Entry{Name: path.Base(p), Path: p, IsDir: n.Dir, Size: n.size(), ModTime: time.Unix(0, n.Time)}
}

// nodeInfo is a node as fs.FileInfo.
type nodeInfo struct {
	name string
	node *node
}

func (i nodeInfo) Name() string       { return i.name }
func (i nodeInfo) Size() int64        { return i.node.size() }
func (i nodeInfo) ModTime() time.Time { return time.Unix(0, i.node.Time) }
func (i nodeInfo) IsDir() bool        { return i.node.Dir }
func (i nodeInfo) Sys() any           { return nil }
func (i nodeInfo) Mode() fs.FileMode {
	if i.node.Dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// snapshot is a list as it was read or written last.
type snapshot struct {
	version string // version of the object; bucket.Absent if there is none
	list    list
	used    Usage
}

func (s *snapshot) encode() ([]byte, error) {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	if err := json.NewEncoder(w).Encode(s.list); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}

func decodeList(data []byte, version string) (*snapshot, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read the list of a directory: %w", err)
	}
	s := &snapshot{version: version}
	if err := json.NewDecoder(io.LimitReader(r, maxListObject)).Decode(&s.list); err != nil {
		return nil, fmt.Errorf("read the list of a directory: %w", err)
	}
	for _, n := range s.list.Nodes {
		s.used.Bytes += n.size()
		s.used.Files++
	}
	return s, nil
}

// lookup returns the node at a canonical path, and the names of the missing directories above it. The node is nil if there is none.
func (s *snapshot) lookup(p string) (n *node, missing []string, err error) {
	return lookup(s.list.Nodes, p)
}

// topNode stands for the directory itself.
var topNode = &node{Dir: true}

func lookup(nodes map[string]*node, p string) (n *node, missing []string, err error) {
	if p == "." {
		return topNode, nil, nil
	}
	for i := range p {
		if p[i] != '/' {
			continue
		}
		switch up := nodes[p[:i]]; {
		case up == nil:
			missing = append(missing, p[:i])
		case !up.Dir:
			return nil, nil, &Error{Code: NotDir}
		}
	}
	return nodes[p], missing, nil
}

// read lists a directory, and everything below it if recursive is true. It leaves out what programs could not name.
func (s *snapshot) read(list *listing, p string, recursive bool) error {
	prefix := ""
	if p != "." {
		prefix = p + "/"
	}
	found := map[string]string{} // paths by what they are sorted by: each directory comes before its content
	for at := range s.list.Nodes {
		rest, ok := strings.CutPrefix(at, prefix)
		if !ok || !recursive && strings.Contains(rest, "/") || isPart(path.Base(at)) || list.opts.reservedName(at) != nil {
			continue
		}
		found[strings.ReplaceAll(at, "/", "\x00")] = at
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		at := found[key]
		if err := list.add(s.list.Nodes[at].entry(at)); err != nil {
			return err
		}
	}
	return nil
}

// edit is a copy of a snapshot that a change works on.
type edit struct {
	snapshot
	limits  *Options
	now     int64
	changed bool
	refs    map[string]int // number of references to objects that the edit adds; negative if it removes them
}

func newEdit(s *snapshot, opts *Options, now time.Time) *edit {
	e := &edit{snapshot: *s, limits: opts, now: now.UnixNano(), refs: map[string]int{}}
	e.list.Nodes = maps.Clone(s.list.Nodes)
	if e.list.Nodes == nil {
		e.list.Nodes = map[string]*node{}
	}
	if e.list.Born == "" {
		e.list.Born, e.list.Swept = rand.Text(), now.Unix()
	}
	for p, n := range s.list.Nodes {
		if isPart(path.Base(p)) && now.Sub(time.Unix(0, n.Time)) > partAge {
			e.set(p, nil)
		}
	}
	e.changed = false // old parts alone are no reason to write the list
	return e
}

// set replaces the node at a path. If n is nil, it removes the node.
func (e *edit) set(p string, n *node) {
	e.changed = true
	if old := e.list.Nodes[p]; old != nil {
		e.used.Files--
		e.used.Bytes -= old.size()
		for _, c := range old.Chunks {
			e.refs[c.ID]--
		}
	}
	if n == nil {
		delete(e.list.Nodes, p)
		return
	}
	e.list.Nodes[p] = n
	e.used.Files++
	e.used.Bytes += n.size()
	for _, c := range n.Chunks {
		e.refs[c.ID]++
	}
}

func (e *edit) mkdirs(missing []string) {
	for _, p := range missing {
		e.set(p, &node{Dir: true, Time: e.now})
	}
}

// below returns the paths of everything below a directory.
func (e *edit) below(dir string) (all []string) {
	for p := range e.list.Nodes {
		if strings.HasPrefix(p, dir+"/") {
			all = append(all, p)
		}
	}
	return all
}

// room returns an Error with code ENOSPC if the given number of further bytes and files exceeds the quotas of the directory.
func (e *edit) room(bytes, files int64) error {
	if files > 0 && e.used.Files+files > maxBucketFiles {
		return noSpace("there are %d files and directories, as many as a bucket keeps for one owner; remove some", e.used.Files)
	}
	return full(e.limits, e.used, bytes, files)
}

// rename moves a file or directory.
func (e *edit) rename(from, to string) error {
	src, _, err := e.lookup(from)
	switch {
	case from == "." || to == ".":
		return errTop
	case err != nil:
		return err
	case src == nil:
		return &Error{Code: NotFound}
	case from == to:
		return nil
	case strings.HasPrefix(to, from+"/"):
		return invalid("a directory cannot be moved into itself")
	}
	if err := e.limits.reservedName(to); err != nil {
		return err
	}
	dst, missing, err := e.lookup(to)
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		return errNoParent
	case dst != nil && src.Dir && !dst.Dir:
		return &Error{Code: NotDir}
	case dst != nil && !src.Dir && dst.Dir:
		return &Error{Code: IsDirectory}
	case dst != nil && dst.Dir && len(e.below(to)) > 0:
		return &Error{Code: NotEmpty}
	}
	moved := []string{from}
	if src.Dir {
		moved = append(moved, e.below(from)...)
	}
	for _, p := range moved {
		at := to + p[len(from):]
		switch {
		case strings.Count(at, "/")+1 > maxDepth && strings.Count(at, "/") > strings.Count(p, "/"):
			return invalid("a path in the directory would be deeper than %d directories", maxDepth)
		case len(at) > maxPath && len(at) > len(p):
			return invalid("a path in the directory would be longer than %d bytes", maxPath)
		}
	}
	for _, p := range moved {
		n := e.list.Nodes[p]
		e.set(p, nil)
		e.set(to+p[len(from):], n)
	}
	return nil
}
