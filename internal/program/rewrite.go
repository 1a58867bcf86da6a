package program

import "strings"

// rewriteImports replaces import(x) in esbuild's output by a call of the function named dynamic, and import.meta by a
// variable, without moving the rest. used holds the words that the code uses other than as names of properties. meta is
// the variable's name, or "" if the code has no import.meta.
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
			copy(changed[rest:s.tokens[i+2].end], strings.Repeat(" ", s.tokens[i+2].end-rest)) // blanks the rest of import.meta
		default:
			used[identifier(name)] = true
		}
	}
	return used, string(changed), meta
}

// isKey reports whether token i names a property or method that an object or a class defines.
func (s *scan) isKey(i int) bool {
	switch {
	case s.is(i+1, ":"):
		return s.is(i-1, "{") || s.is(i-1, ",")
	case s.is(i+1, "(") && s.is(s.tokens[i+1].match+1, "{") && !s.tokens[s.tokens[i+1].match+1].newline: // a method, not a call followed by a block
		function := s.is(i-1, "function") || s.is(i-1, "*") && s.is(i-2, "function")
		return !function && !s.is(i-1, "extends")
	}
	return false
}

// identifier returns an identifier without the escapes that esbuild writes for characters outside ASCII.
func identifier(name string) string {
	if !strings.Contains(name, `\u`) {
		return name
	}
	return unquote(`"` + name + `"`)
}
