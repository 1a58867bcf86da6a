package mcpclient

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDecodeResult(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"structuredContent":null,"content":[{"type":"text","text":"x"}]}`: ``,
		`{"toolResult":{"a":1}}`:                   `{"a":1}`,
		`{"toolResult":{"a":1},"content":[]}`:      ``,
		`{"structuredContent":{"b":1.0,"a":0.10}}`: `{"b":1.0,"a":0.10}`,
		`{"content":[{"type":"video","x":1}]}`:     ``,
	} {
		res, err := decodeResult(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		if string(res.StructuredContent) != want {
			t.Errorf("%s: got %s, want %s", raw, res.StructuredContent, want)
		}
		for _, c := range res.Content {
			if c.Type == "video" && string(c.Raw) != `{"type":"video","x":1}` {
				t.Errorf("a block of an unknown type is %s", c.Raw)
			}
		}
	}
}

// TestDecodeResultAsksForInput: an answer that asks for input is an error, whatever its resultType.
func TestDecodeResultAsksForInput(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"resultType":"input_required","requestState":"x"}`,
		`{"content":[],"inputRequests":{"x":{"method":"elicitation/create","params":{"mode":"url","message":"Decide","url":"https://evil.example/"}}}}`,
		`{"content":[],"resultType":"complete","inputRequests":{}}`,
	} {
		if res, err := decodeResult([]byte(raw)); err == nil || !strings.Contains(err.Error(), "asks for input") {
			t.Errorf("%s: got %+v, %v", raw, res, err)
		}
	}
}
