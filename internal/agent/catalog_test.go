package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/catalog"
)

func smallCatalog() *catalog.Catalog {
	c := catalog.New()
	c.SetServer(catalog.Server{Name: "crm", Instructions: "Search before you add.", Tools: []catalog.Tool{
		{Name: "search", Description: "Finds customers.", InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`)},
		{Name: "add", Description: "Adds a customer."},
	}})
	return c
}

// TestCatalog: descriptions of tools contain what a model needs to call them.
func TestCatalog(t *testing.T) {
	t.Parallel()
	ready := 0
	c := NewCatalog(smallCatalog(), func(context.Context, string) { ready++ })
	text, err := c.Search(t.Context(), "", "find a customer", 1)
	if want := "crm__search — tools.crm.search({q: string}): Promise<any>\n  Finds customers.\n"; err != nil || text != want {
		t.Errorf("search: %s, %v", text, err)
	}
	text, err = c.Details(t.Context(), "", []string{"crm__serach", "crm__search", "crm.add"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Tool not found: crm__serach.", "Closest: crm__search", "crm__search — await tools.crm.search(input)\n", "q: string;", "crm__add — await tools.crm.add(input)\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("details do not say %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "Search before you add."); n != 1 {
		t.Errorf("the advice is given %d times", n)
	}
	if text, _ := c.Search(t.Context(), "", "weather", 0); text != "No tool fits \"weather\". Use other words. There are 2 tools of the servers crm.\n" {
		t.Errorf("search: %s", text)
	}
	if ready != 3 {
		t.Errorf("servers were waited for %d times", ready)
	}
	empty := NewCatalog(catalog.New(), func(context.Context, string) {})
	if text, _ := empty.Search(t.Context(), "", "x", 0); text != "No server offers any tool at the moment.\n" || empty.Definitions() != 0 {
		t.Errorf("search: %s", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Search(ctx, "", "x", 0); err == nil {
		t.Error("a cancelled search gives a text")
	}
}

// TestDefinitions: the estimated size of the definitions grows with the number of tools.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	cat := smallCatalog()
	c := NewCatalog(cat, func(context.Context, string) {})
	small := c.Definitions()
	if small < 40 || small > 100 {
		t.Errorf("got %d", small)
	}
	many := catalog.Server{Name: "many"}
	for i := range 1000 {
		many.Tools = append(many.Tools, catalog.Tool{Name: fmt.Sprintf("tool_%d", i), Description: "Does one of many things."})
	}
	cat.SetServer(many)
	if got := c.Definitions(); got < 20_000 || got > 40_000 {
		t.Errorf("got %d", got)
	}
}
