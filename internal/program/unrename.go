package program

import (
	"strings"
	"unicode/utf8"
)

// unrename restores the names that variables have in esbuild's input. esbuild renames a variable that shadows another one, and
// programs see that in the name property of functions and classes and in messages. The output keeps its length: a space replaces
// each character that a name loses. names are those of the source map.
//
// A variable gets its name back only if each word in the output that equals the new name is known: it is a use of this variable, or a word that the
// input has too. So the variables that esbuild adds keep their names and stay distinct from those of the input.
func unrename(source, code, mappings string, names []string) string {
	if len(names) == 0 {
		return code
	}
	in, out := newLines(source), newLines(code)
	original := map[int]string{} // offset of a renamed variable in the output -> its name in the input
	own := map[int]bool{}        // offsets of words that have the same name in the input
	kept := map[string]bool{}    // names that are not changed
	eachSegment(mappings, func(s segment) {
		at, from := out.offset(s.line, s.column), in.offset(s.sourceLine, s.sourceColumn)
		text, written := wordAt(code, at), wordAt(source, from)
		switch {
		case text == "":
		case s.name >= 0 && s.name < len(names) && isRenamed(text, names[s.name]) && identifier(written) == names[s.name]:
			original[at] = names[s.name]
		case identifier(written) == identifier(text):
			own[at] = true
		case s.name >= 0:
			kept[text] = true
		}
	})
	s := tokenize(code)
	renamed := map[string]bool{}
	for at := range original {
		renamed[wordAt(code, at)] = true
	}
	for i, t := range s.tokens {
		text := s.text(i)
		if t.kind != word || original[t.start] != "" || own[t.start] || s.isMember(i) || s.isKey(i) {
			continue
		}
		if renamed[text] || text[0] == '_' || s.is(i-1, "var") || s.is(i-1, "let") || s.is(i-1, "const") || s.is(i-1, "function") {
			kept[identifier(text)] = true
		}
	}
	// If a name is kept, such as the name of a variable that esbuild added, no renamed variable may get it back. The renamed variable then keeps
	// its new name too.
	for changed := true; changed; {
		changed = false
		for at, name := range original {
			if text := wordAt(code, at); kept[name] && !kept[text] {
				kept[text], changed = true, true
			}
		}
	}
	text := []byte(code)
	for at := range original {
		if name := wordAt(code, at); !kept[name] {
			digits := len(name) - len(strings.TrimRight(name, "0123456789"))
			for digits > 0 && identifier(name[:len(name)-digits]) != original[at] {
				digits--
			}
			copy(text[at+len(name)-digits:], strings.Repeat(" ", digits))
		}
	}
	return string(text)
}

// isRenamed reports whether a word is name with a numeric suffix, which is how esbuild renames variables.
func isRenamed(text, name string) bool {
	number, ok := strings.CutPrefix(identifier(text), name)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// wordAt returns the word at an offset, or "".
func wordAt(text string, at int) string {
	if at >= len(text) || !isWordStart(text, at) {
		return ""
	}
	return text[at:wordEnd(text, at)]
}

// lines finds offsets in a text. Queries in ascending order take linear time in total.
type lines struct {
	text    string
	starts  []int
	line    int // line of the last query; at and columns are its offset and column
	at      int
	columns int
}

func newLines(text string) *lines {
	l := &lines{text: text, starts: []int{0}, line: -1}
	for rest, found := text, true; found; {
		if _, rest, found = cutLine(rest); found {
			l.starts = append(l.starts, len(text)-len(rest))
		}
	}
	return l
}

// offset returns the byte offset of a line and a column in UTF-16 units, both from 0.
func (l *lines) offset(line, column int) int {
	if line < 0 || line >= len(l.starts) {
		return len(l.text)
	}
	if line != l.line || column < l.columns {
		l.line, l.at, l.columns = line, l.starts[line], 0
	}
	for l.columns < column && l.at < len(l.text) {
		r, size := utf8.DecodeRuneInString(l.text[l.at:])
		l.at += size
		l.columns++
		if r > 0xffff {
			l.columns++
		}
	}
	return l.at
}
