package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"

	segment "github.com/segmentio/encoding/json"
)

// decodeLoosely decodes JSON of a server. It converts a member whose type differs from the one in MCP: a number becomes its text, "true"
// becomes true, a single value becomes a list with one element. v may hold views of raw. The error is for people.
func decodeLoosely[T any](raw json.RawMessage, v *T) error {
	if _, err := segment.Parse(raw, v, zeroCopy); err == nil {
		return nil
	}
	var zero T
	*v = zero
	if _, err := segment.Parse(mended(raw, reflect.TypeFor[T]()), v, zeroCopy); err != nil {
		return errors.New("it is no JSON of the expected shape: " + excerpt(raw))
	}
	return nil
}

// mended converts a value so that it can be decoded as a value of type t.
func mended(raw json.RawMessage, t reflect.Type) json.RawMessage {
	null := json.RawMessage("null")
	switch {
	case !present(raw):
		return null
	case t == reflect.TypeFor[json.RawMessage]():
		return raw
	}
	switch t.Kind() {
	case reflect.Pointer:
		return mended(raw, t.Elem())
	case reflect.String:
		text, _ := json.Marshal(asText(raw)) // a string can always be encoded
		return text
	case reflect.Bool:
		return strconv.AppendBool(nil, asFlag(raw))
	case reflect.Int, reflect.Float64:
		if n, err := strconv.ParseFloat(asText(raw), 64); err == nil {
			return strconv.AppendInt(nil, int64(n), 10)
		}
		return null
	case reflect.Slice:
		parts := []json.RawMessage{raw}
		if isList(raw) && json.Unmarshal(raw, &parts) != nil {
			return null
		}
		for i, part := range parts {
			parts[i] = mended(part, t.Elem())
		}
		list, _ := json.Marshal(parts) // parts are valid JSON
		return list
	case reflect.Struct:
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return null
		}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if member, ok := members[name]; ok {
				members[name] = mended(member, t.Field(i).Type)
			}
		}
		object, _ := json.Marshal(members)
		return object
	}
	return raw
}

// orNull returns raw, or null if raw is empty.
func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// asFlag reads a boolean as tolerantly as the official Python client: it also accepts strings and numbers.
func asFlag(raw json.RawMessage) bool {
	switch strings.ToLower(strings.TrimSpace(asText(raw))) {
	case "true", "t", "yes", "y", "on", "1", "1.0":
		return true
	}
	return false
}

func isList(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '['
}

// maxBlocks is the maximum number of content blocks of a result or resource: a decoded block takes many times its size.
const maxBlocks = 10_000

// decodeList decodes a JSON array of at most the given number of elements. It counts the elements before it decodes them. A value
// that is not an array becomes a list with one element. raw is valid JSON or empty; the list holds views of it. The error is for people.
func decodeList[T any](raw json.RawMessage, most int) ([]T, error) {
	switch {
	case !present(raw):
		return nil, nil
	case !isList(raw):
		var one T
		if err := decodeLoosely(raw, &one); err != nil {
			return nil, err
		}
		return []T{one}, nil
	}
	commas := 0
	for t := segment.NewTokenizer(raw); t.Next(); {
		if t.Delim == ',' && t.Depth == 1 {
			commas++
		}
		if commas >= most {
			return nil, errTooMany(most)
		}
	}
	var list []T
	err := decodeLoosely(raw, &list)
	return list, err
}

type errTooMany int

func (e errTooMany) Error() string { return "it has more than " + strconv.Itoa(int(e)) + " elements" }
