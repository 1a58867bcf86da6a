package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/catalog/dts"
)

// capturedServers returns the tools of published servers, which are recorded in testdata/servers.
func capturedServers(t testing.TB) []Server {
	t.Helper()
	var out []Server
	for _, name := range []string{"everything", "filesystem", "memory", "sequential-thinking"} {
		var file struct {
			Instructions string
			Tools        []struct {
				Name, Title, Description  string
				InputSchema, OutputSchema json.RawMessage
				Annotations               Annotations
			}
		}
		readJSON(t, filepath.Join("testdata", "servers", name+".json"), &file)
		s := Server{Name: name, Instructions: file.Instructions}
		for _, tool := range file.Tools {
			s.Tools = append(s.Tools, Tool{
				Name: tool.Name, Title: tool.Title, Description: tool.Description, InputSchema: tool.InputSchema,
				OutputSchema: tool.OutputSchema, Annotations: tool.Annotations,
			})
		}
		out = append(out, s)
	}
	return out
}

func capturedCatalog(t testing.TB) *Catalog {
	t.Helper()
	c := New()
	for _, s := range capturedServers(t) {
		c.SetServer(s)
	}
	return c
}

func tool(name, input, output string) Tool {
	t := Tool{Name: name, Description: "Does " + name + ".", InputSchema: json.RawMessage(input)}
	if output != "" {
		t.OutputSchema = json.RawMessage(output)
	}
	return t
}

// shop returns a server with one tool for each case.
func shop() Server {
	const customer = `"$defs":{"Customer":{"type":"object","properties":{"name":{"type":"string"},"email":{"type":["string","null"],
		"format":"email"},"friends":{"type":"array","items":{"$ref":"#/$defs/Customer"}}},"required":["name"]}}`
	return Server{
		Name: "web-shop", Description: "A shop. */ not the end", Instructions: "Search before you buy.",
		Tools: []Tool{
			tool("search", `{"type":"object","properties":{"limit":{"type":"integer","default":10,"maximum":100},
				"q":{"type":"string","description":"what to look for"},"sort":{"enum":["name","age"]}},"required":["q"],
				"additionalProperties":false}`,
				`{"type":"object","properties":{"result":{"type":"array","items":{"$ref":"#/$defs/Customer"}}},`+customer+`}`),
			tool("get-customer", `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`,
				`{"$ref":"#/$defs/Customer",`+customer+`}`),
			tool("delete", `{"type":"object","properties":{"id":{"type":["string","integer"]},"default":{"type":"boolean"}},
				"required":["id"]}`, ""),
			tool("2fa.enable", `{"type":"object"}`, `{"type":"object","properties":{"ok":{"const":true}},"required":["ok"]}`),
			tool("pay", `{"oneOf":[{"type":"object","properties":{"card":{"type":"string"}},"required":["card"]},
				{"type":"object","properties":{"iban":{"type":"string"}},"required":["iban"]}]}`, ""),
			tool("place", `{"type":"object","properties":{"at":{"type":"array","prefixItems":[{"type":"number"},{"type":"number"}],
				"items":false},"tags":{"type":"object","additionalProperties":{"type":"number"}},"tree":{"$ref":"#/$defs/Node"}},
				"required":["at"],"$defs":{"Node":{"type":"object","properties":{"left":{"$ref":"#/$defs/Node"},
				"value":{"type":"integer"}},"required":["value"]}}}`, ""),
		},
	}
}

const goodUse = `
import * as shop from './servers/web-shop';
import { search } from './servers/web-shop/index.js';
import everything from './servers/everything';

export async function use() {
  const found = await tools.webShop.search({ q: 'x', limit: 5, sort: 'age' });
  const name: string = found[0].name;
  const email: string | null | undefined = found[0].friends?.[0].email;
  const customer = await shop.getCustomer({ id: '1' });
  const same: typeof customer = found[0];
  await search('x');
  await search('x', 5, 'name');
  await shop.delete_({ id: 7 });
  const ok: true = (await shop._2faEnable()).ok;
  await shop.pay({ card: '1' });
  await shop.pay({ iban: '1' });
  await shop.place({ at: [1, 2], tags: { a: 1 }, tree: { value: 1, left: { value: 2 } } });
  const called = await callMCPTool('web-shop__search', { q: 'x' });
  const first: string = called[0].name;
  const typed = await callMCPTool<{ a: number }>('some__thing', { any: 'thing' });
  const a: number = typed.a;
  const unknownTool = await callMCPTool('some__thing');
  unknownTool.whatever;
  const whole = await callMCPTool.raw('web-shop__search', { q: 'x' });
  const sum = await everything.getSum({ a: 1, b: 2 });
  const input: tools.webShop.SearchInput = { q: 'x' };
  return [name, email, same, ok, first, a, whole, sum, input];
}
`

