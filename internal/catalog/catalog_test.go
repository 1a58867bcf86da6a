package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/frame"
)

func TestSetServerReplaces(t *testing.T) {
	t.Parallel()
	c := catalogOf(named("b", "two", "one"), named("a", "x"))
	if diff := cmp.Diff([]string{"a__x", "b__one", "b__two"}, c.List()); diff != "" {
		t.Error(diff)
	}
	if hits := c.Search(t.Context(), "", "two", 5); len(hits) != 1 || hits[0].Name != "b__two" {
		t.Errorf("hits: %v", hits)
	}
	c.SetServer(named("b", "three"))
	if diff := cmp.Diff([]string{"a__x", "b__three"}, c.List()); diff != "" {
		t.Error(diff)
	}
	if hits := c.Search(t.Context(), "", "two", 5); len(hits) != 0 {
		t.Errorf("a removed tool is found: %v", hits)
	}
	if hits := c.Search(t.Context(), "", "three", 5); len(hits) != 1 {
		t.Errorf("a new tool is not found: %v", hits)
	}
	c.RemoveServer("b")
	c.RemoveServer("b")
	if diff := cmp.Diff([]string{"a__x"}, c.List()); diff != "" {
		t.Error(diff)
	}
	if got := c.Servers(); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("servers: %v", got)
	}
}

// TestChangeKeepsOtherServers: when one server changes, the compiled schemas and the index of the other servers are reused.
func TestChangeKeepsOtherServers(t *testing.T) {
	t.Parallel()
	c := catalogOf(named("a", "x"), named("b", "y"))
	before, err := c.Resolve("a__x")
	if err != nil {
		t.Fatal(err)
	}
	c.SetServer(named("b", "z"))
	if after, err := c.Resolve("a__x"); err != nil || after != before {
		t.Errorf("got %p, %v, want %p", after, err, before)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	c := New()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 20 {
				name := fmt.Sprintf("server-%d", (i+j)%5)
				c.SetServer(named(name, "get", "put", fmt.Sprintf("tool-%d", j)))
				if j%7 == 0 {
					c.RemoveServer(name)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				for _, h := range c.Search(t.Context(), "", "put the tool, then get it", 5) {
					if !strings.HasPrefix(h.Name, h.Server+"__") {
						t.Errorf("hit %v", h)
					}
				}
				for _, name := range c.List() {
					_, _ = c.Details(name)
				}
				c.Names()
				c.Declarations()
				_, _ = c.Resolve("server0__get")
			}
		})
	}
	wg.Wait()
}

