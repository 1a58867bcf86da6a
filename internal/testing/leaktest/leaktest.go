// Package leaktest finds values in texts, in any of the spellings in which they may occur.
package leaktest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

// Spellings returns the forms in which a text may show a value. In a longer base64 text, the value has one of three alignments; the
// characters that depend on the text around the value are omitted.
func Spellings(value string) map[string]string {
	quoted, _ := json.Marshal(value) // a string can always be encoded
	var percent, escaped strings.Builder
	for _, c := range []byte(value) {
		fmt.Fprintf(&percent, "%%%02X", c)
	}
	for _, c := range utf16.Encode([]rune(value)) {
		fmt.Fprintf(&escaped, `\u%04X`, c)
	}
	reversed := []rune(value)
	slices.Reverse(reversed)
	all := map[string]string{
		"plain": value, "JSON": string(quoted[1 : len(quoted)-1]), "escapes": escaped.String(), "hex": hex.EncodeToString([]byte(value)),
		"query": url.QueryEscape(value), "path": url.PathEscape(value), "percent": percent.String(), "reversed": string(reversed),
	}
	for at := range 3 {
		for name, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := encoding.EncodeToString([]byte(strings.Repeat("x", at) + value))
			text = text[[]int{0, 2, 3}[at]:]
			if (at+len(value))%3 != 0 {
				text = text[:len(text)-1]
			}
			all[fmt.Sprint(name, " at ", at)] = text
		}
	}
	return all
}

// Searcher finds many texts in one pass. Case does not matter.
type Searcher struct {
	texts map[uint64][]sought // texts by their first eight bytes
	first []uint64            // bit set with the hashes of these first eight bytes
}

type sought struct{ text, value, form string }

const (
	prefixSize = 8
	firstBits  = 24
)

// NewSearcher returns a Searcher for the spellings of values.
func NewSearcher(t testing.TB, values []string) *Searcher {
	t.Helper()
	s := &Searcher{texts: map[uint64][]sought{}, first: make([]uint64, 1<<(firstBits-6))}
	for _, value := range values {
		known := map[string]bool{}
		for form, text := range Spellings(value) {
			if text = strings.ToLower(text); known[text] {
				continue
			}
			known[text] = true
			if len(text) < prefixSize {
				t.Fatalf("the %s of %q is too short to be searched for", form, value)
			}
			key := binary.LittleEndian.Uint64([]byte(text))
			s.texts[key] = append(s.texts[key], sought{text, value, form})
			h := hashOf(key)
			s.first[h>>6] |= 1 << (h & 63)
		}
	}
	return s
}

func hashOf(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> (64 - firstBits) }

// Find returns at most ten places where a text contains a value: the value, its form, and the text around it.
func (s *Searcher) Find(text []byte) (found []string) {
	lower := asciiLower(text)
	for i := 0; i+prefixSize <= len(lower) && len(found) < 10; i++ {
		key := binary.LittleEndian.Uint64(lower[i:])
		if h := hashOf(key); s.first[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		for _, w := range s.texts[key] {
			if end := i + len(w.text); end <= len(lower) && string(lower[i:end]) == w.text {
				found = append(found, fmt.Sprintf("%s (%s): …%q…", w.value, w.form, text[max(0, i-80):min(len(text), end+40)]))
			}
		}
	}
	return found
}

// asciiLower returns a copy of a text in lower case. It changes only ASCII characters, so that offsets stay the same.
func asciiLower(text []byte) []byte {
	lower := slices.Clone(text)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return lower
}
