package dts

import "strings"

// printer writes types; names are the final names of the definitions it may meet.
type printer struct {
	names map[*def]string
}

func (p printer) ref(d *def) string {
	if n, ok := p.names[d]; ok {
		return n
	}
	return d.name
}

// expr writes a type over as many lines as it needs; prefix is the indentation of the line it stands on.
func (p printer) expr(n *node, prefix string) string {
	switch n.op {
	case opName:
		return n.text
	case opRef:
		return p.ref(n.def)
	case opArray:
		return p.operand(n.elems[0], prefix) + "[]"
	case opTuple:
		var parts []string
		for i, e := range n.elems {
			if i < n.needed {
				parts = append(parts, p.expr(e, prefix))
			} else {
				parts = append(parts, p.operand(e, prefix)+"?")
			}
		}
		if n.rest != nil {
			parts = append(parts, "..."+p.operand(n.rest, prefix)+"[]")
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case opUnion, opInter:
		sep := " | "
		if n.op == opInter {
			sep = " & "
		}
		parts := make([]string, len(n.elems))
		for i, e := range n.elems {
			parts[i] = p.operand(e, prefix)
		}
		return strings.Join(parts, sep)
	}
	return p.object(n, prefix)
}

// operand is expr in parentheses where another operator would bind first.
func (p printer) operand(n *node, prefix string) string {
	text := p.expr(n, prefix)
	if n.op == opUnion || n.op == opInter {
		return "(" + text + ")"
	}
	return text
}

func (p printer) object(n *node, prefix string) string {
	switch {
	case len(n.fields) == 0 && n.index == nil:
		return "Record<string, never>"
	case len(n.fields) == 0:
		return "{ [key: string]: " + p.expr(n.index, prefix) + " }"
	}
	var b strings.Builder
	b.WriteString("{\n")
	p.members(&b, n, prefix+"  ")
	b.WriteString(prefix + "}")
	return b.String()
}

func (p printer) members(b *strings.Builder, n *node, prefix string) {
	for _, f := range n.fields {
		comment(b, f.doc, prefix)
		b.WriteString(prefix + propertyName(f.name))
		if f.optional {
			b.WriteByte('?')
		}
		b.WriteString(": " + p.expr(f.typ, prefix) + ";\n")
	}
	if n.index != nil {
		b.WriteString(prefix + "[key: string]: " + p.expr(n.index, prefix) + ";\n")
	}
}

// definition writes d as an interface where it is an object, else as an alias.
func (p printer) definition(b *strings.Builder, d *def, prefix string) {
	comment(b, d.doc, prefix)
	if d.body.op == opObject && (len(d.body.fields) > 0 || d.body.index != nil) {
		b.WriteString(prefix + "interface " + p.ref(d) + " {\n")
		p.members(b, d.body, prefix+"  ")
		b.WriteString(prefix + "}\n")
		return
	}
	b.WriteString(prefix + "type " + p.ref(d) + " = " + p.expr(d.body, prefix) + ";\n")
}
