package dts

import (
	"slices"

	"mcp-code-exec-harness/internal/catalog/schema"
)

// op is the kind of a node in a type.
type op uint8

const (
	opName   op = iota // a keyword or a literal type, written as text
	opArray            // elems[0][]
	opTuple            // [elems..., ...rest]
	opUnion            // elems, at least two
	opInter            // elems, at least two
	opObject           // fields and an index signature
	opRef              // a named type
)

type node struct {
	op     op
	text   string
	elems  []*node
	rest   *node // tuple: type of further elements
	needed int   // tuple: elements that are not optional
	fields []field
	index  *node // object: type of further properties
	closed bool  // object: the schema forbids further properties
	def    *def
}

type field struct {
	name     string
	typ      *node
	optional bool
	doc      []string
}

// def is a named type. Its final name is chosen when it joins a namespace.
type def struct {
	name string
	doc  []string
	body *node
}

func name(text string) *node { return &node{op: opName, text: text} }

func isName(n *node, text string) bool { return n.op == opName && n.text == text }

// isTop reports whether a type admits anything.
func isTop(n *node) bool { return isName(n, "unknown") || isName(n, "any") }

// union returns the union of the elements. The union is flattened, and has neither repeated elements nor the type never. If an element admits
// anything, union returns that element.
func union(elems ...*node) *node {
	var out []*node
	for _, e := range elems {
		switch {
		case isTop(e):
			return e
		case isName(e, "never"):
		case e.op == opUnion:
			out = appendNew(out, e.elems...)
		default:
			out = appendNew(out, e)
		}
	}
	return combined(opUnion, out, name("never"))
}

// intersection returns the intersection of the elements.
func intersection(elems ...*node) *node {
	var out []*node
	top := name("unknown")
	for _, e := range elems {
		switch {
		case isTop(e):
			top = e
		case isName(e, "never"):
			return e
		case e.op == opInter:
			out = append(out, e.elems...)
		default:
			out = appendNew(out, e)
		}
	}
	return combined(opInter, out, top)
}

// appendNew appends those elements that the list does not contain yet.
func appendNew(to []*node, elems ...*node) []*node {
	for _, e := range elems {
		if !slices.ContainsFunc(to, func(have *node) bool { return equal(have, e) }) {
			to = append(to, e)
		}
	}
	return to
}

// combined returns the type that an operator makes of the elements. Without elements, it returns the argument none.
func combined(operator op, elems []*node, none *node) *node {
	switch len(elems) {
	case 0:
		return none
	case 1:
		return elems[0]
	}
	return &node{op: operator, elems: elems}
}

// equal compares types, but does not look into objects, so a union may contain the same object twice.
func equal(a, b *node) bool {
	if a == b {
		return true
	}
	if a.op != b.op {
		return false
	}
	switch a.op {
	case opName:
		return a.text == b.text
	case opRef:
		return a.def == b.def
	case opArray:
		return equal(a.elems[0], b.elems[0])
	}
	return false
}

// walk visits n and everything below it, without following references.
func walk(n *node, visit func(*node)) {
	if n == nil {
		return
	}
	visit(n)
	for _, e := range n.elems {
		walk(e, visit)
	}
	walk(n.rest, visit)
	walk(n.index, visit)
	for _, f := range n.fields {
		walk(f.typ, visit)
	}
}

// breakCycles makes type aliases legal. An alias may not refer to itself through unions, intersections and other aliases alone. A schema that refers
// to itself in this way admits any value there, so the reference that closes the cycle becomes unknown.
func breakCycles(defs []*def) {
	const (
		unseen = iota
		open
		done
	)
	state := map[*def]int{}
	var direct func(n *node)
	visit := func(d *def) {
		state[d] = open
		direct(d.body)
		state[d] = done
	}
	direct = func(n *node) {
		switch n.op {
		case opUnion, opInter:
			for _, e := range n.elems {
				direct(e)
			}
		case opRef:
			switch {
			case n.def.body == nil || n.def.body.op == opObject:
				// An interface may refer to itself freely.
			case state[n.def] == open:
				*n = *name("unknown")
			case state[n.def] == unseen:
				visit(n.def)
			}
		}
	}
	for _, d := range defs {
		if state[d] == unseen && d.body.op != opObject {
			visit(d)
		}
	}
}

// literal returns the type whose only value is the JSON value v.
func literal(v *schema.Value, depth int) *node {
	switch {
	case v.Is(schema.Array) && depth < maxNesting && len(v.Items) <= maxTuple:
		n := &node{op: opTuple, needed: len(v.Items)}
		for _, item := range v.Items {
			n.elems = append(n.elems, literal(item, depth+1))
		}
		return n
	case v.Is(schema.Object) && depth < maxNesting && len(v.Members) <= maxTuple:
		n := &node{op: opObject}
		for _, m := range v.Members {
			n.fields = append(n.fields, field{name: m.Name, typ: literal(m.Value, depth+1)})
		}
		return n
	case v.Is(schema.Array), v.Is(schema.Object):
		return name("unknown")
	}
	return name(v.JSON())
}
