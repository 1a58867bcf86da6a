package skills

import "testing"

func TestSchemaOf(t *testing.T) {
	t.Parallel()
	for example, want := range map[string]string{
		`{"n":1,"x":1.5,"s":"a","b":true}`: `{"properties":{"b":{"type":"boolean"},"n":{"type":"integer"},"s":{"type":"string"},"x":{"type":"number"}},"required":["b","n","s","x"],"type":"object"}`,
		`[{"a":1},{"a":1.5,"b":null}]`:     `{"items":{"properties":{"a":{"type":"number"},"b":{"type":"null"}},"required":["a"],"type":"object"},"type":"array"}`,
		`[1,"a"]`:                          `{"items":{"type":["integer","string"]},"type":"array"}`,
		`[]`:                               `{"type":"array"}`,
		`{}`:                               `{"properties":{},"type":"object"}`,
		`{"[EMAIL_1]":1}`:                  `{"type":"object"}`,
		`"[EMAIL_1]"`:                      `{"type":"string"}`,
		`[[[[[[[1]]]]]]]`:                  `{"items":{"items":{"items":{"items":{"items":{},"type":"array"},"type":"array"},"type":"array"},"type":"array"},"type":"array"}`,
		`{`:                                ``,
	} {
		if got := string(SchemaOf([]byte(example))); got != want {
			t.Errorf("%s: %s, want %s", example, got, want)
		}
	}
}
