package clip

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns a text in which codes replace some characters: those that are invisible, that control a terminal, or that change the reading order
// of the text around them. Line ends and tabs stay, and so do joiners between letters or symbols that need joiners.
func Visible(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	last := ' '
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		next, _ := utf8.DecodeRuneInString(rest)
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == '\r' && next == '\n':
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case (r == 0x200c || r == 0x200d) && joins(last) && joins(next):
			b.WriteRune(r)
		case selector(r) && selects(last):
			b.WriteRune(r)
		case !hidden(r):
			b.WriteRune(r) // U+FFFD for a byte that is not valid UTF-8
		case r > 0xffff:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		last = r
	}
	return b.String()
}

// plain reports whether a text has only printable ASCII, line feeds and tabs, which Visible leaves unchanged. Most texts do.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// fillers are invisible characters that Unicode classifies as letters or marks.
var fillers = map[rune]bool{0x034f: true, 0x115f: true, 0x1160: true, 0x17b4: true, 0x17b5: true, 0x180b: true, 0x180c: true, 0x180d: true, 0x180f: true, 0x2800: true, 0x3164: true, 0xffa0: true}

// hidden reports whether a character is invisible. Spaces of any width count as visible. Line and paragraph separators count as hidden,
// because only some readers break lines there.
func hidden(r rune) bool {
	return unicode.Is(unicode.Cf, r) || r == 0x2028 || r == 0x2029 || fillers[r] || selector(r) || r >= 0xe0000 && r <= 0xe0fff
}

// joins reports whether a joiner beside a character has a visible effect: for emoji, and in scripts whose letters have several forms.
func joins(r rune) bool {
	return r >= 0x0590 && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsSymbol(r))
}

// selector reports whether a character is a variation selector, which changes how the character before it looks. Several in a row can hold any text.
func selector(r rune) bool { return r >= 0xfe00 && r <= 0xfe0f }

// selects reports whether a character can look different because of a variation selector: symbols, ideographs, digits of keycaps.
func selects(r rune) bool {
	return r > 0x7f && !hidden(r) || r >= '0' && r <= '9' || r == '#' || r == '*'
}
