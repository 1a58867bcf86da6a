package modelview

import (
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/model"
)

// vocabulary is loaded when the first text needs it.
var vocabulary = model.Vocabulary

// chunk is how many bytes are measured at a time, so that a text of megabytes costs no more than the part that fits.
const chunk = 4096

// within reports whether a text has at most limit tokens.
func within(text string, limit int) bool {
	const longest = 128 // bytes of the longest token there is
	switch {
	case len(text) <= limit: // a token has a byte at least
		return true
	case len(text) > longest*limit:
		return false
	}
	// Exact is the count of the whole, which takes long for a megabyte; in chunks the count ends where it is surely too much.
	if most := limit + limit/8; len(text) > 2*chunk && tokens(text, most) > most {
		return false
	}
	n, err := vocabulary().Count(text)
	return err == nil && n <= limit
}

// tokens is the number of tokens of a text, measured in chunks: a few too many. Above most it may be any number above
// most.
func tokens(text string, most int) int {
	sum := 0
	for sum <= most && text != "" {
		part := clip.Head(text, chunk)
		text = text[len(part):]
		sum += len(split(part))
	}
	return sum
}

// split splits a text into tokens. If the vocabulary cannot, which does not happen with UTF-8, these are characters.
func split(text string) []string {
	if _, pieces, err := vocabulary().Encode(text); err == nil {
		return pieces
	}
	return strings.Split(text, "")
}

// headOf is the longest beginning of a text that has at most n tokens.
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

// tailOf is the longest end of a text that has at most n tokens.
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
