package cli_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/n8nfake"
)

// TestGatewayN8N checks that a client in the mode direct gets the tools for n8n under their own names, and calls some of them.
func TestGatewayN8N(t *testing.T) {
	t.Parallel()
	api := n8nfake.NewAPI()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	f := setup(t)
	f.write("harness.yaml", "n8n: {url: "+quoted(server.URL)+", apiKey: "+n8nfake.Key+", email: "+n8nfake.Email+", password: "+n8nfake.Password+", templateLibrary: off}\n")
	g := f.gateway(nil, "--mode", "direct")
	for _, name := range []string{
		"list_nodes", "search_nodes", "get_node_info", "get_node_essentials", "validate_node_config", "list_templates", "search_templates", "get_template",
		"search_by_metadata", "list_node_templates", "create_workflow", "update_workflow", "get_workflow", "delete_workflow", "list_workflows", "validate_workflow",
		"execute_workflow", "get_workflow_structure", "list_executions", "get_execution", "retry_execution", "delete_execution", "update_partial_workflow",
	} {
		g.offered(name)
	}
	var made struct{ ID string }
	w := map[string]any{"name": "w", "nodes": []any{map[string]any{"name": "A", "type": "n8n-nodes-base.manualTrigger"}}, "connections": map[string]any{}}
	if text, failed := g.call("create_workflow", w, &made); failed || made.ID == "" {
		t.Fatalf("created %s", text)
	}
	var v struct{ Valid bool }
	if text, failed := g.call("validate_workflow", map[string]any{"workflowId": made.ID}, &v); failed || !v.Valid {
		t.Errorf("validated %s", text)
	}
	if text, failed := g.call("get_workflow", map[string]any{"workflowId": "none"}, nil); !failed || !strings.Contains(text, "not found (404)") {
		t.Errorf("a workflow that does not exist: %s", text)
	}
	if text, failed := g.call("delete_workflow", map[string]any{"workflowId": made.ID}, nil); failed || !strings.Contains(text, made.ID) {
		t.Errorf("deleted %s", text)
	}
}
