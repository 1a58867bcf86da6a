package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/catalog/schema"
)

// repeat writes a format n times; the argument of the format counts from 0.
func repeat(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestHostileSchemas: reading a server's schema of up to a megabyte, which is the largest that a connection accepts, takes little time, and the texts made
// from it are short.
func TestHostileSchemas(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"deep":       strings.Repeat(`{"properties":{"a":`, 120) + `{}` + strings.Repeat(`}}`, 120),
		"too deep":   strings.Repeat(`{"properties":{"a":`, 20_000) + `{}` + strings.Repeat(`}}`, 20_000),
		"wide":       `{"properties":{` + repeat(`"p%d":{"type":"string"},`, 9000) + `"z":{}}}`,
		"too wide":   `{"properties":{` + repeat(`"p%d":{"type":"string","description":"d"},`, 20_000) + `"z":{}}}`,
		"union":      `{"anyOf":[` + repeat(`{"const":"c%d"},`, 9000) + `{}]}`,
		"references": `{"$defs":{` + repeat(`"d%d":{"properties":{"x":{"$ref":"#/$defs/d1"}}},`, 3000) + `"z":{}},"properties":{` + repeat(`"p%d":{"$ref":"#/$defs/d%[1]d"},`, 3000) + `"z":{}}}`,
		"chain":      `{"$defs":{` + repeat(`"d%d":{"allOf":[{"$ref":"#/$defs/e%[1]d"}]},"e%[1]d":{"$ref":"#/$defs/d0"},`, 2000) + `"z":{}},"$ref":"#/$defs/d0"}`,
		"doubling":   `{"$defs":{` + repeat(`"d%d":{"allOf":[{"$ref":"#/$defs/d0"},{"$ref":"#/$defs/d1"}]},`, 60) + `"z":{}},"$ref":"#/$defs/d0"}`,
		"defaults":   `{"properties":{` + repeat(`"p%d":{"default":"`+strings.Repeat("x", 300)+`%[1]d"},`, 3000) + `"z":{}}}`,
		"anchors":    `{"properties":{` + repeat(`"p%d":{"$anchor":"a%[1]d","$ref":"#a%[1]d"},`, 4000) + `"z":{}}}`,
		"required":   `{"required":[` + repeat(`"p%d",`, 15_000) + `"z"]}`,
		"types":      `{"properties":{"a":{"type":[` + strings.Repeat(`"string",`, 15_000) + `"null"]}}}`,
		"text":       `{"description":"` + strings.Repeat(`*/ `, 300_000) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, _ = schema.Parse([]byte(text)) // the time limit is a multiple of this, so that it also fits a busy machine
			parsing := time.Since(start)
			c := New()
			c.SetServer(Server{Name: "s", Tools: []Tool{{
				Name: "t", InputSchema: json.RawMessage(text), OutputSchema: json.RawMessage(text), Description: strings.Repeat("word ", 100_000),
			}}})
			hits := c.Search(t.Context(), "", "word", 10)
			if len(hits) != 1 || len(hits[0].Signature) > len("tools.s.")+maxSignature || len(hits[0].Description) > 2*maxHitText {
				t.Errorf("found %d, with a signature of %d bytes", len(hits), len(hits[0].Signature))
			}
			d, err := c.Details("s__t")
			if err != nil {
				t.Fatal(err)
			}
			if len(d.TypeScript) > 4<<20 {
				t.Errorf("%d bytes of declaration", len(d.TypeScript))
			}
			tool, err := c.Resolve("s__t")
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Validate(t.Context(), "u", tool, json.RawMessage(`{"a":1}`)) // it is enough that Validate returns
			if took, most := time.Since(start), time.Minute+300*parsing; took > most {
				t.Errorf("took %v, which is more than %v", took, most)
			}
		})
	}
}

// TestHostileNames: thousands of tools whose names give the same identifier get different identifiers in a short time.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var tools []Tool
	for i := range 20_000 {
		tools = append(tools, Tool{Name: "a" + strings.Repeat("-", i%200) + strings.Repeat("_", i/200)})
	}
	c := New()
	c.SetServer(Server{Name: "s", Tools: tools})
	if names := c.Names()["s"]; len(names) != len(tools) {
		t.Errorf("%d names for %d tools", len(names), len(tools))
	}
	if _, err := c.Resolve("s__b"); err == nil || len(err.Error()) > 2000 {
		t.Errorf("got %v", err)
	}
	c.Search(t.Context(), "", "a", 10)
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

// TestConfusableNames: a tool whose name can be taken for the name of another tool is left out, and messages show its name with codes.
func TestConfusableNames(t *testing.T) {
	t.Parallel()
	c := catalogOf(named("up", "send", "s\u0435nd", "поиск"))
	if list := c.List(); len(list) != 2 {
		t.Errorf("the catalog has %q", list)
	}
	if problems := c.Problems(); len(problems) != 1 || !strings.Contains(problems[0], `s\u{435}nd`) {
		t.Errorf("the problems are %q", problems)
	}
}
