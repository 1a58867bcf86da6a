package policy

import (
	"slices"
	"strings"
)

// ValueOrigin says where a value in the arguments of a call comes from.
type ValueOrigin struct {
	// Said are the sources of the whole value: "user" and full names of tools. If the value is in the program's text alone, the only source is
	// "code"; if the value is in no known text, the only source is "computed". Said is empty if the origin is not known.
	Said []string `json:"from"`
	// Parts are the sources of single parts of the value, if the value as a whole is computed or in the program's text.
	Parts []string `json:"parts,omitempty"`
	// More is true if further tools, which are not known, said the value.
	More bool `json:"more,omitempty"`
}

// Value is the path and origin of a value that a traced condition of a rule judged.
type Value struct {
	Path string `json:"path" example:"$.iban"`
	ValueOrigin

	Destination bool `json:"-"` // whether the value is at a destination of the tool
}

// at reports whether a condition applies to a value.
func (v Value) at(c *condition) bool { return c.at == v.Path || c.defaults && v.Destination }

// maxValues is the maximum number of values in a verdict.
const maxValues = 100

// userOrigin is the origin of the user's words.
const userOrigin = "user"

// comes reports whether the origin of a value satisfies a condition. A rule that allows needs one matching source of the whole value, and the value
// may have other sources too. For a rule that asks or denies, sources of parts and unknown origins match too. If the user is a source of the value,
// such a rule ignores the other sources.
func (c *condition) comes(from ValueOrigin) bool {
	switch {
	case c.trusts != nil:
		return slices.ContainsFunc(from.Said, c.trusts) == c.allows
	case len(c.from) == 0:
		return true
	}
	named := func(origin string) bool { return c.from.match(full("", origin)) }
	switch {
	case c.allows:
		return slices.ContainsFunc(from.Said, named)
	case slices.Contains(from.Said, userOrigin):
		return named(userOrigin)
	}
	return len(from.Said) == 0 || from.More || slices.ContainsFunc(from.Said, named) || slices.ContainsFunc(from.Parts, named)
}

// traced reports whether a condition depends on where values come from.
func (c *condition) traced() bool { return len(c.from) > 0 || c.trusts != nil }

// from returns the origin of the value that a condition judges, and records it. The origin of an object is not known.
func (l *looker) from(c cursor, text *string) (from ValueOrigin) {
	if !c.traced() {
		return from
	}
	if text != nil && l.origin != nil {
		from = l.origin(*text)
	}
	same := func(v Value) bool { return v.Path == c.path && v.same(from) }
	switch at := slices.IndexFunc(l.found.values, same); {
	case at >= 0:
		l.found.values[at].Destination = l.found.values[at].Destination || c.defaults
	case len(l.found.values) < maxValues:
		l.found.values = append(l.found.values, Value{c.path, from, c.defaults})
	}
	return from
}

func (o ValueOrigin) same(other ValueOrigin) bool {
	return o.More == other.More && slices.Equal(o.Said, other.Said) && slices.Equal(o.Parts, other.Parts)
}

// String describes the origin of a value: "comes from mail__read".
func (o ValueOrigin) String() string {
	var text string
	switch {
	case len(o.Said) == 0:
		text = "is of unknown origin"
	case o.Said[0] == "computed":
		text = "is computed"
	case o.Said[0] == "code":
		text = "is in the program's text alone"
	default:
		text = "comes from " + strings.Join(o.Said, " and ")
	}
	if o.More {
		text += " and others"
	}
	if len(o.Parts) > 0 {
		text += ", with parts from " + strings.Join(o.Parts, " and ")
	}
	return text
}

// missed describes the first rule that would allow a call if a value had another origin: it names the rule, the path of the value and its actual
// origin. It returns "" if no such rule exists.
func (p *Policy) missed(c *Call, found *found) string {
	if found == nil || len(found.values) == 0 {
		return ""
	}
	tool := full(c.Server, c.Tool)
	for _, r := range p.rules {
		if r.Action != Allow || !r.fits(c, tool) {
			continue
		}
		wants := r.missed(found)
		if wants == nil {
			continue
		}
		for _, v := range found.values {
			if v.at(wants) && !slices.ContainsFunc(r.conditions, func(c *condition) bool { return c.at == wants.at && c.comes(v.ValueOrigin) }) {
				return r.numbered() + " does not allow it: " + v.Path + " " + v.String()
			}
		}
	}
	return ""
}
