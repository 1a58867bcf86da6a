package n8n_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/testing/n8nfake"
)

// greets returns a workflow that can be a tool: it greets the person in the member who of the body, and doubles n.
func greets(name, path, notes string) object {
	return object{
		"name": name, "active": true, "tags": []string{"harness-tool"},
		"connections": object{"Webhook": object{"main": []any{[]any{object{"node": "Greet", "type": "main", "index": 0}}}}},
		"nodes": []any{
			object{"name": "Webhook", "type": "n8n-nodes-base.webhook", "typeVersion": 2, "notes": notes, "parameters": object{"path": path, "httpMethod": "POST", "responseMode": "lastNode"}},
			object{"name": "Greet", "type": "n8n-nodes-base.code", "typeVersion": 2, "parameters": object{
				"jsCode": "const { who, n } = $json.body;\nif ($json.body.who === 'nobody') throw new Error('nobody to greet');\nreturn [{ json: { greeting: 'Hello ' + $json.body.who, n: 2 * $json.body.n } }];",
			}},
		},
	}
}

const greeterSchema = `Greets somebody.

` + "```json" + `
{"type": "object", "properties": {"who": {"type": "string"}, "n": {"type": "integer"}}, "required": ["who"], "additionalProperties": false}
` + "```"

// tools lists the tools of the bridge by name.
func tools(t *testing.T, i *n8n.Instance) map[string]mcpclient.Tool {
	t.Helper()
	all, err := i.Servers()[n8n.BridgeServer].Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]mcpclient.Tool{}
	for _, tool := range all {
		byName[tool.Name] = tool
	}
	return byName
}

func schemaOf(t *testing.T, tool mcpclient.Tool) object {
	t.Helper()
	var schema object
	if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
		t.Fatalf("%s: %v: %s", tool.Name, err, tool.InputSchema)
	}
	return schema
}

// remove deletes a workflow at the end of a test.
func remove(t *testing.T, i *n8n.Instance, id string) {
	t.Helper()
	t.Cleanup(func() {
		_, _ = i.Servers()[flows].Call(context.WithoutCancel(t.Context()), "delete_workflow", json.RawMessage(`{"workflowId":"`+id+`"}`), func() {})
	})
}

// TestBridge: an active workflow with the tag and a webhook becomes a typed tool. A call returns the webhook's answer, and a failed call names the node
// that failed. A deactivated workflow is not a tool.
func TestBridge(t *testing.T) {
	real := os.Getenv("HARNESS_TEST_N8N_URL") != ""
	i := setup(t)
	if !real {
		var api *n8nfake.API
		i, api = fake(t)
		api.Ends(func(w map[string]any) n8nfake.Outcome {
			return n8nfake.Outcome{Output: map[string]any{"greeting": "Hello Ada", "n": 42}}
		})
	}
	made := value[stored](t, i, flows, "create_workflow", greets("Greet a Person", "bridge-greet", greeterSchema))
	remove(t, i, made.ID)
	untagged := greets("Untagged", "bridge-untagged", "")
	delete(untagged, "tags")
	remove(t, i, value[stored](t, i, flows, "create_workflow", untagged).ID)
	tool, has := tools(t, i)["greet_a_person"]
	if !has || tool.Description != "Greets somebody." || tool.Title != "Greet a Person" || tool.Annotations.ReadOnly != nil {
		t.Fatalf("tools %+v", tools(t, i))
	}
	if _, has := tools(t, i)["untagged"]; has {
		t.Error("a workflow without the tag is a tool")
	}
	want := object{"type": "object", "properties": object{"who": object{"type": "string"}, "n": object{"type": "integer"}}, "required": []any{"who"}, "additionalProperties": false}
	if diff := cmp.Diff(want, schemaOf(t, tool)); diff != "" {
		t.Error(diff)
	}
	a := call(t, i, n8n.BridgeServer, "greet_a_person", object{"who": "Ada", "n": 21})
	if a.err != nil || a.IsError || !a.sent || len(a.Content) != 1 {
		t.Fatalf("called: %+v", a)
	}
	var got object
	if err := json.Unmarshal([]byte(a.Content[0].Text), &got); err != nil || got["greeting"] != "Hello Ada" || got["n"] != 42.0 {
		t.Errorf("got %v %v", got, err)
	}
	if real {
		if failed := call(t, i, n8n.BridgeServer, "greet_a_person", object{"who": "nobody"}); !failed.IsError || !strings.Contains(failed.Content[0].Text, "Greet") ||
			!strings.Contains(failed.Content[0].Text, "nobody to greet") {
			t.Errorf("a failure: %+v", failed)
		}
	}
	value[object](t, i, flows, "deactivate_workflow", object{"workflowId": made.ID})
	if gone := call(t, i, n8n.BridgeServer, "greet_a_person", object{"who": "Ada"}); !gone.IsError || gone.sent {
		t.Errorf("deactivated: %+v", gone)
	}
	if _, has := tools(t, i)["greet_a_person"]; has {
		t.Error("a workflow that is not active is a tool")
	}
}

