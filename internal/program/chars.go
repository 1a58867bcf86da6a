package program

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// regexEnd returns the end of the regular expression that begins at i, or 0 if its line ends first.
func regexEnd(code string, i int) int {
	brackets := false
	for j := i + 1; j < len(code); j++ {
		switch code[j] {
		case '\\':
			j++
			if j < len(code) && (code[j] == '\n' || code[j] == '\r') {
				return 0
			}
		case '[':
			brackets = true
		case ']':
			brackets = false
		case '/':
			if !brackets {
				return wordEnd(code, j+1)
			}
		case '\n', '\r':
			return 0
		}
	}
	return 0
}

// numberEnd returns the end of the number that begins at i, including the members that are read from it, as in
// 1.5.toFixed.
func numberEnd(code string, i int) int {
	hex := strings.HasPrefix(code[i:], "0x") || strings.HasPrefix(code[i:], "0X")
	for i++; i < len(code); i++ {
		c := code[i]
		sign := (c == '+' || c == '-') && !hex && code[i-1]|0x20 == 'e'
		if !sign && c != '.' && c != '_' && !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'z') {
			break
		}
	}
	return i
}

func lineEnd(code string, i int) int {
	if j := strings.IndexAny(code[i:], "\n\r\u2028\u2029"); j >= 0 {
		return i + j
	}
	return len(code)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isSpace(r rune) bool {
	return r == '\ufeff' || r == '\u2028' || r == '\u2029' || r != '\u0085' && unicode.IsSpace(r)
}

func isWordStart(code string, i int) bool {
	c := code[i]
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', c == '$':
		return true
	case c == '#':
		return i+1 < len(code) && code[i+1] != '#' && isWordStart(code, i+1)
	case c == '\\':
		return i+1 < len(code) && code[i+1] == 'u'
	case c < utf8.RuneSelf:
		return false
	}
	r, _ := utf8.DecodeRuneInString(code[i:])
	return unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
}

func wordEnd(code string, i int) int {
	if i < len(code) && code[i] == '#' {
		i++
	}
	for i < len(code) {
		c := code[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', c == '$', isDigit(c):
			i++
		case c == '\\' && strings.HasPrefix(code[i:], `\u{`):
			j := strings.IndexByte(code[i:], '}')
			if j < 0 {
				return len(code)
			}
			i += j + 1
		case c == '\\' && strings.HasPrefix(code[i:], `\u`):
			i = min(i+6, len(code))
		case c < utf8.RuneSelf:
			return i
		default:
			r, size := utf8.DecodeRuneInString(code[i:])
			if !unicode.IsLetter(r) && !unicode.In(r, unicode.Nl, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc) &&
				r != '\u200c' && r != '\u200d' {
				return i
			}
			i += size
		}
	}
	return i
}
