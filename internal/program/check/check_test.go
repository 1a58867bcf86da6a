package check_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/program/check"
)

// servers resolves imports from a catalog.
type servers struct{ Catalog *catalog.Catalog }

func (s servers) Server(_ context.Context, name string) (frame.Module, error) {
	return s.Catalog.Module(name)
}

// Module implements program.Resolver.
func (servers) Module(context.Context, string) ([]byte, error) { return nil, os.ErrNotExist }

func newCatalog(t testing.TB, file string) *catalog.Catalog {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Name  string
		Tools []catalog.Tool
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	c := catalog.New()
	for _, s := range list {
		c.SetServer(catalog.Server{Name: s.Name, Tools: s.Tools})
	}
	return c
}

// mistakes returns the mistakes of a program, each after its line and column.
func mistakes(t testing.TB, c *catalog.Catalog, code string) []string {
	t.Helper()
	compiled, err := program.Compile(t.Context(), program.Source{Name: "p.ts", Code: code}, program.Options{Resolver: servers{c}, ReadUses: true})
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, m := range check.Check(t.Context(), compiled.Uses, check.Tools{
		Catalog: c, Ensure: func(context.Context) {}, Unavailable: func() []string { return []string{"mute"} },
	}) {
		at := compiled.PlaceOf(m.At)
		out = append(out, fmt.Sprintf("%d:%d: %s", at.Line, at.Column, m.Message))
	}
	return out
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	c := newCatalog(t, "testdata/servers.json")
	for _, test := range []struct {
		name, code string
		want       []string // beginnings of the reported mistakes
	}{
		{"tool", "const a = 1;\nreturn tools.crm.serchContacts({ query: 'a' })", []string{`2:18: server "crm" has no tool "serchContacts"; did you mean "searchContacts"?`}},
		{"spelling of a name does not count", "return tools.CRM.search_contacts({ query: 'a' })", nil},
		{"server", "return tools.crn.getContact({ contactId: 'a' })", []string{`1:14: there is no server "crn"; did you mean "crm"?`}},
		{"server that lists no tools", "return tools.mute.anything({ a: 1 })", nil},
		{"full name", "return callMCPTool('billing__list_invoice')", []string{`1:20: there is no tool "billing__list_invoice"; did you mean "billing__list_invoices"?`}},
		{"full name of a server that lists no tools", "return callMCPTool('mute__x')", nil},
		{"namespace", "import * as crm from './servers/crm';\nreturn crm.getContat({ contactId: 'x' })", []string{`2:12: server "crm" has no tool "getContat"; did you mean "getContact"?`}},
		{"import()", "const { current } = await import('./servers/weather');\nreturn current({ town: 'a' })", []string{`2:18: current has no argument "town"; did you mean "city"?`}},
		{"module of one tool", "import now from './servers/weather/current';\nreturn (await now({ city: 'a' })).temp", []string{`2:35: the answer has no field "temp"; did you mean "temperature"?`}},
		{"variable", "const server = tools['crm'];\nconst get = server.getContact;\nreturn (await get({ contactId: 'a' })).nam", []string{`3:40: the answer has no field "nam"; did you mean "name"?`}},
		{"missing", "return tools.mail.sendMessage({ to: ['a'], subject: 's' })", []string{`1:19: sendMessage needs "body" (string), which is missing`}},
		{"undefined is missing", "return tools.crm.getContact({ contactId: undefined })", []string{`1:18: getContact needs "contactId"`}},
		{"no arguments", "return tools.crm.getContact()", []string{`1:18: getContact needs "contactId"`}},
		{"spread may have it", "const o = JSON.parse('{}'); return tools.mail.sendMessage({ to: ['a'], ...o })", nil},
		{"positional", "return tools.weather.forecast('Berlin')", []string{`1:22: forecast needs "days" (number), which is missing`}},
		{"positional, right", "return tools.weather.forecast('Berlin', 3)", nil},
		{"type", "return tools.crm.getContact({ contactId: 5 })", []string{`1:42: "contactId" of getContact takes string, and is given a number`}},
		{"type of a constant", "const id = 5;\nreturn tools.crm.getContact({ contactId: id })", []string{`2:31: "contactId" of getContact takes string`}},
		{"variable that changes", "let id: any = 5;\nid = 'x';\nreturn tools.crm.getContact({ contactId: id })", nil},
		{"list", "return tools.mail.sendMessage({ to: 'a', subject: 's', body: 'b' })", []string{`1:37: "to" of sendMessage takes string[], and is given a string`}},
		{"inside", "return tools.calendar.createEvent({ summary: 's', start: { date_time: 1 }, end: { date_time: 'x' } })", []string{`1:71: "start.date_time" of createEvent takes string`}},
		{"enum", "return tools.github.listIssues({ owner: 'a', repo: 'b', state: 'opened' })", []string{`1:64: "state" of listIssues cannot be "opened"; did you mean "open"?`}},
		{"argument without a near name", "return tools.github.getIssue({ owner: 'a', repo: 'b', issue_number: 1, zzz: 1 })", []string{`1:72: getIssue has no argument "zzz"; there are owner, repo, issue_number`}},
		{"value of another type", "const c = await tools.crm.searchContacts({ query: 'a' });\nreturn tools.crm.getContact({ contactId: c.total })", []string{`2:31: "contactId" of getContact takes string, and is given number`}},
		{"null where it may be", "return tools.calendar.createEvent({ summary: 's', start: { date_time: 'a' }, end: { date_time: 'x' }, location: null })", nil},
		{"then", "return tools.crm.getContact({ contactId: 'a' }).then((c) => c.mail)", []string{`1:63: the answer has no field "mail"; did you mean "email"?`}},
		{"fallback", "return tools.crm.getContact({ contactId: 'a' }).then((c: any) => c.mail ?? c.adress)", nil},
		{"tested field", "const c = await tools.crm.getContact({ contactId: 'a' });\nif (c.vip) return c.vip", nil},
		{"optional chain", "const c = await tools.crm.getContact({ contactId: 'a' });\nreturn c.company?.nme", []string{`2:19: the answer has no field "nme"; did you mean "name"?`}},
		{"map and Promise.all", "const ids = ['a', 'b'];\nconst all = await Promise.all(ids.map(async (contactId) => {\n  const c = await tools.crm.getContact({ contactId });\n  return c;\n}));\nreturn all.map((c) => c.fone)", []string{`6:25: the answer has no field "fone"; did you mean "phone"?`}},
		{"destructured", "const [a, { total: n, contcts }] = await Promise.all([tools.weather.current({ city: 'a' }), tools.crm.searchContacts({ query: 'x' })]);\nreturn [a.humid, n, contcts]", []string{`1:23: the answer has no field "contcts"; did you mean "contacts"?`, `2:11: the answer has no field "humid"; did you mean "humidity"?`}},
		{"for", "for (const d of (await tools.crm.listDeals()).deals) console.log(d.titel)", []string{`1:68: the answer has no field "titel"; did you mean "title"?`}},
		{"answer that is changed", "const c: any = await tools.crm.getContact({ contactId: 'a' });\nc.score = 1;\nreturn c.score", nil},
		{"shadowed", "const tools: any = { crm: { nothing() {} } };\nreturn tools.crm.nothing()", nil},
		{"shadowed by a parameter", "return ((tools: any) => tools.crm.nothing())({ crm: { nothing() {} } })", nil},
		{"answer that became a file", "const c: any = await tools.crm.getContact({ contactId: 'a' });\nreturn c.file", nil},
		{"no output schema", "return (await tools.github.addIssueComment({ owner: 'a', repo: 'b', issue_number: 1, body: 'c' })).anything", nil},
		{"rows of a query", "return (await tools.postgresDb.query({ sql: 'select 1' })).rows.map((r) => r.anything)", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := mistakes(t, c, test.code)
			same := len(got) == len(test.want)
			for i := range test.want {
				same = same && strings.HasPrefix(got[i], test.want[i])
			}
			if !same {
				t.Errorf("told %q, want %q", got, test.want)
			}
		})
	}
}

