package program

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

type declKind uint8

const (
	importFrom    declKind = iota // import ... from 'x', import 'x'
	exportFrom                    // export ... from 'x'
	exportList                    // export {a, b}
	exportDefault                 // export default <expression>
	exportNamed                   // export default function f, export default class C; the result is f or C
	exportKeyword                 // the keyword export before a declaration
)

// decl is an import or export declaration at the top level of a file.
type decl struct {
	kind       declKind
	start, end int // range of the declaration, or of the keywords for exportDefault and exportKeyword
	specifier  string
	pos        int // position of the specifier
	typeOnly   bool
	bindings   []binding
	name       string // declared name for exportNamed
}

// binding is one imported or re-exported name.
type binding struct {
	name  string // name before "as"; "default" for a default import, "*" for the namespace
	local string // name after "as"; equal to name if there is no "as"; "" for export *
	pos   int
}

// declarations returns the import and export declarations of a file. It omits a declaration that it cannot read: the
// parser then finds it in place and reports the error.
func (s *scan) declarations() []decl {
	var found []decl
	for i := 0; i < len(s.tokens); i++ {
		var d decl
		var next int
		var ok bool
		switch {
		case s.tokens[i].depth != 0 || !s.beginsDeclaration(i):
		case s.is(i, "import"):
			d, next, ok = s.readImport(i)
		case s.is(i, "export"):
			d, next, ok = s.readExport(i)
		}
		if ok {
			d.start = s.tokens[i].start
			found = append(found, d)
			i = next - 1
		}
	}
	return found
}

// beginsDeclaration reports whether the statement before token i has ended, so that a declaration can begin there. import and
// export are reserved words, so they cannot continue an operand on the line before.
func (s *scan) beginsDeclaration(i int) bool {
	if i == 0 || s.is(i-1, ";") || s.is(i-1, "}") {
		return true
	}
	before := s.tokens[i-1]
	if s.is(i-1, ")") && s.is(before.match-1, "while") { // the loop is a do statement
		return true
	}
	ended := before.operand || s.is(i-1, ">") || s.is(i-1, "void") // types can end with these two
	decorated := s.is(i, "export") && (s.is(i+1, "class") || s.is(i+1, "default"))
	return ended && (s.tokens[i].newline || decorated)
}

// readImport reads the declaration that begins with the import at token i.
func (s *scan) readImport(i int) (d decl, next int, ok bool) {
	d.kind = importFrom
	j := i + 1
	if s.isKind(j, str) {
		return s.readFrom(d, j)
	}
	if s.is(j, "type") && s.isTypeOnly(j) {
		d.typeOnly = true
		j++
	}
	if s.isName(j) {
		d.bindings = append(d.bindings, binding{name: "default", local: s.text(j), pos: s.tokens[j].start})
		j++
		if s.is(j, ",") {
			j++
		} else {
			return s.readFromClause(d, j)
		}
	}
	switch {
	case s.is(j, "*") && s.is(j+1, "as") && s.isName(j+2):
		d.bindings = append(d.bindings, binding{name: "*", local: s.text(j + 2), pos: s.tokens[j+2].start})
		j += 3
	case s.is(j, "{"):
		if j, ok = s.readNames(&d, j); !ok {
			return d, 0, false
		}
	default:
		return d, 0, false
	}
	return s.readFromClause(d, j)
}

// isTypeOnly reports whether the word `type` at token j is the modifier and not the name of a default import.
func (s *scan) isTypeOnly(j int) bool {
	switch {
	case s.is(j+1, "{"), s.is(j+1, "*"):
		return true
	case s.is(j+1, "from"):
		return s.is(j+2, "from") || s.is(j+2, "=")
	}
	return s.isName(j + 1)
}

func (s *scan) isName(j int) bool {
	return s.isKind(j, word) && !strings.HasPrefix(s.text(j), "#")
}

// readNames reads { a, b as c, type D, "e-f" as g }.
func (s *scan) readNames(d *decl, j int) (next int, ok bool) {
	for j++; !s.is(j, "}"); {
		first := j
		for s.isName(j) || s.isKind(j, str) {
			j++
		}
		names := j - first
		typeOnly := s.is(first, "type") && (names == 2 || names == 4)
		if typeOnly {
			first++
			names--
		}
		switch {
		case names == 1, names == 3 && s.is(first+1, "as"):
		default:
			return 0, false
		}
		if !typeOnly {
			d.bindings = append(d.bindings, binding{
				name: s.name(first), local: s.name(first + names - 1), pos: s.tokens[first].start,
			})
		}
		if s.is(j, ",") {
			j++
		} else if !s.is(j, "}") {
			return 0, false
		}
	}
	if len(d.bindings) == 0 && j-1 > 0 && !s.is(j-1, "{") {
		d.typeOnly = true // all names are types
	}
	return j + 1, true
}

// name returns an export's name, which is a word or a string.
func (s *scan) name(i int) string {
	if s.isKind(i, str) {
		return unquote(s.code[s.tokens[i].start:s.tokens[i].end])
	}
	return identifier(s.text(i))
}

func (s *scan) readFromClause(d decl, j int) (decl, int, bool) {
	if !s.is(j, "from") || !s.isKind(j+1, str) {
		return d, 0, false
	}
	return s.readFrom(d, j+1)
}

