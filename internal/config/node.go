package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// node is a value of the configuration before its type is known, from a file, a variable or a flag.
type node struct {
	position
	kind kind
	text string  // of a scalar
	list []node  // of a list
	keys []field // of a mapping, in order, each name once
}

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

// field is one key of a mapping.
type field struct {
	name     string
	position // of the name
	value    node
}

// position is where a value is written.
type position struct {
	source string // path of the file, "environment variable X", ...
	line   int    // 0 outside of files
	column int
	weight int // of two values for a key the heavier one counts, of equal ones the later
}

func (p position) String() string {
	if p.line == 0 {
		return p.source
	}
	return fmt.Sprintf("%s:%d:%d", p.source, p.line, p.column)
}

// origin is the position as Entry shows it.
func (p position) origin() string {
	switch {
	case p.source == "":
		return "default"
	case p.line > 0:
		return fmt.Sprintf("%s:%d", p.source, p.line)
	}
	return strings.Replace(strings.Replace(p.source, "environment variable ", "env ", 1), ".env variable ", ".env ", 1)
}

func (p position) errorf(key, hint, format string, args ...any) *Error {
	return &Error{Source: p.source, Line: p.line, Column: p.column, Key: key, Problem: fmt.Sprintf(format, args...), Hint: hint}
}

func (n node) get(name string) (field, bool) {
	for _, f := range n.keys {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// maxAliases bounds what the aliases of a file may grow to.
const maxAliases = 10_000

// parse reads YAML (and so JSON). at.line is 0 for the value of a variable, whose inner positions mean nothing.
func parse(text []byte, at position) (_ node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = at.errorf("", "", "this is not valid YAML")
		}
	}()
	file, err := parser.ParseBytes(unixLines(strings.TrimPrefix(string(text), "\ufeff")), 0)
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
	return node{}, r.at.at(bodies[1].GetToken()).errorf("", "keep one", "the file holds more than one YAML document")
}

// unixLines replaces the line ends of Windows: the parser counts such a line twice if it ends in a comment.
func unixLines(text string) []byte { return []byte(strings.ReplaceAll(text, "\r\n", "\n")) }

func syntaxError(err error, at position) error {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
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

// at returns the position of a token, if p is in a file.
func (p position) at(t *token.Token) position {
	if p.line > 0 && t != nil && t.Position != nil {
		p.line, p.column = t.Position.Line, t.Position.Column
	}
	return p
}

// reader turns the parser's tree into nodes, with anchors, aliases and merge keys resolved.
type reader struct {
	at      position
	anchors map[string]ast.Node
	aliases int // nodes read so far on behalf of aliases
	inside  int // depth of aliases
}

func (r *reader) read(n ast.Node) (node, error) {
	if r.inside > 0 {
		if r.aliases++; r.aliases > maxAliases {
			return node{}, r.at.at(n.GetToken()).errorf("", "", "the aliases of the file expand to too much")
		}
	}
	out := node{position: r.at.at(n.GetToken())}
	switch n := n.(type) {
	case *ast.NullNode:
		return out, nil
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
		value.position = out.position
		return value, err
	case *ast.TagNode:
		return r.read(n.Value)
	case *ast.LiteralNode:
		out.kind, out.text = scalar, n.Value.Value
		return out, nil
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
		return out, nil
	case *ast.SequenceNode:
		out.kind = list
		for _, v := range n.Values {
			item, err := r.read(v)
			if err != nil {
				return node{}, err
			}
			out.list = append(out.list, item)
		}
		return out, nil
	case *ast.MappingNode:
		return r.mapping(out, n.Values)
	case *ast.MappingValueNode:
		return r.mapping(out, []*ast.MappingValueNode{n})
	case ast.ScalarNode:
		out.kind, out.text = scalar, n.GetToken().Value
		return out, nil
	}
	return node{}, out.errorf("", "", "%s is not supported here", n.Type())
}

func (r *reader) mapping(out node, values []*ast.MappingValueNode) (node, error) {
	out.kind = mapping
	var merged []field
	for i, v := range values {
		at := r.at.at(v.Key.GetToken())
		if i == 0 && out.line > 0 { // the parser gives the position of the first colon
			out.position = at
		}
		value, err := r.read(v.Value)
		if err != nil {
			return node{}, err
		}
		if !v.Key.IsMergeKey() {
			out.keys = append(out.keys, field{keyName(v.Key), at, value})
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
	for _, f := range merged { // own keys win, then the first merged one
		if _, ok := out.get(f.name); !ok {
			out.keys = append(out.keys, f)
		}
	}
	return out, nil
}

func keyName(key ast.MapKeyNode) string {
	if k, ok := key.(*ast.MappingKeyNode); ok {
		return k.Value.GetToken().Value
	}
	return key.GetToken().Value
}
