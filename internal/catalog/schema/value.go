// Package schema reads JSON Schema documents of any draft as ordered JSON. The order in which a server lists its
// properties determines the order of positional arguments and of declarations.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// Kind is the JSON type of a Value.
type Kind uint8

// The kinds of JSON values.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// Value is one JSON value. Its methods accept a nil receiver, which stands for an absent value, so that look-ups can be chained.
type Value struct {
	Kind    Kind
	Text    string // text of a string; literal of a Number, Bool or Null
	Items   []*Value
	Members []Member

	anchors map[string]*Value // values by the name of their anchor, the first one of each name; set only in the value that Parse returns
}

// Member is one property of an object, in document order.
type Member struct {
	Name  string
	Value *Value
}

// Bounds of a document. Schemas of real tools nest at most 40 levels deep; a bound is needed because all code that walks a Value is recursive.
const (
	maxDepth  = 256
	MaxValues = 20_000
)

// Parse reads one JSON document of at most MaxValues values. Of properties with the same name, the last value counts, at the place of the first.
func Parse(raw []byte) (*Value, error) {
	p := parser{dec: json.NewDecoder(bytes.NewReader(raw)), anchors: map[string]*Value{}}
	p.dec.UseNumber()
	v, err := p.value(0)
	if err != nil {
		return nil, fmt.Errorf("parse JSON schema: %w", err)
	}
	if _, err := p.dec.Token(); err != io.EOF {
		return nil, errors.New("parse JSON schema: text after the JSON value")
	}
	v.anchors = p.anchors
	return v, nil
}

type parser struct {
	dec     *json.Decoder
	values  int
	anchors map[string]*Value
}

func (p *parser) value(depth int) (*Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	if p.values++; p.values > MaxValues {
		return nil, fmt.Errorf("more than %d values", MaxValues)
	}
	tok, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case bool:
		return &Value{Kind: Bool, Text: strconv.FormatBool(tok)}, nil
	case json.Number:
		return &Value{Kind: Number, Text: tok.String()}, nil
	case string:
		return &Value{Kind: String, Text: tok}, nil
	case json.Delim:
		if tok == '[' {
			return p.array(depth)
		}
		return p.object(depth)
	}
	return &Value{Kind: Null, Text: "null"}, nil
}

func (p *parser) array(depth int) (*Value, error) {
	v := &Value{Kind: Array}
	for p.dec.More() {
		item, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		v.Items = append(v.Items, item)
	}
	_, err := p.dec.Token()
	return v, err
}

func (p *parser) object(depth int) (*Value, error) {
	v := &Value{Kind: Object}
	at := map[string]int{}
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := tok.(string)
		value, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		anchor, ok := value.String(), name == "$anchor" || name == "$dynamicAnchor"
		if name == "$id" || name == "id" {
			anchor, ok = strings.CutPrefix(anchor, "#")
		}
		if ok && p.anchors[anchor] == nil {
			p.anchors[anchor] = v
		}
		if i, ok := at[name]; ok {
			v.Members[i].Value = value
			continue
		}
		at[name] = len(v.Members)
		v.Members = append(v.Members, Member{name, value})
	}
	_, err := p.dec.Token()
	return v, err
}

// Get returns the value of an object's property, or nil if there is none.
func (v *Value) Get(name string) *Value {
	if v == nil {
		return nil
	}
	for _, m := range v.Members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// Is reports whether v is present and has the kind k.
func (v *Value) Is(k Kind) bool { return v != nil && v.Kind == k }

// IsFalse reports whether v is the boolean false.
func (v *Value) IsFalse() bool { return v.Is(Bool) && v.Text == "false" }

// IsTrue reports whether v is the boolean true.
func (v *Value) IsTrue() bool { return v.Is(Bool) && v.Text == "true" }

// String returns the text of a string, or "" for any other value.
func (v *Value) String() string {
	if v.Is(String) {
		return v.Text
	}
	return ""
}

// Strings returns the strings in v if v is an array, and a slice with its text if v is a string.
func (v *Value) Strings() []string {
	switch {
	case v.Is(String):
		return []string{v.Text}
	case v.Is(Array):
		var out []string
		for _, item := range v.Items {
			if item.Kind == String {
				out = append(out, item.Text)
			}
		}
		return out
	}
	return nil
}

// Int returns the value of a non-negative integer.
func (v *Value) Int() (int, bool) {
	if !v.Is(Number) {
		return 0, false
	}
	n, err := strconv.Atoi(v.Text)
	return n, err == nil && n >= 0
}

// JSON returns the value as compact JSON text.
func (v *Value) JSON() string {
	if v == nil {
		return "null"
	}
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v *Value) write(b *strings.Builder) {
	switch v.Kind {
	case String:
		b.WriteString(ident.Quote(v.Text))
	case Array:
		b.WriteByte('[')
		for i, item := range v.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	case Object:
		b.WriteByte('{')
		for i, m := range v.Members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(ident.Quote(m.Name))
			b.WriteByte(':')
			m.Value.write(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString(v.Text)
	}
}

// Resolve returns the value that a $ref within a document refers to: "#", "#/$defs/X", "#anchor". v must be a result of Parse. Resolve returns nil
// for a $ref to another document or to nothing.
func (v *Value) Resolve(ref string) *Value {
	escaped, ok := strings.CutPrefix(ref, "#")
	fragment, err := url.PathUnescape(escaped)
	switch {
	case v == nil || !ok || err != nil:
		return nil
	case fragment != "" && fragment[0] != '/':
		return v.anchors[fragment]
	}
	return v.Pointer(fragment)
}

// Pointer returns the value at a JSON pointer (RFC 6901), or nil if there is none.
func (v *Value) Pointer(pointer string) *Value {
	if pointer == "" {
		return v
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		part = unescape.Replace(part)
		switch {
		case v.Is(Object):
			v = v.Get(part)
		case v.Is(Array):
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v.Items) {
				return nil
			}
			v = v.Items[i]
		default:
			return nil
		}
	}
	return v
}

// Follow resolves a chain of $refs in the document root, and returns the first schema without a $ref. It returns nil for a
// chain that refers to nothing or is too long, such as a cycle.
func Follow(root, v *Value) *Value {
	for range 64 {
		ref := v.Get("$ref")
		if !ref.Is(String) {
			return v
		}
		v = root.Resolve(ref.Text)
	}
	return nil
}
