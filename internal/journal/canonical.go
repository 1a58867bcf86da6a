package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Canonical rewrites a JSON text so that equal values have equal bytes: keys are sorted, the last of duplicate keys is kept,
// insignificant whitespace is removed, every string has one spelling, and nothing is escaped for HTML. Numbers keep their text: 1 and
// 1.0 differ. A text that is not JSON is returned unchanged.
func Canonical(raw json.RawMessage) json.RawMessage {
	value, err := parse(raw)
	if err != nil || len(raw) == 0 {
		return raw
	}
	text, err := Encode(value)
	if err != nil {
		return raw
	}
	return text
}

// Encode does the same as json.Marshal but does not escape for HTML, because escapes cost model tokens.
func Encode(value any) (json.RawMessage, error) {
	text, err := encode(value, "")
	return bytes.TrimSuffix(text, []byte("\n")), err
}

// EncodeLines does the same as Encode but writes every value on a separate line, so that two documents can be compared with diff.
func EncodeLines(value any) ([]byte, error) { return encode(value, "  ") }

func encode(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(value)
	return b.Bytes(), err
}

// parse decodes exactly one JSON value; numbers keep their text. An empty text is null.
func parse(raw json.RawMessage) (value any, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return value, nil
}
