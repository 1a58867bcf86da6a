package catalog

import (
	"encoding/json"
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

// The order of the schema's text decides, which a Go map would lose.
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
