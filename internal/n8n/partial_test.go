package n8n_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/testing/n8nfake"
)

// whole returns a fake instance that describes its nodes.
func whole(t *testing.T) (*n8n.Instance, *n8nfake.API) {
	t.Helper()
	api := n8nfake.NewAPI()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return open(t, n8n.Options{URL: server.URL, APIKey: n8nfake.Key, Email: n8nfake.Email, Password: n8nfake.Password}), api
}

func ops(id string, all ...object) object { return object{"workflowId": id, "operations": all} }

const partial = "update_partial_workflow"

// content returns the parameters of a stored workflow by node, and its connections.
func content(t *testing.T, i *n8n.Instance, id string) (params map[string]object, connections []string) {
	t.Helper()
	got := value[struct {
		Nodes []struct {
			Name       string
			Parameters object
		}
		Connections map[string]map[string][][]struct {
			Node  string
			Index int
		}
	}](t, i, flows, "get_workflow", object{"workflowId": id})
	params = map[string]object{}
	for _, n := range got.Nodes {
		params[n.Name] = n.Parameters
	}
	for from, kinds := range got.Connections {
		for kind, outputs := range kinds {
			for o, list := range outputs {
				for _, to := range list {
					connections = append(connections, fmt.Sprintf("%s %s[%d] > %s[%d]", from, kind, o, to.Node, to.Index))
				}
			}
		}
	}
	slices.Sort(connections)
	return params, connections
}

// TestPartialUpdate applies every operation in one batch. It takes one request for the workflow and one that activates it.
func TestPartialUpdate(t *testing.T) {
	i, api := whole(t)
	w := echo("TestPartialUpdate", "partial")
	w["nodes"] = append(w["nodes"].([]any), object{"name": "Old", "type": "n8n-nodes-base.noOp"}, object{"name": "Code", "type": "n8n-nodes-base.code", "parameters": object{
		"jsCode": "// $('Webhook')\nreturn [{json: {a: $('Webhook').first().json, b: $node.Webhook.json, c: $node[\"Set\"].json, d: 'Webhook'}}]",
	}})
	w["connections"] = object{
		"Webhook": object{"main": []any{[]any{object{"node": "Set", "type": "main", "index": 0}, object{"node": "Old", "type": "main", "index": 0}}}},
		"Set":     object{"main": []any{[]any{object{"node": "Code", "type": "main", "index": 0}}}},
	}
	made := value[stored](t, i, flows, "create_workflow", w)
	before, _ := api.Writes()
	out := value[object](t, i, flows, partial, ops(made.ID,
		object{"type": "setParameter", "node": "Set", "path": "assignments.assignments[0]", "value": object{"id": "a", "name": "who", "type": "string", "value": "={{ $('Webhook').item.json.who }} Webhook"}},
		object{"type": "setParameter", "node": "Set", "path": "options.dotNotation", "value": false},
		object{"type": "setParameter", "node": "Webhook", "path": "httpMethod"},
		object{"type": "rename", "node": "Webhook", "name": "It's new"},
		object{"type": "remove", "node": "Old"},
		object{"type": "add", "node": object{"name": "If", "type": "n8n-nodes-base.if"}},
		object{"type": "connect", "from": "Code", "to": "If"},
		object{"type": "add", "node": object{"name": "No", "type": "n8n-nodes-base.noOp"}},
		object{"type": "connect", "from": "If", "to": "No", "output": 1},
		object{"type": "move", "node": "No", "position": []int{10, 20}},
		object{"type": "set", "node": "No", "fields": object{"notes": "a note", "disabled": true}},
		object{"type": "setName", "name": "renamed"},
		object{"type": "setSettings", "fields": object{"timezone": "Europe/Berlin"}},
		object{"type": "activate"},
	))
	if out["active"] != true || out["name"] != "renamed" || out["applied"] != 14.0 || out["nodes"] != 5.0 || out["findings"] != nil {
		t.Errorf("answer %v", out)
	}
	if after, _ := api.Writes(); after-before != 2 {
		t.Errorf("%d requests changed it", after-before)
	}
	params, connections := content(t, i, made.ID)
	want := []string{"Code main[0] > If[0]", "If main[1] > No[0]", "It's new main[0] > Set[0]", "Set main[0] > Code[0]"}
	if diff := cmp.Diff(want, connections); diff != "" {
		t.Errorf("connections (-want +got)\n%s", diff)
	}
	if got := fmt.Sprint(params["Set"]); !strings.Contains(got, `={{ $('It\'s new').item.json.who }} Webhook`) || !strings.Contains(got, "dotNotation:false") {
		t.Errorf("Set has %v", params["Set"])
	}
	const code = "// $('Webhook')\nreturn [{json: {a: $('It\\'s new').first().json, b: $node[\"It's new\"].json, c: $node[\"Set\"].json, d: 'Webhook'}}]"
	if params["Code"]["jsCode"] != code {
		t.Errorf("code\n%s\nwant\n%s", params["Code"]["jsCode"], code)
	}
	if params["It's new"]["httpMethod"] != nil {
		t.Errorf("httpMethod was not removed: %v", params["It's new"])
	}
	value[object](t, i, flows, partial, ops(made.ID, object{"type": "disconnect", "from": "It's new", "to": "Set"}, object{"type": "connect", "from": "It's new", "to": "Code"},
		object{"type": "remove", "node": "Set"}, object{"type": "setParameter", "node": "Code", "path": "jsCode", "value": "return []"}, object{"type": "deactivate"}))
	if _, connections = content(t, i, made.ID); len(connections) != 3 || connections[2] != "It's new main[0] > Code[0]" {
		t.Errorf("connections %q", connections)
	}
}

