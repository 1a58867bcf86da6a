package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jsonschema "mcp-code-exec-harness/internal/catalog/schema"
)

func validate(t *testing.T, schema, input string) []string {
	t.Helper()
	tool := Tool{Server: "s", Name: "t", InputSchema: json.RawMessage(schema)}
	err := New().Validate(t.Context(), "u", &tool, json.RawMessage(input))
	if err == nil {
		return nil
	}
	var invalid *InvalidInputError
	if !errors.As(err, &invalid) {
		t.Fatalf("error is a %T", err)
	}
	if !strings.HasPrefix(err.Error(), "invalid input for s__t:") {
		t.Errorf("message does not name the tool: %s", err)
	}
	return invalid.Problems
}

func TestValidate(t *testing.T) {
	t.Parallel()
	const order = `{"type":"object","additionalProperties":false,"required":["query"],"properties":{
		"query":{"type":"string","description":"what to look for","minLength":2},
		"limit":{"type":"integer","minimum":1,"maximum":100},
		"sort":{"enum":["name","age"]},
		"since":{"type":"string","format":"date"},
		"filter":{"anyOf":[{"type":"object","properties":{"items":{"type":"array","items":{"type":"number"}}},"required":["items"]},
			{"type":"null"}]},
		"who":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}}}`
	for _, c := range []struct {
		name, schema, input string
		want                []string
	}{
		{"valid", order, `{"query":"ab","limit":3,"sort":"age","since":"2026-01-31","filter":null,"who":["a"]}`, nil},
		{"missing", order, `{}`, []string{`missing required property "query" (string): what to look for`}},
		{
			"misspelt", order, `{"qeury":"secret"}`,
			[]string{
				`missing required property "query" (string): what to look for; "qeury" is not a property`,
				`unknown property "qeury"; did you mean "query"?`,
			},
		},
		{
			"unlike any", order, `{"query":"ab","zzz":1}`,
			[]string{`unknown property "zzz"; known are "query", "limit", "sort", "since", "filter", "who"`},
		},
		{
			"data as a name", order, `{"query":"ab","jo@example.com":1}`,
			[]string{`unknown property; known are "query", "limit", "sort", "since", "filter", "who"`},
		},
		{"type", order, `{"query":7}`, []string{`query: expected string, got number`}},
		{"integer", order, `{"query":"ab","limit":1.5}`, []string{`limit: expected integer, got number`}},
		{"several", order, `{"query":"a","limit":1000,"sort":"size","since":"yesterday"}`, []string{
			`limit: must be at most 100`, `query: must have at least 2 characters`, `since: is not a valid date`,
			`sort: must be one of "name", "age"`,
		}},
		{"the form that was meant", order, `{"query":"ab","filter":{"items":[1,"x"]}}`, []string{`filter.items[1]: expected number, got string`}},
		{"no form", order, `{"query":"ab","who":7}`, []string{`who: expected string | string[], got a number that fits none of them`}},
		{"not an object", order, `[1]`, []string{`expected object, got array`}},
		{
			"not the object", `{"properties":{"at":{"type":"object","properties":{"x":{"type":"number"}}}}}`, `{"at":"secret"}`,
			[]string{`at: expected object {x?: number}, got string`},
		},
		{"more than five", `{"required":["a","b","c","d","e","f","g"]}`, `{}`, []string{
			`missing required property "a"`, `missing required property "b"`, `missing required property "c"`,
			`missing required property "d"`, `and 3 more problems`,
		}},
		{"reference", `{"$defs":{"N":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/N"}}}},
			"properties":{"n":{"$ref":"#/$defs/N"}}}`, `{"n":{"v":1,"next":{"v":"x"}}}`, []string{`n.next.v: expected integer, got string`}},
		{"const", `{"properties":{"kind":{"const":"a"}}}`, `{"kind":"b"}`, []string{`kind: must be "a"`}},
		{
			"pattern", `{"properties":{"k":{"type":"string","pattern":"^a+$"}}}`, `{"k":"secret"}`,
			[]string{`k: does not match the pattern ^a+$`},
		},
		{"items", `{"properties":{"k":{"minItems":2,"uniqueItems":true}}}`, `{"k":[]}`, []string{`k: must have at least 2 items, has 0`}},
		{"unique", `{"properties":{"k":{"uniqueItems":true}}}`, `{"k":[1,2,1]}`, []string{`k: items 0 and 2 are equal; items must differ`}},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{`with property "a" it also needs "b"`}},
		{
			"two forms at once", `{"properties":{"k":{"oneOf":[{"type":"number"},{"type":"integer"}]}}}`, `{"k":1}`,
			[]string{`k: matches more than one of the forms number; it must match exactly one`},
		},
		{"false", `{"properties":{"k":false}}`, `{"k":1}`, []string{`k: is not allowed here`}},
		{
			"exclusive", `{"properties":{"k":{"exclusiveMinimum":0.5,"multipleOf":0.25}}}`, `{"k":0.3}`,
			[]string{`k: must be a multiple of 0.25`, `k: must be more than 0.5`},
		},
		{
			"path with data", `{"additionalProperties":{"type":"object","properties":{"n":{"type":"number"}}}}`, `{"a b":{"n":"x"}}`,
			[]string{`[...].n: expected number, got string`},
		},
		{"draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"type":"number","minimum":1,
			"exclusiveMinimum":true}}}`, `{"n":1}`, []string{`n: must be more than 1`}},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"t":{"type":"array","items":[{"type":"string"}],
			"additionalItems":false}}}`, `{"t":["a",1]}`, []string{`t: has 1 items too many`}},
		{"no JSON", `{"type":"object"}`, `{"a":`, []string{`the input is not valid JSON`}},
		{"huge exponent", `{"properties":{"n":{"type":"integer"}}}`, `{"n":1e999999999}`, []string{`the input has a number that is out of range`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := validate(t, c.schema, c.input)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(strings.Join(got, " "), "secret") {
				t.Errorf("a value of the input is in the message: %v", got)
			}
		})
	}
}

