package program

import "strings"

// rewriteImports makes import(x) in esbuild's output a call of the function named dynamic, and import.meta a variable,
// without moving anything. used holds the words that the code uses as more than a property's name, if wanted; meta is
// the variable's name, or "" if there is no import.meta.
func rewriteImports(code, dynamic string, wanted bool) (used map[string]bool, text, meta string) {
	dynamicOrMeta := strings.Contains(code, "import")
	if !dynamicOrMeta && !wanted {
		return nil, code, ""
	}
	used = map[string]bool{}
	changed := []byte(code)
	s := tokenize(code)
	for i, t := range s.tokens {
		if t.kind != word {
			continue
		}
		name := code[t.start:t.end]
		switch {
		case t.member && (s.is(i-1, ".") || s.is(i-1, "?.") || s.is(i+1, ":") || s.is(i+1, "(")):
		case name == "import" && s.is(i+1, "("):
			copy(changed[t.start:], dynamic)
		case name == "import" && s.is(i+1, ".") && s.is(i+2, "meta") && s.tokens[i+2].end-t.start == len("import.meta"):
			meta = dynamic + "_meta"
			copy(changed[t.start:], meta)
		default:
			used[identifier(name)] = true
		}
	}
	return used, string(changed), meta
}

// identifier is an identifier without escapes, which esbuild writes for what is not ASCII.
func identifier(name string) string {
	if !strings.Contains(name, `\u`) {
		return name
	}
	return unquote(`"` + name + `"`)
}
