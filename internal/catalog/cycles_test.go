package catalog

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSchemasThatReferToEachOther: a schema that only refers back to itself accepts every value, and the other rules beside the reference still apply.
func TestSchemasThatReferToEachOther(t *testing.T) {
	t.Parallel()
	const wrongNumber = "n: expected integer, got string"
	for name, c := range map[string]struct {
		schema string
		free   bool // reports that n may be a string
	}{
		"itself":             {`{"properties":{"n":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/A"}}}`, true},
		"two":                {`{"properties":{"n":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}`, true},
		"three":              {`{"properties":{"n":{"$ref":"#/$defs/C"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/C"},"C":{"$ref":"#/$defs/A"}}}`, true},
		"the property":       {`{"properties":{"n":{"$ref":"#/properties/n"}}}`, true},
		"by anchors":         {`{"properties":{"n":{"$ref":"#a"}},"$defs":{"A":{"$anchor":"a","$ref":"#b"},"B":{"$anchor":"b","$ref":"#a"}}}`, true},
		"escaped":            {`{"properties":{"n":{"$ref":"#/$defs/a~1b%20c"}},"$defs":{"a/b c":{"$ref":"#/$defs/a~1b%20c"}}}`, true},
		"the whole":          {`{"$ref":"#","properties":{"n":{"type":"integer"}}}`, false},
		"in allOf":           {`{"properties":{"n":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"integer","allOf":[{"$ref":"#/$defs/B"}]},"B":{"allOf":[{"$ref":"#/$defs/A"}]}}}`, false},
		"in anyOf":           {`{"properties":{"n":{"$ref":"#/$defs/A"}},"$defs":{"A":{"anyOf":[{"type":"integer"},{"$ref":"#/$defs/A"}]}}}`, true},
		"with a rule":        {`{"properties":{"n":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"integer","$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}`, false},
		"of an old draft":    {`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"n":{"$ref":"#/definitions/A"}},"definitions":{"A":{"$ref":"#/definitions/A","type":"integer"}}}`, true},
		"of items":           {`{"properties":{"n":{"type":"integer"},"list":{"$ref":"#/$defs/L"}},"$defs":{"L":{"type":"array","items":{"$ref":"#/$defs/L"}}}}`, false},
		"a tree with a rule": {`{"properties":{"n":{"type":"integer"},"left":{"$ref":"#"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := validate(t, c.schema, `{"n":3,"list":[[],[[]]],"left":{"n":1,"left":{}}}`); got != nil {
				t.Errorf("an integer: %q", got)
			}
			var want []string
			if !c.free {
				want = []string{wrongNumber}
			}
			if diff := cmp.Diff(want, validate(t, c.schema, `{"n":"x"}`)); diff != "" {
				t.Errorf("a text: %s", diff)
			}
			tool := Tool{Server: "s", Name: "t", InputSchema: json.RawMessage(c.schema)}
			if problem := tool.SchemaProblem(); problem != "" {
				t.Error(problem)
			}
		})
	}
}