func TestModule(t *testing.T) {
	t.Parallel()
	c := catalogOf(shop())
	got, err := c.Module("webShop")
	if err != nil {
		t.Fatal(err)
	}
	want := frame.Module{
		ID: "./servers/web-shop", Kind: "server", Server: "web-shop", Instructions: "Search before you buy.",
		Functions: []frame.Function{
			{Name: "_2faEnable", Tool: "web-shop__2fa.enable"},
			{Name: "delete_", Tool: "web-shop__delete"},
			{Name: "getCustomer", Tool: "web-shop__get-customer"},
			{Name: "pay", Tool: "web-shop__pay"},
			{Name: "place", Tool: "web-shop__place"},
			{Name: "search", Tool: "web-shop__search"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Module("nothing"); err == nil || !strings.Contains(err.Error(), "server not found: nothing") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"_2faEnable", "delete_", "getCustomer", "pay", "place", "search"}, c.Names()["web-shop"]); diff != "" {
		t.Error(diff)
	}
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	type effective struct{ ReadOnly, Idempotent bool }
	for _, c := range []struct {
		given Annotations
		want  effective
	}{
		{Annotations{}, effective{false, false}},
		{Annotations{ReadOnly: &yes}, effective{true, true}},
		{Annotations{ReadOnly: &yes, Destructive: &yes, Idempotent: &no}, effective{true, true}},
		{Annotations{Destructive: &no, Idempotent: &yes, OpenWorld: &no}, effective{false, true}},
		{Annotations{ReadOnly: &no, Destructive: &yes}, effective{false, false}},
	} {
		if got := (effective{c.given.IsReadOnly(), c.given.IsIdempotent()}); got != c.want {
			t.Errorf("%+v: got %+v, want %+v", c.given, got, c.want)
		}
	}
}

func TestWrapsResult(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{"result":{"type":"string"}},"required":["result"],"x-fastmcp-wrap-result":true}`: true,
		`{"type":"object","properties":{"result":{},"more":{}}}`:                                                         false,
		`{"type":"object","properties":{"results":{}}}`:                                                                  false,
		`{"type":"object"}`: false, ``: false, `{`: false, `[]`: false,
	} {
		tool := Tool{OutputSchema: json.RawMessage(schema)}
		if got := tool.WrapsResult(); got != want {
			t.Errorf("%s: got %v", schema, got)
		}
	}
}

// answer returns the answer to a host call of kind catalog, decoded as the guest gets it.
func answer(t *testing.T, c *Catalog, name, args string) any {
	t.Helper()
	value, err := c.Answer(t.Context(), "", name, json.RawMessage(args))
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	c := catalogOf(shop(), named("empty"))
	for _, call := range []struct{ name, args, want string }{
		{"list", `{}`, `["web-shop__2fa.enable","web-shop__delete","web-shop__get-customer","web-shop__pay","web-shop__place","web-shop__search"]`},
		{"servers", `{}`, `["empty","web-shop"]`},
		{"functions", `{"server":"web_shop"}`, `["_2faEnable","delete_","getCustomer","pay","place","search"]`},
		{"functions", `{"server":"empty"}`, `[]`},
		{"names", ``, `{"empty":[],"web-shop":["_2faEnable","delete_","getCustomer","pay","place","search"]}`},
		{"search", `{"query":"customer","limit":1.5}`, `[{"name":"web-shop__get-customer","server":"web-shop","function":"getCustomer",
			"description":"Does get-customer.","signature":"tools.webShop.getCustomer({id: string}): Promise<Customer>"}]`},
		{"search", `{"query":"customer","limit":1,"detail":"name"}`, `["web-shop__get-customer"]`},
		{"search", `{"query":""}`, `[]`},
		{"library", `{}`, `{"type":"virtual-library","description":"MCP tools as modules: import * as server from './servers/<name>', or tools.<name>.<function>(input)",
			"servers":{"empty":{"name":"empty","description":"MCP server empty with 0 tools","functions":[],"categories":[],"path":"./servers/empty"},
			"web-shop":{"name":"web-shop","description":"A shop. */ not the end","categories":[],"path":"./servers/web-shop",
			"functions":["_2faEnable","delete_","getCustomer","pay","place","search"]}}}`},
		{"index", `{"server":"empty"}`, `{"name":"empty","description":"MCP server empty with 0 tools","functions":[]}`},
	} {
		var want any
		if err := json.Unmarshal([]byte(call.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, answer(t, c, call.name, call.args)); diff != "" {
			t.Errorf("%s %s: %s", call.name, call.args, diff)
		}
	}
	index, ok := answer(t, c, "index", `{"server":"web-shop"}`).(map[string]any)
	if !ok || index["instructions"] != "Search before you buy." || len(index["functions"].([]any)) != 6 {
		t.Errorf("index: %v", index)
	}
	full, ok := answer(t, c, "search", `{"query":"get-customer","limit":1,"detail":"full"}`).([]any)
	if !ok || len(full) != 1 || full[0].(map[string]any)["typescript"] == "" {
		t.Errorf("full: %v", full)
	}
	for _, bad := range []struct{ name, args, want string }{
		{"details", `{"name":"nothing"}`, "Tool not found: nothing."},
		{"index", `{"server":"nothing"}`, "server not found: nothing."},
		{"functions", `{}`, "server not found: ."},
		{"search", `{"query":7}`, "catalog call search: arguments"},
		{"constructor", `{}`, `unknown catalog call "constructor"`},
	} {
		if _, err := c.Answer(t.Context(), "", bad.name, json.RawMessage(bad.args)); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s %s: got %v, want %q", bad.name, bad.args, err, bad.want)
		}
	}
}

func TestDetails(t *testing.T) {
	t.Parallel()
	yes := true
	s := shop()
	s.Tools[0].Annotations = Annotations{ReadOnly: &yes}
	c := catalogOf(s, Server{Name: "bad", Tools: []Tool{{Name: "t", InputSchema: json.RawMessage(`{`)}}})
	got, ok := answer(t, c, "details", `{"name":"web_shop__search"}`).(map[string]any)
	if !ok {
		t.Fatal("details are no object")
	}
	if diff := cmp.Diff(got["schema"], got["inputSchema"]); diff != "" || got["schema"].(map[string]any)["required"] == nil {
		t.Errorf("schema and inputSchema differ or are not the tool's: %s", diff)
	}
	if diff := cmp.Diff(map[string]any{"readOnlyHint": true}, got["annotations"]); diff != "" {
		t.Error(diff)
	}
	for key, want := range map[string]string{
		"name": "web-shop__search", "description": "Does search.", "instructions": "Search before you buy.",
		"call": "tools.webShop.search(input)", "typescript": "Read-only.",
	} {
		if text, _ := got[key].(string); !strings.Contains(text, want) {
			t.Errorf("%s is %q, want %q in it", key, text, want)
		}
	}
	in, err := c.DetailsIn("web-shop", "get_customer")
	if err != nil || in.Name != "web-shop__get-customer" || in.Annotations != nil {
		t.Errorf("got %+v, %v", in, err)
	}
	mail := catalogOf(Server{Name: "mail", Tools: []Tool{{Name: "send", InputSchema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}}}`)}}})
	if of, err := mail.For("").Reviewed("mail__send"); err != nil || len(of.Destinations) != 1 || of.Destinations[0].Path != "$.to" {
		t.Errorf("destinations for people: %+v, %v", of, err)
	}
	if of, err := mail.Details("mail__send"); err != nil || of.Destinations != nil {
		t.Errorf("destinations for programs: %+v, %v", of, err)
	}
	bad, err := c.Details("bad__t")
	if err != nil || string(bad.Schema) != `{}` || bad.SchemaProblem == "" {
		t.Errorf("got %+v, %v", bad, err)
	}
}

func TestSearchNames(t *testing.T) {
	t.Parallel()
	c := recallCatalog(t, 300)
	for query, want := range map[string]string{
		"drive__search_files":        "drive__search_files",
		"driveSearchFiles":           "drive__search_files",
		"transcribe_call":            "telephony__transcribe_call",
		"kube cordon":                "kubernetes__cordon_node",
		"SELECT \"x\" OR NEAR(* AND": "",
		"refunding":                  "billing__create_refund",
	} {
		hits := c.Search(t.Context(), "", query, 5)
		if want != "" && (len(hits) == 0 || !slices.ContainsFunc(hits[:min(2, len(hits))], func(h Hit) bool { return h.Name == want })) {
			t.Errorf("%q: got %v, want %s among the first two", query, hits, want)
		}
	}
	for limit, want := range map[int]int{0: 10, -1: 10, 3: 3, 1000: 100} {
		if n := len(c.Search(t.Context(), "", longRequest, limit)); n != want {
			t.Errorf("limit %d gives %d", limit, n)
		}
	}
}
