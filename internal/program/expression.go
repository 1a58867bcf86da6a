package program

// asExpression reports whether code, without its lifted declarations, may be a single expression, whose value is then
// the program's result. It returns the semicolons that end it, to be blanked. The parser has the last word: a text
// that does not parse as an expression is compiled as statements.
//
// A lone function declaration counts as one, since it can only be meant to be called. So does `{a: 1}`: what could be
// an object literal with at least one property is one, not a block. The value of the last of several statements is not
// a result.
func (s *scan) asExpression(lifted []decl) (semicolons []int, ok bool) {
	var rest []int // tokens outside the declarations, at the top level
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
	first := rest[0]
	if s.is(first, "{") {
		return semicolons, len(rest) == 2 && s.isObject(first)
	}
	if s.beginsStatement(first) || s.isKind(first, word) && len(rest) > 1 && s.is(rest[1], ":") {
		return nil, false
	}
	for k, i := range rest[1:] {
		if k == 0 && s.is(first, "async") && s.is(i, "function") {
			continue
		}
		if s.tokens[i].starts != notStart && !s.tokens[i].member && s.tokens[i].kind != punct || s.is(i, ";") {
			return nil, false
		}
	}
	return semicolons, true
}

// beginsStatement reports whether a statement other than an expression begins at token i.
func (s *scan) beginsStatement(i int) bool {
	if s.isKind(i, punct) {
		return s.is(i, "@")
	}
	sameLine := i+1 < len(s.tokens) && !s.tokens[i+1].newline
	switch s.text(i) {
	case "const", "let", "var", "if", "for", "while", "do", "switch", "try", "throw", "return", "break", "continue",
		"debugger", "class", "enum", "with", "export":
		return true
	case "import": // import( and import.meta are expressions
		return !s.is(i+1, "(") && !s.is(i+1, ".")
	case "type", "interface", "namespace", "module", "declare", "abstract", "using":
		return sameLine && (s.isKind(i+1, word) || s.isKind(i+1, str))
	case "await":
		return s.is(i+1, "using") && s.isKind(i+2, word)
	}
	return false
}

// isObject reports whether the braces that open at token i can be an object literal with at least one property.
func (s *scan) isObject(i int) bool {
	j := i + 1
	if s.is(j, "async") || s.is(j, "get") || s.is(j, "set") || s.is(j, "*") {
		if s.isKind(j+1, word) || s.isKind(j+1, str) {
			j++
		}
	}
	switch {
	case s.is(j, "..."):
		return true
	case s.is(j, "["):
		end := s.closing(j)
		return s.is(end+1, ":") || s.is(end+1, "(") && s.is(s.closing(end+1)+1, "{")
	case s.is(j, "if"), s.is(j, "for"), s.is(j, "while"), s.is(j, "with"), s.is(j, "switch"):
		return s.is(j+1, ":")
	case s.isKind(j, word), s.isKind(j, str), s.isKind(j, number):
		return s.is(j+1, ":") || s.is(j+1, ",") || s.is(j+1, "}") ||
			s.is(j+1, "(") && s.is(s.closing(j+1)+1, "{")
	}
	return false
}

// closing is the token that closes the bracket opened by token i.
func (s *scan) closing(i int) int {
	depth := s.tokens[i].depth
	for i++; i < len(s.tokens); i++ {
		if s.tokens[i].depth == depth && s.tokens[i].kind == punct {
			return i
		}
	}
	return i
}
