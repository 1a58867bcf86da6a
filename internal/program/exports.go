package program

import (
	"slices"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// declaring are the words between export and the name that it declares.
var declaring = []string{"abstract", "async", "class", "const", "enum", "function", "let", "var", "*"}

// Exports are the names that the text of a module exports, sorted. It neither executes nor parses the text, so it misses names
// that are computed or not identifiers of ASCII. Its time is linear in the length of the text.
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
	object := -1 // the brace of the last object that is assigned to module.exports
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

// isProperty reports whether token i, in an object literal, is the name of a property or a method.
func (s *scan) isProperty(i int) bool {
	before := i - 1
	for slices.Contains([]string{"async", "get", "set", "*"}, s.text(before)) {
		before--
	}
	return (s.is(before, "{") || s.is(before, ",")) && slices.Contains([]string{":", ",", "(", "}"}, s.text(i+1))
}
