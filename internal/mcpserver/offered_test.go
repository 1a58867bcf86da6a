package mcpserver

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/catalog"
)

// TestOfferedInput: unusual schemas are changed so that strict clients and providers of models accept them.
func TestOfferedInput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, want string }{
		"plain, as it is":      {`{"type":"object", "properties":{"b":{"type":"string"},"a":{"type":"number"}},"required":["b"]}`, `{"type":"object", "properties":{"b":{"type":"string"},"a":{"type":"number"}},"required":["b"]}`},
		"nothing":              {``, `{"type":"object"}`},
		"a boolean":            {`true`, `{"type":"object"}`},
		"no type":              {`{"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
		"a list of types":      {`{"type":["object","null"],"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`},
		"nulls":                {`{"type":"object","properties":null,"required":null,"title":null,"description":null}`, `{"type":"object"}`},
		"lists for objects":    {`{"type":"object","properties":[],"required":{}}`, `{"type":"object"}`},
		"boolean properties":   {`{"type":"object","properties":{"a":true,"b":false,"c":null,"d":"string"}}`, `{"type":"object","properties":{"a":{},"b":{"not":{}},"c":{},"d":{}}}`},
		"required in place":    {`{"type":"object","properties":{"a":{"type":"string","required":true}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		"required of numbers":  {`{"type":"object","required":["a",1,null]}`, `{"type":"object","required":["a"]}`},
		"nested nulls":         {`{"type":"object","properties":{"a":{"type":"string","enum":null,"description":null,"default":null,"const":null}}}`, `{"type":"object","properties":{"a":{"type":"string","default":null,"const":null}}}`},
		"an empty enum":        {`{"type":"object","properties":{"a":{"enum":[]}}}`, `{"type":"object","properties":{"a":{}}}`},
		"bounds of version 4":  {`{"type":"object","properties":{"a":{"minimum":3,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}}}`, `{"type":"object","properties":{"a":{"exclusiveMinimum":3,"maximum":9}}}`},
		"bounds as text":       {`{"type":"object","properties":{"a":{"minLength":"3","multipleOf":2}}}`, `{"type":"object","properties":{"a":{"multipleOf":2}}}`},
		"tuples of version 7":  {`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"},true],"additionalItems":false}}}`, `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"},{}],"items":false}}}`},
		"a list of anything":   {`{"type":"object","properties":{"a":{"type":"array"}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{}}}}`},
		"odd types":            {`{"type":"object","properties":{"a":{"type":7},"b":{"type":["string"]},"c":{"type":["string",null]},"d":{"type":["string","null"]}}}`, `{"type":"object","properties":{"a":{},"b":{"type":"string"},"c":{},"d":{"type":["string","null"]}}}`},
		"choices at the root":  {`{"anyOf":[{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["a","b"]},{"properties":{"a":{"type":"number"},"c":{}},"required":["a"]}]}`, `{"type":"object","properties":{"a":{"type":"string"},"b":{},"c":{}},"required":["a"]}`},
		"all parts":            {`{"type":"object","properties":{"a":{}},"required":["a"],"allOf":[{"properties":{"b":{}},"required":["b"]},{"oneOf":[{"properties":{"c":{}}},{"properties":{"d":{}}}]}]}`, `{"type":"object","properties":{"a":{},"b":{},"c":{},"d":{}},"required":["a","b"]}`},
		"a reference":          {`{"$ref":"#/$defs/in","$defs":{"in":{"type":"object","properties":{"a":{"$ref":"#/$defs/s"}},"required":["a"]},"s":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"$ref":"#/$defs/s"}},"required":["a"],"$defs":{"in":{"type":"object","properties":{"a":{"$ref":"#/$defs/s"}},"required":["a"]},"s":{"type":"string"}}}`},
		"a reference in turn":  {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{"type":"object","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`},
		"conditions":           {`{"type":"object","if":{"required":["a"]},"then":{"required":["b"]},"not":{"required":["c"]}}`, `{"type":"object"}`},
		"names of OData":       {`{"type":"object","properties":{"$top":{"type":"integer","description":"How many."},"a":{}},"required":["$top","a"],"additionalProperties":false}`, `{"type":"object","properties":{"a":{}},"required":["a"],"description":"It also takes \"$top\" (required). How many."}`},
		"numbers of 30 digits": {`{"type":"object","title":null,"properties":{"a":{"const":123456789012345678901234567890}}}`, `{"type":"object","properties":{"a":{"const":123456789012345678901234567890}}}`},
	} {
		got := offeredInput(json.RawMessage(c.schema))
		if strings.HasSuffix(name, "as it is") && string(got) != c.want || !reflect.DeepEqual(decoded(got), decoded(json.RawMessage(c.want))) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestOfferedOutput: an output schema that strict clients refuse is changed or left out.
func TestOfferedOutput(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		``: ``, `null`: ``, `{"type":"array"}`: ``, `{"anyOf":[{"type":"object"}]}`: ``, `{"type":"string"}`: ``,
		`{"type":"object","properties":null}`:              `{"type":"object"}`,
		`{"properties":{"a":true,"n":{"type":"integer"}}}`: `{"type":"object","properties":{"a":{},"n":{"type":["integer","string"]}}}`,
	} {
		if got := offeredOutput(json.RawMessage(schema)); !reflect.DeepEqual(decoded(got), decoded(json.RawMessage(want))) {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

// TestNamesOfTools: clients get names that all providers accept. A tool keeps its name, whatever servers are added later.
func TestNamesOfTools(t *testing.T) {
	t.Parallel()
	var o offered
	long := strings.Repeat("x", 70)
	own := func(name string) bool { return name == executeCode }
	tool := func(server, name string) *catalog.Tool { return &catalog.Tool{Server: server, Name: name} }
	first := []*catalog.Tool{
		tool("files", "read_file"), tool("files", "get item"), tool("files", "get/item"), tool("files", long), tool("files", long+"y"),
		tool("files", executeCode), tool("files", "日本"), tool("files", "b__c"),
	}
	before := o.name(first, own)
	later := append([]*catalog.Tool{tool("b", "c"), tool("a", "read_file"), tool("a", long)}, first...)
	after := o.name(later, own)
	valid := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	for name := range after {
		if !valid.MatchString(name) {
			t.Errorf("%q has %d characters, or others than providers take", name, len(name))
		}
	}
	if len(before) != len(first) || len(after) != len(later) || before["read_file"] != first[0] || after["read_file"] != first[0] || after["a__read_file"] == nil {
		t.Errorf("named %v, then %v", before, after)
	}
	for name, tool := range before {
		if after[name] != tool {
			t.Errorf("%s became %v", name, after[name])
		}
	}
	if gone := o.name(later[:3], own); gone["read_file"] != nil {
		t.Errorf("the name of a tool that is gone is %s now", gone["read_file"].FullName())
	}
}
