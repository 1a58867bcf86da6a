package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	segment "github.com/segmentio/encoding/json"
	"go.yaml.in/yaml/v4"
)

// MaxDocument is the maximum size in bytes of a document.
const MaxDocument = 16 << 20

// Limits of a document's tree. The largest known documents have half a million values and nest 60 levels deep.
const (
	maxValues = 2_000_000
	maxDepth  = 256
	maxHops   = 32 // maximum length of a chain of references
)

type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	mapping
)

// node is one value of a document. Its methods work on nil, which stands for an absent value. In a YAML document a node can be in several places, and
// inside itself.
type node struct {
	kind    kind
	text    string // content of a text; JSON literal of a number or boolean
	items   []*node
	members []member
	byName  map[string]*node // index of a mapping with many members
}

type member struct {
	name  string
	value *node
}

// manyMembers is the number of members above which a mapping has an index.
const manyMembers = 8

func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	if n.byName != nil {
		return n.byName[name]
	}
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// str returns the text of a member, or "" if the member is not a text.
func (n *node) str(name string) string {
	if v := n.get(name); v != nil && v.kind == text {
		return v.text
	}
	return ""
}

func (n *node) is(name string) bool {
	v := n.get(name)
	return v != nil && v.kind == boolean && v.text == "true"
}

func (n *node) isMapping() bool { return n != nil && n.kind == mapping }

// list returns the elements of a member, or nil if the member is not a list.
func (n *node) list(name string) []*node {
	if v := n.get(name); v != nil {
		return v.items
	}
	return nil
}

// parse reads a document, JSON or YAML.
func parse(data []byte) (*node, error) {
	if len(data) > MaxDocument {
		return nil, fmt.Errorf("it has more than %d bytes", MaxDocument)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) {
		p := jsonParser{tokens: segment.NewTokenizer(trimmed)}
		p.tokens.Next()
		return p.value(0)
	}
	// The YAML library builds the whole tree before the values in it can be counted, so the number of values is estimated here.
	if n := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("[")) + bytes.Count(data, []byte("{")); n > maxValues/2 {
		return nil, errValues
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	if len(root.Content) == 0 {
		return nil, errors.New("it is empty")
	}
	p := yamlParser{made: map[*yaml.Node]*node{}}
	return p.value(root.Content[0], 0)
}

var (
	errValues = fmt.Errorf("it has more than %d values", maxValues)
	errDepth  = fmt.Errorf("it is nested more than %d levels deep", maxDepth)
)

// put adds a member. Of members with the same name, the first one counts.
func (n *node) put(name string, value *node) {
	if n.get(name) != nil {
		return
	}
	n.members = append(n.members, member{name, value})
	switch {
	case n.byName != nil:
		n.byName[name] = value
	case len(n.members) > manyMembers:
		n.byName = make(map[string]*node, 2*len(n.members))
		for _, m := range n.members {
			n.byName[m.name] = m.value
		}
	}
}

// jsonParser reads valid JSON. Its tokenizer is at the first token of a value.
type jsonParser struct {
	tokens *segment.Tokenizer
	values int
}

func (p *jsonParser) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	if p.values++; p.values > maxValues {
		return nil, errValues
	}
	t := p.tokens
	switch t.Delim {
	case '{':
		n := &node{kind: mapping}
		for t.Next() && t.Delim != '}' {
			if t.Delim == ',' {
				continue
			}
			name := string(t.String())
			t.Next() // the colon
			t.Next()
			v, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.put(name, v)
		}
		return n, nil
	case '[':
		n := &node{kind: list}
		for t.Next() && t.Delim != ']' {
			if t.Delim == ',' {
				continue
			}
			v, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
		return n, nil
	}
	switch v := t.Value; {
	case v.String():
		return &node{kind: text, text: strings.ToValidUTF8(string(t.String()), "\uFFFD")}, nil
	case v.Number():
		return &node{kind: number, text: string(v)}, nil
	case v.True(), v.False():
		return &node{kind: boolean, text: string(v)}, nil
	}
	return &node{}, nil
}

type yamlParser struct {
	made   map[*yaml.Node]*node // nodes that have an anchor, by their YAML nodes
	values int
}

