package jsontext

import (
	"encoding/json"
	"iter"
)

// Value is the range of a value, as byte offsets in the text of its object or array.
type Value struct{ From, End int }

// Members returns the members of a valid JSON text that is an object, in order. Any other text has no members.
func Members(text []byte) iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		at := space(text, 0)
		if at == len(text) || text[at] != '{' {
			return
		}
		for {
			if at = space(text, at+1); at == len(text) || text[at] != '"' {
				return
			}
			end := endOfString(text, at)
			name := unquote(text[at:end])
			from := space(text, space(text, end)+1)
			if end = endOfValue(text, from); !yield(name, Value{from, end}) {
				return
			}
			if at = space(text, end); at == len(text) || text[at] != ',' {
				return
			}
		}
	}
}

// Items returns the items of a valid JSON text that is an array, in order. Any other text has no items.
func Items(text []byte) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		at := space(text, 0)
		if at == len(text) || text[at] != '[' {
			return
		}
		for {
			from := space(text, at+1)
			if from == len(text) || text[from] == ']' {
				return
			}
			end := endOfValue(text, from)
			if !yield(Value{from, end}) {
				return
			}
			if at = space(text, end); at == len(text) || text[at] != ',' {
				return
			}
		}
	}
}

// String returns the decoded text of a JSON string. ok is false for any other value.
func String(text []byte) (_ string, ok bool) {
	at := space(text, 0)
	if at == len(text) || text[at] != '"' || !json.Valid(text) {
		return "", false
	}
	return unquote(text[at:endOfString(text, at)]), true
}

// space returns the first offset, beginning with at, that is not whitespace.
func space(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return min(at, len(text))
}

// endOfValue returns the offset of the end of the value that begins at an offset.
func endOfValue(text []byte, at int) int {
	depth := 0
	for at < len(text) {
		switch text[at] {
		case '"':
			at = endOfString(text, at)
			if depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at // end of the enclosing object
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return at
}