// TestBridgeLearns: without notes, the input schema has the members that the workflow reads, with the types that they had in executions. It contains no
// values.
func TestBridgeLearns(t *testing.T) {
	i := setup(t)
	if os.Getenv("HARNESS_TEST_N8N_URL") == "" {
		var api *n8nfake.API
		i, api = fake(t)
		api.Ends(func(map[string]any) n8nfake.Outcome { return n8nfake.Outcome{Output: map[string]any{}} })
	}
	made := value[stored](t, i, flows, "create_workflow", greets("Learnt", "bridge-learnt", ""))
	remove(t, i, made.ID)
	schema := schemaOf(t, tools(t, i)["learnt"])
	if diff := cmp.Diff(object{"type": "object", "properties": object{"who": object{}, "n": object{}}, "additionalProperties": true}, schema); diff != "" {
		t.Errorf("before any call: %s", diff)
	}
	if a := call(t, i, n8n.BridgeServer, "learnt", object{"who": "Grace Hopper", "n": 1, "tags": []string{"a"}}); a.err != nil || a.IsError {
		t.Fatalf("called: %+v", a)
	}
	tool := tools(t, i)["learnt"]
	want := object{
		"type": "object", "additionalProperties": true, "required": []any{"n", "who"},
		"properties": object{"who": object{"type": "string"}, "n": object{"type": "number"}, "tags": object{"type": "array", "items": object{"type": "string"}}},
	}
	if diff := cmp.Diff(want, schemaOf(t, tool)); diff != "" || strings.Contains(string(tool.InputSchema), "Grace") {
		t.Errorf("after a call: %s\n%s", diff, tool.InputSchema)
	}
}

// TestBridgeNames: the names of tools are unique identifiers that are made from the names of the workflows.
func TestBridgeNames(t *testing.T) {
	t.Parallel()
	i, _ := fake(t)
	for n, name := range []string{"Send e-mail!", "send E Mail", "Über", "你好"} {
		value[stored](t, i, flows, "create_workflow", greets(name, "p"+string(rune('0'+n)), `{"a": 1}`))
	}
	custom := greets("By id", "customers/:id/notes", "")
	custom["nodes"].([]any)[0].(object)["parameters"].(object)["httpMethod"] = "GET"
	value[stored](t, i, flows, "create_workflow", custom)
	all := tools(t, i)
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"ber", "by_id", "send_e_mail", "send_e_mail_2", "workflow"}, names); diff != "" {
		t.Error(diff)
	}
	if all["send_e_mail"].Title != "Send e-mail!" || all["send_e_mail"].Description != "Runs the n8n workflow Send e-mail!." {
		t.Errorf("%+v", all["send_e_mail"])
	}
	if diff := cmp.Diff(object{"type": "object", "additionalProperties": true, "properties": object{"id": object{"type": "string", "description": "a part of the path"}}, "required": []any{"id"}},
		schemaOf(t, all["by_id"])); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(object{"type": "number"}, schemaOf(t, all["ber"])["properties"].(object)["a"]); diff != "" {
		t.Error(diff)
	}
}

// TestBridgeWatches: a workflow that is created by a tool call becomes a tool at once, before the next polling.
func TestBridgeWatches(t *testing.T) {
	t.Parallel()
	i, _ := fake(t)
	ctx, cancel := context.WithCancel(t.Context())
	changed, ended := make(chan struct{}, 10), make(chan struct{})
	bridge := i.Servers()[n8n.BridgeServer].(mcpclient.Watched)
	tools(t, i)
	go func() {
		defer close(ended)
		bridge.Watch(ctx, func() { changed <- struct{}{} })
	}()
	value[stored](t, i, flows, "create_workflow", greets("New", "new", ""))
	<-changed
	if _, has := tools(t, i)["new"]; !has {
		t.Error("it is no tool")
	}
	cancel()
	<-ended
}
