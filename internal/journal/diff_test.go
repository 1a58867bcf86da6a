package journal

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 5000)
	for _, c := range []struct{ want, got, diff string }{
		{`{"a":1,"b":[1,2]}`, ` { "b":[1,2], "a":1 }`, ""},
		{``, `null`, ""},
		{`{"input":{"query":"secret"}}`, `{"input":{"query":"other"}}`, "$.input.query differs"},
		{`{"a":[1,{"b":2}]}`, `{"a":[1,{"b":"2"}]}`, "$.a[1].b is a string, was a number"},
		{`{"a":1,"c":2}`, `{"a":1,"b":3,"c":2}`, "$.b is new"},
		{`{"a":1,"b":3,"c":2}`, `{"a":1,"c":2}`, "$.b is missing"},
		{`{"a":1}`, `{"a":1,"z":0}`, "$.z is new"},
		{`[1,2,3]`, `[1,2]`, "$ has 2 items, had 3"},
		{`{"a b":{"0x":true}}`, `{"a b":{"0x":false}}`, `$["a b"]["0x"] differs`},
		{`null`, `{}`, "$ is an object, was null"},
		{`1.0`, `1`, ""},
		{`1.5`, `1`, "$ differs"},
		{`{`, `1`, "the recorded value is no JSON"},
		{`1`, `{`, "the value is no JSON"},
		{`{"` + long + `":1}`, `{"` + long + `":2}`, "$." + long[:98] + "..." + long[:100] + " differs"},
	} {
		if got := Diff(json.RawMessage(c.want), json.RawMessage(c.got)); got != c.diff {
			t.Errorf("Diff(%.60s, %.60s) = %q, want %q", c.want, c.got, got, c.diff)
		}
	}
}
