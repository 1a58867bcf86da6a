package catalog_test

import (
	"testing"

	"mcp-code-exec-harness/internal/catalog"
)

// TestAliases: a tool is found by the aliases of its server. The server itself is found only by its own name.
func TestAliases(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	c.SetServer(catalog.Server{Name: "n8n-nodes", Aliases: []string{"n8n"}, Tools: []catalog.Tool{{Name: "search_nodes"}}})
	c.SetServer(catalog.Server{Name: "n8n-workflows", Aliases: []string{"n8n"}, Tools: []catalog.Tool{{Name: "create_workflow"}}})
	for _, name := range []string{"n8n_search_nodes", "n8n_nodes__search_nodes", "n8n-nodes__search_nodes", "n8n__searchNodes"} {
		if tool, err := c.Resolve(name); err != nil || tool.FullName() != "n8n-nodes__search_nodes" {
			t.Errorf("%s is %v, %v", name, tool, err)
		}
	}
	if server, err := c.ResolveServer("n8n"); err == nil {
		t.Errorf("n8n is the server %s", server)
	}
}
