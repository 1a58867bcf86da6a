package dts

import "slices"

// Type is a type as the declarations have it. The zero value says nothing.
type Type struct{ n *node }

// Types are the input of a tool and what a call of it gives, as they are declared.
func Types(t Tool) (input, answer Type) {
	f := newFunction(t)
	return Type{f.in.body}, Type{f.out.body}
}

// Kind says what the values of a Type are.
type Kind uint8

// Kinds of types. A literal is one value of a string, number or boolean.
const (
	Anything Kind = iota
	Null
	String
	Number
	Boolean
	Literal
	Array
	Object
)

// maxAlternatives bounds the alternatives of a type that are looked at; one with more says nothing.
const maxAlternatives = 200

// Alternatives are the types that a value of t may have, references and unions resolved; never is none. Each has a Kind that is not
// Anything, or there is one alternative.
func (t Type) Alternatives() []Type {
	var out []Type
	if !alternatives(t.n, &out, 0) {
		return []Type{{}}
	}
	return out
}

func alternatives(n *node, out *[]Type, depth int) bool {
	switch {
	case depth > maxNesting || len(*out) == maxAlternatives:
		return false
	case n == nil, isTop(n), n.op == opInter:
		return false
	case isName(n, "never"):
		return true
	case n.op == opRef:
		return alternatives(n.def.body, out, depth+1)
	case n.op == opUnion:
		return !slices.ContainsFunc(n.elems, func(e *node) bool { return !alternatives(e, out, depth+1) })
	}
	*out = append(*out, Type{n})
	return true
}

// Kind is the kind of one alternative.
func (t Type) Kind() Kind {
	if t.n == nil {
		return Anything
	}
	switch t.n.op {
	case opArray, opTuple:
		return Array
	case opObject:
		return Object
	case opName:
		switch t.n.text {
		case "null":
			return Null
		case "string":
			return String
		case "number":
			return Number
		case "boolean":
			return Boolean
		case "unknown", "any", "never":
			return Anything
		}
		return Literal
	}
	return Anything
}

// Literal is the JSON text of a literal.
func (t Type) Literal() string { return t.n.text }

// Element is the type of an item of an array; index is its place, -1 any.
func (t Type) Element(index int) Type {
	switch {
	case t.n == nil:
		return Type{}
	case t.n.op == opArray:
		return Type{t.n.elems[0]}
	case t.n.op == opTuple && index >= 0 && index < len(t.n.elems):
		return Type{t.n.elems[index]}
	}
	return Type{}
}

// Field is the type of an object's field. found is false where there is none of the name; open says that the object may have fields
// that are not named.
func (t Type) Field(name string) (typ Type, found, open bool) {
	if i := slices.IndexFunc(t.n.fields, func(f field) bool { return f.name == name }); i >= 0 {
		return Type{t.n.fields[i].typ}, true, t.n.index != nil
	}
	return Type{}, false, t.n.index != nil
}

// Closed reports whether an object's schema forbids fields that it does not name, instead of only not naming them.
func (t Type) Closed() bool { return t.n.closed && t.n.index == nil }

// Fields are the names of an object's fields, and those that it must have.
func (t Type) Fields() (all, required []string) {
	for _, f := range t.n.fields {
		all = append(all, f.name)
		if !f.optional {
			required = append(required, f.name)
		}
	}
	return all, required
}

// String is the type in few words.
func (t Type) String() string {
	if t.n == nil {
		return "any"
	}
	if t.n.op == opRef {
		return compact(t.n.def.body, 1)
	}
	return compact(t.n, 1)
}
