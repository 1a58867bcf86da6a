package n8n_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestExecution: a failed execution of a real n8n is reported with node, item and message, and can be deleted once.
func TestExecution(t *testing.T) {
	base := os.Getenv("HARNESS_TEST_N8N_URL")
	if base == "" {
		t.Skip("needs a real n8n, which runs workflows: make n8n")
	}
	i := setup(t)
	w := value[stored](t, i, flows, "create_workflow", object{
		"name": "TestExecution", "active": true, "connections": object{"Webhook": object{"main": []any{[]any{object{"node": "Check", "type": "main", "index": 0}}}}},
		"nodes": []any{
			object{"name": "Webhook", "type": "n8n-nodes-base.webhook", "parameters": object{"path": "test-execution", "httpMethod": "POST", "responseMode": "lastNode"}},
			object{"name": "Check", "type": "n8n-nodes-base.code", "parameters": object{"mode": "runOnceForEachItem", "jsCode": "throw new Error('no such customer')"}},
		},
	})
	if !w.Active {
		t.Fatalf("created %+v", w)
	}
	defer func() { value[object](t, i, flows, "delete_workflow", object{"workflowId": w.ID}) }()
	res, err := http.Post(base+"/webhook/test-execution", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	all := value[struct{ Result []struct{ ID, Status string } }](t, i, "n8n-executions", "list_executions", object{"workflowId": w.ID})
	if len(all.Result) != 1 || all.Result[0].Status != "error" {
		t.Fatalf("executions %+v", all)
	}
	id := object{"executionId": all.Result[0].ID}
	got := value[struct {
		Error struct {
			Node, Message string
			Item          int
		}
	}](t, i, "n8n-executions", "get_execution", id)
	if got.Error.Node != "Check" || !strings.Contains(got.Error.Message, "no such customer") {
		t.Errorf("told %+v", got)
	}
	value[object](t, i, "n8n-executions", "delete_execution", id)
	if again := call(t, i, "n8n-executions", "delete_execution", id); !again.IsError {
		t.Errorf("deleted again: %+v", again)
	}
}
