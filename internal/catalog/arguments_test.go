package catalog

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	const (
		search   = `{"properties":{"limit":{"type":"integer"},"query":{"type":"string"},"tags":{"type":["array","null"]}},"required":["query"]}`
		workflow = `{"properties":{"workflow":{"type":"object"}},"required":["workflow"]}`
		execute  = `{"properties":{"workflowId":{"type":"string"},"inputData":{"type":"object"}},"required":["workflowId"]}`
		ref      = `{"$ref":"#/$defs/In","$defs":{"In":{"properties":{"node":{"$ref":"#/$defs/Node"},"deep":{"type":"boolean"}}},
			"Node":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/Obj"}]},"Obj":{"type":"object"}}}`
		create = `{"properties":{"name":{"type":"string"},"nodes":{"type":"array"}},"required":["name"]}`
		cyclic = `{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"anyOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/A"}]}}}`
	)
	for _, c := range []struct {
		name, schema, input string
		positional          []string
		want                string
	}{
		{"nothing", search, "", nil, `{}`},
		{"null", search, "null", nil, `{}`},
		{"only nulls", search, "", []string{"null", "null"}, `{}`},
		{"the input", search, `{"query":"a"}`, nil, `{"query":"a"}`},
		{"the input as argument", search, "", []string{` {"query":"a"}`}, `{"query":"a"}`},
		{"the input with a slip stays", search, `{"qeury":"a"}`, nil, `{"qeury":"a"}`},
		{"one value", search, "", []string{`"slack"`}, `{"query":"slack"}`},
		{"one value as input", search, `"slack"`, nil, `{"query":"slack"}`},
		{"required first", search, "", []string{`"slack"`, "5"}, `{"query":"slack","limit":5}`},
		{"null between, not accepted", search, "", []string{`"slack"`, "null", `["a"]`}, `{"query":"slack","tags":["a"]}`},
		{"null at the end", search, "", []string{`"slack"`, "5", "null"}, `{"query":"slack","limit":5}`},
		{"an object for the first property", workflow, "", []string{`{"name":"x","nodes":[]}`}, `{"workflow":{"name":"x","nodes":[]}}`},
		{"an object that has the property", workflow, "", []string{`{"workflow":{"name":"x"}}`}, `{"workflow":{"name":"x"}}`},
		{"an empty object is the input", workflow, "", []string{`{}`}, `{}`},
		{"two arguments", execute, "", []string{`"w1"`, `{"message":"hi"}`}, `{"workflowId":"w1","inputData":{"message":"hi"}}`},
		{"the whole as one object", create, "", []string{`{"name":"n","nodes":[],"active":false}`}, `{"name":"n","nodes":[],"active":false}`},
		{"through references", ref, "", []string{`{"id":1}`}, `{"node":{"id":1}}`},
		{"through references, null", ref, "", []string{"null", "true"}, `{"node":null,"deep":true}`},
		{"no properties", `{"type":"object"}`, `{"a":1}`, nil, `{"a":1}`},
		{"no schema", ``, `{"a":1}`, nil, `{"a":1}`},
		{"circular schema", cyclic, `{"x":1}`, nil, `{"x":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tool := Tool{Server: "s", Name: "t", InputSchema: json.RawMessage(c.schema)}
			var positional []json.RawMessage
			for _, p := range c.positional {
				positional = append(positional, json.RawMessage(p))
			}
			got, err := tool.Arguments(json.RawMessage(c.input), positional)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	tool := Tool{Server: "s", Name: "t", InputSchema: json.RawMessage(`{"properties":{"a":{},"b":{}},"required":["b"]}`)}
	for _, c := range []struct {
		positional []string
		want       string
	}{
		{[]string{"1", "2", "3"}, "s__t takes one input object or at most 2 arguments (b, a?), got 3 arguments"},
		{[]string{"1", "{"}, "not valid JSON"},
	} {
		var positional []json.RawMessage
		for _, p := range c.positional {
			positional = append(positional, json.RawMessage(p))
		}
		if _, err := tool.Arguments(nil, positional); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.positional, err, c.want)
		}
	}
	none := Tool{Server: "s", Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}
	if _, err := none.Arguments(nil, []json.RawMessage{json.RawMessage("1")}); err == nil || !strings.Contains(err.Error(), "no positional") {
		t.Errorf("got %v", err)
	}
}

// TestArgumentsKeepSchemaOrder: positional arguments fill the properties in the order of the schema's text, which a Go map would lose.
func TestArgumentsKeepSchemaOrder(t *testing.T) {
	t.Parallel()
	names := []string{"zeta", "alpha", "mid", "beta", "omega", "kappa"}
	var properties []string
	for _, n := range names {
		properties = append(properties, `"`+n+`":{"type":"integer"}`)
	}
	tool := Tool{InputSchema: json.RawMessage(`{"properties":{` + strings.Join(properties, ",") + `},"required":["omega","mid"]}`)}
	got, err := tool.Arguments(nil, []json.RawMessage{
		json.RawMessage("1"), json.RawMessage("2"), json.RawMessage("3"), json.RawMessage("4"), json.RawMessage("5"), json.RawMessage("6"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"mid":1,"omega":2,"zeta":3,"alpha":4,"beta":5,"kappa":6}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestArgumentsAsTexts: a string is read as JSON only if the schema requires a value of another type.
func TestArgumentsAsTexts(t *testing.T) {
	t.Parallel()
	tool := &Tool{Server: "s", Name: "t", InputSchema: json.RawMessage(`{"type":"object","$defs":{"n":{"type":["integer","null"]}},"properties":{
		"limit":{"$ref":"#/$defs/n"},"names":{"type":"array"},"where":{"type":"object"},"deep":{"type":"boolean"},"either":{"anyOf":[{"type":"string"},{"type":"number"}]},
		"text":{"type":"string"},"any":{}}}`)}
	for input, want := range map[string]string{
		`{"limit":"5","names":"[\"a\", 1e2]","where":"{\"b\":1,\"a\":\"\\\"\"}","deep":"true"}`: `{"limit":5,"names":["a", 1e2],"where":{"b":1,"a":"\""},"deep":true}`,
		`{ "names" : [ "[1]" ] , "limit" : "12345678901234567890" }`:                            `{ "names" : [ "[1]" ] , "limit" : 12345678901234567890 }`,
		`{"limit":"five","names":"a","where":"[1]","deep":"yes"}`:                               `{"limit":"five","names":"a","where":"[1]","deep":"yes"}`,
		`{"limit":" 5","names":"[","deep":"1","where":""}`:                                      `{"limit":" 5","names":"[","deep":"1","where":""}`,
		`{"either":"5","text":"[1]","any":"true","other":"7","where":{"limit":"5"}}`:            `{"either":"5","text":"[1]","any":"true","other":"7","where":{"limit":"5"}}`,
		`"{\"limit\": \"5\"}"`: `{"limit": 5}`,
	} {
		got, err := tool.Arguments(json.RawMessage(input), nil)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", input, got, err, want)
		}
	}
	got, err := tool.Arguments(nil, []json.RawMessage{json.RawMessage(`"7"`), json.RawMessage(`"[]"`)})
	if err != nil || string(got) != `{"limit":7,"names":[]}` {
		t.Errorf("positional: %s, %v", got, err)
	}
	said := &Tool{Server: "s", Name: "say", InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)}
	if got, err := said.Arguments(json.RawMessage(`"{\"text\":1}"`), nil); err != nil || string(got) != `{"text":"{\"text\":1}"}` {
		t.Errorf("a text for a tool that takes one: %s, %v", got, err)
	}
}

func TestReadInput(t *testing.T) {
	t.Parallel()
	const inputSchema = `{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"}},"limit":{"type":"number"},"query":{"type":"string"}},"required":["query"]}`
	type input struct {
		Names []string
		Limit float64
		Query string
	}
	for text, want := range map[string]input{
		``: {}, `{"query":"[1]","limit":"2.5"}`: {Query: "[1]", Limit: 2.5}, `{"names":"[\"a\",\"b\"]"}`: {Names: []string{"a", "b"}},
		`"{\"query\":\"x\",\"names\":[\"c\"]}"`: {Query: "x", Names: []string{"c"}},
	} {
		var got input
		if err := ReadInput("find", json.RawMessage(inputSchema), json.RawMessage(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		`{"query":"x","limit":"many"}`: "limit", `{"query":1}`: "query", `{"query":"x","names":"a b"}`: "names", `[1]`: "object", `7`: "object", `{`: "JSON", `"x"`: "object",
	} {
		err := ReadInput("find", json.RawMessage(inputSchema), json.RawMessage(text), new(input))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "find") || strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), "input.") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