func TestBrokenSchemaLeavesToolUsable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, problem string }{
		"no JSON":          {`{"type":`, "not usable"},
		"wrong keyword":    {`{"type":"nothing"}`, "not usable"},
		"remote reference": {`{"$ref":"https://example.com/schema.json"}`, "not followed"},
		"file reference":   {`{"$ref":"file:///etc/passwd"}`, "not followed"},
		"remote dialect":   {`{"$schema":"https://example.com/dialect"}`, "not followed"},
		"look-ahead":       {`{"properties":{"a":{"pattern":"^(?!x)"}}}`, "no RE2 expression"},
		"long pattern":     {`{"properties":{"a":{"pattern":"` + strings.Repeat("x", maxPattern+1) + `"}}}`, "too long"},
		"large patterns":   {`{"properties":{"x":{"pattern":"(` + strings.Repeat("x", 500) + `){1000}"}}}`, "too complex"},
		"number":           {`{"properties":{"a":{"multipleOf":1e-999999999}}}`, "out of range"},
		"too large":        {`{"enum":[` + strings.Repeat("1,", jsonschema.MaxValues) + `1]}`, "more than 20000 values"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c1 := New()
			c1.SetServer(Server{Name: "s", Tools: []Tool{{Name: "t", InputSchema: json.RawMessage(c.schema)}}})
			tool, err := c1.Resolve("s__t")
			if err != nil {
				t.Fatal(err)
			}
			if err := c1.Validate(t.Context(), "u", tool, json.RawMessage(`{"a":"b"}`)); err != nil {
				t.Errorf("input is refused: %v", err)
			}
			d, err := c1.Details("s__t")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(d.SchemaProblem, c.problem) {
				t.Errorf("details say %q, want %q in it", d.SchemaProblem, c.problem)
			}
		})
	}
}