const badUse = `
import * as shop from './servers/web-shop';
export async function use() {
  // @ts-expect-error a required property is missing
  await tools.webShop.search({ limit: 5 });
  // @ts-expect-error the type is wrong
  await tools.webShop.search({ q: 1 });
  // @ts-expect-error the property does not exist
  await tools.webShop.search({ q: 'x', lmit: 5 });
  // @ts-expect-error no member of the enum
  await tools.webShop.search({ q: 'x', sort: 'size' });
  // @ts-expect-error the result is an array
  (await tools.webShop.search({ q: 'x' })).name;
  // @ts-expect-error null has to be considered
  (await shop.getCustomer({ id: '1' })).email.length;
  // @ts-expect-error the tool does not exist
  await shop.find({ q: 'x' });
  // @ts-expect-error positional arguments have types too
  await shop.search(1);
  // @ts-expect-error a tuple has two elements
  await shop.place({ at: [1] });
  // @ts-expect-error values of a map have a type
  await shop.place({ at: [1, 2], tags: { a: 'x' } });
  // @ts-expect-error recursion keeps the types
  await shop.place({ at: [1, 2], tree: { value: 1, left: { value: 'x' } } });
  // @ts-expect-error neither form
  await shop.pay({ paypal: '1' });
  // @ts-expect-error a known name is checked
  await callMCPTool('web-shop__search', { limit: 5 });
  // @ts-expect-error and needs its input
  await callMCPTool('web-shop__search');
  // @ts-expect-error the server does not exist
  await tools.nowhere.search();
}
`

func TestDeclarationsCompile(t *testing.T) {
	t.Parallel()
	c := capturedCatalog(t)
	c.SetServer(shop())
	c.SetServer(Server{Name: "default"}) // the name is a keyword, and the server has no tools
	c.SetServer(Server{Name: "a*b", Tools: []Tool{tool("x", `{}`, "")}})
	if out := compile(t, map[string]string{"tools.d.ts": c.Declarations(), "good.ts": goodUse, "bad.ts": badUse}); out != "" {
		t.Errorf("tsc: %s\n%s", out, c.Declarations())
	}
}

func TestDeclarationsOfOneToolCompile(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, s := range append(capturedServers(t), shop()) {
		for i, tool := range s.Tools {
			c := New()
			c.SetServer(Server{Name: fmt.Sprintf("%s-%d", s.Name, i), Tools: []Tool{tool}})
			text, err := declaration(c, c.List()[0])
			if err != nil {
				t.Fatal(err)
			}
			files[fmt.Sprintf("%s-%d.d.ts", s.Name, i)] = text
		}
	}
	if out := compile(t, files); out != "" {
		t.Error(out)
	}
}

func TestDeclarationsOfManyToolsCompile(t *testing.T) {
	t.Parallel()
	if out := compile(t, map[string]string{"tools.d.ts": recallCatalog(t, 300).Declarations()}); out != "" {
		t.Error(out)
	}
}

