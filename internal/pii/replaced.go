package pii

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Replacement is a place in the arguments of a tool where a token is replaced by its value.
type Replacement struct {
	Token    string // [NAME_1], as the arguments have it
	Path     string // place of the string, such as $.query
	Embedded bool   // the string has more than the token
	Value    string
}

// maxReplaced is how many places Replacements returns.
const maxReplaced = 100

// Replacements says where RestoreArguments replaces tokens in a JSON text, in the order of keys and items: of several tokens alike in a string,
// and of more than 100 places, the first.
func (s Session) Replacements(ctx context.Context, raw json.RawMessage) ([]Replacement, error) {
	if s.filter == nil || !mayHaveToken(string(raw)) {
		return nil, nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, fmt.Errorf("find tokens: %w", err)
	}
	r, err := s.filter.restorer(ctx, s.scope, string(raw))
	if err != nil {
		return nil, fmt.Errorf("find tokens: %w", err)
	}
	p := replacements{restorer: r}
	p.value("$", value)
	return p.all, nil
}

// replacements collects where tokens are replaced.
type replacements struct {
	*restorer
	all []Replacement
}

func (p *replacements) value(path string, value any) {
	if len(p.all) >= maxReplaced {
		return
	}
	switch v := value.(type) {
	case string:
		p.string(path, v)
	case []any:
		for i, item := range v {
			p.value(fmt.Sprintf("%s[%d]", path, i), item)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			member := path + "." + key
			if key == "" || strings.ContainsFunc(key, func(c rune) bool { return c > 0x7F || !isWord(byte(c)) }) {
				member = fmt.Sprintf("%s[%q]", path, key)
			}
			p.string(member+" (key)", key)
			p.value(member, v[key])
		}
	}
}

func (p *replacements) string(path, text string) {
	for _, at := range p.places(text) {
		if len(p.all) >= maxReplaced {
			return
		}
		r := Replacement{text[at.start:at.end], path, at.end-at.start < len(text), at.text}
		if !slices.Contains(p.all, r) {
			p.all = append(p.all, r)
		}
	}
}

// codeMarks are texts that may end a text in code, by what they are called.
var codeMarks = []struct{ mark, name string }{
	{"'", "a quote"},
	{`"`, "a quote"},
	{"`", "a backtick"},
	{`\`, "a backslash"},
	{";", "a semicolon"},
	{"\n", "a line break"},
	{"\r", "a line break"},
	{"${", "${"},
}

// Marks are the names of what may end a text in code, if the value has such and stands within a longer text.
func (r Replacement) Marks() (names []string) {
	for _, m := range codeMarks {
		if r.Embedded && strings.Contains(r.Value, m.mark) && !slices.Contains(names, m.name) {
			names = append(names, m.name)
		}
	}
	return names
}
