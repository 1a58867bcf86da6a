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

// condition is the compiled form of one condition of a rule: of an entry in Rule.Args, or of a path in Rule.Destinations.
type condition struct {
	Condition
	at      string // path as written in the rule
	path    []jsonpath.Step
	pattern *regexp.Regexp           // compiled Pattern; nil if the condition has no pattern
	from    patterns                 // accepted origins of the value; nil accepts any
	allows  bool                     // whether the rule's action is allow
	trusts  func(origin string) bool // reports whether an origin is trusted; nil for a condition that is not about destinations
	// defaults is true if the condition applies to each destination of the tool. Such a condition has no path of its own.
	defaults bool
}

// holds reports whether a value that is not an object satisfies Equals, Pattern, Min and Max. text is the value of a string, or the literal of another value.
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

// number parses a number. A number that is too large becomes infinite.
func number(text string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, (err == nil || errors.Is(err, strconv.ErrRange)) && !math.IsNaN(n)
}

// seen counts the values at the path of a condition. alike is the number of values among them whose path only resembles that of the condition, so
// that a server may read it as the same path.
type seen struct {
	values, holding, alike int
	misplaced              int // values that satisfy the condition except for their origin
}

// found is the result of look: counts for each condition, and the traced values with their paths and origins.
type found struct {
	conditions map[*condition]seen
	values     []Value
}

// holds reports whether the arguments satisfy the conditions of a rule. found is nil if the arguments are not JSON.
func (r *rule) holds(found *found) bool {
	if found == nil && len(r.conditions) > 0 {
		return r.Action != Allow
	}
	astray := r.Action == Allow || len(r.Destinations) == 0 // Only a rule that asks or denies and has destinations needs a destination that is not trusted.
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

// suffices reports whether the counts of a condition satisfy the rule if s.holding is increased by the parameter more. A rule that allows does not
// require a value at each of its destinations.
func (r *rule) suffices(c *condition, s seen, more int) bool {
	holding := s.holding + more
	optional := c.trusts != nil && c.allows && s.values == 0
	return (holding > 0 || optional) && (r.Action != Allow || holding == s.values && s.alike == 0)
}

// missed returns the first condition that fails only because of the origins of values, if the rule would match with other origins. Otherwise it
// returns nil.
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

// look evaluates the conditions of rules in one pass over the arguments of a call. It returns nil if the arguments are not one JSON value.
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

// looker reads JSON value by value. If an object has a property twice, both count. Servers may be tolerant about the names of properties, so a name
// counts too if it equals the name in a path except for case and for characters that are neither letters nor digits. Such a name never makes a rule
// that allows match.
type looker struct {
	dec    *json.Decoder
	origin func(value string) ValueOrigin // returns the origin of a value; nil if origins are not known
	found  *found
}

// cursor is a condition with the steps of its path that are left.
type cursor struct {
	*condition
	path  string // path as written in the rule, or in the definition or configuration of the tool
	rest  []jsonpath.Step
	alike bool // whether a name in the arguments only resembled the name in the path
}

// value reads a value that the cursors have reached, and judges the value for each cursor without steps left. If the value is a list, each element
// is judged instead.
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
	if token == nil || text == "" { // neither null nor the empty string is a destination
		at = slices.DeleteFunc(slices.Clone(at), func(c cursor) bool { return c.trusts != nil })
	}
	l.judge(at, &text)
	return nil
}

// property returns a function that reports whether a step leads to the property called name (fits), and whether the names are only similar (alike).
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

// fold reduces the name of a property to its letters and digits in lower case, because some servers do not compare names exactly. A name without letters and
// digits stays as it is.
func fold(name string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) { // for example, the Kelvin sign becomes K
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

// enter returns the cursors after a step into an element. It keeps cursors without steps left if ended is true.
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

// judge judges a value for the cursors without steps left. text is nil for an object, which matches only a condition without parts.
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

// skip reads the rest of a value whose first token has been read.
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
