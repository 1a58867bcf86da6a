package run

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxPlainDepth is how deep a value may be that stringify writes. The guest runtime refuses much deeper ones.
const maxPlainDepth = 60

// stringify writes a JSON text as the guest writes it that has parsed it. ok is false where that is not certain: equal keys, keys that
// the guest sorts, numbers and characters that JavaScript does not have.
func stringify(text json.RawMessage) (_ json.RawMessage, ok bool) {
	// The decoder takes what is no text, and half of a surrogate pair, for U+FFFD.
	if !utf8.Valid(text) || bytes.Contains(text, []byte(`\ud`)) || bytes.Contains(text, []byte(`\uD`)) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	s := stringifier{d: d}
	if !s.value(0) {
		return nil, false
	}
	_, err := d.Token()
	return s.b, err == io.EOF
}

type stringifier struct {
	d *json.Decoder
	b []byte
}

func (s *stringifier) value(depth int) bool {
	token, err := s.d.Token()
	if err != nil {
		return false
	}
	switch v := token.(type) {
	case nil:
		s.b = append(s.b, "null"...)
	case bool:
		s.b = strconv.AppendBool(s.b, v)
	case string:
		s.b = appendString(s.b, v)
	case json.Number:
		return s.number(string(v))
	case json.Delim:
		return depth < maxPlainDepth && s.composite(v, depth+1)
	}
	return true
}

func (s *stringifier) composite(open json.Delim, depth int) bool {
	s.b = append(s.b, byte(open))
	var names map[string]bool
	for first := true; s.d.More(); first = false {
		if !first {
			s.b = append(s.b, ',')
		}
		if open == '{' {
			token, err := s.d.Token()
			name, _ := token.(string)
			if err != nil || names[name] || name == "__proto__" || isIndex(name) {
				return false
			}
			if names == nil {
				names = map[string]bool{}
			}
			names[name] = true
			s.b = append(appendString(s.b, name), ':')
		}
		if !s.value(depth) {
			return false
		}
	}
	if _, err := s.d.Token(); err != nil {
		return false
	}
	s.b = append(s.b, byte(open)+2) // the closing one, in ASCII
	return true
}

// isIndex reports whether a key may be an index, which come first in an object.
func isIndex(name string) bool { return name != "" && strings.Trim(name, "0123456789") == "" }

func (s *stringifier) number(text string) bool {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	if n == 0 {
		n = math.Abs(n) // JSON.stringify has no -0
	}
	spelled, err := json.Marshal(n) // as JavaScript does
	s.b = append(s.b, spelled...)
	return err == nil
}

func appendString(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ':
			b = append(b, c)
		case strings.IndexByte("\b\f\n\r\t", c) >= 0:
			b = append(b, '\\', "btn?fr"[c-'\b'])
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(b, '"')
}
