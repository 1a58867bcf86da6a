package n8n_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/testing/n8nfake"
)

// setup returns the real instance that scripts/n8n started, or a fake if there is none.
func setup(t *testing.T) *n8n.Instance {
	t.Helper()
	if url := os.Getenv("HARNESS_TEST_N8N_URL"); url != "" {
		return open(t, n8n.Options{URL: url, APIKey: os.Getenv("HARNESS_TEST_N8N_KEY"), Nodes: os.Getenv("HARNESS_TEST_N8N_NODES")})
	}
	i, _ := fake(t)
	return i
}

func fake(t *testing.T) (*n8n.Instance, *n8nfake.API) {
	t.Helper()
	api := n8nfake.NewAPI()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return open(t, n8n.Options{URL: server.URL + "/api/v1/", APIKey: n8nfake.Key}), api
}

func open(t *testing.T, opts n8n.Options) *n8n.Instance {
	t.Helper()
	i, err := n8n.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

type answer struct {
	IsError bool
	Content []struct{ Text string }
	Value   json.RawMessage `json:"structuredContent"`
	sent    bool
	err     error
}

// call calls a tool of a server.
func call(t *testing.T, i *n8n.Instance, server, tool string, args any) (a answer) {
	t.Helper()
	input, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := i.Servers()[server].Call(t.Context(), tool, input, func() { a.sent = true })
	if err != nil {
		a.err = err
		return a
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// value returns the value of a call, which must succeed.
func value[T any](t *testing.T, i *n8n.Instance, server, tool string, args any) (v T) {
	t.Helper()
	a := call(t, i, server, tool, args)
	if a.err != nil || a.IsError {
		t.Fatalf("%s: %v %v", tool, a.err, a.Content)
	}
	if err := json.Unmarshal(a.Value, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

type object = map[string]any

type stored struct {
	ID, Name, Problem string
	Active            bool
	Nodes             []struct {
		ID, Name, WebhookID string
		TypeVersion         float64
	}
	Settings object
	Tags     []string
}

const flows = "n8n-workflows"

func echo(name, path string) object {
	return object{
		"name": name, "connections": object{"Webhook": object{"main": []any{[]any{object{"node": "Set", "type": "main", "index": 0}}}}},
		"nodes": []any{
			object{"name": "Webhook", "type": "n8n-nodes-base.webhook", "parameters": object{"path": path, "httpMethod": "POST"}},
			object{"name": "Set", "type": "n8n-nodes-base.set", "parameters": object{}},
		},
	}
}

// TestWorkflows creates, changes and deletes a workflow. Fields that n8n requires and a caller need not know are filled in, and fields that n8n does not
// accept are left out.
func TestWorkflows(t *testing.T) {
	i := setup(t)
	given := echo("TestWorkflows", "test-workflows")
	given["active"], given["tags"] = true, []string{"made by a test"}
	made := value[stored](t, i, flows, "create_workflow", given)
	if !made.Active || made.Problem != "" || len(made.Nodes) != 2 || made.Nodes[0].ID == "" || made.Nodes[0].WebhookID == "" || made.Nodes[0].TypeVersion == 0 ||
		len(made.Tags) != 1 {
		t.Errorf("created %+v", made)
	}
	id := object{"workflowId": made.ID}
	whole := value[object](t, i, flows, "get_workflow", id)
	whole["name"], whole["active"] = "TestWorkflows 2", false
	changed := value[stored](t, i, flows, "update_workflow", object{"workflowId": made.ID, "updates": whole})
	if changed.Name != "TestWorkflows 2" || changed.Active || len(changed.Nodes) != 2 || changed.Settings["executionOrder"] != "v1" {
		t.Errorf("changed %+v", changed)
	}
	if on := value[stored](t, i, flows, "update_workflow", object{"workflowId": made.ID, "active": true}); !on.Active {
		t.Errorf("active was not set: %+v", on)
	}
	shape := value[struct {
		NodeCount   int
		NodeTypes   []string
		Connections []struct{ From, To string }
	}](t, i, flows, "get_workflow_structure", id)
	if shape.NodeCount != 2 || len(shape.NodeTypes) != 2 || len(shape.Connections) != 1 || shape.Connections[0].To != "Set" {
		t.Errorf("structure %+v", shape)
	}
	all := value[struct{ Result []stored2 }](t, i, flows, "list_workflows", object{"active": true})
	found := false
	for _, w := range all.Result {
		found = found || w.ID == made.ID && w.Nodes == 2
	}
	if !found {
		t.Errorf("not listed: %+v", all)
	}
	if off := value[stored](t, i, flows, "deactivate_workflow", id); off.Active {
		t.Errorf("active after deactivate_workflow: %+v", off)
	}
	value[object](t, i, flows, "delete_workflow", id)
	again := call(t, i, flows, "delete_workflow", id)
	var data struct{ Status int }
	if err := json.Unmarshal(again.Value, &data); err != nil || !again.IsError || data.Status != http.StatusNotFound || !strings.Contains(again.Content[0].Text, made.ID) {
		t.Errorf("deleted again: %+v %v", again, err)
	}
}

type stored2 struct {
	ID    string
	Nodes int
}

// TestNotActivated: a workflow without a trigger is stored, and the answer says that it is not active, with the reason.
func TestNotActivated(t *testing.T) {
	i := setup(t)
	made := value[stored](t, i, flows, "create_workflow", object{
		"name": "TestNotActivated", "active": true, "connections": object{}, "nodes": []any{object{"name": "Set", "type": "n8n-nodes-base.set"}},
	})
	if made.ID == "" || made.Active || !strings.Contains(made.Problem, "trigger") {
		t.Errorf("created %+v", made)
	}
	value[object](t, i, flows, "delete_workflow", object{"workflowId": made.ID})
}

// TestRefusedBeforehand: a workflow that n8n would store but could not use is not sent.
func TestRefusedBeforehand(t *testing.T) {
	i, api := fake(t)
	node := object{"name": "A", "type": "n8n-nodes-base.set"}
	for want, nodes := range map[string][]any{
		"the name \"A\"": {node, node}, "has no name": {object{"type": "x"}}, "has no type": {object{"name": "A"}}, "no nodes": {}, "is no object": {1},
		"\"colour\"": {object{"name": "A", "type": "x", "colour": 1}},
	} {
		a := call(t, i, flows, "create_workflow", object{"name": "w", "nodes": nodes, "connections": object{}})
		if !a.IsError || !strings.Contains(a.Content[0].Text, want) || !strings.Contains(a.Content[0].Text, "validation failed") || a.sent {
			t.Errorf("%s: %+v", want, a)
		}
	}
	if requests, _ := api.Writes(); requests != 0 {
		t.Errorf("%d requests were sent", requests)
	}
}

// TestFailures: a failure is reported with its cause. A change whose outcome is unknown gives an error that counts as sent, not an answer. Each change is
// requested once.
func TestFailures(t *testing.T) {
	page := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>Sign in</html>"))
		}
	}
	said := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if len(header) > 0 {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"message":"said"}`))
		}
	}
	dies := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		with    http.HandlerFunc
		want    string
		unknown bool // reports that the outcome of a change is unknown
	}{
		"401": {said(401), "n8n.apiKey", false}, "403": {said(403), "scope", false}, "429": {said(429, "Retry-After", "7"), "retry after 7", false},
		"500": {said(500), "HTTP 500", true}, "502 in HTML": {page(502), "page of HTML", true}, "200 in HTML": {page(200), "page of HTML", true},
		"404 in HTML": {page(404), "page of HTML", false}, "redirect": {said(302, "Location", "/x"), "not followed", false}, "dies": {dies, "ended the connection", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, api := fake(t)
			api.Fail(c.with)
			read := call(t, i, flows, "list_workflows", object{})
			told := ""
			if read.err != nil {
				told = read.err.Error()
			} else if read.IsError {
				told = read.Content[0].Text
			}
			if !strings.Contains(told, c.want) || read.sent {
				t.Errorf("reading: %+v", read)
			}
			made := call(t, i, flows, "create_workflow", echo("w", "p"))
			var failed *mcpclient.WithinError
			switch {
			case c.unknown && (!errors.As(made.err, &failed) || failed.Unsent || !strings.Contains(failed.Message, "unknown") || !made.sent):
				t.Errorf("creating: %+v, want an error of unknown outcome", made)
			case !c.unknown && (!made.IsError || !strings.Contains(made.Content[0].Text, c.want)):
				t.Errorf("creating: %+v", made)
			}
			if requests, _ := api.Writes(); requests != 1 {
				t.Errorf("creating took %d requests", requests)
			}
		})
	}
}

// TestUnreachable: a call of an unreachable instance counts as not sent.
func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(n8nfake.NewAPI())
	server.Close()
	a := call(t, open(t, n8n.Options{URL: server.URL, APIKey: n8nfake.Key}), flows, "create_workflow", echo("w", "p"))
	var failed *mcpclient.WithinError
	if !errors.As(a.err, &failed) || !failed.Unsent || failed.Kind != mcpclient.KindUnavailable || a.sent {
		t.Errorf("got %+v", a)
	}
}

// TestDefinitions: every tool declares whether it reads or destroys, and its schemas are valid JSON.
func TestDefinitions(t *testing.T) {
	i, _ := fake(t)
	for name, server := range i.Servers() {
		tools, err := server.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			if !json.Valid(tool.InputSchema) || !json.Valid(tool.OutputSchema) || tool.Description == "" {
				t.Errorf("%s %s has no valid schemas: %s %s", name, tool.Name, tool.InputSchema, tool.OutputSchema)
			}
			destroys := strings.HasPrefix(tool.Name, "delete") || strings.HasPrefix(tool.Name, "update")
			if *tool.Annotations.Destructive != destroys {
				t.Errorf("%s: destructive is %v", tool.Name, !destroys)
			}
		}
	}
}

// TestNodesOfInstallation reads the nodes of a real installation.
func TestNodesOfInstallation(t *testing.T) {
	if os.Getenv("HARNESS_TEST_N8N_NODES") == "" {
		t.Skip("needs the packages of n8n: make n8n")
	}
	i := setup(t)
	all := value[struct{ Result []string }](t, i, "n8n-nodes", "list_nodes", object{})
	if len(all.Result) < 400 {
		t.Errorf("%d nodes", len(all.Result))
	}
	for _, name := range all.Result {
		essentials := call(t, i, "n8n-nodes", "get_node_essentials", object{"nodeType": name})
		if essentials.IsError || essentials.err != nil {
			t.Errorf("%s: %+v", name, essentials)
		}
	}
	found := value[struct{ Result []string }](t, i, "n8n-nodes", "search_nodes", object{"query": "slack"})
	if len(found.Result) == 0 || found.Result[0] != "n8n-nodes-base.slack" {
		t.Errorf("found %v", found.Result)
	}
	wrong := value[struct {
		Valid  bool
		Errors []string
	}](t, i, "n8n-nodes", "validate_node_config", object{"nodeType": "slack", "config": object{"resource": "mesage"}})
	if wrong.Valid || !strings.Contains(strings.Join(wrong.Errors, "\n"), "message") {
		t.Errorf("a misspelt resource: %+v", wrong)
	}
}

// TestNodesUnknown: if there are no descriptions of nodes, the tools say how to get them.
func TestNodesUnknown(t *testing.T) {
	i, _ := fake(t)
	a := call(t, i, "n8n-nodes", "search_nodes", object{"query": "slack"})
	if !a.IsError || !strings.Contains(a.Content[0].Text, "n8n.nodes") {
		t.Errorf("got %+v", a)
	}
}
