package catalog

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"mcp-code-exec-harness/internal/catalog/dts"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/catalog/schema"
	"mcp-code-exec-harness/internal/clip"
)

// maxProblems is the maximum number of problems in one message.
const maxProblems = 5

// maxWorded is the maximum number of problems of one value that are put into words. An input can have a problem for each of its values, and the words
// cost more than finding the problems.
const maxWorded = 50

// explainer puts validation errors into words.
type explainer struct {
	root  *schema.Value
	input any
	found []problem
	// suggested counts the searches for a similar name; at most maxSuggested are made.
	suggested int
}

// Maximum number of searches for a similar name in one explanation, and of names that one search compares.
const (
	maxSuggested = 20
	maxSimilar   = 200
)

// problem is a validation error with its path in the input.
type problem struct {
	path string
	err  *jsonschema.ValidationError
}

// number returns the number of problems in one error, because a single error can report several properties.
func (p problem) number() int {
	switch k := p.err.ErrorKind.(type) {
	case *kind.Required:
		return len(k.Missing)
	case *kind.AdditionalProperties:
		return len(k.Properties)
	}
	return 1
}

// list returns the problems in words, in the order of their paths, because the library visits objects in no fixed order.
func (x *explainer) list() []string {
	slices.SortStableFunc(x.found, func(a, b problem) int { return strings.Compare(a.path, b.path) })
	total := 0
	for _, p := range x.found {
		total += p.number()
	}
	var out []string
	for i := 0; i < len(x.found) && len(out) <= maxProblems; {
		var texts []string
		first := x.found[i]
		for n := 0; i < len(x.found) && x.found[i].path == first.path; i, n = i+1, n+1 {
			if n < maxWorded {
				texts = append(texts, x.words(x.found[i].err)...)
			}
		}
		slices.Sort(texts)
		different := slices.Compact(slices.Clone(texts))
		total -= len(texts) - len(different)
		for _, text := range different {
			if first.path != "" {
				text = first.path + ": " + text
			}
			out = append(out, text)
		}
	}
	if total > maxProblems {
		out = out[:min(len(out), maxProblems-1)]
		out = append(out, fmt.Sprintf("and %d more problems", total-len(out)))
	}
	return out
}

// gather collects the errors that name a rule. In place of an error that only groups others, it collects the causes.
func (x *explainer) gather(e *jsonschema.ValidationError) {
	alternatives := false
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		for _, cause := range e.Causes {
			x.gather(cause)
		}
		return
	case *kind.AnyOf:
		alternatives = true
	case *kind.OneOf:
		alternatives = len(k.Subschemas) == 0
	}
	if alternatives {
		// If all alternatives but one require another JSON type or constant, the remaining alternative was meant, and its errors are the problem.
		var meant []*jsonschema.ValidationError
		for _, cause := range e.Causes {
			if !x.otherType(cause, e.InstanceLocation) {
				meant = append(meant, cause)
			}
		}
		if len(meant) == 1 {
			x.gather(meant[0])
			return
		}
	}
	path, _ := x.locate(e.InstanceLocation)
	x.found = append(x.found, problem{path, e})
}

// words describes an error in one line, or in one line for each property.
func (x *explainer) words(e *jsonschema.ValidationError) (lines []string) {
	at := x.at(e)
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		if one, ok := k.(*kind.OneOf); ok && len(one.Subschemas) > 0 {
			add("matches more than one of the forms %s; it must match exactly one", dts.Compact(x.root, at))
		} else {
			add("expected %s, got %s that fits none of them", dts.Compact(x.root, at), typeName(x.value(e.InstanceLocation)))
		}
	case *kind.Type:
		add("expected %s, got %s", expected(k.Want, x.root, at), k.Got)
	case *kind.Required:
		for _, missing := range firstSorted(k.Missing) {
			add("missing required property %s", x.property(at, missing)+x.misspelt(e, at, missing))
		}
	case *kind.AdditionalProperties:
		for _, p := range firstSorted(k.Properties) {
			add("%s", x.unknownProperty(p, at))
		}
	case *kind.FalseSchema:
		add("is not allowed here")
	case *kind.Enum:
		add("must be one of %s", oneOf(at.Get("enum")))
	case *kind.Const:
		add("must be %s", clip.Text(at.Get("const").JSON(), 100))
	case *kind.Format:
		add("is not a valid %s", k.Want)
	case *kind.Pattern:
		add("does not match the pattern %s", clip.Text(k.Want, 120))
	case *kind.MinLength:
		add("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		add("must have at most %d characters", k.Want)
	case *kind.Minimum:
		add("must be at least %s", number(k.Want))
	case *kind.Maximum:
		add("must be at most %s", number(k.Want))
	case *kind.ExclusiveMinimum:
		add("must be more than %s", number(k.Want))
	case *kind.ExclusiveMaximum:
		add("must be less than %s", number(k.Want))
	case *kind.MultipleOf:
		add("must be a multiple of %s", number(k.Want))
	case *kind.MinItems:
		add("must have at least %d items, has %d", k.Want, k.Got)
	case *kind.MaxItems:
		add("must have at most %d items, has %d", k.Want, k.Got)
	case *kind.AdditionalItems:
		add("has %d items too many", k.Count)
	case *kind.UniqueItems:
		add("items %d and %d are equal; items must differ", k.Duplicates[0], k.Duplicates[1])
	case *kind.MinProperties:
		add("must have at least %d properties, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		add("must have at most %d properties, has %d", k.Want, k.Got)
	case *kind.DependentRequired:
		add("with property %s it also needs %s", quoted(k.Prop), quoted(k.Missing...))
	case *kind.Dependency:
		add("with property %s it also needs %s", quoted(k.Prop), quoted(k.Missing...))
	case *kind.PropertyNames:
		add("has a property whose name is not allowed")
	case *kind.Contains, *kind.MinContains:
		add("has too few items of the form %s", dts.Compact(x.root, at.Get("contains")))
	case *kind.MaxContains:
		add("has too many items of the form %s", dts.Compact(x.root, at.Get("contains")))
	case *kind.Not:
		add("has a form that is excluded")
	case *kind.RefCycle:
		add("cannot be checked: its schema refers to itself without a rule")
	default:
		add("does not satisfy the schema's rule %q", strings.Join(e.ErrorKind.KeywordPath(), "/"))
	}
	return lines
}

// firstSorted returns the first names in sorted order, at most as many as a message lists.
func firstSorted(names []string) []string {
	names = slices.Sorted(slices.Values(names))
	return names[:min(len(names), maxProblems)]
}

// otherType reports whether an error is about the type or constant of the value at the location: the schema requires another JSON type or constant,
// or admits no value.
func (x *explainer) otherType(e *jsonschema.ValidationError, location []string) bool {
	if !slices.Equal(e.InstanceLocation, location) {
		return false
	}
	switch e.ErrorKind.(type) {
	case *kind.Type, *kind.Const, *kind.FalseSchema:
		return true
	case *kind.Group, *kind.Reference, *kind.AllOf, *kind.AnyOf, *kind.OneOf:
		return slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool { return x.otherType(c, location) })
	}
	return false
}

