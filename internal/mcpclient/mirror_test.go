package mcpclient

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMirrors(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"}, "n":{"type":"integer","x-mcp-header":"N"}, "on":{"type":"boolean","x-mcp-header":"On"},
		"in":{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"In-X"}}}, "other":{"type":"string"}}}`)
	mirrors, err := mirrorsOf(schema)
	if err != nil || len(mirrors) != 4 {
		t.Fatalf("%+v, %v", mirrors, err)
	}
	slices.SortFunc(mirrors, func(a, b mirror) int { return strings.Compare(a.header, b.header) })
	for args, want := range map[string]string{
		`{"region":"us west","n":42,"on":false,"in":{"x":"y"},"other":"z"}`: "[Mcp-Param-In-X y Mcp-Param-N 42 Mcp-Param-On false Mcp-Param-Region us west]",
		`{"region":"Zürich","n":1.5}`:                                       "[Mcp-Param-Region =?base64?WsO8cmljaA==?=]",
		`{"region":" a","n":null}`:                                          "[Mcp-Param-Region =?base64?IGE=?=]",
		`{"region":"a\r\nX: y"}`:                                            "[Mcp-Param-Region =?base64?YQ0KWDogeQ==?=]",
		`{"region":"=?base64?YQ==?="}`:                                      "[Mcp-Param-Region =?base64?PT9iYXNlNjQ/WVE9PT89?=]",
		`{"region":"","n":9007199254740993,"in":["x"]}`:                     "[Mcp-Param-Region ]",
		`{"region":["a"],"on":"true","in":{"x":{"y":1}}}`:                   "[Mcp-Param-On true]",
	} {
		if got := fmt.Sprint(headersOf(mirrors, json.RawMessage(args))); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	for _, property := range []string{
		`"a":{"type":"string","x-mcp-header":""}`, `"a":{"type":"string","x-mcp-header":null}`, `"a":{"type":"string","x-mcp-header":7}`,
		`"a":{"type":"string","x-mcp-header":"A: b"}`, `"a":{"type":"string","x-mcp-header":"a\r\nb"}`, `"a":{"type":"number","x-mcp-header":"A"}`,
		`"a":{"type":["string","null"],"x-mcp-header":"A"}`, `"a":{"x-mcp-header":"A"}`,
		`"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}`,
		`"a":{"type":"object","properties":{"b":{"type":"array","x-mcp-header":"A"}}}`,
	} {
		if mirrors, err := mirrorsOf(json.RawMessage(`{"properties":{` + property + `}}`)); err == nil {
			t.Errorf("%s: %+v", property, mirrors)
		}
	}
	deep := strings.Repeat(`{"properties":{"a":`, 5000) + `{"type":"string","x-mcp-header":"A"}` + strings.Repeat("}}", 5000)
	if mirrors, err := mirrorsOf(json.RawMessage(deep)); err != nil || len(mirrors) != 0 {
		t.Errorf("of a deep schema: %d, %v", len(mirrors), err)
	}
}
