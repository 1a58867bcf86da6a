package dts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/catalog/schema"
)

func parsed(t *testing.T, text string) *schema.Value {
	t.Helper()
	v, err := schema.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, want string }{
		{`{}`, `any`},
		{`true`, `any`},
		{`false`, `never`},
		{`{"type":"integer"}`, `number`},
		{`{"type":["string","null"]}`, `string | null`},
		{`{"type":"string","nullable":true}`, `string | null`},
		{`{"enum":["a",1,null,true]}`, `"a" | 1 | null | true`},
		{`{"const":{"a":[1]}}`, `{a: [1]}`},
		{`{"type":"array","items":{"type":["string","number"]}}`, `(string | number)[]`},
		{`{"type":"array"}`, `any[]`},
		{`{"prefixItems":[{"type":"string"},{"type":"number"}]}`, `[string, number]`},
		{`{"items":[{"type":"string"}],"additionalItems":{"type":"number"}}`, `[string]`},
		{`{"type":"object","additionalProperties":{"type":"number"}}`, `Record<string, number>`},
		{`{"type":"object"}`, `object`},
		{`{"properties":{"a":{"type":"string"},"b":{}},"required":["b"]}`, `{b: any, a?: string}`},
		{`{"required":["x"],"type":"object"}`, `{x: any}`},
		{`{"anyOf":[{"type":"string"},{"type":"string"},{"type":"null"}]}`, `string | null`},
		{`{"anyOf":[{"type":"string"},{}]}`, `any`},
		{`{"oneOf":[{"type":"string"},false]}`, `string`},
		{`{"allOf":[{"type":"string"},{"minLength":1}]}`, `string`},
		{`{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"string"}}}]}`, `{a?: string} & {b?: string}`},
		{`{"type":"object","anyOf":[{"properties":{"a":{"const":1}}},{"properties":{"b":{"const":2}}}]}`, `{a?: 1} | {b?: 2}`},
		{`{"minimum":3}`, `number`},
		{`{"pattern":"x"}`, `string`},
		{`{"$ref":"#/$defs/C","$defs":{"C":{"type":"object","properties":{"n":{"$ref":"#/$defs/C"}}}}}`, `C`},
		{`{"$ref":"https://example.com/x"}`, `any`},
	} {
		v := parsed(t, c.schema)
		if got := Compact(v, v); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.schema, got, c.want)
		}
	}
}

func TestDeclarationDocuments(t *testing.T) {
	t.Parallel()
	got := Declaration("s", Tool{
		FullName: "s__f", Function: "f", Doc: "First.\r\n\r\nSecond */ line.\x00\u202e",
		Input: parsed(t, `{"type":"object","properties":{
			"old":{"type":"string","deprecated":true,"description":"Gone soon.\nReally."},
			"n":{"type":"integer","minimum":1,"maximum":9,"multipleOf":2,"default":4},
			"when":{"type":"string","format":"date-time","pattern":"*/"},
			"list":{"type":"array","items":{"type":"object","properties":{"x-y":{"type":"number","exclusiveMinimum":0}}},"minItems":1}}}`),
		Output: parsed(t, `{"type":"object","properties":{"result":{"type":"string"}}}`), Unwrap: true,
	})
	want := `declare namespace tools.s {
  interface FInput {
    /**
     * Gone soon.
     * Really.
     * @deprecated
     */
    old?: string;
    /** integer, 1 to 9, multiple of 2, default 4 */
    n?: number;
    /** date-time, pattern *\/ */
    when?: string;
    /** min items 1 */
    list?: {
      /** more than 0 */
      "x-y"?: number;
    }[];
  }
  /**
   * First.
   *
   * Second *\/ line.
   */
  function f(input?: FInput): Promise<string>;
}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTypesOfEqualNameAndMeaningAreShared(t *testing.T) {
	t.Parallel()
	output := func(customer, address string) *schema.Value {
		return parsed(t, `{"type":"array","items":{"$ref":"#/$defs/Customer"},"$defs":{"Customer":{"type":"object","properties":{`+
			customer+`"at":{"$ref":"#/$defs/Address"}}},"Address":{"type":"object","properties":{`+address+`}}}}`)
	}
	text := ServerDeclaration(Server{Name: "s", Identifier: "s", Tools: []Tool{
		{FullName: "s__v", Function: "v", Output: output("", `"x":{}`)},
		{FullName: "s__w", Function: "w", Output: output("", `"x":{}`)},
		{FullName: "s__y", Function: "y", Output: output(`"extra":{},`, `"x":{}`)},
		{FullName: "s__z", Function: "z", Output: output("", `"y":{}`)},
	}})
	for part, want := range map[string]int{
		"interface Customer {": 1, "interface Address {": 1, "interface YCustomer {": 1,
		// The Customer of z has the same text as that of v, but refers to another Address.
		"interface ZCustomer {": 1, "interface ZAddress {": 1,
		"Promise<Customer[]>": 2, "Promise<YCustomer[]>": 1, "Promise<ZCustomer[]>": 1, "at?: ZAddress": 1, "at?: Address": 2,
	} {
		if got := strings.Count(text, part); got != want {
			t.Errorf("%q stands %d times, want %d, in\n%s", part, got, want, text)
		}
	}
}

func TestSignatureFitsItsLimit(t *testing.T) {
	t.Parallel()
	var fields []string
	for _, n := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		fields = append(fields, `"property_`+n+`":{"type":"object","properties":{"inner":{"type":"string"}}}`)
	}
	input := parsed(t, `{"properties":{`+strings.Join(fields, ",")+`},"required":["property_z"]}`)
	got := Signature(Tool{Function: "f", Input: input}, 120)
	if want := "f({property_z: object, property_a?: object, property_b?: object, property_c?: object, ...}): Promise<any>"; got != want {
		t.Errorf("got %s", got)
	}
	if got := Signature(Tool{Function: strings.Repeat("f", 200), Input: input}, 120); got != strings.Repeat("f", 200)+"(...)" {
		t.Errorf("got %s", got)
	}
}

// TestHugeSchemasAreCut: the declaration of a schema with very many references is bounded.
func TestHugeSchemasAreCut(t *testing.T) {
	t.Parallel()
	var defs, fields []string
	for i := range 2000 {
		name := strings.Repeat("D", 1+i%7) + strings.Repeat("x", i)
		defs = append(defs, `"`+name+`":{"type":"object","properties":{"n":{"$ref":"#/$defs/D"},"m":{"type":"string"}}}`)
		fields = append(fields, `"f`+name+`":{"$ref":"#/$defs/`+name+`"}`)
	}
	input := parsed(t, `{"properties":{`+strings.Join(fields, ",")+`},"$defs":{`+strings.Join(defs, ",")+`}}`)
	text := Declaration("s", Tool{Function: "f", Input: input})
	if n := strings.Count(text, "interface "); n > maxDefs {
		t.Errorf("%d types", n)
	}
	if !strings.Contains(text, ": unknown;") {
		t.Error("nothing is unknown")
	}
}
