package n8n_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
)

// real skips the test if scripts/n8n has not started a real n8n.
func real(t *testing.T) {
	t.Helper()
	if os.Getenv("HARNESS_TEST_N8N_URL") == "" {
		t.Skip("needs a real n8n, which runs workflows: make n8n")
	}
}

type ran struct {
	ExecutionID, Status, Error, Problem string
	Data                                any
	Failure                             *struct {
		Node, Message string
		Item          *int
	}
}

// greeter returns a workflow that greets each name in the webhook's body.
func greeter(path, code string) object {
	return object{
		"name": "TestLifecycle", "connections": object{
			"Webhook": object{"main": []any{[]any{object{"node": "Names", "type": "main", "index": 0}}}},
			"Names":   object{"main": []any{[]any{object{"node": "Greet", "type": "main", "index": 0}}}},
		},
		"nodes": []any{
			object{"name": "Webhook", "type": "n8n-nodes-base.webhook", "parameters": object{"path": path, "httpMethod": "POST", "responseMode": "lastNode", "responseData": "allEntries"}},
			object{"name": "Names", "type": "n8n-nodes-base.splitOut", "parameters": object{"fieldToSplitOut": "body.names"}},
			object{"name": "Greet", "type": "n8n-nodes-base.code", "parameters": object{"mode": "runOnceForEachItem", "jsCode": code}},
		},
	}
}

// TestLifecycle does with a workflow on a real n8n what an agent may do: it creates, checks, activates, calls, breaks, examines, repairs, renames and
// deletes the workflow.
func TestLifecycle(t *testing.T) {
	real(t)
	i := setup(t)
	const works = `return {json: {greeting: 'Hello ' + $json['body.names'] + ' of ' + $('Webhook').first().json.body.names.length}};`
	w := greeter("test-lifecycle", works)
	if v := value[verdict](t, i, flows, "validate_workflow", object{"workflow": w}); !v.Valid || len(v.Unchecked) > 0 {
		t.Fatalf("not valid: %+v", v)
	}
	made := value[stored](t, i, flows, "create_workflow", w)
	id := object{"workflowId": made.ID}
	defer call(t, i, flows, "delete_workflow", id)
	run := object{"workflowId": made.ID, "inputData": object{"names": []string{"Ada", "Grace"}}}
	if a := call(t, i, flows, "execute_workflow", run); !a.IsError || !strings.Contains(a.Content[0].Text, "activate_workflow") || a.sent {
		t.Errorf("an inactive workflow was run: %+v", a)
	}
	value[stored](t, i, flows, "activate_workflow", id)
	got := value[ran](t, i, flows, "execute_workflow", run)
	if data, _ := json.Marshal(got.Data); got.Status != "success" || got.ExecutionID == "" || string(data) != `[{"greeting":"Hello Ada of 2"},{"greeting":"Hello Grace of 2"}]` {
		t.Errorf("ran %+v", got)
	}
	read := value[struct{ Status, Mode string }](t, i, "n8n-executions", "get_execution", object{"executionId": got.ExecutionID})
	if read.Status != "success" || read.Mode != "webhook" {
		t.Errorf("execution %+v", read)
	}

	change := func(ops ...object) object { return object{"workflowId": made.ID, "operations": ops} }
	value[object](t, i, flows, "update_partial_workflow", change(object{
		"type": "setParameter", "node": "Greet", "path": "jsCode",
		"value": `if ($json['body.names'] === 'Grace') throw new Error('no such guest'); return {json: {}};`,
	}))
	broken := value[ran](t, i, flows, "execute_workflow", run)
	if broken.Status != "error" || broken.Failure == nil || broken.Failure.Node != "Greet" || !strings.Contains(broken.Failure.Message, "no such guest") ||
		broken.Failure.Item == nil || *broken.Failure.Item != 1 || !strings.Contains(broken.Error, `node "Greet", item 1: no such guest`) {
		t.Errorf("the broken workflow: %+v %+v", broken, broken.Failure)
	}
	value[object](t, i, flows, "update_partial_workflow", change(object{"type": "setParameter", "node": "Greet", "path": "jsCode", "value": works}))
	again := value[struct {
		ID, Status string
		RetryOf    string
	}](t, i, "n8n-executions", "retry_execution", object{"executionId": broken.ExecutionID, "loadWorkflow": true})
	if again.Status != "success" || again.RetryOf != broken.ExecutionID {
		t.Errorf("retried %+v", again)
	}
	mended := value[object](t, i, flows, "update_partial_workflow", change(
		object{"type": "rename", "node": "Webhook", "name": "Guests"},
		object{"type": "add", "node": object{"name": "Last", "type": "n8n-nodes-base.noOp"}},
		object{"type": "connect", "from": "Greet", "to": "Last"},
	))
	if mended["active"] != true || mended["findings"] != nil {
		t.Errorf("mended %v", mended)
	}
	if got := value[ran](t, i, flows, "execute_workflow", run); got.Status != "success" {
		t.Errorf("the mended workflow: %+v %+v", got, got.Failure)
	}
	if a := call(t, i, "n8n-executions", "retry_execution", object{"executionId": got.ExecutionID}); !a.IsError || !strings.Contains(a.Content[0].Text, "success") {
		t.Errorf("a success was retried: %+v", a)
	}
	value[object](t, i, flows, "delete_workflow", id)
	gone := call(t, i, flows, "delete_workflow", id)
	var data struct{ Status int }
	if err := json.Unmarshal(gone.Value, &data); err != nil || !gone.IsError || data.Status != http.StatusNotFound {
		t.Errorf("deleted again: %+v, %v", gone, err)
	}
}

type verdict struct {
	Valid     bool
	Findings  []struct{ Severity, Code, Node, Path, Message, Remedy string }
	Unchecked []string
}
