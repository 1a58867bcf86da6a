package n8n_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/n8n"
)

// editorWorkflow returns a workflow as n8n's editor stores it. It has values of settings and fields of nodes that the public API returns but does not
// accept.
func editorWorkflow() object {
	return object{
		"id": "w7", "name": "Edited", "active": false, "versionId": "a", "connections": object{}, "tags": []any{},
		"nodes": []any{object{
			"id": "n1", "name": "Start", "type": "n8n-nodes-base.manualTrigger", "typeVersion": 1, "position": []any{0, 0}, "parameters": object{},
			"notes": nil, "credentials": nil, "onError": nil, "rewireOutputLogTo": "ai_tool",
		}},
		"settings": object{
			"executionOrder": "v1", "saveExecutionProgress": "DEFAULT", "saveManualExecutions": "DEFAULT", "saveDataErrorExecution": "DEFAULT",
			"saveDataSuccessExecution": "all", "timezone": "DEFAULT", "executionTimeout": 7200, "callerPolicy": "old policy", "errorWorkflow": nil,
			"binaryMode": "separate", "timeSavedPerExecution": nil,
		},
	}
}

// strictN8N returns an instance whose API holds one workflow, and refuses fields and values that n8n's API does not accept. put returns the last workflow
// that was stored.
func strictN8N(t *testing.T) (i *n8n.Instance, put func() object) {
	t.Helper()
	w := editorWorkflow()
	var got object
	takes := map[string]func(any) bool{"saveExecutionProgress": isBool, "saveManualExecutions": isBool, "availableInMCP": isBool}
	for _, key := range []string{"saveDataErrorExecution", "saveDataSuccessExecution"} {
		takes[key] = func(v any) bool { return v == "all" || v == "none" }
	}
	for _, key := range []string{"executionOrder", "errorWorkflow", "timezone", "callerIds"} {
		takes[key] = func(v any) bool { _, is := v.(string); return is }
	}
	takes["callerPolicy"] = func(v any) bool { return v == "any" || v == "none" || v == "workflowsFromSameOwner" }
	takes["executionTimeout"] = func(v any) bool { n, is := v.(float64); return is && n <= 3600 }
	nodeFields := []string{"id", "name", "type", "typeVersion", "position", "parameters", "credentials", "notes", "onError", "disabled", "webhookId"}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		refuse := func(why string) {
			rw.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(rw).Encode(object{"message": why})
		}
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			var in object
			_ = json.NewDecoder(r.Body).Decode(&in)
			set, _ := in["settings"].(object)
			for key, value := range set {
				if takes[key] == nil || !takes[key](value) {
					refuse("request/body/settings/" + key)
					return
				}
			}
			nodes, _ := in["nodes"].([]any)
			for _, n := range nodes {
				for key, value := range n.(object) {
					if value == nil || !slices.Contains(nodeFields, key) {
						refuse("request/body/nodes/" + key)
						return
					}
				}
			}
			got = in
			w = maps.Clone(w)
			maps.Copy(w, in)
		}
		_ = json.NewEncoder(rw).Encode(w)
	}))
	t.Cleanup(srv.Close)
	return open(t, n8n.Options{URL: srv.URL, APIKey: "k"}), func() object { return got }
}

func isBool(v any) bool { _, is := v.(bool); return is }

// TestWorkflowComesBack: update_workflow accepts the result of get_workflow, even though it has values that the API returns but does not accept.
// update_partial_workflow keeps such values out of its requests.
func TestWorkflowComesBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(whole object) (tool string, input object){
		"whole": func(whole object) (string, object) {
			return "update_workflow", object{"workflowId": "w7", "updates": whole}
		},
		"settings alone": func(whole object) (string, object) {
			return "update_workflow", object{"workflowId": "w7", "updates": object{"settings": whole["settings"]}}
		},
		"nodes alone": func(whole object) (string, object) {
			return "update_workflow", object{"workflowId": "w7", "nodes": whole["nodes"]}
		},
		"a renamed node": func(whole object) (string, object) {
			whole["nodes"].([]any)[0].(object)["name"] = "Begin"
			return "update_workflow", object{"workflowId": "w7", "updates": whole}
		},
		"operations": func(object) (string, object) {
			return "update_partial_workflow", object{"workflowId": "w7", "operations": []any{object{"type": "setSettings", "fields": object{"timezone": "Asia/Tokyo"}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, put := strictN8N(t)
			whole := value[object](t, i, flows, "get_workflow", object{"workflowId": "w7"})
			tool, input := change(whole)
			if a := call(t, i, flows, tool, input); a.err != nil || a.IsError {
				t.Fatalf("%v %v", a.err, a.Content)
			}
			if nodes, _ := put()["nodes"].([]any); len(nodes) != 1 {
				t.Errorf("n8n got %v", put())
			}
		})
	}
}

// TestSettingThatCannotBeSet: a new value of a setting that n8n's API does not accept is refused, and the error names the accepted values.
func TestSettingThatCannotBeSet(t *testing.T) {
	t.Parallel()
	i, put := strictN8N(t)
	for setting, want := range map[string]string{
		`{"saveManualExecutions":"yes"}`:     "true or false",
		`{"saveDataErrorExecution":"never"}`: "all or none",
		`{"executionTimeout":9000}`:          "up to 3600",
		`{"binaryMode":"joined"}`:            "does not change the setting",
		`{"timezone":3}`:                     "a text",
		`{"saveEverything":true}`:            "there is no setting",
	} {
		a := call(t, i, flows, "update_workflow", object{"workflowId": "w7", "settings": json.RawMessage(setting)})
		if !a.IsError || len(a.Content) == 0 || !strings.Contains(a.Content[0].Text, want) || put() != nil {
			t.Errorf("%s: %+v; n8n got %v", setting, a, put())
		}
	}
}

// TestSlowNodes: a caller whose context ends does not wait for another caller's request to a slow n8n.
func TestSlowNodes(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 8), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer srv.Close()
	defer close(release)
	i := open(t, n8n.Options{URL: srv.URL, APIKey: "k", Email: "ann@example.com", Password: "secret"})
	ask := func(ctx context.Context) error {
		_, err := i.Servers()["n8n-nodes"].Call(ctx, "search_nodes", []byte(`{"query":"mail"}`), func() {})
		return err
	}
	first := make(chan error, 1)
	held, cancel := context.WithCancel(t.Context())
	go func() { first <- ask(held) }()
	<-asked
	ended, end := context.WithCancel(t.Context())
	end()
	second := make(chan struct{})
	go func() {
		defer close(second)
		_ = ask(ended) // the test checks only that the call returns
	}()
	select {
	case <-second:
	case <-time.After(10 * time.Second):
		t.Error("a caller whose context has ended waits for n8n")
	}
	select {
	case err := <-first:
		t.Errorf("the first caller has ended: %v", err)
	default:
	}
	cancel()
	<-first
}