// nasty lists schemas that are difficult for a generator. Each one is used as a tool's input and output.
var nasty = []string{
	`true`, `false`, `{}`, `null`, `[]`, `"x"`, `{"type":"nothing"}`, `{"type":[]}`, `{"type":7}`,
	`{"$ref":"#"}`, `{"$ref":"#/$defs/none"}`, `{"$ref":"https://example.com/schema"}`, `{"$ref":"#/%zz"}`, `{"$ref":7}`,
	`{"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}},"$ref":"#/$defs/A"}`,
	`{"$defs":{"A":{"anyOf":[{"$ref":"#/$defs/A"},{"type":"string"}]}},"$ref":"#/$defs/A"}`,
	`{"$defs":{"A":{"anyOf":[{"$ref":"#/$defs/B"},{"type":"string"}]},"B":{"allOf":[{"$ref":"#/$defs/A"},{"type":"number"}]}},
	  "properties":{"a":{"$ref":"#/$defs/A"},"b":{"$ref":"#/$defs/B"}}}`,
	`{"$defs":{"Json":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/Json"}},
	  {"type":"object","additionalProperties":{"$ref":"#/$defs/Json"}}]}},"properties":{"v":{"$ref":"#/$defs/Json"}}}`,
	`{"$defs":{"T":{"type":"array","prefixItems":[{"$ref":"#/$defs/T"}]}},"properties":{"v":{"$ref":"#/$defs/T"}}}`,
	`{"type":"array","items":{"$ref":"#"}}`, `{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, `{"allOf":[{"$ref":"#"}]}`,
	`{"$defs":{"Promise":{"type":"object","properties":{"a":{"type":"string"}}},"Record":{"type":"string"},
	  "string":{"type":"number"},"any":{"enum":["a"]},"a b":{"type":"object"},"a_b":{"type":"array"},"":{"type":"null"},
	  "123":{"type":"object","properties":{"x":{}}},"/~":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/Promise"},
	  "b":{"$ref":"#/$defs/Record"},"c":{"$ref":"#/$defs/string"},"d":{"$ref":"#/$defs/any"},"e":{"$ref":"#/$defs/a%20b"},
	  "f":{"$ref":"#/$defs/a_b"},"g":{"$ref":"#/$defs/"},"h":{"$ref":"#/$defs/123"},"i":{"$ref":"#/$defs/~1~0"}}}`,
	`{"properties":{"a-b":{"type":"string"},"":{"type":"string"},"new":{"type":"string"},"constructor":{"type":"string"},
	  "__proto__":{"type":"string"},"x\ny":{"type":"string"},"\"":{},"日本":{},"readonly":{},"get":{},"1":{},"a":{"description":"*/ alert(1) /*"}},
	  "required":["missing","a-b","missing"]}`,
	`{"properties":{"a":{"type":"string"}},"additionalProperties":{"type":"number"}}`,
	`{"properties":{"a":{"type":"string"}},"patternProperties":{"^x":{"type":"number"},"^y":{"type":"boolean"}}}`,
	`{"patternProperties":{"^x":{"type":"number"}},"additionalProperties":false}`,
	`{"type":"object","properties":{},"additionalProperties":false}`, `{"type":"object","additionalProperties":true}`,
	`{"type":["object","array","string","null","integer"]}`, `{"type":"string","nullable":true}`,
	`{"enum":[]}`, `{"enum":[1,-1,1.5,1e400,null,true,"a","\u2028","\\","` + "`${x}`" + `",[1,[2]],{"a":{"b":[]}}]}`,
	`{"const":{"a":[1,{"b":null}]}}`, `{"const":null}`, `{"const":-0}`,
	`{"type":"array","items":[{"type":"string"},{"type":"number"}],"additionalItems":{"type":"boolean"},"minItems":1}`,
	`{"type":"array","prefixItems":[{"anyOf":[{"type":"string"},{"type":"number"}]},{"type":"number"}],"minItems":0,"items":false}`,
	`{"type":"array","items":[]}`, `{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"null"}]}}`,
	`{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"anyOf":[{"type":"object","properties":{"b":{}}},{"type":"null"}]}]}`,
	`{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
	`{"type":"object","if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]}}`,
	`{"oneOf":[{"type":"string"},{"type":"string","format":"date"}],"description":"a\r\nb\u0000c\u202e"}`,
	`{"properties":{"result":{"$ref":"#"}}}`, `{"properties":{"result":{"type":"string"}}}`,
	`{"properties":{"result":{"type":"object","properties":{"result":{"$ref":"#/properties/result"}}}}}`,
	`{"$defs":{"N":{"$anchor":"node","type":"object","properties":{"next":{"$ref":"#node"}}}},"properties":{"n":{"$ref":"#node"}}}`,
	`{"definitions":{"N":{"$id":"#node","type":"object"}},"properties":{"n":{"$ref":"#node"}}}`,
	`{"properties":{"a":{"deprecated":true,"default":"*/","examples":["*/"],"pattern":"*/","format":"*/"}}}`,
	`{"properties":` + strings.Repeat(`{"a":{"type":"object","properties":`, 60) + `{}` + strings.Repeat(`}}`, 60) + `}`,
	strings.Repeat(`{"minItems":0,"prefixItems":[`, 100) + `{}` + strings.Repeat(`]}`, 100),
	strings.Repeat(`{"anyOf":[{"type":"null"},`, 100) + `{}` + strings.Repeat(`]}`, 100),
	`{"properties":{"a":{"enum":[` + strings.Repeat(`"x",`, 100) + `"y"],"type":"string"}}}`,
	`{"type":"object","properties":{"a":{"not":{}},"b":{"not":{"type":"string"}},"c":{"type":"object","required":["z"]}}}`,
	`{"$dynamicRef":"#node","$defs":{"n":{"$dynamicAnchor":"node","type":"object","properties":{"k":{"$dynamicRef":"#node"}}}}}`,
	`{"type":"object","properties":{"input":{"type":"string"},"input_":{"type":"string"},"Input":{"type":"string"}},"required":["input"]}`,
}