// TestCheckReadsEveryName: a name or text means the same in each form in which the program or its compiler writes it.
func TestCheckReadsEveryName(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	c.SetServer(catalog.Server{Name: "lager", Tools: []catalog.Tool{
		{
			Server: "lager", Name: "suche",
			InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["größe","品名"],"properties":{
				"größe":{"enum":["groß","𝒌lein","a\"b\\c\n"]},"品名":{"type":"string"},"a-b 😀":{"type":"number"},"x":{"type":"object","properties":{"ñ":{"type":"string"}},"required":["ñ"]}}}`),
			OutputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"artikelnummer_ß":{"type":"string"},"😀":{"type":"number"}}}`),
		},
		{Server: "lager", Name: "zähle", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
	}})
	for _, code := range []string{
		`return await tools.lager.suche({ größe: 'groß', 品名: 'x' })`,
		`return await tools.lager.suche({ "gr\u00f6\xdfe": "gro\xdf", "\u{54c1}\u540d": 'x', 'a-b \ud83d\ude00': 1 })`,
		"const größe = `\\u{1D48C}lein`, 品名 = `\\x41\\u540d`; return await tools.lager.suche({ größe, 品名, ['a-b 😀']: 2 })",
		"return await tools.lager.suche({ größe: `a\"b\\\\c\n`, 品名: `\\\n` })",
		`return await callMCPTool('lager__suche', { gr\u00f6\u{df}e: '\ud835\udc8clein', 品名: "", x: { ñ: 'é' } })`,
		`return await callMCPTool("lager__z\xe4hle")`,
		`const { artikelnummer_ß, '😀': n } = await tools.lager.suche({ größe: 'groß', 品名: 'x' }); return [artikelnummer_ß, n]`,
		`const r = await tools.lager.suche({ größe: 'groß', 品名: 'x' }); return [r.artikelnummer_ß, r['\u{1f600}'], r.$content]`,
	} {
		if found := mistakes(t, c, code); len(found) > 0 {
			t.Errorf("%s: %q", code, found)
		}
	}
	for code, want := range map[string]string{
		`return await tools.lager.suche({ größe: 'groß' })`:                                        `needs "品名"`,
		`return await tools.lager.suche({ größe: 'klein', 品名: 'x' })`:                              `cannot be "klein"`,
		`return await tools.lager.suche({ gr\u00f6sse: 'groß', 品名: 'x' })`:                         `no argument "grösse"; did you mean "größe"?`,
		`const r = await tools.lager.suche({ größe: 'groß', 品名: 'x' }); return r.artikelnummer_ss`: `did you mean "artikelnummer_ß"?`,
		`return await tools.lager.suche({ größe: 'groß', 品名: 'x', x: { n: 'é' } })`:                `no argument "x.n"; did you mean "ñ"?`,
	} {
		if found := mistakes(t, c, code); len(found) != 1 || !strings.Contains(found[0], want) {
			t.Errorf("%s: %q, want %s", code, found, want)
		}
	}
}
