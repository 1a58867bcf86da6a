// Package shape learns the structure of JSON values from examples: their fields and the kinds of the fields. It keeps
// no values. It keeps only those keys of objects that are names of fields. It never keeps a key that may be data, such as an identifier,
// an address or the name of a person.
package shape

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Shape is the structure of all values seen at one place.
type Shape struct {
	Kinds   []string          `json:"kinds,omitempty"`   // JSON kinds, sorted
	Objects int               `json:"objects,omitempty"` // number of objects seen at this place
	Seen    int               `json:"seen,omitempty"`    // number of values seen at this place
	Fields  map[string]*Shape `json:"fields,omitempty"`
	Map     bool              `json:"map,omitempty"`    // reports that the keys of the objects are data
	Values  *Shape            `json:"values,omitempty"` // shape of a map's values
	Items   *Shape            `json:"items,omitempty"`  // shape of an array's items
}

// Limits of one shape.
const (
	maxDepth  = 8
	maxFields = 48
	maxNodes  = 256
	maxItems  = 64 // maximum number of array items, or values of a map, that are read
)

// Of returns the shape of one JSON value. words are the server's words.
func Of(raw json.RawMessage, words Words) (*Shape, error) {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, fmt.Errorf("learn the shape of an answer: %w", err)
	}
	s := of(value, words, maxDepth)
	for depth := maxDepth; s.Size() > maxNodes; depth-- {
		s = s.cut(depth)
	}
	return s, nil
}

func of(value any, words Words, depth int) *Shape {
	if depth == 0 {
		return nil
	}
	s := &Shape{Seen: 1}
	switch v := value.(type) {
	case nil:
		s.Kinds = []string{"null"}
	case bool:
		s.Kinds = []string{"boolean"}
	case float64:
		s.Kinds = []string{"number"}
	case string:
		s.Kinds = []string{"string"}
	case []any:
		s.Kinds = []string{"array"}
		for _, item := range v[:min(len(v), maxItems)] {
			s.Items = join(s.Items, of(item, words, depth-1))
		}
	case map[string]any:
		s.Kinds, s.Objects = []string{"object"}, 1
		s.object(v, words, depth)
	}
	return s
}

// cut returns a copy of a shape without the parts below depth.
func (s *Shape) cut(depth int) *Shape {
	if s == nil || depth == 0 {
		return nil
	}
	out := *s
	out.Items, out.Values, out.Fields = s.Items.cut(depth-1), s.Values.cut(depth-1), nil
	for name, field := range s.Fields {
		if field = field.cut(depth - 1); field != nil {
			if out.Fields == nil {
				out.Fields = map[string]*Shape{}
			}
			out.Fields[name] = field
		}
	}
	return &out
}

func (s *Shape) object(v map[string]any, words Words, depth int) {
	keys := slices.Sorted(maps.Keys(v))
	var known []string
	for _, key := range keys {
		if words.isName(key) {
			known = append(known, key)
		}
	}
	if s.Map = len(known)*2 <= len(keys) && len(keys) > 0 || len(keys) > maxFields || alike(v); s.Map {
		for _, key := range keys[:min(len(keys), maxItems)] {
			s.Values = join(s.Values, of(v[key], words, depth-1))
		}
		return
	}
	for _, key := range known {
		if field := of(v[key], words, depth-1); field != nil {
			if s.Fields == nil {
				s.Fields = map[string]*Shape{}
			}
			s.Fields[key] = field
		}
	}
}

// alike reports whether an object has at least three members, which are all objects with the same keys. The keys of such an object are
// probably identifiers.
func alike(v map[string]any) bool {
	var first []string
	for _, member := range v {
		inner, is := member.(map[string]any)
		if !is || len(inner) == 0 {
			return false
		}
		keys := slices.Sorted(maps.Keys(inner))
		if first == nil {
			first = keys
		}
		if !slices.Equal(first, keys) {
			return false
		}
	}
	return len(v) > 2
}

// Size returns the number of places of a shape.
func (s *Shape) Size() int {
	if s == nil {
		return 0
	}
	n := 1 + s.Items.Size() + s.Values.Size()
	for _, field := range s.Fields {
		n += field.Size()
	}
	return n
}

// Differences describes how a shape differs from an earlier one. Each string names a place and the difference there.
type Differences []string

// maxDifferences is the maximum number of differences that one merge reports.
const maxDifferences = 8

