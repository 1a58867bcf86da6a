package detect

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// view is a text as the detectors read it: escapes are decoded; digits, dashes, spaces, @ and dots are ASCII; characters that are not visible are
// left out. The view knows where each byte comes from.
type view struct {
	text  string
	units []unit // changed ranges in ascending order; the bytes between them are unchanged
}

// unit is a part of a view that differs from the original: n bytes at offset at, in place of fromN bytes at offset from.
type unit struct {
	at, from uint32
	n, fromN uint8
}

func (v *view) unit(at int) (unit, bool) {
	i := sort.Search(len(v.units), func(i int) bool { return int(v.units[i].at) > at })
	if i == 0 {
		return unit{}, false
	}
	return v.units[i-1], true
}

// start returns the offset in the original that corresponds to the beginning of byte at of the view.
func (v *view) start(at int) int {
	u, ok := v.unit(at)
	switch past := at - int(u.at) - int(u.n); {
	case !ok:
		return at
	case past < 0:
		return int(u.from)
	default:
		return int(u.from) + int(u.fromN) + past
	}
}

// end returns the offset in the original that corresponds to the end of byte at-1 of the view.
func (v *view) end(at int) int {
	u, ok := v.unit(at - 1)
	if !ok {
		return at
	}
	return int(u.from) + int(u.fromN) + max(0, at-int(u.at)-int(u.n))
}

// normalize returns the view of a text. Its time is linear, because maxEscape bounds the length of an escape.
func normalize(text string) view {
	i := plainPrefix(text)
	if i == len(text) {
		return view{text: text}
	}
	v := view{}
	var out strings.Builder
	copied := 0 // length of the text that has been copied to out
	for i < len(text) {
		if classes[text[i]]&(high|escape) == 0 {
			i++
			continue
		}
		r, size := decode(text[i:])
		folded := fold(r)
		if text[i] >= 0xC2 && folded == r { // The characters beside r may change how detectors read r.
			switch last := v.last(text, i, copied, &out); {
			case isMark(r) && last != 0 && classes[last]&(letter|high) == 0:
				folded = -1
			case isDigit(last):
				folded = between(r, text[i+size:])
			}
		}
		if size == 0 || folded == r && text[i] >= utf8.RuneSelf { // There is no escape, or the character stays.
			i += max(size, 1)
			continue
		}
		if out.Len() == 0 {
			out.Grow(len(text))
		}
		out.WriteString(text[copied:i])
		u := unit{at: uint32(out.Len()), from: uint32(i), fromN: uint8(size)}
		if folded >= 0 {
			out.WriteRune(folded)
		}
		u.n = uint8(out.Len() - int(u.at))
		v.units = append(v.units, u)
		i += size
		copied = i
	}
	if v.units == nil {
		return view{text: text}
	}
	out.WriteString(text[copied:])
	v.text = out.String()
	return v
}

// last returns the byte of the view before i, or 0 if there is none. The text up to copied is in out.
func (v *view) last(text string, i, copied int, out *strings.Builder) byte {
	if i > copied {
		return text[i-1]
	}
	if out.Len() == 0 {
		return 0
	}
	return out.String()[out.Len()-1]
}

// isMark reports whether r is a mark that combines with the character before it, such as an accent, a stroke, or the keycap around a digit.
func isMark(r rune) bool {
	return r >= 0x300 && r < 0x370 || r >= 0x1AB0 && r < 0x1B00 || r >= 0x1DC0 && r < 0x1E00 || r >= 0x20D0 && r < 0x2100 || r >= 0xFE20 && r < 0xFE30
}

// between returns the character that detectors read for r after a digit: a dash or a dot if another digit follows.
func between(r rune, after string) rune {
	next, _ := utf8.DecodeRuneInString(after)
	if next = fold(next); next < '0' || next > '9' {
		return r
	}
	switch r {
	case 0x30FC, 0xFF70, 0x4E00, 0x2500, 0x3161, 0x1173: // mark of a long vowel in Japanese, 1 in Han, a line, the vowel eu in Korean
		return '-'
	case 0xB7, 0x30FB, 0xFF65, 0x2219, 0x22C5, 0x2022: // dots in the middle
		return '.'
	}
	return r
}

// plainPrefix returns the number of bytes at the beginning of a text that are ASCII and begin no escape. It reads eight bytes at a time.
func plainPrefix(text string) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(text); i += 8 {
		b := text[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		found := x // a high bit is set for a byte beyond ASCII, and, from the loop below, for a byte that may begin an escape
		for _, c := range [...]uint64{'\\', '%', '&'} {
			different := x ^ c*ones
			found |= different - ones
		}
		if found&highs != 0 {
			break
		}
	}
	for i < len(text) && classes[text[i]]&(high|escape) == 0 {
		i++
	}
	return i
}

// fold returns the character that detectors read for r, or -1 for none.
func fold(r rune) rune {
	switch {
	case r < 0xAD || r >= 0x3040 && r < 0xA4D0: // ASCII; kana and Han
		if r == 0xA0 {
			return ' '
		}
		return r
	case r >= 0xFF01 && r <= 0xFF5E: // full-width forms
		return r - 0xFF01 + '!'
	case r == 0x3002 || r == 0xFF61 || r == 0xFE52 || r == 0x2024: // ideographic full stops and other dots
		return '.'
	case r == 0xFE6B: // small @
		return '@'
	case r == 0x2212 || r == 0x2043 || r == 0x02D7: // minus and bullets that look like it
		return '-'
	case r == 0x2028 || r == 0x2029:
		return '\n'
	case unicode.Is(unicode.Cf, r) || r >= 0xFE00 && r <= 0xFE0F || invisible(r): // zero-width characters, marks of direction, variation selectors
		return -1
	case unicode.Is(unicode.Zs, r):
		return ' '
	case unicode.Is(unicode.Pd, r):
		return '-'
	}
	if r >= 0x0660 {
		return foldDigit(r)
	}
	return r
}

// invisible recognizes the invisible characters outside of Unicode's category Cf, the format characters: a grapheme joiner, fillers and others.
func invisible(r rune) bool {
	switch r {
	case 0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2065, 0x3164, 0xFFA0:
		return true
	}
	return r >= 0xFFF0 && r <= 0xFFF8 || r >= 0xE0000 && r <= 0xE0FFF
}

// foldDigit returns the ASCII digit for a decimal digit of any script. Unicode's digits come in tens, zero first.
func foldDigit(r rune) rune {
	for _, block := range unicode.Nd.R16 {
		if r <= rune(block.Hi) {
			if r < rune(block.Lo) {
				return r
			}
			return '0' + (r-rune(block.Lo))%10
		}
	}
	for _, block := range unicode.Nd.R32 {
		if r <= rune(block.Hi) {
			if r < rune(block.Lo) {
				return r
			}
			return '0' + (r-rune(block.Lo))%10
		}
	}
	return r
}
