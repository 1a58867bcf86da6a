package modelview

import (
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// vocabulary is loaded when the first text needs it; that takes some 20 ms.
var vocabulary = sync.OnceValue(codec.NewO200kBase)

// chunk is how many bytes are measured at a time, so that a text of megabytes costs no more than the part that fits.
const chunk = 4096

// within reports whether a text has at most limit tokens.
func within(text string, limit int) (bool, error) {
	if len(text) <= limit { // a token has a byte at least
		return true, nil
	}
	const longest = 128 // bytes of the longest token there is
	if len(text) > longest*limit {
		return false, nil
	}
	n, err := vocabulary().Count(text)
	if err != nil {
		return false, fmt.Errorf("count model tokens: %w", err)
	}
	return n <= limit, nil
}

// tokens is the number of tokens of a text, measured in chunks: a few too many. Above most it may be any number above
// most.
func tokens(text string, most int) (int, error) {
	sum := 0
	for sum <= most && text != "" {
		part := firstBytes(text, chunk)
		text = text[len(part):]
		n, err := vocabulary().Count(part)
		if err != nil {
			return 0, fmt.Errorf("count model tokens: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// headOf is the longest beginning of a text that has at most n tokens.
func headOf(text string, n int) (string, error) {
	end := 0
	for end < len(text) && n > 0 {
		part := firstBytes(text[end:], chunk)
		_, pieces, err := vocabulary().Encode(part)
		if err != nil {
			return "", fmt.Errorf("count model tokens: %w", err)
		}
		if len(pieces) <= n {
			n -= len(pieces)
			end += len(part)
			continue
		}
		for _, piece := range pieces[:n] {
			end += len(piece)
		}
		break
	}
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], nil
}

// tailOf is the longest end of a text that has at most n tokens.
func tailOf(text string, n int) (string, error) {
	start := len(text)
	for start > 0 && n > 0 {
		from := max(start-chunk, 0)
		for !utf8.RuneStart(text[from]) {
			from++
		}
		_, pieces, err := vocabulary().Encode(text[from:start])
		if err != nil {
			return "", fmt.Errorf("count model tokens: %w", err)
		}
		if len(pieces) <= n {
			n -= len(pieces)
			start = from
			continue
		}
		for _, piece := range pieces[len(pieces)-n:] {
			start -= len(piece)
		}
		break
	}
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:], nil
}
