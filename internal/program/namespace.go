package program

import (
	"slices"
	"strings"
)

// hasNamespaces reports whether the program declares a namespace, or an alias for a part of a namespace, at its top level. TypeScript allows
// neither in a function.
func (s *scan) hasNamespaces() bool {
	for i, t := range s.tokens {
		if t.depth != 0 || !s.isName(i) || s.isMember(i) {
			continue
		}
		switch name := s.isName(i+1) && !s.tokens[i+1].newline; s.text(i) {
		case "namespace", "module":
			if name && (s.is(i+2, "{") || s.is(i+2, ".")) || s.isKind(i+1, str) && s.is(i-1, "declare") {
				return true
			}
		case "global":
			if s.is(i-1, "declare") && s.is(i+1, "{") {
				return true
			}
		case "import":
			if s.isName(i+1) && s.is(i+2, "=") {
				return true
			}
		}
	}
	return false
}

// throwReturns replaces return by throw if a value follows, or else by bare, a name of six bytes. esbuild accepts both at the top level of a
// module. It returns the offsets of the throws. ok is false if the replacement would change the meaning of the text.
func (s *scan) throwReturns(text []byte, bare string) (thrown []int, ok bool) {
	for i, t := range s.tokens {
		if t.kind != word || s.text(i) != "return" || s.isMember(i) || s.isKey(i) {
			continue
		}
		ends := i+1 == len(s.tokens) || s.is(i+1, ";") || s.is(i+1, "}")
		switch {
		case ends, s.tokens[i+1].newline && (s.isName(i+1) || s.is(i+1, "{")):
			copy(text[t.start:], bare)
		case s.tokens[i+1].newline:
			return nil, false
		default:
			copy(text[t.start:], "throw ")
			thrown = append(thrown, t.start)
		}
	}
	return thrown, true
}

// returnThrows undoes throwReturns in esbuild's output for source. thrown holds the offsets in source. In the output, the columns after a return at
// the beginning of a line are then one too large.
func (p *product) returnThrows(source string, thrown []int, bare string) {
	in, out := newLines(source), newLines(p.Code)
	var places []int
	eachSegment(p.Mappings, func(s segment) {
		at := out.offset(s.line, s.column)
		at += len(p.Code[at:]) - len(strings.TrimLeft(p.Code[at:], " "))
		if _, ok := slices.BinarySearch(thrown, in.offset(s.sourceLine, s.sourceColumn)); ok && strings.HasPrefix(p.Code[at:], "throw ") {
			places = append(places, at)
		}
	})
	slices.Sort(places)
	var b strings.Builder
	last := 0
	for _, at := range slices.Compact(places) {
		before := p.Code[last:at]
		b.WriteString(strings.TrimSuffix(before, " ")) // return is one character longer than throw
		b.WriteString("return")
		last = at + len("throw")
	}
	b.WriteString(p.Code[last:])
	p.Code = strings.ReplaceAll(b.String(), bare, "return")
}