// at returns the schema that e is about.
func (x *explainer) at(e *jsonschema.ValidationError) *schema.Value {
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	return x.root.Resolve("#" + fragment)
}

// locate returns the path of a location in the input, such as filter.items[2].name, and the value there. The path hides keys that do not look like
// names, because they may be data.
func (x *explainer) locate(location []string) (path string, value any) {
	value = x.input
	for _, part := range location {
		switch v := value.(type) {
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(v) {
				return path, value
			}
			path, value = path+"["+part+"]", v[i]
		case map[string]any:
			switch {
			case !isName(part):
				path += "[...]"
			case path != "":
				path += "." + part
			default:
				path = part
			}
			value = v[part]
		}
	}
	return path, value
}

const maxShownName = 60

func (x *explainer) value(location []string) any {
	_, value := x.locate(location)
	return value
}

// property describes a property of an object by its name, type and description. at is the schema of the object.
func (x *explainer) property(at *schema.Value, name string) string {
	text := quoted(name)
	s := at.Get("properties").Get(name)
	if s == nil {
		return text
	}
	typ := dts.Compact(x.root, s)
	if s.Get("type").String() == "integer" {
		typ = "integer" // TypeScript has no integer
	}
	text += " (" + typ + ")"
	if description := s.Get("description").String(); description != "" {
		text += ": " + clip.Text(strings.Join(dts.Clean(clip.Text(description, 1000), 160), " "), 200)
	}
	return text
}

// misspelt returns a hint if the input has an unknown property whose name resembles the name of a missing property.
func (x *explainer) misspelt(e *jsonschema.ValidationError, at *schema.Value, missing string) string {
	object, ok := x.value(e.InstanceLocation).(map[string]any)
	if x.suggested++; !ok || x.suggested > maxSuggested || len(object) > maxSimilar {
		return ""
	}
	var unknown []string
	for name := range object {
		if at.Get("properties").Get(name) == nil && isName(name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	if name := similar(missing, unknown); name != "" {
		return fmt.Sprintf("; %s is not a property", quoted(name))
	}
	return ""
}

// isName reports whether a key of the input looks like a name. Other keys may be data and are not shown.
func isName(key string) bool { return ident.IsIdentifier(key) && len(key) <= maxShownName }

// unknownProperty describes a property that the schema does not know, and suggests a known one.
func (x *explainer) unknownProperty(name string, at *schema.Value) string {
	text := "unknown property"
	if isName(name) {
		text += " " + quoted(name)
	}
	properties := at.Get("properties")
	if x.suggested++; x.suggested > maxSuggested || !properties.Is(schema.Object) || len(properties.Members) > maxSimilar {
		return text
	}
	var known []string
	for _, m := range properties.Members {
		known = append(known, m.Name)
	}
	if isName(name) {
		if meant := similar(name, known); meant != "" {
			return text + fmt.Sprintf("; did you mean %s?", quoted(meant))
		}
	}
	if len(known) > 0 && len(known) <= 12 {
		return text + "; known are " + quoted(known...)
	}
	return text
}

func expected(want []string, root, at *schema.Value) string {
	text := strings.Join(want, " or ")
	if slices.Contains(want, "object") || slices.Contains(want, "array") {
		if form := dts.Compact(root, at); len(form) <= 100 && form != "object" {
			text += " " + form
		}
	}
	return text
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

func oneOf(enum *schema.Value) string {
	var parts []string
	if enum != nil {
		for _, item := range enum.Items {
			parts = append(parts, clip.Text(item.JSON(), 60))
		}
	}
	return clip.Text(strings.Join(parts, ", "), 300)
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func quoted(names ...string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = ident.Quote(clip.Text(n, maxShownName))
	}
	return strings.Join(out, ", ")
}