func TestNastySchemasCompile(t *testing.T) {
	t.Parallel()
	s := Server{Name: "nasty"}
	names := []string{
		"delete", "default", "import", "class", "undefined", "arguments", "await", "then", "toJSON", "2fa", "a b", "a.b", "a/b",
		"größe", "日本語", "🚀", "🚀🚀", "", "constructor", "Promise", "promise", "record", "tools", "a-b", "a_b", "aB", "NaN", "type", "of",
		"declare", "namespace", "module", "global", "any", "string", "number", "Object",
	}
	for i, schema := range nasty {
		name := fmt.Sprintf("tool %d", i)
		if i < len(names) {
			name = names[i]
		}
		s.Tools = append(s.Tools, tool(name, schema, schema))
	}
	c := New()
	c.SetServer(s)
	if out := compile(t, map[string]string{"tools.d.ts": c.Declarations()}); out != "" {
		t.Errorf("tsc: %s\n%s", out, c.Declarations())
	}
	for _, tool := range c.Tools() {
		if s := tool.Signature(); len(s) > maxSignature || strings.ContainsAny(s, "\n\r") {
			t.Errorf("signature of %q: %s", tool.Name, s)
		}
	}
}

// TestGeneratedSchemasCompile combines schemas: each schema contains others under every keyword that takes schemas.
func TestGeneratedSchemasCompile(t *testing.T) {
	t.Parallel()
	wrap := []string{
		`{"type":"array","items":%s}`, `{"anyOf":[%[1]s,{"type":"null"}]}`, `{"allOf":[%[1]s,{"type":"object"}]}`,
		`{"oneOf":[%[1]s,%[1]s]}`, `{"type":"object","properties":{"x":%[1]s,"y":{"$ref":"#/properties/x"}},"required":["x"]}`,
		`{"type":"object","additionalProperties":%s}`, `{"type":"object","properties":{"a":{}},"additionalProperties":%s}`,
		`{"type":"array","prefixItems":[%[1]s,{"type":"string"}],"items":%[1]s,"minItems":1}`,
		`{"type":"object","patternProperties":{".":%s}}`, `{"properties":{"result":%s}}`,
	}
	s := Server{Name: "generated"}
	add := func(schema string) {
		s.Tools = append(s.Tools, tool(fmt.Sprintf("t%d", len(s.Tools)), schema, schema))
	}
	for _, inner := range nasty {
		for i, outer := range wrap {
			once := fmt.Sprintf(outer, inner)
			add(once)
			add(fmt.Sprintf(wrap[(i+3)%len(wrap)], once))
		}
	}
	c := New()
	c.SetServer(s)
	text := c.Declarations()
	if out := compile(t, map[string]string{"tools.d.ts": text}); out != "" {
		t.Errorf("tsc over %d tools: %.3000s", len(s.Tools), out)
	}
}

