// Package jsonpath reads the paths by which rules and settings refer to values in JSON texts.
package jsonpath

import (
	"errors"
	"strconv"
	"strings"
)

// Step is one part of a path: the name of a property, the index of an element, or * for every property or element.
type Step struct {
	name  string
	index int // index of an element, from 0; -1 if the step is a name or every element
	every bool
}

// Property returns the step to a property.
func Property(name string) Step { return Step{name: name, index: -1} }

// ToProperty reports whether the step leads to the property with the given name.
func (s Step) ToProperty(name string) bool { return s.every || s.index < 0 && s.name == name }

// Name returns the name of the property that the step leads to; ok is false for other steps.
func (s Step) Name() (name string, ok bool) { return s.name, s.index < 0 && !s.every }

// ToElement reports whether the step leads to element i of a list, counted from 0.
func (s Step) ToElement(i int) bool { return s.every || s.index == i }

// Parse reads a path: $ and steps .name, ['name'], [0], [*] and .*.
func Parse(text string) (path []Step, err error) {
	const form = "it is not a path; write one such as $.to, $.items[*].to or $['a name']"
	rest, ok := strings.CutPrefix(text, "$")
	for ok && rest != "" {
		var s Step
		s, rest, ok = parseStep(rest)
		path = append(path, s)
	}
	if !ok {
		return nil, errors.New(form)
	}
	return path, nil
}

func parseStep(text string) (s Step, rest string, ok bool) {
	if name, dotted := strings.CutPrefix(text, "."); dotted {
		end := strings.IndexAny(name, ".[")
		if end < 0 {
			end = len(name)
		}
		name, rest = name[:end], name[end:]
		return Step{name: name, index: -1, every: name == "*"}, rest, name != ""
	}
	for _, quote := range []string{"'", `"`} {
		if name, quoted := strings.CutPrefix(text, "["+quote); quoted {
			name, rest, ok = strings.Cut(name, quote+"]")
			return Property(name), rest, ok
		}
	}
	inner, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "]")
	if inner == "*" {
		return Step{every: true, index: -1}, rest, ok
	}
	n, err := strconv.ParseUint(inner, 10, 31)
	return Step{index: int(n)}, rest, ok && err == nil && strings.HasPrefix(text, "[")
}