func (p *yamlParser) value(y *yaml.Node, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	if p.values++; p.values > maxValues {
		return nil, errValues
	}
	if y.Kind == yaml.AliasNode {
		if n := p.made[y.Alias]; n != nil {
			return n, nil
		}
		return nil, fmt.Errorf("line %d: its alias stands before what it stands for", y.Line)
	}
	n := &node{}
	if y.Anchor != "" {
		p.made[y] = n
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.kind = mapping
		var merged []*node
		for i := 0; i+1 < len(y.Content); i += 2 {
			v, err := p.value(y.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			if key := y.Content[i]; key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
				merged = append(append(merged, v), v.items...)
			} else {
				n.put(key.Value, v)
			}
		}
		for _, of := range merged { // members of the mapping itself have priority over merged ones, and earlier merged mappings over later ones
			for _, m := range of.members {
				if n.get(m.name) == nil {
					if p.values++; p.values > maxValues {
						return nil, errValues
					}
					n.put(m.name, m.value)
				}
			}
		}
	case yaml.SequenceNode:
		n.kind = list
		for _, item := range y.Content {
			v, err := p.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
	default:
		n.scalar(y)
	}
	return n, nil
}

func (n *node) scalar(y *yaml.Node) {
	n.kind, n.text = text, strings.ToValidUTF8(y.Value, "\uFFFD")
	switch y.ShortTag() {
	case "!!null":
		n.kind, n.text = null, ""
	case "!!bool":
		var b bool
		if y.Decode(&b) == nil {
			n.kind, n.text = boolean, strconv.FormatBool(b)
		}
	case "!!int", "!!float":
		var f float64
		switch {
		case json.Valid([]byte(y.Value)):
			n.kind = number
		case y.Decode(&f) == nil && !math.IsInf(f, 0) && !math.IsNaN(f):
			n.kind, n.text = number, strconv.FormatFloat(f, 'g', -1, 64)
		}
	}
}

// appendJSON appends the node as JSON, and reports whether the JSON has at most limit bytes. The JSON of a node that contains itself exceeds every
// limit.
func (n *node) appendJSON(b []byte, limit int) ([]byte, bool) {
	if n == nil || limit < 4 {
		return b, false
	}
	end := len(b) + limit
	switch n.kind {
	case null:
		return append(b, "null"...), true
	case boolean, number:
		b = append(b, n.text...)
	case text:
		if len(n.text) > limit {
			return b, false
		}
		b = appendText(b, n.text)
	case list:
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			var ok bool
			if b, ok = item.appendJSON(b, end-len(b)-1); !ok {
				return b, false
			}
		}
		b = append(b, ']')
	case mapping:
		b = append(b, '{')
		for i, m := range n.members {
			if i > 0 {
				b = append(b, ',')
			}
			if len(m.name) > limit {
				return b, false
			}
			b = append(appendText(b, m.name), ':')
			var ok bool
			if b, ok = m.value.appendJSON(b, end-len(b)-1); !ok {
				return b, false
			}
		}
		b = append(b, '}')
	}
	return b, len(b) <= end
}

func appendText(b []byte, s string) []byte {
	raw, _ := json.Marshal(s) // a string can always be encoded
	return append(b, raw...)
}

// resolve follows the references of a node. It returns the node itself if it is not a reference, and nil if a reference leads to nothing in this
// document.
func (d *Document) resolve(n *node) *node {
	for range maxHops {
		ref := n.get("$ref")
		if ref == nil || ref.kind != text {
			return n
		}
		n = d.at(ref.text)
	}
	return nil
}

// at returns the node that a reference such as #/components/schemas/Pet leads to.
func (d *Document) at(ref string) *node {
	pointer, here := strings.CutPrefix(ref, "#")
	if !here {
		return nil
	}
	if unescaped, err := url.PathUnescape(pointer); err == nil {
		pointer = unescaped
	}
	if pointer == "" {
		return d.root
	}
	if pointer[0] != '/' {
		return nil
	}
	n := d.root
	for part := range strings.SplitSeq(pointer[1:], "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		if n != nil && n.kind == list {
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(n.items) {
				return nil
			}
			n = n.items[i]
			continue
		}
		n = n.get(part)
	}
	return n
}
