package program

import "slices"

// asExpression reports whether code, without its lifted declarations, may be a single expression. The value of that
// expression is then the program's result. It returns the semicolons at the end, which the caller blanks. The parser
// decides: a text that does not parse as an expression is compiled as statements.
//
// A lone function declaration counts as an expression, since its author can only mean it to be called. So does
// `{a: 1}`: a text that could be an object literal with at least one property is taken as an object, not a block. The
// value of the last of several statements is not a result.
func (s *scan) asExpression(lifted []decl) (semicolons []int, ok bool) {
	var rest []int // tokens at the top level outside the declarations
	for i, t := range s.tokens {
		for len(lifted) > 0 && t.start >= lifted[0].end {
			lifted = lifted[1:]
		}
		if t.depth == 0 && (len(lifted) == 0 || t.start < lifted[0].start) {
			rest = append(rest, i)
		}
	}
	for len(rest) > 0 && s.is(rest[len(rest)-1], ";") {
		semicolons = append(semicolons, rest[len(rest)-1])
		rest = rest[:len(rest)-1]
	}
	if len(rest) == 0 || s.problem != nil {
		return nil, false
	}
	if slices.ContainsFunc(rest, func(i int) bool { return s.is(i, ";") }) || len(rest) > 1 && s.is(rest[1], ":") {
		return nil, false
	}
	switch first := rest[0]; s.text(first) {
	case "{":
		switch s.text(first + 1) {
		case "if", "for", "while", "with", "switch": // a statement in a block; a method of this name is unlikely
			return semicolons, len(rest) == 2 && !s.is(first+2, "(")
		}
		return semicolons, len(rest) == 2 && rest[1] > first+1
	case "class", "@": // declarations, although they would parse as expressions
		return nil, false
	case "function":
		return semicolons, s.endsWithBody(rest)
	case "async":
		return semicolons, !s.is(first+1, "function") || s.endsWithBody(rest)
	case "const", "let", "var", "if", "for", "while", "do", "switch", "try", "throw", "return", "export": // statements, which would not parse as expressions
		return nil, false
	case "namespace", "module", "declare", "import":
		return semicolons, !s.isKind(first+1, word) && !s.isKind(first+1, str)
	}
	return semicolons, true
}

// endsWithBody reports whether nothing follows the function declaration that a program begins with. Parentheses after its body would
// call it if the parser took the program for an expression.
func (s *scan) endsWithBody(rest []int) bool {
	for k, i := range rest[:len(rest)-1] {
		if s.is(i, "}") && !s.is(rest[k+1], "{") { // a brace followed by another one ends a type
			return false
		}
	}
	return true
}
