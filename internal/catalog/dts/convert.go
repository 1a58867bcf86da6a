package dts

import (
	"cmp"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/catalog/schema"
)

// Bounds of the work for a schema. Parts beyond them become unknown: the types stay correct, but less precise.
const (
	maxNesting  = 24   // maximum nesting depth of objects and arrays, without references
	maxNodes    = 4000 // maximum number of types in one tool
	maxLiterals = 64   // maximum number of members of an enum
	maxTuple    = 32   // maximum number of elements of a tuple
	maxDefs     = 250  // maximum number of named types in one schema
)

// converter turns one JSON Schema document into types.
type converter struct {
	root  *schema.Value
	top   string // type for values of any kind: unknown for input, any for output
	defs  []*def // definitions in order of first reference
	byVal map[*schema.Value]*def
	nodes int
}

// convert returns the definition of the type of v, a part of the document root, and all definitions that it needs. The definition of v comes
// first.
func convert(root, v *schema.Value, typeName, top string) (*def, []*def) {
	c := &converter{root: root, top: top, byVal: map[*schema.Value]*def{}}
	d := c.define(v, typeName)
	breakCycles(c.defs)
	return d, c.defs
}

func (c *converter) define(v *schema.Value, name string) *def {
	d := &def{name: name, doc: docLines(v)}
	c.byVal[v] = d
	c.defs = append(c.defs, d)
	d.body = c.typ(v, 0)
	return d
}

func (c *converter) any() *node { return name(c.top) }

// typ returns the type of the values that v admits, as far as TypeScript can express it.
func (c *converter) typ(v *schema.Value, depth int) *node {
	c.nodes++
	if c.nodes > maxNodes || depth > maxNesting {
		return name("unknown")
	}
	switch {
	case v.IsFalse():
		return name("never")
	case !v.Is(schema.Object):
		return c.any()
	}
	parts := []*node{c.own(v, depth)}
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref := v.Get(key); ref.Is(schema.String) {
			parts = append(parts, c.ref(ref.Text))
		}
	}
	if all := v.Get("allOf"); all.Is(schema.Array) {
		for _, sub := range all.Items {
			parts = append(parts, c.typ(sub, depth+1))
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if alternatives := v.Get(key); alternatives.Is(schema.Array) && len(alternatives.Items) > 0 {
			var of []*node
			for _, sub := range alternatives.Items {
				of = append(of, c.typ(sub, depth+1))
			}
			parts = append(parts, union(of...))
		}
	}
	t := intersection(narrow(parts)...)
	if v.Get("nullable").IsTrue() {
		t = union(t, name("null"))
	}
	return t
}

// narrow drops a plain base type if a sibling is more precise: {type: object, anyOf: [{properties: ...}]}.
func narrow(parts []*node) []*node {
	own := parts[0]
	if len(parts) == 1 || own.op != opObject || len(own.fields) > 0 || own.index == nil || !isTop(own.index) {
		return parts
	}
	for _, p := range parts[1:] {
		if !isTop(p) {
			return parts[1:]
		}
	}
	return parts
}

// own returns the type that v's keywords describe, except references and combinations.
func (c *converter) own(v *schema.Value, depth int) *node {
	if constant := v.Get("const"); constant != nil {
		return literal(constant, depth)
	}
	if enum := v.Get("enum"); enum.Is(schema.Array) && len(enum.Items) > 0 && len(enum.Items) <= maxLiterals {
		var of []*node
		for _, item := range enum.Items {
			of = append(of, literal(item, depth))
		}
		return union(of...)
	}
	types := v.Get("type").Strings()
	if len(types) == 0 {
		types = impliedTypes(v)
	}
	var of []*node
	for _, t := range types {
		switch t {
		case "string", "boolean", "number", "null":
			of = append(of, name(t))
		case "integer":
			of = append(of, name("number"))
		case "array":
			of = append(of, c.array(v, depth))
		case "object":
			of = append(of, c.object(v, depth))
		default:
			return c.any()
		}
	}
	if len(of) == 0 {
		return c.any()
	}
	return union(of...)
}

