package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"mcp-code-exec-harness/internal/jsonpath"
)

// condition is a compiled condition.
type condition struct {
	Condition
	at      string // path as it is written
	path    []jsonpath.Step
	pattern *regexp.Regexp           // nil: none
	from    patterns                 // origins; nil: any
	allows  bool                     // condition of a rule that allows
	trusts  func(origin string) bool // whether an origin is trusted, of a destination; nil: none
	// defaults says that the condition is at each destination of the tool. It has no path of its own.
	defaults bool
}

// holds judges a value that is no object: text is its text, or its literal.
func (c *condition) holds(text string) bool {
	if c.pattern != nil && !c.pattern.MatchString(text) {
		return false
	}
	n, numeric := number(text)
	switch {
	case (c.Min != nil || c.Max != nil) && !numeric, c.Min != nil && n < *c.Min, c.Max != nil && n > *c.Max:
		return false
	case len(c.Equals) == 0:
		return true
	}
	return slices.ContainsFunc(c.Equals, func(want string) bool {
		w, ok := number(want)
		return want == text || ok && numeric && w == n
	})
}

// number reads a number; one that is too large is infinite.
func number(text string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, (err == nil || errors.Is(err, strconv.ErrRange)) && !math.IsNaN(n)
}

// seen is what was found at the path of a condition, and at paths whose names a server may take for those of the path.
type seen struct {
	values, holding, alike int
	misplaced              int // values whose origin alone is not what the condition wants
}

// found is what look found: for each condition, and at each path with an origin.
type found struct {
	conditions map[*condition]seen
	values     []Value
}

// holds reports whether the arguments are what a rule wants; found is nil if they are not JSON.
func (r *rule) holds(found *found) bool {
	if found == nil && len(r.conditions) > 0 {
		return r.Action != Allow
	}
	astray := r.Action == Allow || len(r.Destinations) == 0 // One destination is enough for a rule that asks or denies.
	for _, c := range r.conditions {
		switch suffices := r.suffices(c, found.conditions[c], 0); {
		case c.trusts != nil && !c.allows:
			astray = astray || suffices
		case !suffices:
			return false
		}
	}
	return astray
}

// suffices reports whether what was found for a condition is what the rule wants. So many values more are taken for what the condition wants. A call need
// not have a value at each destination of a rule that allows.
func (r *rule) suffices(c *condition, s seen, more int) bool {
	holding := s.holding + more
	optional := c.trusts != nil && c.allows && s.values == 0
	return (holding > 0 || optional) && (r.Action != Allow || holding == s.values && s.alike == 0)
}

// missed is the first condition of a rule that would match if the values came from elsewhere; nil if there is none.
func (r *rule) missed(found *found) (first *condition) {
	for _, c := range r.conditions {
		s := found.conditions[c]
		if first == nil && s.misplaced > 0 {
			first = c
		}
		if !r.suffices(c, s, s.misplaced) {
			return nil
		}
	}
	return first
}

// look judges the conditions of rules in one pass over the arguments of a call.
func look(call *Call, rules []*rule) *found {
	l := &looker{dec: json.NewDecoder(bytes.NewReader(call.Args)), origin: call.Origin, found: &found{conditions: map[*condition]seen{}}}
	l.dec.UseNumber()
	var all []cursor
	for _, r := range rules {
		for _, c := range r.conditions {
			if !c.defaults {
				all = append(all, cursor{c, c.at, c.path, false})
				continue
			}
			for _, d := range call.Destinations {
				all = append(all, cursor{c, d.Path, d.Steps, false})
			}
		}
	}
	if err := l.value(all); err != nil {
		return nil
	}
	if _, err := l.dec.Token(); !errors.Is(err, io.EOF) {
		return nil
	}
	return l.found
}

// looker reads JSON value by value. An object may name a property twice, and then both count. A name that differs from that of a path only in case or
// in what is neither letter nor digit counts too, because servers read names that tolerantly: it never helps a rule that allows.
type looker struct {
	dec    *json.Decoder
	origin func(value string) ValueOrigin // nil: they are not known
	found  *found
}

// cursor is a condition, and the steps of its path that are left.
type cursor struct {
	*condition
	path  string // path as it is written
	rest  []jsonpath.Step
	alike bool // a name on the way was not that of the path
}

// value reads a value that the cursors are at. One without steps left is judged; elements of a list are judged in its place.
func (l *looker) value(at []cursor) error {
	token, err := l.dec.Token()
	if err != nil {
		return err
	}
	switch delim, _ := token.(json.Delim); {
	case len(at) == 0:
		return l.skip(token)
	case delim == '[':
		for i := 0; l.dec.More(); i++ {
			err = errors.Join(err, l.value(enter(at, func(s jsonpath.Step) (fits, alike bool) { return s.ToElement(i), false }, true)))
			if err != nil {
				return err
			}
		}
		_, err = l.dec.Token()
		return err
	case delim == '{':
		l.judge(at, nil)
		for l.dec.More() {
			name, err := l.dec.Token()
			if err != nil {
				return err
			}
			if err := l.value(enter(at, property(name.(string)), false)); err != nil {
				return err
			}
		}
		_, err = l.dec.Token()
		return err
	}
	text := fmt.Sprint(token)
	if token == nil {
		text = "null"
	}
	if token == nil || text == "" { // neither is a destination
		at = slices.DeleteFunc(slices.Clone(at), func(c cursor) bool { return c.trusts != nil })
	}
	l.judge(at, &text)
	return nil
}

// property says which steps lead to a property of this name, or to one that it may be taken for.
func property(name string) func(jsonpath.Step) (fits, alike bool) {
	folded := fold(name)
	return func(s jsonpath.Step) (fits, alike bool) {
		if s.ToProperty(name) {
			return true, false
		}
		want, named := s.Name()
		alike = named && fold(want) == folded
		return alike, alike
	}
}

// fold reduces the name of a property to what servers tell it by that do not read it exactly: letters and digits without case, or, where it has
// none, itself.
func fold(name string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) { // the Kelvin sign is a k
			if next < r {
				r = next
			}
		}
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name), name)
}

// enter are the cursors after a step into an element; those at their end stay there if ended is set.
func enter(at []cursor, fits func(jsonpath.Step) (fits, alike bool), ended bool) (in []cursor) {
	for _, c := range at {
		if len(c.rest) == 0 {
			if ended {
				in = append(in, c)
			}
			continue
		}
		if fit, alike := fits(c.rest[0]); fit {
			in = append(in, cursor{c.condition, c.path, c.rest[1:], c.alike || alike})
		}
	}
	return in
}

// judge judges the value at cursors without steps left; text is nil for an object, which only a condition without parts matches.
func (l *looker) judge(at []cursor, text *string) {
	for _, c := range at {
		if len(c.rest) > 0 {
			continue
		}
		s := l.found.conditions[c.condition]
		s.values++
		if c.alike {
			s.alike++
		}
		whole := len(c.Equals) == 0 && c.pattern == nil && c.Min == nil && c.Max == nil
		switch fits := whole || text != nil && c.holds(*text); {
		case fits && !c.comes(l.from(c, text)):
			s.misplaced++
		case fits:
			s.holding++
		}
		l.found.conditions[c.condition] = s
	}
}

// skip reads the rest of a value that begins with a token.
func (l *looker) skip(token json.Token) (err error) {
	depth := 0
	for {
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		if token, err = l.dec.Token(); err != nil {
			return err
		}
	}
}