func (d *Differences) add(at, format string, args ...any) {
	if d != nil && len(*d) < maxDifferences {
		if at == "" {
			at = "the answer"
		}
		*d = append(*d, at+" "+fmt.Sprintf(format, args...))
	}
}

// Merge returns the shape of the values of both a and b, which may be nil. It omits the parts of b that exceed the limits of one shape. It adds the
// differences between a and b to *what, unless what is nil. Merge changes neither a nor b; the result may share parts with them.
func Merge(a, b *Shape, what *Differences) *Shape {
	left := maxNodes - a.Size()
	return merge(a, b, "", what, &left)
}

// join merges the shapes of parts of one value. It needs no limit, because the parts belong to one value.
func join(a, b *Shape) *Shape {
	left := math.MaxInt
	return merge(a, b, "", nil, &left)
}

func merge(a, b *Shape, at string, what *Differences, left *int) *Shape {
	if b == nil {
		return a
	}
	if a == nil {
		if *left < b.Size() {
			return nil
		}
		*left -= b.Size()
		return b
	}
	s := &Shape{Objects: a.Objects + b.Objects, Seen: a.Seen + b.Seen, Map: a.Map || b.Map}
	s.Kinds = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.Kinds, b.Kinds))))
	for _, kind := range s.Kinds {
		if !slices.Contains(a.Kinds, kind) {
			what.add(at, "can be %s", kind)
		}
	}
	s.Items = merge(a.Items, b.Items, at+"[]", what, left)
	if s.Map {
		if a.Objects > 0 && !a.Map {
			what.add(at, "has keys that are data")
		}
		s.Values = merge(a.Values, b.Values, at+"{}", what, left)
		for _, of := range []*Shape{a, b} {
			for _, name := range slices.Sorted(maps.Keys(of.Fields)) {
				s.Values = merge(s.Values, of.Fields[name], "", nil, left)
			}
		}
		return s
	}
	s.Fields = map[string]*Shape{}
	for _, name := range slices.Sorted(maps.Keys(a.Fields)) {
		field := a.Fields[name]
		s.Fields[name] = field
		if b.Objects > 0 && field.Seen == a.Objects && b.Fields[name] == nil {
			what.add(at+"."+name, "can be missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Fields)) {
		if a.Fields[name] == nil && len(s.Fields) >= maxFields {
			continue
		}
		if a.Fields[name] == nil && a.Objects > 0 {
			what.add(at+"."+name, "is new")
		}
		if merged := merge(a.Fields[name], b.Fields[name], at+"."+name, what, left); merged != nil {
			s.Fields[name] = merged
		}
	}
	return s
}

// Schema returns the JSON Schema of the values that were seen. The schema also allows fields that were not seen, and any value at
// a place where no value was seen.
func (s *Shape) Schema() json.RawMessage {
	raw, _ := json.Marshal(s.schema()) // the schema consists of strings, lists and maps, which can always be marshalled
	return raw
}

func (s *Shape) schema() map[string]any {
	out := map[string]any{}
	if s == nil || len(s.Kinds) == 0 {
		return out
	}
	out["type"] = s.Kinds
	if len(s.Kinds) == 1 {
		out["type"] = s.Kinds[0]
	}
	if slices.Contains(s.Kinds, "array") {
		out["items"] = s.Items.schema()
	}
	switch {
	case s.Map:
		out["additionalProperties"] = s.Values.schema()
	case slices.Contains(s.Kinds, "object"):
		properties, required := map[string]any{}, []string{}
		for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
			properties[name] = s.Fields[name].schema()
			if s.Fields[name].Seen == s.Objects {
				required = append(required, name)
			}
		}
		out["properties"], out["additionalProperties"] = properties, true
		if len(required) > 0 {
			out["required"] = required
		}
	}
	return out
}

// Valid reports whether a stored shape is one that this package could have made.
func (s *Shape) Valid() bool { return s != nil && s.Size() <= maxNodes && s.valid(maxDepth) }

func (s *Shape) valid(depth int) bool {
	if s == nil {
		return true
	}
	if depth == 0 || len(s.Fields) > maxFields || s.Map && len(s.Fields) > 0 || s.Objects < 0 || s.Seen < 0 {
		return false
	}
	for _, kind := range s.Kinds {
		if !slices.Contains([]string{"array", "boolean", "null", "number", "object", "string"}, kind) {
			return false
		}
	}
	for name, field := range s.Fields {
		if !plausible(name) || field == nil || !field.valid(depth-1) {
			return false
		}
	}
	return s.Items.valid(depth-1) && s.Values.valid(depth-1)
}