// TestPartialRefused: if one operation of a batch cannot be applied, or the result is broken, nothing is sent.
func TestPartialRefused(t *testing.T) {
	i, api := whole(t)
	made := value[stored](t, i, flows, "create_workflow", echo("w", "refused"))
	before, _ := api.Writes()
	good := object{"type": "setName", "name": "changed"}
	for want, op := range map[string]object{
		"operations[1] (remove): there is no node":        {"type": "remove", "node": "Sett"},
		`did you mean "Set"?`:                             {"type": "remove", "node": "Sett"},
		"there is a node \"Set\" already":                 {"type": "add", "node": object{"name": "Set", "type": "n8n-nodes-base.set"}},
		"choose another name":                             {"type": "rename", "node": "Webhook", "name": "Set"},
		"are not connected in this way":                   {"type": "disconnect", "from": "Set", "to": "Webhook"},
		"connected are main[0] to Set":                    {"type": "disconnect", "from": "Webhook", "to": "Set", "output": 1},
		"is a member of what is no object":                {"type": "setParameter", "node": "Webhook", "path": "path.x", "value": 1},
		"the list has 0 elements":                         {"type": "setParameter", "node": "Set", "path": "a[1]", "value": 1},
		"cannot be read at":                               {"type": "setParameter", "node": "Set", "path": "a[x]", "value": 1},
		"rename, which changes what refers to it":         {"type": "set", "node": "Set", "fields": object{"name": "x"}},
		"has no field \"colour\"":                         {"type": "set", "node": "Set", "fields": object{"colour": "x"}},
		"position is missing":                             {"type": "move", "node": "Set"},
		"name is empty":                                   {"type": "setName"},
		"there is no node type":                           {"type": "add", "node": object{"name": "A", "type": "n8n-nodes-base.sett"}},
		"has no version 77":                               {"type": "set", "node": "Set", "fields": object{"typeVersion": 77}},
		"never ends":                                      {"type": "connect", "from": "Set", "to": "Set"},
		"cannot be evaluated":                             {"type": "setParameter", "node": "Set", "path": "jsonOutput", "value": "={{ 1 + }}"},
		"refers to a node \"Gone\"":                       {"type": "setParameter", "node": "Set", "path": "jsonOutput", "value": "={{ $('Gone').item }}"},
		"has no input 0":                                  {"type": "connect", "from": "Set", "to": "Webhook"},
		"is not a choice of httpMethod":                   {"type": "setParameter", "node": "Webhook", "path": "httpMethod", "value": "PSOT"},
		"there is no setting":                             {"type": "setSettings", "fields": object{"colour": 1}},
		"node \"A\" has a field \"colour\"":               {"type": "add", "node": object{"name": "A", "type": "n8n-nodes-base.set", "colour": 1}},
		"the connection of \"Webhook\" and \"Set\" has a": {"type": "connect", "from": "Webhook", "to": "Set", "input": -1},
	} {
		a := call(t, i, flows, partial, ops(made.ID, good, op))
		if !a.IsError || a.sent || !strings.Contains(a.Content[0].Text, want) {
			t.Errorf("%s: %+v", want, a)
		}
	}
	if after, _ := api.Writes(); after != before {
		t.Errorf("%d requests were sent", after-before)
	}
	if a := call(t, i, flows, partial, ops("none", good)); !a.IsError || !strings.Contains(string(a.Value), "404") {
		t.Errorf("a workflow that does not exist: %+v", a)
	}
}

