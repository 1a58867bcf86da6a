package mcpclient

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"html"
	"slices"
	"sort"
	"strconv"
	"strings"
)

const (
	// minSecret is the minimum length in bytes of a credential to search for: texts contain shorter ones by chance.
	minSecret = 8
	// maxEscape is the maximum length in bytes of an escape that may itself be escaped again.
	maxEscape = 32

	credentialText = "[credential]"
)

// repeats finds credentials that a server repeats: plain, reversed, in hexadecimal, in base64 (also as part of a longer text), and with
// characters escaped as in JSON, URLs and HTML. It takes time linear in the length of the text and is safe for concurrent use.
type repeats struct {
	texts map[uint64][]string // encoded credentials by their first eight bytes
	first [1 << 10]uint64     // bit set of the hashes of those first bytes
}

// newRepeats returns the filter for credentials, nil if there are none to search for.
func newRepeats(secrets []string) *repeats {
	f := &repeats{texts: map[uint64][]string{}}
	for _, secret := range secrets {
		if len(secret) < minSecret {
			continue
		}
		for _, text := range spellings(secret) {
			key := binary.LittleEndian.Uint64([]byte(text))
			if !slices.Contains(f.texts[key], text) {
				f.texts[key] = append(f.texts[key], text)
			}
			h := hashed(key)
			f.first[h>>6] |= 1 << (h & 63)
		}
	}
	if len(f.texts) == 0 {
		return nil
	}
	return f
}

func hashed(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> 48 }

// spellings returns the encoded forms of a credential. In the base64 of a longer text the credential has one of three alignments; characters
// that depend on the surrounding text are left out.
func spellings(secret string) []string {
	reversed := []byte(secret)
	slices.Reverse(reversed)
	digits := hex.EncodeToString([]byte(secret))
	all := []string{secret, string(reversed), digits, strings.ToUpper(digits)}
	for at := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString([]byte(strings.Repeat("x", at) + secret))
			text = text[[]int{0, 2, 3}[at]:]
			if (at+len(secret))%3 != 0 {
				text = text[:len(text)-1]
			}
			all = append(all, text)
		}
	}
	return all
}

// clean replaces the credentials in data. It returns data itself if there are none.
func (f *repeats) clean(data []byte) []byte {
	if f == nil || len(data) < minSecret {
		return data
	}
	text, escapes := unescape(data)
	var out []byte
	copied := 0
	for i := 0; i+minSecret <= len(text); {
		end := f.at(text, i)
		if end == 0 {
			i++
			continue
		}
		out = append(append(out, data[copied:original(escapes, i)]...), credentialText...)
		copied = original(escapes, end)
		i = end
	}
	if copied == 0 {
		return data
	}
	return append(out, data[copied:]...)
}

// at returns the end of the credential that begins at i, 0 if none begins there.
func (f *repeats) at(text []byte, i int) (end int) {
	key := binary.LittleEndian.Uint64(text[i:])
	if h := hashed(key); f.first[h>>6]&(1<<(h&63)) == 0 {
		return 0
	}
	for _, spelling := range f.texts[key] {
		if n := len(spelling); i+n <= len(text) && i+n > end && string(text[i:i+n]) == spelling {
			end = i + n
		}
	}
	return end
}

// shift maps indexes of an unescaped text to indexes of the original text: by is added to every index from at onwards.
type shift struct{ at, by int }

// original returns the index in the original of the byte at i of an unescaped text.
func original(shifts []shift, i int) int {
	n := sort.Search(len(shifts), func(n int) bool { return shifts[n].at > i })
	if n == 0 {
		return i
	}
	return i + shifts[n-1].by
}

// unescape replaces escapes of ASCII characters by the characters. It returns data itself if there are none.
func unescape(data []byte) (text []byte, shifts []shift) {
	copied := 0
	for i := 0; i < len(data); {
		if c := data[i]; c != '\\' && c != '%' && c != '&' {
			i++
			continue
		}
		c, size := escaped(data[i:min(len(data), i+maxEscape)])
		if size == 0 {
			i++
			continue
		}
		text = append(append(text, data[copied:i]...), c)
		i += size
		copied = i
		shifts = append(shifts, shift{len(text), copied - len(text)})
	}
	if copied == 0 {
		return data, nil
	}
	return append(text, data[copied:]...), shifts
}

// escaped returns the ASCII character of the escape at the start of data and the length of the escape, 0 if there is none. An escape that is
// itself escaped counts as one escape.
func escaped(data []byte) (c byte, size int) {
	switch data[0] {
	case '\\':
		i := len(data) - len(bytes.TrimLeft(data, `\`))
		switch {
		case i == len(data):
		case data[i] == 'u' && len(data) >= i+5:
			return codeUnit(string(data[i+1:i+5]), i+5)
		case data[i] == 'x' && len(data) >= i+3:
			return codeUnit(string(data[i+1:i+3]), i+3)
		case bytes.IndexByte([]byte(`/"'`), data[i]) >= 0:
			return data[i], i + 1
		}
	case '%':
		i := 1
		for bytes.HasPrefix(data[i:], []byte("25")) && len(data) >= i+4 {
			i += 2
		}
		if len(data) >= i+2 {
			return codeUnit(string(data[i:i+2]), i+2)
		}
	case '&':
		end := bytes.IndexByte(data, ';')
		if end < 0 {
			return 0, 0
		}
		if text := html.UnescapeString(string(data[:end+1])); len(text) == 1 && text[0] < 0x80 {
			return text[0], end + 1
		}
	}
	return 0, 0
}

// codeUnit decodes the hexadecimal digits of an escape, and returns the character and the size of the escape in bytes. It returns 0 and 0 if the
// digits are not a printable ASCII character.
func codeUnit(digits string, size int) (byte, int) {
	n, err := strconv.ParseUint(digits, 16, 16)
	if err != nil || n < ' ' || n > '~' {
		return 0, 0
	}
	return byte(n), size
}
