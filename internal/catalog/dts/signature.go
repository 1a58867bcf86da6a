package dts

import (
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/catalog/schema"
)

// Signature returns a tool's signature on one line: search({q: string, limit?: number}): Promise<Customer[]>. It has at most limit bytes, unless the
// function's name alone is longer.
func Signature(t Tool, limit int) string {
	f := newFunction(t)
	for depth := 2; depth >= 0; depth-- {
		s := f.signature(depth, len(f.in.body.fields))
		if len(s) <= limit {
			return s
		}
	}
	for n := min(len(f.in.body.fields)-1, limit/len("a: X, ")); n > 0; n-- {
		s := f.signature(0, n)
		if len(s) <= limit {
			return s
		}
	}
	return t.Function + "(...)"
}

// signature returns the signature with the first fields of the input, required ones first, and nested types to the given depth.
func (f *function) signature(depth, fields int) string {
	var in string
	switch {
	case f.in.body.op == opObject && len(f.in.body.fields) > 0:
		in = "{" + strings.Join(compactFields(f.in.body, depth, fields), ", ") + "}"
	case f.in.body.op == opObject && (f.in.body.index == nil || isTop(f.in.body.index)):
	case isTop(f.in.body):
	default:
		in = compact(f.in.body, depth)
	}
	out := compact(f.out.body, depth)
	if f.out.body.op == opObject && depth == 0 {
		out = "object"
	}
	return f.tool.Function + "(" + in + "): Promise<" + out + ">"
}

// compactFields returns the texts of at most limit fields, required ones first.
func compactFields(n *node, depth, limit int) []string {
	var out []string
	for _, optional := range []bool{false, true} {
		mark := ": "
		if optional {
			mark = "?: "
		}
		for _, f := range n.fields {
			if f.optional != optional {
				continue
			}
			if len(out) == limit {
				return append(out, "...")
			}
			out = append(out, ident.Property(f.name)+mark+compact(f.typ, depth))
		}
	}
	return out
}

// compact returns a short text of a type on one line. Objects below depth are shown as "object".
func compact(n *node, depth int) string { return printer{brief: true}.expr(n, depth) }

func briefObject(n *node, depth int) string {
	switch {
	case len(n.fields) > 0 && depth > 0:
		return "{" + strings.Join(compactFields(n, depth-1, 8), ", ") + "}"
	case len(n.fields) == 0 && n.index != nil && !isTop(n.index) && depth > 0:
		return "Record<string, " + compact(n.index, depth-1) + ">"
	}
	return "object"
}

// Compact returns a short text of a subschema's type, for messages. root resolves its references.
func Compact(root, v *schema.Value) string {
	c := &converter{root: root, top: "any", byVal: map[*schema.Value]*def{}}
	c.defs = []*def{{name: "Input"}}
	n := c.typ(v, 0)
	if n.op == opRef && n.def.body.op != opObject {
		n = n.def.body
	}
	text := compact(n, 2)
	if len(text) > 120 {
		text = compact(n, 0)
	}
	return text
}
