package dts

import (
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/clip"
)

// Outline is the part of a type that an editor needs for completion: the fields of an object or, for an array, the fields of its items.
type Outline struct {
	Type   string  `json:"type" doc:"In few words."`
	Items  int     `json:"items,omitempty" doc:"How many arrays the fields are within."`
	Fields []Field `json:"fields,omitempty"`
}

// Field is a field of an object.
type Field struct {
	Name     string `json:"name"`
	About    string `json:"about,omitempty"`
	Optional bool   `json:"optional,omitempty"`
	Outline
}

// Bounds of an Outline.
const (
	maxOutlineDepth  = 4
	maxOutlineFields = 400
	maxOutlineType   = 200 // maximum length of a type in bytes
	maxOutlineText   = 400 // maximum length of a field's description in bytes
)

// Outline returns the outline of a type. Parts beyond its bounds are left out.
func (t Type) Outline() Outline {
	left := maxOutlineFields
	return t.outline(1, &left)
}

func (t Type) outline(depth int, left *int) Outline {
	o := Outline{Type: clip.Text(t.String(), maxOutlineType)}
	all := t.Present()
	for len(all) == 1 && all[0].Kind() == Array && o.Items < maxNesting {
		o.Items++
		all = all[0].Element(-1).Present()
	}
	if depth > maxOutlineDepth {
		return o
	}
	seen := map[string]bool{}
	for _, a := range all {
		if a.Kind() != Object {
			continue
		}
		for _, f := range a.n.fields {
			if seen[f.name] || *left == 0 {
				continue
			}
			seen[f.name] = true
			*left--
			o.Fields = append(o.Fields, Field{f.name, clip.Text(strings.Join(f.doc, "\n"), maxOutlineText), f.optional, Type{f.typ}.outline(depth+1, left)})
		}
	}
	return o
}

// Present returns the alternatives of a type, except null.
func (t Type) Present() []Type {
	return slices.DeleteFunc(t.Alternatives(), func(a Type) bool { return a.Kind() == Null })
}
