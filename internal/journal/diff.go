package journal

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Diff says where and how got first differs from want, for instance "$.input.items[2] is a string, was a number", or ""
// if they are equal values. It never quotes a value: a journal's values may be private. An empty text counts as null.
func Diff(want, got json.RawMessage) string {
	w, ok := parse(orNull(want))
	if !ok {
		return "the recorded value is no JSON"
	}
	g, ok := parse(orNull(got))
	if !ok {
		return "the value is no JSON"
	}
	return diff([]byte("$"), &w, &g)
}

func equalJSON(a, b json.RawMessage) bool {
	return bytes.Equal(Canonical(orNull(a)), Canonical(orNull(b)))
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

func diff(path []byte, want, got *node) string {
	if w, g := kindName(want.kind), kindName(got.kind); w != g {
		return at(path) + " is " + g + ", was " + w
	}
	switch want.kind {
	case '[':
		for i := range min(len(want.elems), len(got.elems)) {
			if d := diff(index(path, i), &want.elems[i], &got.elems[i]); d != "" {
				return d
			}
		}
		if len(want.elems) != len(got.elems) {
			return at(path) + " has " + strconv.Itoa(len(got.elems)) + " items, had " + strconv.Itoa(len(want.elems))
		}
		return ""
	case '{':
		return diffMembers(path, want.members, got.members)
	default:
		if !bytes.Equal(want.text, got.text) {
			return at(path) + " differs"
		}
		return ""
	}
}

// diffMembers walks two sorted lists of members.
func diffMembers(path []byte, want, got []member) string {
	for len(want) > 0 || len(got) > 0 {
		var order int
		switch {
		case len(want) == 0:
			order = 1
		case len(got) == 0:
			order = -1
		default:
			order = compareKeys(want[0].key, got[0].key)
		}
		switch {
		case order < 0:
			return at(field(path, want[0].key)) + " is missing"
		case order > 0:
			return at(field(path, got[0].key)) + " is new"
		}
		if d := diff(field(path, want[0].key), &want[0].value, &got[0].value); d != "" {
			return d
		}
		want, got = want[1:], got[1:]
	}
	return ""
}

// Paths grow by appending to the parent's slice; siblings overwrite each other's end, which nobody reads any more.

func index(path []byte, i int) []byte {
	return append(strconv.AppendInt(append(path, '['), int64(i), 10), ']')
}

func field(path, quoted []byte) []byte {
	key := quoted[1 : len(quoted)-1]
	if isName(key) {
		return append(append(path, '.'), key...)
	}
	return append(append(append(path, '['), quoted...), ']')
}

func isName(key []byte) bool {
	for i, c := range key {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c == '$'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return len(key) > 0
}

// at gives a path as text, its middle cut out where keys or nesting make it absurdly long.
func at(path []byte) string {
	const limit = 200
	return clip(string(path), limit)
}

func kindName(kind byte) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	default:
		return "a boolean"
	}
}