// TestPartialUnfinished: a workflow that is not active may be incomplete, and the answer lists what it lacks.
func TestPartialUnfinished(t *testing.T) {
	i, _ := whole(t)
	made := value[stored](t, i, flows, "create_workflow", echo("w", "unfinished"))
	slack := object{"type": "add", "node": object{"name": "Slack", "type": "n8n-nodes-base.slack", "parameters": object{"select": "channel"}}}
	out := value[struct{ Findings []struct{ Code, Node string } }](t, i, flows, partial, ops(made.ID, slack))
	var codes []string
	for _, f := range out.Findings {
		codes = append(codes, f.Node+" "+f.Code)
	}
	if diff := cmp.Diff([]string{"Slack missing_parameter", "Slack missing_parameter", "Slack missing_credentials", "Slack unreachable_node"}, codes); diff != "" {
		t.Errorf("findings (-want +got)\n%s", diff)
	}
	if a := call(t, i, flows, partial, ops(made.ID, object{"type": "activate"})); !a.IsError || !strings.Contains(a.Content[0].Text, "Slack") {
		t.Errorf("an unfinished workflow was activated: %+v", a)
	}
	value[object](t, i, flows, partial, ops(made.ID, object{"type": "remove", "node": "Slack"}, object{"type": "activate"}))
	if a := call(t, i, flows, partial, ops(made.ID, slack)); !a.IsError {
		t.Errorf("an active workflow was left unfinished: %+v", a)
	}
}

// TestUndone: n8n stores a workflow before it finds out that the workflow cannot be activated. The change is undone, and the workflow is active as before.
func TestUndone(t *testing.T) {
	i := setup(t)
	first := value[stored](t, i, flows, "create_workflow", echo("TestUndone 1", "test-undone"))
	second := value[stored](t, i, flows, "create_workflow", echo("TestUndone 2", "test-undone-2"))
	third := value[stored](t, i, flows, "create_workflow", echo("TestUndone 3", "test-undone"))
	for _, id := range []string{first.ID, second.ID} {
		value[object](t, i, flows, "activate_workflow", object{"workflowId": id})
	}
	moved := echo("moved", "test-undone")
	for name, a := range map[string]answer{
		"partial":  call(t, i, flows, partial, ops(second.ID, object{"type": "setParameter", "node": "Webhook", "path": "path", "value": "test-undone"})),
		"whole":    call(t, i, flows, "update_workflow", object{"workflowId": second.ID, "nodes": moved["nodes"]}),
		"activate": call(t, i, flows, partial, ops(third.ID, object{"type": "setName", "name": "x"}, object{"type": "activate"})),
	} {
		if !a.IsError || !strings.Contains(a.Content[0].Text, "already taken") || !strings.Contains(a.Content[0].Text, "as it was before") {
			t.Errorf("%s: %+v", name, a)
		}
	}
	now := value[stored](t, i, flows, "get_workflow", object{"workflowId": second.ID})
	if params, _ := content(t, i, second.ID); params["Webhook"]["path"] != "test-undone-2" || !now.Active {
		t.Errorf("the active workflow is %+v, %v", now, params)
	}
	if now := value[stored](t, i, flows, "get_workflow", object{"workflowId": third.ID}); now.Name != "TestUndone 3" || now.Active {
		t.Errorf("the other workflow is %+v", now)
	}
	for _, id := range []string{first.ID, second.ID, third.ID} {
		value[object](t, i, flows, "delete_workflow", object{"workflowId": id})
	}
}

// TestPartialTogether: concurrent changes of one workflow are all kept.
func TestPartialTogether(t *testing.T) {
	i, _ := whole(t)
	made := value[stored](t, i, flows, "create_workflow", echo("w", "together"))
	const n = 20
	var all sync.WaitGroup
	for k := range n {
		all.Go(func() {
			name := fmt.Sprint("Step ", k)
			args, _ := json.Marshal(ops(made.ID, object{"type": "add", "node": object{"name": name, "type": "n8n-nodes-base.noOp"}}, object{"type": "connect", "from": "Set", "to": name}))
			if _, err := i.Servers()[flows].Call(t.Context(), partial, args, func() {}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if params, connections := content(t, i, made.ID); len(params) != n+2 || len(connections) != n+1 {
		t.Errorf("%d nodes, %d connections", len(params), len(connections))
	}
}

// TestPartialFailures: a batch whose outcome is unknown is sent once and reported as in doubt.
func TestPartialFailures(t *testing.T) {
	i, api := whole(t)
	made := value[stored](t, i, flows, "create_workflow", echo("w", "failures"))
	before, _ := api.Writes()
	api.FailWrites(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	a := call(t, i, flows, partial, ops(made.ID, object{"type": "setName", "name": "x"}))
	if a.err == nil || !a.sent || !strings.Contains(a.err.Error(), "unknown") {
		t.Errorf("got %+v", a)
	}
	if after, _ := api.Writes(); after-before != 1 {
		t.Errorf("%d requests", after-before)
	}
}
