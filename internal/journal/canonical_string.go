package journal

import (
	"unicode/utf16"
	"unicode/utf8"
)

// text consumes a string and returns its canonical text.
func (s *scanner) text() ([]byte, bool) {
	start := s.i
	plain, ok := s.quoted()
	if !ok {
		return nil, false
	}
	if plain {
		return s.b[start:s.i], true
	}
	return requote(s.b[start:s.i]), true
}

// quoted consumes a string. It is plain if its text is certainly canonical.
func (s *scanner) quoted() (plain, ok bool) {
	if !s.take('"') {
		return false, false
	}
	plain = true
	for s.i < len(s.b) {
		c := s.b[s.i]
		switch {
		case c == '"':
			s.i++
			return plain, true
		case c == '\\':
			s.i++
			switch s.peek() {
			case '"', '\\', 'b', 'f', 'n', 'r', 't':
				s.i++
			case '/':
				plain = false
				s.i++
			case 'u':
				plain = false
				if _, ok := hex4(s.b[s.i+1:]); !ok {
					return false, false
				}
				s.i += 5
			default:
				return false, false
			}
		case c < 0x20:
			return false, false
		case c < utf8.RuneSelf:
			s.i++
		default:
			r, n := utf8.DecodeRune(s.b[s.i:])
			if r == utf8.RuneError && n == 1 {
				plain = false
			}
			s.i += n
		}
	}
	return false, false
}

// requote gives a valid JSON string its one spelling: \" \\ \b \f \n \r \t, \u00xx for other control characters, \udxxx
// for a lone surrogate, which JavaScript strings may hold and UTF-8 cannot, everything else as it is.
func requote(q []byte) []byte {
	out := make([]byte, 0, len(q))
	for i := 0; i < len(q); {
		switch c := q[i]; {
		case c == '\\' && q[i+1] == 'u':
			r, _ := hex4(q[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				if i+1 < len(q) && q[i] == '\\' && q[i+1] == 'u' {
					low, _ := hex4(q[i+2:])
					if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
						out = utf8.AppendRune(out, pair)
						i += 6
						continue
					}
				}
				out = appendHex(out, r)
				continue
			}
			out = appendRune(out, r)
		case c == '\\' && q[i+1] == '/':
			out = append(out, '/')
			i += 2
		case c == '\\':
			out = append(out, c, q[i+1])
			i += 2
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, n := utf8.DecodeRune(q[i:])
			out = utf8.AppendRune(out, r) // a byte that is no UTF-8 becomes U+FFFD
			i += n
		}
	}
	return out
}

// appendRune appends a character that was written as \uXXXX.
func appendRune(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	if r < 0x20 {
		return appendHex(b, r)
	}
	return utf8.AppendRune(b, r)
}

func appendHex(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