// impliedTypes guesses the type of a schema without "type" from the other keywords of the schema. It returns nil if no keyword implies a type. By the
// JSON Schema standard, a schema without "type" admits values of all other types as well.
func impliedTypes(v *schema.Value) []string {
	has := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return v.Get(k) != nil })
	}
	switch {
	case has("properties", "patternProperties", "additionalProperties"):
		return []string{"object"}
	case has("items", "prefixItems"):
		return []string{"array"}
	case has("minLength", "maxLength", "pattern", "format"):
		return []string{"string"}
	case has("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
		return []string{"number"}
	}
	return nil
}

func (c *converter) ref(ref string) *node {
	target := c.root.Resolve(ref)
	if target == nil {
		return c.any()
	}
	d, ok := c.byVal[target]
	if !ok {
		last := ref[strings.LastIndexAny(ref, "/#")+1:]
		if c.nodes > maxNodes || len(c.defs) >= maxDefs {
			return name("unknown")
		}
		d = c.define(target, ident.Pascal(cmp.Or(last, c.defs[0].name+" root")))
	}
	return &node{op: opRef, def: d}
}

func (c *converter) array(v *schema.Value, depth int) *node {
	items, prefix, rest := v.Get("items"), v.Get("prefixItems"), v.Get("items")
	if items.Is(schema.Array) {
		// Until draft 2019-09, an array in items described a tuple, and additionalItems its further elements.
		prefix, rest = items, v.Get("additionalItems")
	}
	if !prefix.Is(schema.Array) || len(prefix.Items) == 0 || len(prefix.Items) > maxTuple {
		if !items.Is(schema.Object) && !items.Is(schema.Bool) {
			return &node{op: opArray, elems: []*node{c.any()}}
		}
		return &node{op: opArray, elems: []*node{c.typ(items, depth+1)}}
	}
	n := &node{op: opTuple, needed: len(prefix.Items)}
	for _, item := range prefix.Items {
		n.elems = append(n.elems, c.typ(item, depth+1))
	}
	if least, ok := v.Get("minItems").Int(); ok {
		n.needed = min(least, n.needed)
	}
	if rest.Is(schema.Object) || rest.IsTrue() {
		n.rest = c.typ(rest, depth+1)
	}
	return n
}

func (c *converter) object(v *schema.Value, depth int) *node {
	n := &node{op: opObject}
	required := map[string]bool{}
	for _, r := range v.Get("required").Strings() {
		required[r] = true
	}
	if properties := v.Get("properties"); properties.Is(schema.Object) {
		for _, m := range properties.Members {
			n.fields = append(n.fields, field{
				name: m.Name, typ: c.typ(m.Value, depth+1), optional: !required[m.Name], doc: docLines(m.Value),
			})
			delete(required, m.Name)
		}
	}
	for _, r := range v.Get("required").Strings() {
		if required[r] {
			n.fields = append(n.fields, field{name: r, typ: c.any()})
			delete(required, r)
		}
	}
	n.index = c.indexType(v, len(n.fields) > 0, depth)
	n.closed = v.Get("additionalProperties").IsFalse() || v.Get("unevaluatedProperties").IsFalse()
	return n
}

// indexType returns the type of the properties that are not named, or nil if there are none. If an object also has named properties, the index
// signature has to admit their types too, so indexType returns c.any.
func (c *converter) indexType(v *schema.Value, named bool, depth int) *node {
	additional, patterns := v.Get("additionalProperties"), v.Get("patternProperties")
	var of []*node
	if patterns.Is(schema.Object) {
		for _, m := range patterns.Members {
			of = append(of, c.typ(m.Value, depth+1))
		}
	}
	switch {
	case additional.Is(schema.Object), additional.IsTrue():
		of = append(of, c.typ(additional, depth+1))
	case additional == nil && !named && len(of) == 0:
		return c.any()
	}
	switch {
	case len(of) == 0:
		return nil
	case named:
		return c.any()
	}
	return union(of...)
}
