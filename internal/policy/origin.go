package policy

import (
	"slices"
	"strings"
)

// ValueOrigin is where a value in the arguments of a call comes from.
type ValueOrigin struct {
	// Said are who said the value as a whole: "user", and full names of tools; "code" alone, if only the program's text has it, or "computed" alone,
	// if nothing has it. Empty: that is not known.
	Said []string `json:"from"`
	// Parts are who said parts of a value that is computed or of the code.
	Parts []string `json:"parts,omitempty"`
	// More says that further tools said it, which are not known.
	More bool `json:"more,omitempty"`
}

// Value is a value at a path that a rule names with from.
type Value struct {
	Path string `json:"path" example:"$.iban"`
	ValueOrigin

	Destination bool `json:"-"` // it is at a destination of the tool
}

// at reports whether a condition is about a value.
func (v Value) at(c *condition) bool { return c.at == v.Path || c.defaults && v.Destination }

// maxValues is how many values a verdict names.
const maxValues = 100

// The user's word.
const userOrigin = "user"

// comes reports whether a value with an origin is what a condition is about. A rule that allows needs one origin of the whole value: a source that
// repeats a value takes nothing from it. For a rule that asks or denies, parts count too, and what is not known; a value of the user stays the user's,
// also where other sources repeat it.
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

// traced reports whether a condition is about where values come from.
func (c *condition) traced() bool { return len(c.from) > 0 || c.trusts != nil }

// from is where a value comes from that a condition judges; nothing is known of an object.
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

// String says where a value comes from: "comes from mail__read".
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

// missed names the first rule that would allow a call if its values came from elsewhere, and where they come from; "" if there is none.
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