func FuzzDeclaration(f *testing.F) {
	for _, schema := range nasty {
		f.Add("tool", schema)
	}
	f.Add("delete", `{"type":"object"}`)
	f.Fuzz(func(t *testing.T, name, schema string) {
		c := New()
		c.SetServer(Server{Name: name, Tools: []Tool{tool(name, schema, schema)}})
		c.Declarations()
		text, err := declaration(c, c.List()[0])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(name+schema, "/") && strings.Count(text, "/**") != strings.Count(text, "*/") {
			t.Errorf("a comment ends early:\n%s", text)
		}
		one := c.Tools()[0]
		if s := one.Signature(); len(s) > maxSignature+len(one.Function())+8 || strings.Contains(s, "\n") {
			t.Errorf("signature %q", s)
		}
		_ = New().Validate(t.Context(), "u", one, json.RawMessage(schema))
		_, _ = one.Arguments(json.RawMessage(schema), nil)
		if _, err := c.Details(c.List()[0]); err != nil {
			t.Error(err)
		}
	})
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	c := New()
	c.SetServer(shop())
	for name, want := range map[string]string{
		"search":       `search({q: string, limit?: number, sort?: "name" | "age"}): Promise<Customer[]>`,
		"get-customer": `getCustomer({id: string}): Promise<Customer>`,
		"delete":       `delete_({id: string | number, default?: boolean}): Promise<any>`,
		"2fa.enable":   `_2faEnable(): Promise<{ok: true}>`,
		"pay":          `pay({card: string} | {iban: string}): Promise<any>`,
		"place":        `place({at: [number, number], tags?: Record<string, number>, tree?: Node}): Promise<any>`,
	} {
		tool, err := c.ResolveIn("web-shop", name)
		if err != nil {
			t.Fatal(err)
		}
		if got := tool.Signature(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func TestDeclaration(t *testing.T) {
	t.Parallel()
	c := New()
	c.SetServer(shop())
	got, err := declaration(c, "web_shop__search")
	if err != nil {
		t.Fatal(err)
	}
	want := `declare namespace tools.webShop {
  interface SearchInput {
    /** integer, at most 100, default 10 */
    limit?: number;
    /** what to look for */
    q: string;
    sort?: "name" | "age";
  }
  interface Customer {
    name: string;
    /** email */
    email?: string | null;
    friends?: Customer[];
  }
  /** Does search. */
  function search(input: SearchInput): Promise<Customer[]>;
}
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	server, err := c.ServerDeclaration("webShop")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(server, "interface Customer "); n != 1 {
		t.Errorf("Customer of two tools is declared %d times:\n%s", n, server)
	}
	if !strings.HasPrefix(c.Declarations(), dts.Globals) {
		t.Error("the declarations do not begin with the globals")
	}
}

// declaration returns the TypeScript declaration of one tool.
func declaration(c *Catalog, name string) (string, error) {
	d, err := c.Details(name)
	if err != nil {
		return "", err
	}
	return d.TypeScript, nil
}

// TestDeclarationsAreKept: a declaration is made once, and again after each change of its parts. The parts are the tools, the learned shapes of their
// answers, and the names of other servers, on which the server's identifier depends.
func TestDeclarationsAreKept(t *testing.T) {
	t.Parallel()
	c := learningCatalog()
	ann := c.For("ann")
	made := func() *declared {
		e := c.now.Load().byName["crm"]
		return cmp.Or(e.learned.Load(), e.declared.Load())
	}
	read := func(want, not string) {
		t.Helper()
		text, err := ann.ServerDeclaration("crm")
		if err != nil || !strings.Contains(text, want) || strings.Contains(text, not) || !strings.Contains(ann.Declarations(), text) {
			t.Errorf("want %q, not %q in\n%s\n%v", want, not, text, err)
		}
	}
	read("search", "email")
	first := made()
	if read("search", "email"); made() != first {
		t.Error("it is made anew for each read")
	}
	c.Learn("ann", mustResolve(t, c, "crm__search"), json.RawMessage(`{"email":"x"}`))
	if read("email", "archive("); made() == first {
		t.Error("what is learned does not show")
	}
	learned := made()
	c.SetServer(Server{Name: "other", Tools: []Tool{{Name: "x"}}})
	if read("email", "archive("); made() != learned {
		t.Error("another server's change makes it anew")
	}
	changed := crm()
	changed.Tools = append(changed.Tools, Tool{Name: "archive"})
	c.SetServer(changed)
	read("archive(", "nothing of it")
	c.Learn("ann", mustResolve(t, c, "crm__archive"), json.RawMessage(`{"country":"x"}`))
	read("country", "nothing of it")
}

func BenchmarkDeclarations(b *testing.B) {
	s := Server{Name: "big"}
	for i := range 3000 {
		s.Tools = append(s.Tools, Tool{Name: fmt.Sprint("tool_", i), Description: "Does something.", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"}}}`)})
	}
	c := New()
	c.SetServer(s)
	for b.Loop() {
		c.Declarations()
	}
}