// TestUnusablePatternSkipsOnlyItself: if a schema has one unusable pattern, its other rules still apply.
func TestUnusablePatternSkipsOnlyItself(t *testing.T) {
	t.Parallel()
	got := validate(t, `{"properties":{"a":{"pattern":"^(?!x)"},"b":{"type":"string"}}}`, `{"a":"x","b":1}`)
	if diff := cmp.Diff([]string{"b: expected string, got number"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestExponentialValidationEnds: each level doubles the work, so 60 levels would take centuries.
func TestExponentialValidationEnds(t *testing.T) {
	t.Parallel()
	schema := `{"$defs":{"N":{"anyOf":[{"properties":{"c":{"$ref":"#/$defs/N"},"x":{"const":1}},"required":["x"]},
		{"properties":{"c":{"$ref":"#/$defs/N"},"y":{"const":1}},"required":["y"]}]}},"$ref":"#/$defs/N"}`
	input := strings.Repeat(`{"c":`, 60) + `1` + strings.Repeat(`}`, 60)
	start := time.Now()
	got := validate(t, schema, input)
	if len(got) != 1 || !strings.Contains(got[0], "too complex") {
		t.Errorf("got %v", got)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestLargeInputIsChecked: an input with many values is checked, because the work for it stays below maxWork.
func TestLargeInputIsChecked(t *testing.T) {
	t.Parallel()
	schema := `{"properties":{"rows":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},
		"v":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"null"}]}},"required":["id"]}}}}`
	rows := strings.Repeat(`{"id":1,"v":null},`, 50_000)
	if got := validate(t, schema, `{"rows":[`+rows+`{"id":1}]}`); got != nil {
		t.Errorf("valid input: %v", got)
	}
	want := []string{`rows[50000]: missing required property "id" (integer)`}
	if diff := cmp.Diff(want, validate(t, schema, `{"rows":[`+rows+`{}]}`)); diff != "" {
		t.Error(diff)
	}
}

// TestManyProblems: an input with an error in each of its values is explained in a few lines and a short time. An input of more than maxInputValues values
// would take minutes, and is left to the server.
func TestManyProblems(t *testing.T) {
	t.Parallel()
	repeat := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const forms = `{"items":{"anyOf":[{"properties":{"x":{"type":"object","properties":{%s"z":{}}}},"required":["x"]},{"required":["y"]}]}}`
	object := fmt.Sprintf(`{"additionalProperties":false,"properties":{%s"z":{}},"required":[%s"z"]}`,
		repeat(`"p%d":{"type":"string"},`, 4000), repeat(`"p%d",`, 4000))
	for name, c := range map[string]struct {
		schema, input, last string
	}{
		"items": {`{"items":{"type":"string"}}`, `["x",` + strings.Repeat("0,", maxInputValues-10) + `0]`, "and 199987 more problems"},
		"forms": {fmt.Sprintf(forms, repeat(`"p%d":{},`, 3000)), `[` + strings.Repeat("{},", 90_000) + `{}]`, "and 89997 more problems"},
		"names": {object, `{` + repeat(`"u%d":1,`, 100_000) + `"u":1}`, "and 103998 more problems"},
		"more":  {`{"items":{"type":"string"}}`, `["\\\",",` + strings.Repeat("0,", maxInputValues) + `0]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			got := validate(t, c.schema, c.input)
			if c.last == "" && got != nil || c.last != "" && (len(got) != maxProblems || got[maxProblems-1] != c.last) {
				t.Errorf("got %v, want %q at the end", got, c.last)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestPatternsOfTheInput: patterns in the input are compiled only up to a limit, and an unusable one is not a fault of the schema.
func TestPatternsOfTheInput(t *testing.T) {
	t.Parallel()
	c := New()
	c.SetServer(Server{Name: "s", Tools: []Tool{tool("t", `{"additionalProperties":{"format":"regex"}}`, "")}})
	tool, err := c.Resolve("s__t")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		input := `{"a":"(?=x)","b":"(` + strings.Repeat("x", 500) + `){1000}"}`
		if err := c.Validate(t.Context(), "u", tool, json.RawMessage(input)); err != nil || tool.SchemaProblem() != "" {
			t.Errorf("got %v, problem of the schema %q", err, tool.SchemaProblem())
		}
	}
}

func TestValidateConcurrently(t *testing.T) {
	t.Parallel()
	c := New()
	c.SetServer(Server{Name: "s", Tools: []Tool{tool("t", `{"properties":{"a":{"type":"string"}},"required":["a"]}`, "")}})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			tool, err := c.Resolve("s__t")
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.Validate(t.Context(), "u", tool, json.RawMessage(`{"a":"x"}`)); err != nil {
				t.Error(err)
			}
			if err := c.Validate(t.Context(), "u", tool, json.RawMessage(`{}`)); err == nil {
				t.Error("a missing property passes")
			}
		})
	}
	wg.Wait()
}

func BenchmarkValidate(b *testing.B) {
	c := New()
	c.SetServer(shop())
	tool, err := c.Resolve("web-shop__search")
	if err != nil {
		b.Fatal(err)
	}
	input := json.RawMessage(`{"q":"x","limit":5,"sort":"age"}`)
	for b.Loop() {
		if err := c.Validate(b.Context(), "u", tool, input); err != nil {
			b.Fatal(err)
		}
	}
}
