package detect

import (
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/jsonpath"
)

// Field is a place in JSON texts. Every string and number at the place is a value of the type Type, regardless of its form. If a list or an object is
// at the place, everything in it counts. In a JSON text within a string, paths begin at the root of that text.
type Field struct {
	Path []jsonpath.Step
	Type string
}

// enter returns the fields whose paths begin with a step for which leads is true, and removes this step from the paths. A field with an empty path
// has been reached: it contains everything below, so enter returns it too.
func enter(fields []Field, leads func(jsonpath.Step) bool) (in []Field) {
	for _, f := range fields {
		switch {
		case len(f.Path) == 0:
			in = append(in, f)
		case leads(f.Path[0]):
			in = append(in, Field{f.Path[1:], f.Type})
		}
	}
	return in
}

// enterElement sets w.reached to the fields that contain the next element of a list.
func (w *walker) enterElement() {
	if top := &w.stack[len(w.stack)-1]; len(top.fields) > 0 {
		w.reached = enter(top.fields, func(s jsonpath.Step) bool { return s.ToElement(top.elements) })
		top.elements++
	}
}

// enterProperty sets w.reached to the fields that contain a property of an object.
func (w *walker) enterProperty(key string) {
	top := &w.stack[len(w.stack)-1]
	if len(top.fields) == 0 {
		return
	}
	if strings.Contains(key, `\`) && json.Unmarshal([]byte(`"`+key+`"`), &key) != nil {
		w.reached = nil
		return
	}
	w.reached = enter(top.fields, func(s jsonpath.Step) bool { return s.ToProperty(key) })
}

// field records a string or a number if it is the value of a field.
func (w *walker) field(text string, offset, number int) {
	for _, f := range w.reached {
		if len(f.Path) > 0 {
			continue
		}
		v := normalize(text)
		value, start, end := plainValue(v.text)
		if strings.TrimSpace(value) == "" {
			return
		}
		h := hit{start: offset, end: offset + len(text), kind: knownWord, value: value, word: &Word{Type: f.Type}, number: number}
		if number == 0 {
			h.start, h.end = offset+v.start(start), offset+v.end(end)
		}
		w.hits = append(w.hits, h)
		return
	}
}

// inner reads a string as a JSON text, if there are fields, and reports whether it is one. Unlike find it decodes only one level of escapes, so that
// escaped quotes do not end the strings of the text.
func (w *walker) inner(content string, offset int, at surroundings) bool {
	if len(w.fields) == 0 || w.depth >= maxDepth || !strings.Contains(content, `\`) {
		return false
	}
	v := unquoted(content)
	first := len(w.hits)
	if !w.json(v.text, at, w.depth) {
		return false
	}
	for i := first; i < len(w.hits); i++ {
		w.hits[i].start, w.hits[i].end = offset+v.start(w.hits[i].start), offset+v.end(w.hits[i].end)
	}
	return true
}

// unquoted returns the view of the text between the quotes of a JSON string.
func unquoted(content string) view {
	v := view{}
	var out strings.Builder
	copied := 0
	for i := strings.IndexByte(content, '\\'); i >= 0 && i+1 < len(content); {
		size := 2
		if content[i+1] == 'u' {
			if size = 6; i+12 <= len(content) && content[i+2]|0x20 == 'd' && content[i+6] == '\\' {
				size = 12 // The escape may be the first half of a surrogate pair.
			}
		}
		size = min(size, len(content)-i)
		var text string
		if json.Unmarshal([]byte(`"`+content[i:i+size]+`"`), &text) == nil {
			out.WriteString(content[copied:i])
			v.units = append(v.units, unit{at: uint32(out.Len()), from: uint32(i), n: uint8(len(text)), fromN: uint8(size)})
			out.WriteString(text)
			copied = i + size
		}
		next := strings.IndexByte(content[i+size:], '\\')
		if next < 0 {
			break
		}
		i += size + next
	}
	out.WriteString(content[copied:])
	v.text = out.String()
	return v
}
