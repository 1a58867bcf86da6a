package catalog

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The work of a validation is estimated before it begins, because the library cannot be stopped. A unit is about 100 ns.
const (
	maxWork   = 3_000_000 // maximum work of one validation; more is refused
	smallWork = 50_000    // maximum work of a small validation, which needs no slot
	ruleWork  = 8         // work of applying one schema to one value, including an error that says what is wrong
)

// work estimates what the library does to validate a value. It follows the library's way through schema and value without the library's shortcuts, so
// the estimate is an upper bound. It stops counting at maxWork, or when ctx ends.
type work struct {
	ctx     context.Context
	units   int
	visits  int
	stopped error // error of ctx
	// unknown reports a reference whose target depends on the schemas above it ($dynamicRef, $recursiveRef).
	unknown bool
}

// position is the place at which a schema is applied to a value.
type position struct {
	same        []*jsonschema.Schema // schemas above this one that apply to the same value
	depth       int                  // depth of the value in the input
	unevaluated bool                 // reports that a schema above needs to know which properties or items are evaluated
}

func (w *work) full() bool {
	if w.visits++; w.visits%1024 == 0 && w.stopped == nil {
		w.stopped = context.Cause(w.ctx)
	}
	return w.units > maxWork || w.stopped != nil || w.unknown
}

// apply counts the application of s to v.
func (w *work) apply(s *jsonschema.Schema, v any, at position) {
	if s == nil || w.full() {
		return
	}
	w.units += ruleWork + at.depth/2 + len(at.same)/16
	if s.Bool != nil || slices.Contains(at.same, s) { // the library looks for cycles in the same way
		return
	}
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		w.unknown = true
		return
	}
	at.same = append(at.same, s)
	at.unevaluated = at.unevaluated || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
	if s.Const != nil {
		w.equal(v, []any{*s.Const})
	}
	if s.Enum != nil {
		w.equal(v, s.Enum.Values)
	}
	w.apply(s.Ref, v, at)
	if s.Ref != nil && s.DraftVersion < 2019 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		w.object(s, v, at)
	case []any:
		w.array(s, v, at)
	case string:
		w.text(s, v)
	case json.Number:
		w.number(s, v)
	}
	for _, list := range [][]*jsonschema.Schema{{s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf} {
		for _, sub := range list {
			w.apply(sub, v, at)
		}
	}
}

func (w *work) object(s *jsonschema.Schema, object map[string]any, at position) {
	w.units += len(object) + len(s.Required) + len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas)
	if at.unevaluated {
		w.units += 2 * len(object)
	}
	for _, names := range s.DependentRequired {
		w.units += len(names)
	}
	for _, dependency := range s.Dependencies {
		switch dependency := dependency.(type) {
		case []string:
			w.units += len(dependency)
		case *jsonschema.Schema:
			w.apply(dependency, object, at)
		}
	}
	for _, sub := range s.DependentSchemas {
		w.apply(sub, object, at)
	}
	below := position{depth: at.depth + 1}
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for name, value := range object {
		if w.full() {
			return
		}
		w.apply(s.Properties[name], value, below)
		for pattern, sub := range s.PatternProperties {
			w.match(pattern, name)
			w.apply(sub, value, below)
		}
		w.apply(additional, value, below)
		w.apply(s.PropertyNames, name, below)
		w.apply(s.UnevaluatedProperties, value, below)
	}
}

func (w *work) array(s *jsonschema.Schema, array []any, at position) {
	w.units += len(array) / 4
	if at.unevaluated {
		w.units += 2 * len(array)
	}
	if s.UniqueItems {
		w.unique(array)
	}
	first := s.PrefixItems
	rest := s.Items2020
	if s.DraftVersion < 2020 {
		switch items := s.Items.(type) {
		case []*jsonschema.Schema:
			first = items
			rest, _ = s.AdditionalItems.(*jsonschema.Schema)
		case *jsonschema.Schema:
			rest = items
		}
	}
	below := position{depth: at.depth + 1}
	for i, item := range array {
		if w.full() {
			return
		}
		if i < len(first) {
			w.apply(first[i], item, below)
		} else {
			w.apply(rest, item, below)
		}
		w.apply(s.Contains, item, below)
		w.apply(s.UnevaluatedItems, item, below)
	}
}

// unique counts the search for equal items. The library compares all pairs of a short array. In a long array it compares the items with equal hashes;
// arrays and objects can be crafted to have equal hashes.
func (w *work) unique(array []any) {
	before, nested := w.units, 0
	for _, item := range array {
		switch item.(type) {
		case map[string]any, []any:
			nested++
		}
		w.compare(item)
	}
	if len(array) <= 20 {
		w.units += (w.units - before) * len(array)
	}
	w.units += nested * nested / 2
}

// equal counts the comparison of v with each of the others.
func (w *work) equal(v any, others []any) {
	w.units += 1 + len(others)/8
	switch v := v.(type) {
	case string:
		w.units += len(v) / 256
	case json.Number:
		w.units += len(others) * numberWork(v)
	case map[string]any, []any:
		for _, other := range others {
			w.compare(other)
		}
	}
}

// compare counts the comparison of v with an equal value, or the computation of its hash.
func (w *work) compare(v any) {
	if w.full() {
		return
	}
	w.units += 2
	switch v := v.(type) {
	case string:
		w.units += len(v) / 256
	case json.Number:
		w.units += numberWork(v)
	case []any:
		for _, item := range v {
			w.compare(item)
		}
	case map[string]any:
		for _, item := range v {
			w.compare(item)
		}
	}
}

// numberWork returns the work of converting two numbers to fractions, because the library compares fractions.
func numberWork(n json.Number) int { return 10 + len(n)/4 }

func (w *work) number(s *jsonschema.Schema, n json.Number) {
	if s.Types != nil {
		w.units += numberWork(n) / 4
	}
	if s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil {
		w.units += 2 * numberWork(n)
	}
}

func (w *work) text(s *jsonschema.Schema, text string) {
	if s.MinLength != nil || s.MaxLength != nil {
		w.units += len(text) / 16
	}
	if s.Pattern != nil {
		w.match(s.Pattern, text)
	}
	if s.Format != nil {
		w.units += 5 + len(text)/8
		if s.Format.Name == "regex" {
			w.units += len(text) / 4
			if n := complexity(text); n <= maxInputPattern {
				w.units += 10 * n
			}
		}
	}
}

// match counts the match of a text against a pattern: each character can advance every instruction.
func (w *work) match(re jsonschema.Regexp, text string) {
	if p, ok := re.(pattern); ok {
		w.units += 2 + int(min(int64(len(text))*int64(p.instructions)/12, maxWork))
	}
}
