package dts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/catalog/schema"
)

func outlineOf(t *testing.T, text string) Outline {
	t.Helper()
	input, err := schema.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	in, _ := Types(Tool{Function: "f", Input: input})
	return in.Outline()
}

// TestOutline: an outline has the fields of an object, of the objects in arrays, and of all alternatives. It leaves out null and resolves references.
func TestOutline(t *testing.T) {
	t.Parallel()
	got := outlineOf(t, `{"type": "object", "required": ["q"], "properties": {
		"q": {"type": "string", "description": "What to find."},
		"rows": {"type": "array", "items": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
		"either": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": {"type": "number"}}}, {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}]}
	}, "$defs": {"row": {"type": "object", "properties": {"id": {"type": "integer"}, "next": {"$ref": "#/$defs/row"}}}}}`)
	names := func(of []Field) (all []string) {
		for _, f := range of {
			all = append(all, f.Name)
		}
		return all
	}
	if diff := cmp.Diff([]string{"q", "rows", "either"}, names(got.Fields)); diff != "" {
		t.Fatal(diff)
	}
	q, rows, either := got.Fields[0], got.Fields[1], got.Fields[2]
	if q.Optional || !rows.Optional || q.About != "What to find." || q.Type != "string" {
		t.Errorf("q is %+v", q)
	}
	if rows.Items != 2 || !cmp.Equal(names(rows.Fields), []string{"id", "next"}) || !cmp.Equal(names(rows.Fields[1].Fields), []string{"id", "next"}) {
		t.Errorf("rows are %+v", rows)
	}
	if !cmp.Equal(names(either.Fields), []string{"a", "b"}) {
		t.Errorf("either is %+v", either)
	}
}

// TestOutlineIsBounded: the outline of a large type is bounded.
func TestOutlineIsBounded(t *testing.T) {
	t.Parallel()
	many := `{"type": "object", "properties": {`
	for i := range 300 {
		many += `"` + strings.Repeat("x", i+1) + `": {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}},`
	}
	text, err := json.Marshal(outlineOf(t, strings.TrimSuffix(many, ",")+`}}`))
	if fields := strings.Count(string(text), `"name"`); err != nil || fields == 0 || fields > maxOutlineFields {
		t.Errorf("%d fields, %v", fields, err)
	}
}
