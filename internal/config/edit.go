package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// AddServer writes a server into the configuration file at path, which is created if it does not exist. The values
// are those of the file: ${VAR} stays as it is, and a literal $ before { or $ is written $$. Name and what differs
// from the defaults are written. Every other byte of the file stays, comments included, and so does the mode, but that a
// file all can read becomes its owner's alone if the server has an env or headers. A server of the same name is an error matching fs.ErrExist, unless replace is set.
func AddServer(path string, s *MCPServer, replace bool) error {
	fail := func(err error) error { return fmt.Errorf("add server %q to %s: %w", s.Name, path, err) }
	entry, err := entryNode(s)
	if err != nil {
		return fail(err)
	}
	d, err := openDocument(path)
	if err != nil {
		return fail(err)
	}
	if len(s.Env)+len(s.Headers) > 0 && d.mode&0o007 != 0 {
		d.mode &= 0o700
	}
	existing, ok := d.entry(s.Name)
	switch {
	case ok && !replace:
		return fail(fmt.Errorf("it has a server of this name (%w); use --replace, or another name", fs.ErrExist))
	case ok:
		d.replace(existing, s)
	default:
		for _, f := range d.entries() {
			if sameName(f.name, s.Name) {
				return fail(fmt.Errorf("programs cannot tell it from %q: case, - and _ do not count; use another name", f.name))
			}
		}
		err = d.add(s)
	}
	if err == nil {
		err = d.verify(s.Name, &entry)
	}
	if err != nil {
		return fail(fmt.Errorf("%w; add this below mcpServers by hand:\n%s", err, blockEntry(s, "  ", "\n")))
	}
	if err := d.save(); err != nil {
		return fail(err)
	}
	return nil
}

// RemoveServer takes a server out of the configuration file at path. Comments around it stay. The error for one that
// is not in it matches fs.ErrNotExist.
func RemoveServer(path, name string) error {
	fail := func(err error) error { return fmt.Errorf("remove server %q from %s: %w", name, path, err) }
	d, err := openDocument(path)
	if err != nil {
		return fail(err)
	}
	existing, ok := d.entry(name)
	if !ok {
		var names []string
		for _, f := range d.entries() {
			names = append(names, f.name)
		}
		if len(names) == 0 {
			return fail(fmt.Errorf("%w: it has no servers", fs.ErrNotExist))
		}
		return fail(fmt.Errorf("%w: its servers are %s", fs.ErrNotExist, strings.Join(names, ", ")))
	}
	d.remove(existing)
	if err := d.verify(name, nil); err != nil {
		return fail(fmt.Errorf("%w; remove it by hand", err))
	}
	if err := d.save(); err != nil {
		return fail(err)
	}
	return nil
}

func sameName(a, b string) bool {
	return fold(strings.ReplaceAll(a, "-", "_")) == fold(strings.ReplaceAll(b, "-", "_"))
}

// entryNode renders a server, reads it back and checks it as Load would.
func entryNode(s *MCPServer) (node, error) {
	n, err := parse([]byte(flowEntry(s)), position{source: "the server"})
	if err != nil {
		return node{}, err
	}
	if n.kind == null {
		n.kind = mapping
	}
	l := &loader{config: &Config{}, positions: map[string]position{}, expanded: map[string]bool{}}
	l.addServer(s.Name, serverSource{field: field{s.Name, n.position, n}})
	return n, errors.Join(l.problems...)
}

// document is a configuration file being edited.
type document struct {
	path    string // of the file itself, links resolved
	mode    fs.FileMode
	bom     string
	text    string // as it is now
	newline string
	before  node // as it was read

	root    *ast.MappingNode      // nil in an empty file
	servers *ast.MappingValueNode // mcpServers; nil if there is none
}

func openDocument(path string) (*document, error) {
	d := &document{path: path, mode: 0o600, newline: "\n"}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		d.path = real
	}
	data, err := os.ReadFile(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // to be created
	case err != nil:
		return nil, errors.New(reason(err))
	default:
		info, err := os.Stat(d.path)
		if err != nil {
			return nil, errors.New(reason(err))
		}
		d.mode = info.Mode().Perm()
	}
	d.text = string(data)
	if rest, ok := strings.CutPrefix(d.text, "\ufeff"); ok {
		d.bom, d.text = "\ufeff", rest
	}
	if strings.Contains(d.text, "\r\n") {
		d.newline = "\r\n"
	}
	if d.before, err = parse([]byte(d.text), position{source: path, line: 1, column: 1}); err != nil {
		return nil, err
	}
	return d, d.layout()
}

var errByHand = errors.New("the file is written in a way that cannot be edited safely")

// layout finds the mapping of servers in the parser's tree.
func (d *document) layout() error {
	file, err := parser.ParseBytes(unixLines(d.text), 0)
	if err != nil {
		return err
	}
	for _, doc := range file.Docs {
		switch body := doc.Body.(type) {
		case nil, *ast.DirectiveNode, *ast.CommentGroupNode, *ast.NullNode:
		case *ast.MappingNode:
			d.root = body
		default:
			return errByHand
		}
	}
	if d.root == nil {
		return nil
	}
	for _, v := range d.root.Values {
		if keyName(v.Key) == "mcpServers" {
			d.servers = v
		}
	}
	return nil
}

// mapping returns the servers' mapping; nil if it is absent, empty or of another kind.
func (d *document) mapping() *ast.MappingNode {
	if d.servers == nil {
		return nil
	}
	m, _ := d.servers.Value.(*ast.MappingNode)
	return m
}

// entries lists the servers of the file as it was read.
func (d *document) entries() []field {
	f, _ := d.before.get("mcpServers")
	return f.value.keys
}

// entry finds a server that stands in the mapping itself, not in one that is merged into it.
func (d *document) entry(name string) (*ast.MappingValueNode, bool) {
	m := d.mapping()
	if m == nil {
		return nil, false
	}
	for _, v := range m.Values {
		if !v.Key.IsMergeKey() && keyName(v.Key) == name {
			return v, true
		}
	}
	return nil, false
}

// verify reads the edited text: the server of the name must be the entry, or absent, and everything else as before.
func (d *document) verify(name string, entry *node) error {
	edited, err := parse([]byte(d.text), position{source: d.path, line: 1, column: 1})
	if err != nil {
		return errByHand
	}
	got, want := members(edited), members(d.before)
	gotServers, wantServers := members(got["mcpServers"]), members(want["mcpServers"])
	delete(got, "mcpServers")
	delete(want, "mcpServers")
	delete(wantServers, name)
	if entry != nil {
		wantServers[name] = *entry
	}
	if !maps.EqualFunc(got, want, equal) || !maps.EqualFunc(gotServers, wantServers, equal) {
		return errByHand
	}
	return nil
}

// equal compares two nodes without their positions; the order of keys does not count.
func equal(a, b node) bool {
	return a.kind == b.kind && a.text == b.text && slices.EqualFunc(a.list, b.list, equal) && maps.EqualFunc(members(a), members(b), equal)
}

// members are the values of a mapping by name; none of any other node.
func members(n node) map[string]node {
	values := make(map[string]node, len(n.keys))
	for _, f := range n.keys {
		values[f.name] = f.value
	}
	return values
}

func (d *document) save() error { return writeAtomic(d.path, []byte(d.bom+d.text), d.mode) }

// writeAtomic replaces a file in one step: a crash leaves the old one or the new one.
func writeAtomic(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
