package program

import (
	"slices"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// declaring lists the words that may stand between export and the declared name.
var declaring = []string{"abstract", "async", "class", "const", "enum", "function", "let", "var", "*"}

// Exports returns the sorted names that the text of a module exports. It neither executes nor parses the text, so it misses
// names that are computed and names that are not ASCII identifiers. Its time is linear in the length of the text.
func Exports(code string) []string {
	s := tokenize(code)
	var names []string
	for _, d := range s.declarations() {
		switch {
		case d.typeOnly:
		case d.kind == exportDefault, d.kind == exportNamed:
			names = append(names, "default")
		case d.kind == exportList, d.kind == exportFrom:
			for _, b := range d.bindings {
				names = append(names, b.local)
			}
		}
	}
	object := -1 // opening brace of the last object assigned to module.exports
	inObject := []bool{false}
	for i, t := range s.tokens {
		ofModule := s.is(i-1, ".") && s.is(i-2, "module")
		switch {
		case s.is(i, "export") && t.depth == 0 && slices.Contains(declaring, s.text(i+1)):
			for i++; slices.Contains(declaring, s.text(i)); i++ {
			}
			names = append(names, s.text(i))
		case !s.is(i, "exports") || s.isMember(i) && !ofModule:
			if inObject[t.depth] && s.isProperty(i) {
				names = append(names, s.text(i))
			}
		case s.is(i+1, ".") && s.is(i+3, "=") && !s.is(i+4, "="):
			names = append(names, s.text(i+2))
		case ofModule && s.is(i+1, "=") && s.is(i+2, "{"):
			object = i + 2
		case ofModule && s.is(i+1, "=") && !s.is(i+2, "="):
			names = append(names, "default")
		}
		inObject = append(inObject[:t.depth+1], i == object)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !ident.IsIdentifier(name) })
	slices.Sort(names)
	return slices.Compact(names)
}

// isProperty reports whether token i names a property or a method of an object literal.
func (s *scan) isProperty(i int) bool {
	before := i - 1
	for slices.Contains([]string{"async", "get", "set", "*"}, s.text(before)) {
		before--
	}
	return (s.is(before, "{") || s.is(before, ",")) && slices.Contains([]string{":", ",", "(", "}"}, s.text(i+1))
}
