// Package clip cuts texts to size.
package clip

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Head is the longest beginning of s that has at most n bytes and ends between two characters.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Text is s; of more than n bytes it is the head, in valid UTF-8, and "...".
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// maxWord is how much of its head Words gives up for a head that ends with a word.
const maxWord = 1000

// Words is Text whose head ends with a whole word that is no number, if there is one near the end. A cut telephone number would not be
// recognized as personal data.
func Words(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head := s[:n]
	if i := strings.LastIndexAny(head, " \t\r\n"); i >= max(0, n-maxWord) {
		head = strings.TrimRight(head[:i], " \t\r\n0123456789+-./()")
	}
	return strings.ToValidUTF8(head, "") + "..."
}

// Counted is Text, with the number of bytes that are missing.
func Counted(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("… (%d bytes more)", len(s)-n)
}
