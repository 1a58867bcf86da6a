// Package schema reads JSON Schema documents of any draft as ordered JSON: the order in which a server lists its
// properties is the order in which positional arguments fill them and in which they are declared.
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

// Value is one JSON value. Its methods work on nil, which stands for an absent value, so that look-ups chain.
type Value struct {
	Kind    Kind
	True    bool   // Bool
	Text    string // String: the text; Number: the literal
	Items   []*Value
	Members []Member
}

// Member is one property of an object, in document order.
type Member struct {
	Name  string
	Value *Value
}

// maxDepth bounds the recursion of everything that walks a Value; no schema of a real tool nests deeper than 40.
const maxDepth = 256

var errTooDeep = errors.New("nested more than 256 levels deep")

// Parse reads one JSON document. Of duplicate names the last value counts, at the place of the first.
func Parse(raw []byte) (*Value, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := parse(dec, 0)
	if err != nil {
		return nil, fmt.Errorf("parse JSON schema: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("parse JSON schema: text after the JSON value")
	}
	return v, nil
}

func parse(dec *json.Decoder, depth int) (*Value, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case bool:
		return &Value{Kind: Bool, True: tok}, nil
	case json.Number:
		return &Value{Kind: Number, Text: tok.String()}, nil
	case string:
		return &Value{Kind: String, Text: tok}, nil
	case json.Delim:
		if tok == '[' {
			return parseArray(dec, depth)
		}
		return parseObject(dec, depth)
	}
	return &Value{Kind: Null}, nil
}

func parseArray(dec *json.Decoder, depth int) (*Value, error) {
	v := &Value{Kind: Array}
	for dec.More() {
		item, err := parse(dec, depth+1)
		if err != nil {
			return nil, err
		}
		v.Items = append(v.Items, item)
	}
	_, err := dec.Token()
	return v, err
}

func parseObject(dec *json.Decoder, depth int) (*Value, error) {
	v := &Value{Kind: Object}
	at := map[string]int{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := tok.(string)
		value, err := parse(dec, depth+1)
		if err != nil {
			return nil, err
		}
		if i, ok := at[name]; ok {
			v.Members[i].Value = value
			continue
		}
		at[name] = len(v.Members)
		v.Members = append(v.Members, Member{name, value})
	}
	_, err := dec.Token()
	return v, err
}

// Get is the value of an object's property, nil if there is none.
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

// Is reports whether v is present and of the kind.
func (v *Value) Is(k Kind) bool { return v != nil && v.Kind == k }

// IsFalse reports whether v is the boolean false.
func (v *Value) IsFalse() bool { return v.Is(Bool) && !v.True }

// IsTrue reports whether v is the boolean true.
func (v *Value) IsTrue() bool { return v.Is(Bool) && v.True }

// String is the text of a string and empty for everything else.
func (v *Value) String() string {
	if v.Is(String) {
		return v.Text
	}
	return ""
}

// Strings are the strings of an array, or the one string.
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

// Int is the value of a non-negative integer.
func (v *Value) Int() (int, bool) {
	if !v.Is(Number) {
		return 0, false
	}
	n, err := strconv.Atoi(v.Text)
	return n, err == nil && n >= 0
}

// Count is the number of values in the document, at most limit+1.
func (v *Value) Count(limit int) int {
	if v == nil {
		return 0
	}
	n := 1
	for _, item := range v.Items {
		if n > limit {
			return n
		}
		n += item.Count(limit - n)
	}
	for _, m := range v.Members {
		if n > limit {
			return n
		}
		n += m.Value.Count(limit - n)
	}
	return n
}

// JSON is the value as compact JSON text.
func (v *Value) JSON() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v *Value) write(b *strings.Builder) {
	switch {
	case v == nil || v.Kind == Null:
		b.WriteString("null")
	case v.Kind == Bool:
		b.WriteString(strconv.FormatBool(v.True))
	case v.Kind == Number:
		b.WriteString(v.Text)
	case v.Kind == String:
		b.WriteString(Quote(v.Text))
	case v.Kind == Array:
		b.WriteByte('[')
		for i, item := range v.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	default:
		b.WriteByte('{')
		for i, m := range v.Members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(Quote(m.Name))
			b.WriteByte(':')
			m.Value.write(b)
		}
		b.WriteByte('}')
	}
}

// Quote is s as a JSON string, which is also a TypeScript string literal. Unlike json.Marshal it leaves <, > and & alone.
func Quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""` // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Resolve finds what a $ref within this document refers to: "#", "#/$defs/X", "#anchor". It returns nil for anything
// that leads out of the document or nowhere. To resolve many anchors, call [Value.Anchors] once.
func (v *Value) Resolve(ref string) *Value {
	if name := Anchor(ref); name != "" {
		return v.Anchors()[name]
	}
	fragment, ok := fragment(ref)
	if !ok {
		return nil
	}
	return v.Pointer(fragment)
}

func fragment(ref string) (text string, ok bool) {
	escaped, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return "", false
	}
	text, err := url.PathUnescape(escaped)
	return text, err == nil
}

// Anchor is the name of the anchor that a $ref refers to; empty for any other $ref.
func Anchor(ref string) string {
	if name, ok := fragment(ref); ok && !strings.HasPrefix(name, "/") {
		return name
	}
	return ""
}

// Pointer is the value at a JSON pointer (RFC 6901), nil if there is none.
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

// Anchors are all parts of the document that have an anchor; of several with the same, the first.
func (v *Value) Anchors() map[string]*Value {
	all := map[string]*Value{}
	v.addAnchors(all)
	return all
}

func (v *Value) addAnchors(all map[string]*Value) {
	if v == nil {
		return
	}
	add := func(name string) {
		if all[name] == nil && name != "" {
			all[name] = v
		}
	}
	for _, m := range v.Members {
		switch m.Name {
		case "$anchor", "$dynamicAnchor":
			add(m.Value.String())
		case "$id", "id":
			if name, ok := strings.CutPrefix(m.Value.String(), "#"); ok {
				add(name)
			}
		}
	}
	for _, item := range v.Items {
		item.addAnchors(all)
	}
	for _, m := range v.Members {
		m.Value.addAnchors(all)
	}
}

// Follow resolves a chain of schemas that are only a $ref, in the document root, and returns the first that is more. A
// chain that ends nowhere or in itself gives nil.
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