// readFrom reads the specifier at token j, the import attributes and the end of the statement.
func (s *scan) readFrom(d decl, j int) (decl, int, bool) {
	d.pos = s.tokens[j].start
	d.specifier = unquote(s.code[s.tokens[j].start:s.tokens[j].end])
	j++
	if s.is(j+1, "{") && (s.is(j, "with") || s.is(j, "assert") && !s.tokens[j].newline) {
		if j = s.tokens[j+1].match + 1; j == 1 { // the brace is not closed
			return d, 0, false
		}
	}
	return s.readEnd(d, j)
}

// readEnd ends the declaration d, whose last token is before token j. The last result is false unless token j is a semicolon or on a new line, or the
// code ends before token j.
func (s *scan) readEnd(d decl, j int) (decl, int, bool) {
	d.end = s.tokens[j-1].end
	switch {
	case s.is(j, ";"):
		d.end = s.tokens[j].end
		return d, j + 1, true
	case j >= len(s.tokens) || s.tokens[j].newline:
		return d, j, true
	}
	return d, 0, false
}

// readExport reads the declaration that begins with the export at token i.
func (s *scan) readExport(i int) (d decl, next int, ok bool) {
	j := i + 1
	if s.is(j, "type") && (s.is(j+1, "{") || s.is(j+1, "*")) {
		d.typeOnly = true
		j++
	}
	switch {
	case s.is(j, "*"):
		d.kind = exportFrom
		d.bindings = append(d.bindings, binding{name: "*", pos: s.tokens[j].start})
		j++
		if s.is(j, "as") && (s.isName(j+1) || s.isKind(j+1, str)) {
			j += 2
		}
		return s.readFromClause(d, j)
	case s.is(j, "{"):
		typeOnly := d.typeOnly
		if j, ok = s.readNames(&d, j); !ok {
			return d, 0, false
		}
		if s.is(j, "from") {
			d.kind = exportFrom
			return s.readFromClause(d, j)
		}
		d.kind, d.typeOnly = exportList, typeOnly
		return s.readEnd(d, j)
	case s.is(j, "default"):
		return s.readExportDefault(d, j)
	case s.isName(j) && !s.is(j, "as"), s.is(j, "@"):
		d.kind, d.end = exportKeyword, s.tokens[i].end
		return d, j, true
	}
	return d, 0, false
}

func (s *scan) readExportDefault(d decl, j int) (decl, int, bool) {
	d.kind, d.end = exportDefault, s.tokens[j].end
	j++
	if j >= len(s.tokens) {
		return d, 0, false
	}
	k := j
	if s.is(k, "async") && s.is(k+1, "function") || s.is(k, "abstract") && s.is(k+1, "class") {
		k++
	}
	switch {
	case s.is(k, "function"):
		if k++; s.is(k, "*") {
			k++
		}
		if s.isName(k) {
			d.kind, d.name = exportNamed, s.text(k)
		}
	case s.is(k, "class"):
		if s.isName(k+1) && !s.is(k+1, "extends") && !s.is(k+1, "implements") {
			d.kind, d.name = exportNamed, s.text(k+1)
		}
	case s.is(k, "interface") && s.isName(k+1) && !s.tokens[k+1].newline:
		d.kind = exportKeyword
	}
	return d, j, true
}

// unquote returns the value of a string literal. It keeps escapes that it cannot decode.
func unquote(literal string) string {
	body := strings.TrimSuffix(literal[1:], literal[:1])
	before, rest, found := strings.Cut(body, `\`)
	if !found {
		return body
	}
	var b strings.Builder
	for b.WriteString(before); found && rest != ""; b.WriteString(before) {
		char, size := unescape(rest)
		b.WriteString(char)
		before, rest, found = strings.Cut(rest[size:], `\`)
	}
	return b.String()
}

// unescape decodes the escape sequence after a backslash and returns its length in bytes. It keeps a malformed sequence.
func unescape(text string) (char string, size int) {
	switch {
	case text[0] == '\n': // a line continuation
		return "", 1
	case strings.HasPrefix(text, "u{"):
		if digits, _, ok := strings.Cut(text[2:min(len(text), maxEscape)], "}"); ok {
			if r, err := strconv.ParseUint(digits, 16, 32); err == nil {
				return string(rune(r)), len("u{}") + len(digits)
			}
		}
	case strings.IndexByte("ntrxu", text[0]) >= 0: // Go has the same escapes
		head := text[:min(len(text), len("u0000"))]
		if r, _, rest, err := strconv.UnquoteChar(`\`+head, 0); err == nil {
			return string(r), len(head) - len(rest)
		}
	}
	_, size = utf8.DecodeRuneInString(text)
	return text[:size], size
}

// maxEscape bounds the length of an escape sequence, in bytes.
const maxEscape = 32

// blank overwrites code[start:end] with spaces. It keeps line breaks. The spaces for a character have the same number of
// bytes and of UTF-16 units, so that the columns of the text after it stay the same in every unit that engines count in.
func blank(code []byte, start, end int) {
	for i := start; i < end; {
		r, size := utf8.DecodeRune(code[i:end])
		switch {
		case r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029':
		case r == utf8.RuneError && size == 1, size == 1:
			code[i] = ' '
		case size == 2:
			copy(code[i:], "\u00a0")
		case size == 3:
			copy(code[i:], "\u3000")
		default:
			copy(code[i:], "\u00a0\u00a0")
		}
		i += size
	}
}

// blank overwrites a declaration in code with a semicolon and spaces. Without the semicolon, the statement before
// could continue after it.
func (d *decl) blank(code []byte) {
	blank(code, d.start, d.end)
	code[d.start] = ';'
}
