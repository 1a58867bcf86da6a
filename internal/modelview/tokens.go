package modelview

import (
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/model"
)

// vocabulary returns the vocabulary, which is loaded on first use.
var vocabulary = model.Vocabulary

// chunk is the number of bytes that are split into tokens at a time. Counting stops soon after the limit, so the rest of a text of megabytes costs
// nothing.
const chunk = 4096

// within reports whether a text has at most limit tokens.
func within(text string, limit int) bool {
	const longest = 128 // length of the longest token in bytes
	switch {
	case len(text) <= limit: // each token has at least one byte
		return true
	case len(text) > longest*limit:
		return false
	}
	// Counting the whole text at once is exact, but slow for a megabyte. Counting in chunks can stop once the text is clearly too long.
	if most := limit + limit/8; len(text) > 2*chunk && tokens(text, most) > most {
		return false
	}
	n, err := vocabulary().Count(text)
	return err == nil && n <= limit
}

// tokens returns the number of tokens in a text, counted in chunks, which may give a few too many. If the number exceeds most, the result
// is any number above most.
func tokens(text string, most int) int {
	sum := 0
	for sum <= most && text != "" {
		part := clip.Head(text, chunk)
		text = text[len(part):]
		sum += len(split(part))
	}
	return sum
}

// split splits a text into tokens. If the vocabulary fails, which does not happen for valid UTF-8, it splits the text into characters.
func split(text string) []string {
	if _, pieces, err := vocabulary().Encode(text); err == nil {
		return pieces
	}
	return strings.Split(text, "")
}

// headOf returns the longest prefix of a text with at most n tokens.
func headOf(text string, n int) string {
	end := 0
	for end < len(text) && n > 0 {
		pieces := split(clip.Head(text[end:], chunk))
		pieces = pieces[:min(n, len(pieces))]
		n -= len(pieces)
		end += len(strings.Join(pieces, ""))
	}
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// tailOf returns the longest suffix of a text with at most n tokens.
func tailOf(text string, n int) string {
	start := len(text)
	for start > 0 && n > 0 {
		from := max(start-chunk, 0)
		for !utf8.RuneStart(text[from]) {
			from++
		}
		pieces := split(text[from:start])
		pieces = pieces[max(len(pieces)-n, 0):]
		n -= len(pieces)
		start -= len(strings.Join(pieces, ""))
	}
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}
