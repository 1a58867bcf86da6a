package dts

import (
	"slices"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/catalog/schema"
)

// op says what a node of a type is.
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

// isTop reports whether a type says nothing.
func isTop(n *node) bool { return isName(n, "unknown") || isName(n, "any") }

// union is the type of any of the elements: flattened, without repetition, never and what is contained in a base type.
func union(elems ...*node) *node {
	var out []*node
	add := func(n *node) {
		for _, have := range out {
			if equal(have, n) {
				return
			}
		}
		out = append(out, n)
	}
	for _, e := range elems {
		switch {
		case isTop(e):
			return e
		case isName(e, "never"):
		case e.op == opUnion:
			for _, sub := range e.elems {
				add(sub)
			}
		default:
			add(e)
		}
	}
	switch len(out) {
	case 0:
		return name("never")
	case 1:
		return out[0]
	}
	return &node{op: opUnion, elems: out}
}

// intersection is the type of all of the elements.
func intersection(elems ...*node) *node {
	var out []*node
	var top *node
	for _, e := range elems {
		switch {
		case isTop(e):
			top = e
		case isName(e, "never"):
			return e
		case e.op == opInter:
			out = append(out, e.elems...)
		default:
			if !slices.ContainsFunc(out, func(have *node) bool { return equal(have, e) }) {
				out = append(out, e)
			}
		}
	}
	switch {
	case len(out) == 0 && top != nil:
		return top
	case len(out) == 0:
		return name("unknown")
	case len(out) == 1:
		return out[0]
	}
	return &node{op: opInter, elems: out}
}

// equal compares what needs no deep look; two equal objects that are told apart only make a union longer.
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

// breakCycles makes type aliases legal: an alias may not be defined by itself through unions, intersections and other
// aliases alone. Such a schema says nothing at that point, so the reference that closes the cycle becomes unknown.
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

// literal is the type that has exactly the JSON value v.
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

// propertyName is a property name as it is written in an object type.
func propertyName(s string) string {
	if ident.IsIdentifier(s) {
		return s
	}
	return schema.Quote(s)
}
