package dts

import "slices"

// Type is a type in a declaration. The zero value admits anything.
type Type struct{ n *node }

// Types returns the declared types of a tool's input and of the answer to a call.
func Types(t Tool) (input, answer Type) {
	f := newFunction(t)
	return Type{f.in.body}, Type{f.out.body}
}

// Kind says which values a Type has, such as strings or objects.
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

// maxAlternatives is the maximum number of alternatives of a type; a type with more counts as Anything.
const maxAlternatives = 200

// Alternatives returns the types that a value of t may have, with references and unions resolved. The TypeScript type "never" has no alternatives. If
// one alternative is Anything, Alternatives returns only this one.
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

// Kind returns the kind of one alternative.
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

// Literal returns the JSON text of a literal.
func (t Type) Literal() string { return t.n.text }

// Element returns the type of an item of an array. index is its position; -1 means any item.
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

// Field returns the type of an object's field. found is false if there is no field of that name; open means that the object may have fields that
// are not named.
func (t Type) Field(name string) (typ Type, found, open bool) {
	if i := slices.IndexFunc(t.n.fields, func(f field) bool { return f.name == name }); i >= 0 {
		return Type{t.n.fields[i].typ}, true, t.n.index != nil
	}
	return Type{}, false, t.n.index != nil
}

// Closed reports whether an object's schema forbids all fields that it does not name.
func (t Type) Closed() bool { return t.n.closed && t.n.index == nil }

// Fields returns the names of all fields of an object, and of those that are required.
func (t Type) Fields() (all, required []string) {
	for _, f := range t.n.fields {
		all = append(all, f.name)
		if !f.optional {
			required = append(required, f.name)
		}
	}
	return all, required
}

// String returns a short text of the type.
func (t Type) String() string {
	if t.n == nil {
		return "any"
	}
	if t.n.op == opRef {
		return compact(t.n.def.body, 1)
	}
	return compact(t.n, 1)
}
