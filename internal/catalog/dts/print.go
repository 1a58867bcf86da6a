package dts

import (
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// printer writes types. The field names has the final names of definitions. A brief printer writes a single line, for readers and not for the
// compiler.
type printer struct {
	names map[*def]string
	brief bool
}

// maxBriefUnion is the maximum number of alternatives that a brief printer shows.
const maxBriefUnion = 6

func (p printer) ref(d *def) string {
	if n, ok := p.names[d]; ok {
		return n
	}
	return d.name
}

// expr returns the text of a type. level is the indentation of the line or, for a brief printer, the depth to which objects are shown.
func (p printer) expr(n *node, level int) string {
	switch n.op {
	case opName:
		if p.brief && len(n.text) > 40 {
			return "string"
		}
		return n.text
	case opRef:
		return p.ref(n.def)
	case opArray:
		return p.operand(n.elems[0], level) + "[]"
	case opTuple:
		var parts []string
		for i, e := range n.elems {
			if i < n.needed {
				parts = append(parts, p.expr(e, level))
			} else {
				parts = append(parts, p.operand(e, level)+"?")
			}
		}
		if n.rest != nil && !p.brief {
			parts = append(parts, "..."+p.operand(n.rest, level)+"[]")
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case opUnion, opInter:
		var parts []string
		for _, e := range n.elems {
			if p.brief && len(parts) == maxBriefUnion {
				parts = append(parts, "...")
				break
			}
			parts = append(parts, p.operand(e, level))
		}
		if n.op == opInter {
			return strings.Join(parts, " & ")
		}
		return strings.Join(parts, " | ")
	}
	if p.brief {
		return briefObject(n, level)
	}
	return p.object(n, level)
}

// operand is like expr, but puts unions and intersections in parentheses.
func (p printer) operand(n *node, level int) string {
	text := p.expr(n, level)
	if n.op == opUnion || n.op == opInter {
		return "(" + text + ")"
	}
	return text
}

func indent(level int) string { return strings.Repeat("  ", level) }

func (p printer) object(n *node, level int) string {
	switch {
	case len(n.fields) == 0 && n.index == nil:
		return "Record<string, never>"
	case len(n.fields) == 0:
		return "{ [key: string]: " + p.expr(n.index, level) + " }"
	}
	var b strings.Builder
	b.WriteString("{\n")
	p.members(&b, n, level+1)
	b.WriteString(indent(level) + "}")
	return b.String()
}

func (p printer) members(b *strings.Builder, n *node, level int) {
	for _, f := range n.fields {
		comment(b, f.doc, indent(level))
		b.WriteString(indent(level) + ident.Property(f.name))
		if f.optional {
			b.WriteByte('?')
		}
		b.WriteString(": " + p.expr(f.typ, level) + ";\n")
	}
	if n.index != nil {
		b.WriteString(indent(level) + "[key: string]: " + p.expr(n.index, level) + ";\n")
	}
}

// definition writes d: as an interface if it is an object with properties, and as an alias if it is not.
func (p printer) definition(b *strings.Builder, d *def, level int) {
	comment(b, d.doc, indent(level))
	if d.body.op == opObject && (len(d.body.fields) > 0 || d.body.index != nil) {
		b.WriteString(indent(level) + "interface " + p.ref(d) + " {\n")
		p.members(b, d.body, level+1)
		b.WriteString(indent(level) + "}\n")
		return
	}
	b.WriteString(indent(level) + "type " + p.ref(d) + " = " + p.expr(d.body, level) + ";\n")
}
