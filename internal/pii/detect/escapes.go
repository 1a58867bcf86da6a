package detect

import (
	"strings"
	"unicode/utf8"
)

// maxEscape is the maximum length of an escape in bytes, with its backslashes or its encoded percent signs.
const maxEscape = 64

// decode reads the character or the escape at the beginning of a text. It returns the character and the number of bytes read, which is 0 for a \,
// % or & that begins no escape. Escapes that are escaped again, such as \\u0040, %2540 and &amp;#64;, are read as one.
func decode(text string) (rune, int) {
	switch text[0] {
	case '\\':
		return backslash(text[:min(len(text), maxEscape)])
	case '%':
		return percent(text[:min(len(text), maxEscape)])
	case '&':
		return entity(text[:min(len(text), maxEscape)])
	}
	return utf8.DecodeRuneInString(text)
}

var backslashes = map[byte]rune{
	'n': '\n', 'r': '\n', 't': '\t', 'b': ' ', 'f': ' ', 'v': ' ', '"': '"', '\'': '\'', '/': '/', '@': '@', '.': '.', '-': '-', '_': '_',
	'+': '+',
}

func backslash(text string) (rune, int) {
	i := 0
	for i < len(text) && text[i] == '\\' {
		i++
	}
	if i == len(text) {
		return 0, 0
	}
	rest := text[i+1:]
	switch c := text[i]; c {
	case 'u':
		if strings.HasPrefix(rest, "{") {
			if end := strings.IndexByte(rest, '}'); end > 1 {
				return codePoint(rest[1:end], 16, i+1+end+1)
			}
		}
		if len(rest) >= 4 {
			return codePoint(rest[:4], 16, i+5)
		}
	case 'x':
		if len(rest) >= 2 {
			return codePoint(rest[:2], 16, i+3)
		}
	default:
		if r, ok := backslashes[c]; ok {
			return r, i + 1
		}
	}
	return 0, 0
}

// codePoint returns the character that the digits of an escape stand for, and size, the length of the escape. If the digits are invalid, it returns
// 0, 0.
func codePoint(digits string, base rune, size int) (rune, int) {
	n := rune(0)
	for i := range len(digits) {
		d := hexValue(digits[i])
		if d < 0 || d >= base || n > utf8.MaxRune {
			return 0, 0
		}
		n = n*base + d
	}
	if n < ' ' && n != '\n' && n != '\t' {
		return ' ', size // control characters separate words
	}
	return n, size
}

// hexValue returns the value of a hexadecimal digit, or -1 for another byte.
func hexValue(c byte) rune {
	switch {
	case c-'0' < 10:
		return rune(c - '0')
	case c|0x20-'a' < 6:
		return rune(c|0x20-'a') + 10
	}
	return -1
}

// percent reads the percent-encoded bytes of one character.
func percent(text string) (rune, int) {
	var encoded [utf8.UTFMax]byte
	i := 0
	for n := range encoded {
		b, size := percentByte(text[i:])
		if size == 0 {
			return 0, 0
		}
		encoded[n] = b
		i += size
		if r, _ := utf8.DecodeRune(encoded[:n+1]); r != utf8.RuneError {
			return r, i
		}
	}
	return 0, 0
}

func percentByte(text string) (byte, int) {
	i := 0
	if i == len(text) || text[i] != '%' {
		return 0, 0
	}
	for i++; strings.HasPrefix(text[i:], "25") && len(text) >= i+4 && isHex(text[i+2]) && isHex(text[i+3]); {
		i += 2
	}
	if len(text) < i+2 || !isHex(text[i]) || !isHex(text[i+1]) {
		return 0, 0
	}
	return byte(hexValue(text[i])<<4 | hexValue(text[i+1])), i + 2
}

var entities = map[string]rune{
	"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\'', "nbsp": ' ', "commat": '@', "period": '.', "plus": '+', "hyphen": '-',
	"dash": '-', "ndash": '-', "mdash": '-', "lpar": '(', "rpar": ')', "colon": ':', "sol": '/', "lowbar": '_', "shy": 0xAD, "ensp": ' ',
	"emsp": ' ', "thinsp": ' ', "zwj": 0x200D, "zwnj": 0x200C, "num": '#', "equals": '=', "Tab": '\t', "NewLine": '\n',
}

func entity(text string) (rune, int) {
	i := 1
	for strings.HasPrefix(text[i:], "amp;") && i+4 < len(text) && (text[i+4] == '#' || classes[text[i+4]]&lower != 0) {
		i += 4
	}
	end := strings.IndexByte(text[i:], ';')
	if end < 2 {
		return plainAmp(i)
	}
	name, size := text[i:i+end], i+end+1
	if name[0] != '#' {
		if r, ok := entities[name]; ok {
			return r, size
		}
		return plainAmp(i)
	}
	if name[1] == 'x' || name[1] == 'X' {
		return codePoint(name[2:], 16, size)
	}
	return codePoint(name[1:], 10, size)
}

// plainAmp returns & and i for an escaped & of i bytes, such as &amp;. If i is 1, the & is not escaped, and plainAmp returns 0, 0.
func plainAmp(i int) (rune, int) {
	if i == 1 {
		return 0, 0
	}
	return '&', i
}
