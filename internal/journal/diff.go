package journal

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Diff describes where and how got first differs from want, for instance "$.input.items[2] is a string, was a number". It returns ""
// if the values are equal. It never quotes a value, because values of a journal may be private. An empty text counts as null.
func Diff(want, got json.RawMessage) string {
	w, err := parse(want)
	if err != nil {
		return "the recorded value is no JSON"
	}
	g, err := parse(got)
	if err != nil {
		return "the value is no JSON"
	}
	return diff([]byte("$"), w, g)
}

// diff compares two values. A path is appended to its parent's slice, so a sibling's path may overwrite it.
func diff(path []byte, want, got any) string {
	if w, g := kindName(want), kindName(got); w != g {
		return at(path) + " is " + g + ", was " + w
	}
	switch want := want.(type) {
	case []any:
		got := got.([]any)
		for i := range min(len(want), len(got)) {
			if d := diff(index(path, i), want[i], got[i]); d != "" {
				return d
			}
		}
		if len(want) != len(got) {
			return at(path) + " has " + strconv.Itoa(len(got)) + " items, had " + strconv.Itoa(len(want))
		}
		return ""
	case map[string]any:
		return diffMembers(path, want, got.(map[string]any))
	}
	if !covers(want, got) {
		return at(path) + " differs"
	}
	return ""
}

func diffMembers(path []byte, want, got map[string]any) string {
	keys := slices.Concat(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		w, recorded := want[key]
		g, made := got[key]
		switch {
		case !made:
			return at(field(path, key)) + " is missing"
		case !recorded:
			return at(field(path, key)) + " is new"
		}
		if d := diff(field(path, key), w, g); d != "" {
			return d
		}
	}
	return ""
}

func index(path []byte, i int) []byte {
	return append(strconv.AppendInt(append(path, '['), int64(i), 10), ']')
}

func field(path []byte, key string) []byte {
	if isName(key) {
		return append(append(path, '.'), key...)
	}
	quoted, _ := Encode(key) // a string can always be encoded
	return append(append(append(path, '['), quoted...), ']')
}

func isName(key string) bool {
	for i, c := range []byte(key) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c == '$'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return key != ""
}

// at returns a path as text. It cuts out the middle of a very long path.
func at(path []byte) string { return clip(string(path), 200) }

func kindName(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case nil:
		return "null"
	default:
		return "a boolean"
	}
}
