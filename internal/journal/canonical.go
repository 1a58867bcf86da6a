package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Canonical rewrites a JSON text so that equal values have equal bytes: keys sorted, the last of equal keys kept, no
// insignificant whitespace, one spelling for every string, nothing escaped for HTML. Numbers keep their text: 1 and 1.0
// differ. A text that is no JSON is returned as it is.
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

// Encode is json.Marshal without escapes for HTML, which models are charged for.
func Encode(value any) (json.RawMessage, error) {
	text, err := encode(value, "")
	return bytes.TrimSuffix(text, []byte("\n")), err
}

// EncodeLines is Encode with every value on a line of its own, so that two documents can be compared with diff.
func EncodeLines(value any) ([]byte, error) { return encode(value, "  ") }

func encode(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(value)
	return b.Bytes(), err
}

// parse reads exactly one JSON value; numbers keep their text. An empty text is null.
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
