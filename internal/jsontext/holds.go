package jsontext

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// maxSearched is the maximum size in bytes of a value and of a text for which Holds also looks at the parts of the value.
const maxSearched = 1 << 20

// Holds reports whether a JSON value contains the information of a text. The text may be equal to a string somewhere in the value, or it may be
// JSON, in any spelling, of the whole value or of a part of the value. If the value or the text has more than 1 MiB, Holds does not look at parts:
// it only compares the text with the whole value, apart from whitespace.
func Holds(value json.RawMessage, text string) bool {
	text = strings.TrimSpace(text)
	if text == "" || text == string(value) {
		return true
	}
	var a, b bytes.Buffer
	isJSON := json.Compact(&b, []byte(text)) == nil
	if isJSON && json.Compact(&a, value) == nil && bytes.Equal(a.Bytes(), b.Bytes()) {
		return true
	}
	if len(value) > maxSearched || len(text) > maxSearched {
		return false
	}
	whole, err := decode(value)
	if err != nil {
		return false
	}
	var part any
	if isJSON {
		if part, err = decode([]byte(text)); err != nil {
			return false
		}
	}
	return holds(whole, part, text, isJSON)
}

func decode(text []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&value); err == nil {
		if _, err = d.Token(); err == io.EOF {
			err = nil
		}
	}
	return value, err
}

func holds(whole, part any, text string, isJSON bool) bool {
	if isJSON && same(whole, part) {
		return true
	}
	switch whole := whole.(type) {
	case string:
		return strings.TrimSpace(whole) == text
	case []any:
		return slices.ContainsFunc(whole, func(v any) bool { return holds(v, part, text, isJSON) })
	case map[string]any:
		for _, v := range whole {
			if holds(v, part, text, isJSON) {
				return true
			}
		}
	}
	return false
}

// same reports whether two decoded values are equal, regardless of the order of keys and the spelling of numbers.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, is := b.(json.Number)
		return is && SameNumber(string(a), string(b))
	case []any:
		b, is := b.([]any)
		return is && slices.EqualFunc(a, b, same)
	case map[string]any:
		b, is := b.(map[string]any)
		if !is || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			other, there := b[key]
			if !there || !same(value, other) {
				return false
			}
		}
		return true
	}
	return a == b
}
