package servers

import (
	"strings"
	"testing"
)

// TestN8NExample makes the calls of the well-known n8n example, with its values.
func TestN8NExample(t *testing.T) {
	t.Parallel()
	nodes, workflows := connect(t, "n8n-nodes", t.TempDir()), connect(t, "n8n-workflows", t.TempDir())
	found := call[[]string](t, nodes, "search_nodes", arguments{"query": "slack"})
	if len(found) != 1 || found[0] != "n8n-nodes-base.slack" {
		t.Errorf("search: %v", found)
	}
	if all := call[[]string](t, nodes, "list_nodes", nil); len(all) != 3 {
		t.Errorf("nodes: %v", all)
	}
	type node struct{ Properties []struct{ Name string } }
	slack := arguments{"nodeType": "n8n-nodes-base.slack"}
	if n := len(call[node](t, nodes, "get_node_essentials", slack).Properties); n != 10 {
		t.Errorf("essentials have %d properties, want 10", n)
	}
	if n := len(call[node](t, nodes, "get_node_info", slack).Properties); n != 12 {
		t.Errorf("the node has %d properties, want 12", n)
	}
	if got := refused(t, nodes, "get_node_info", arguments{"nodeType": "x"}); !strings.Contains(got, "search_nodes") {
		t.Errorf("error %q does not say how to find a node", got)
	}
	type judged struct {
		Valid  bool
		Errors []string
	}
	config := call[judged](t, nodes, "validate_node_config", arguments{
		"nodeType": "n8n-nodes-base.slack", "config": arguments{"resource": "message", "operation": "post"},
	})
	if config.Valid || len(config.Errors) != 1 || !strings.Contains(config.Errors[0], "channel") {
		t.Errorf("configuration without a channel: %+v", config)
	}

	workflow := arguments{
		"name": "Slack Notification", "active": false,
		"nodes": []any{
			arguments{"name": "Webhook", "type": "n8n-nodes-base.webhook", "position": []int{250, 300}, "parameters": arguments{"path": "/notify", "httpMethod": "POST"}},
			arguments{"name": "Slack", "type": "n8n-nodes-base.slack", "position": []int{450, 300}, "parameters": arguments{"channel": "#alerts", "text": `={{$json["message"]}}`}},
		},
		"connections": arguments{"Webhook": arguments{"main": []any{[]any{arguments{"node": "Slack", "type": "main", "index": 0}}}}},
	}
	if v := call[judged](t, workflows, "validate_workflow", arguments{"workflow": workflow}); !v.Valid {
		t.Errorf("the workflow is not valid: %v", v.Errors)
	}
	twice := arguments{"name": "", "nodes": []any{arguments{"name": "a", "type": "x"}, arguments{"name": "a", "type": "x"}}, "connections": arguments{}}
	if v := call[judged](t, workflows, "validate_workflow", arguments{"workflow": twice}); v.Valid || len(v.Errors) != 2 {
		t.Errorf("a workflow without a name and with two nodes of one name: %+v", v)
	}
	refused(t, workflows, "create_workflow", twice)

	type stored struct {
		ID     string
		Active bool
		Nodes  []struct{ Name string }
	}
	created := call[stored](t, workflows, "create_workflow", workflow)
	if created.ID == "" || len(created.Nodes) != 2 {
		t.Errorf("created: %+v", created)
	}
	run := arguments{"workflowId": created.ID, "inputData": arguments{"message": "Hello from n8n!"}}
	type executed struct {
		Status string
		Error  string
		Data   map[string]string
	}
	if got := call[executed](t, workflows, "execute_workflow", run); got.Status != "error" || !strings.Contains(got.Error, "not active") {
		t.Errorf("an inactive workflow: %+v", got)
	}
	workflow["active"] = true
	active := call[stored](t, workflows, "create_workflow", workflow)
	run["workflowId"] = active.ID
	if got := call[executed](t, workflows, "execute_workflow", run); got.Status != "success" || got.Data["message"] != "Hello from n8n!" {
		t.Errorf("an active workflow: %+v", got)
	}
	if list := call[[]stored](t, workflows, "list_workflows", nil); len(list) != 2 {
		t.Errorf("workflows: %+v", list)
	}
	call[bool](t, workflows, "delete_workflow", arguments{"workflowId": created.ID})
	refused(t, workflows, "get_workflow", arguments{"workflowId": created.ID})
	if got := call[stored](t, workflows, "get_workflow", arguments{"workflowId": active.ID}); !got.Active {
		t.Errorf("stored: %+v", got)
	}
}
