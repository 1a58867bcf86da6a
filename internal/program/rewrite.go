package program

import "strings"

// rewriteImports makes import(x) in esbuild's output a call of the function named dynamic, and import.meta a variable,
// without moving anything. used holds the words that the code uses as more than a property's name; meta is the variable's
// name, or "" if there is no import.meta.
func rewriteImports(code, dynamic string) (used map[string]bool, text, meta string) {
	used = map[string]bool{}
	changed := []byte(code)
	s := tokenize(code)
	for i, t := range s.tokens {
		name := code[t.start:t.end]
		switch {
		case t.kind != word || s.isMember(i) || s.isKey(i):
		case name == "import" && s.is(i+1, "("):
			copy(changed[t.start:], dynamic)
		case name == "import" && s.is(i+1, ".") && s.is(i+2, "meta") && !strings.Contains(code[t.start:s.tokens[i+2].end], "\n"):
			meta = dynamic + "_meta"
			rest := t.start + copy(changed[t.start:], meta)
			copy(changed[rest:s.tokens[i+2].end], strings.Repeat(" ", s.tokens[i+2].end-rest)) // the spaces and comments of import . meta
		default:
			used[identifier(name)] = true
		}
	}
	return used, string(changed), meta
}

// isKey reports whether a word is the name of a property or method that an object or a class defines.
func (s *scan) isKey(i int) bool {
	switch {
	case s.is(i+1, ":"):
		return s.is(i-1, "{") || s.is(i-1, ",")
	case s.is(i+1, "(") && s.is(s.tokens[i+1].match+1, "{") && !s.tokens[s.tokens[i+1].match+1].newline: // parameters and a body, not a call and a block
		function := s.is(i-1, "function") || s.is(i-1, "*") && s.is(i-2, "function")
		return !function && !s.is(i-1, "extends")
	}
	return false
}

// identifier is an identifier without escapes, which esbuild writes for what is not ASCII.
func identifier(name string) string {
	if !strings.Contains(name, `\u`) {
		return name
	}
	return unquote(`"` + name + `"`)
}
