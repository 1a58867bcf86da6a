// Package clip shortens texts to a maximum size.
package clip

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Head returns the longest prefix of s that has at most n bytes and does not split a character.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Text returns s or, if s has more than n bytes, its first n bytes as valid UTF-8 and "...".
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// maxWord is the maximum number of bytes that Words cuts off in addition, so that the text ends with a whole word.
const maxWord = 1000

// Words is like Text, but cuts the text at white space near the end, if there is any. It also leaves out a number before the cut: a truncated
// telephone number would not be recognized as personal data.
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

// Counted is like Text, but ends with the number of missing bytes.
func Counted(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("… (%d bytes more)", len(s)-n)
}
