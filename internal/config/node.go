package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// node is a value from a file, a variable or a flag, before its type is known.
type node struct {
	position
	kind  kind
	text  string   // text of a scalar or an empty node, as written
	list  []node   // items of a list
	keys  []field  // entries of a mapping, in order, each name once
	end   position // closing brace of a mapping in braces
	alias bool     // the node is an alias; its text is elsewhere
	yaml  bool     // the node was read as YAML
}

func (n node) inBraces() bool { return n.end.line > 0 }

type kind int

const (
	null kind = iota
	scalar
	list
	mapping
)

func (k kind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a mapping"}[k]
}

type field struct {
	name     string
	position // position of the name
	value    node
	merged   bool // the entry came from a merge key (<<)
}

func (n node) get(name string) (f field, ok bool) {
	i := slices.IndexFunc(n.keys, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return n.keys[i], true
}

func (n node) names() (names []string) {
	for _, f := range n.keys {
		names = append(names, f.name)
	}
	return names
}

// add appends a member to a mapping; an empty node becomes a mapping.
func (n *node) add(name string, value node) {
	if n.kind == null {
		n.kind, n.position = mapping, value.position
	}
	n.keys = append(n.keys, field{name: name, position: value.position, value: value})
}

// items returns the elements of a list. A scalar in YAML is one element; the text of a variable or flag is split at its commas.
func (n node) items() []node {
	switch {
	case n.kind == list:
		return n.list
	case n.yaml:
		return []node{n}
	}
	var items []node
	for text := range strings.SplitSeq(n.text, ",") {
		items = append(items, node{position: n.position, kind: scalar, text: strings.TrimSpace(text)})
	}
	return items
}

// texts returns the texts of the items.
func (n node) texts() (texts []string) {
	for _, item := range n.items() {
		texts = append(texts, item.text)
	}
	return texts
}

// plain returns n without positions: nil, a string, a list or a map.
func (n node) plain() any {
	switch n.kind {
	case scalar:
		return n.text
	case list:
		items := []any{}
		for _, item := range n.list {
			items = append(items, item.plain())
		}
		return items
	case mapping:
		members := map[string]any{}
		for _, f := range n.keys {
			members[f.name] = f.value.plain()
		}
		return members
	}
	return nil
}

const bom = "\ufeff" // byte order mark

// maxAliases limits the number of nodes that the aliases of a file expand to.
const maxAliases = 10_000

// parse reads YAML (and so JSON). at.line is 0 for the value of a variable, because a line and a column mean nothing there.
func parse(text []byte, at position) (_ node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = at.errorf("", "", "this is not valid YAML")
		}
	}()
	// The parser counts a line with a CRLF ending twice if it ends in a comment.
	unix := strings.ReplaceAll(strings.TrimPrefix(string(text), bom), "\r\n", "\n")
	file, err := parser.ParseBytes([]byte(unix), 0)
	if err != nil {
		return node{}, syntaxError(err, at)
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.DirectiveType {
			bodies = append(bodies, doc.Body)
		}
	}
	r := reader{at: at, anchors: map[string]ast.Node{}}
	switch len(bodies) {
	case 0:
		return node{position: at}, nil
	case 1:
		return r.read(bodies[0])
	}
	return node{}, at.at(bodies[1].GetToken()).errorf("", "keep one", "the file holds more than one YAML document")
}

func syntaxError(err error, at position) error {
	e, ok := errors.AsType[yaml.Error](err)
	if !ok || e.GetToken() == nil {
		return at.errorf("", "", "this is not valid YAML")
	}
	at = at.at(e.GetToken())
	message := e.GetMessage()
	if name, ok := strings.CutPrefix(message, "mapping key "); ok {
		name, _, _ = strings.Cut(name, " ")
		return at.errorf("", "remove one of them", "the key %s is given twice", name)
	}
	return at.errorf("", "", "this is not valid YAML: %s", message)
}

// reader converts the parser's tree to nodes and resolves anchors, aliases and merge keys.
type reader struct {
	at      position
	anchors map[string]ast.Node
	aliases int // number of nodes read so far through aliases
	inside  int // nesting depth of aliases
}

func (r *reader) read(n ast.Node) (node, error) {
	if r.inside > 0 {
		if r.aliases++; r.aliases > maxAliases {
			return node{}, r.at.at(n.GetToken()).errorf("", "", "the aliases of the file expand to too much")
		}
	}
	out := node{position: r.at.at(n.GetToken()), yaml: true}
	switch n := n.(type) {
	case *ast.NullNode:
		out.text = n.GetToken().Value
	case *ast.AnchorNode:
		r.anchors[n.Name.GetToken().Value] = n.Value
		return r.read(n.Value)
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		target, ok := r.anchors[name]
		if !ok {
			return node{}, out.errorf("", "define it with &"+name+" before", "the alias *%s is not defined", name)
		}
		r.inside++
		defer func() { r.inside-- }()
		value, err := r.read(target)
		value.position, value.alias = out.position, true
		return value, err
	case *ast.TagNode:
		return r.read(n.Value)
	case *ast.LiteralNode:
		out.kind, out.text = scalar, n.Value.Value
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
	case *ast.SequenceNode:
		out.kind = list
		for _, v := range n.Values {
			item, err := r.read(v)
			if err != nil {
				return node{}, err
			}
			out.list = append(out.list, item)
		}
	case *ast.MappingNode:
		if n.IsFlowStyle {
			out.end = r.at.at(n.End)
		}
		return r.mapping(out, n.Values)
	case *ast.MappingValueNode:
		return r.mapping(out, []*ast.MappingValueNode{n})
	case ast.ScalarNode:
		out.kind, out.text = scalar, n.GetToken().Value
	default:
		return node{}, out.errorf("", "", "%s is not supported here", n.Type())
	}
	return out, nil
}

func (r *reader) mapping(out node, values []*ast.MappingValueNode) (node, error) {
	out.kind = mapping
	var merged []field
	for i, v := range values {
		at := r.at.at(v.Key.GetToken())
		if i == 0 && out.line > 0 { // the parser gives a mapping the position of its first colon
			out.position = at
		}
		value, err := r.read(v.Value)
		if err != nil {
			return node{}, err
		}
		if !v.Key.IsMergeKey() {
			name := v.Key.GetToken().Value
			if k, ok := v.Key.(*ast.MappingKeyNode); ok {
				name = k.Value.GetToken().Value
			}
			out.keys = append(out.keys, field{name: name, position: at, value: value})
			continue
		}
		sources := []node{value}
		if value.kind == list {
			sources = value.list
		}
		for _, s := range sources {
			if s.kind != mapping {
				return node{}, at.errorf("", "", "<< needs a mapping, not %s", s.kind)
			}
			merged = append(merged, s.keys...)
		}
	}
	for _, f := range merged { // the mapping's own keys take precedence, then the merged keys in their order
		if _, ok := out.get(f.name); !ok {
			f.merged = true
			out.keys = append(out.keys, f)
		}
	}
	return out, nil
}
