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

// Counted is Text, with the number of bytes that are missing.
func Counted(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("… (%d bytes more)", len(s)-n)
}
