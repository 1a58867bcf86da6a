package n8n_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/testing/n8nfake"
)

const execute = "execute_workflow"

// active creates an active workflow with a webhook, and returns its id.
func active(t *testing.T, i *n8n.Instance, path, mode string) string {
	t.Helper()
	w := echo("Run me", path)
	w["active"] = true
	w["nodes"].([]any)[0].(object)["parameters"].(object)["responseMode"] = mode
	return value[stored](t, i, flows, "create_workflow", w).ID
}

func ends(o n8nfake.Outcome) func(map[string]any) n8nfake.Outcome {
	return func(map[string]any) n8nfake.Outcome { return o }
}

// TestExecute: the answer shows how an execution ended, for every kind of end and of webhook answer.
func TestExecute(t *testing.T) {
	for name, c := range map[string]struct {
		mode string
		ends n8nfake.Outcome
		want string // expected answer as JSON
	}{
		"success":      {"lastNode", n8nfake.Outcome{Output: object{"a": 1}}, `{"data":{"a":1},"executionId":"1","status":"success"}`},
		"not answered": {"onReceived", n8nfake.Outcome{Output: object{"a": 1}}, `{"data":{"a":1},"executionId":"1","status":"success"}`},
		"failure": {
			"lastNode",
			n8nfake.Outcome{Node: "Set", Item: 3, Message: "no such customer"},
			`{"error":"node \"Set\", item 3: no such customer","executionId":"1","failure":{"item":3,"message":"no such customer","node":"Set"},"status":"error"}`,
		},
		"failure later": {
			"onReceived",
			n8nfake.Outcome{Node: "Set", Message: "broken"},
			`{"error":"node \"Set\", item 0: broken","executionId":"1","failure":{"item":0,"message":"broken","node":"Set"},"status":"error"}`,
		},
		"running": {
			"lastNode",
			n8nfake.Outcome{Running: true},
			`{"executionId":"1","problem":"it has not ended yet; get_execution shows later how it ended","status":"running"}`,
		},
		"running behind": {
			"onReceived",
			n8nfake.Outcome{Running: true},
			`{"executionId":"1","problem":"it has not ended yet; get_execution shows later how it ended","status":"running"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, api := fake(t)
			id := active(t, i, "run", c.mode)
			api.Ends(ends(c.ends))
			args := object{"workflowId": id, "inputData": object{"x": 1}}
			if c.ends.Running {
				args["waitSeconds"] = 0.2
			}
			a := call(t, i, flows, execute, args)
			if got := string(a.Value); got != c.want || a.IsError || a.err != nil || !a.sent {
				t.Errorf("got  %s %v %v\nwant %s", got, a.Content, a.err, c.want)
			}
			if api.Started() != 1 {
				t.Errorf("%d executions", api.Started())
			}
		})
	}
}

// TestExecuteDoubt: a webhook call that was sent is never repeated. If its execution is found, the answer describes the execution; otherwise the outcome is
// unknown.
func TestExecuteDoubt(t *testing.T) {
	i, api := fake(t)
	id := active(t, i, "run", "lastNode")
	api.Ends(ends(n8nfake.Outcome{Output: object{"a": 1}, After: func() { panic(http.ErrAbortHandler) }}))
	if got := value[ran](t, i, flows, execute, object{"workflowId": id}); got.Status != "success" || got.ExecutionID != "1" {
		t.Errorf("the connection broke behind the start: %+v", got)
	}
	api.FailWrites(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html>Bad gateway</html>"))
	})
	a := call(t, i, flows, execute, object{"workflowId": id, "waitSeconds": 0})
	var failed *mcpclient.WithinError
	if !errors.As(a.err, &failed) || failed.Unsent || !strings.Contains(failed.Message, "page of HTML") || !a.sent {
		t.Errorf("a gateway failed: %+v", a)
	}
	if api.Started() != 1 {
		t.Errorf("%d executions", api.Started())
	}
}

// TestExecuteRefused: a workflow that cannot be run is refused with a remedy, and no webhook is called.
func TestExecuteRefused(t *testing.T) {
	i, api := fake(t)
	off := value[stored](t, i, flows, "create_workflow", echo("off", "off")).ID
	clock := echo("clock", "x")
	clock["active"] = true
	clock["nodes"].([]any)[0].(object)["type"] = "n8n-nodes-base.scheduleTrigger"
	scheduled := value[stored](t, i, flows, "create_workflow", clock).ID
	placed := active(t, i, "users/:id/files", "lastNode")
	on := active(t, i, "on", "lastNode")
	for want, args := range map[string]object{
		"activate_workflow": {"workflowId": off}, "add a node n8n-nodes-base.webhook": {"workflowId": scheduled}, "list_workflows": {"workflowId": "none"},
		"inputData needs id": {"workflowId": placed, "inputData": object{"id": "a/b"}}, "waitSeconds can be": {"workflowId": on, "waitSeconds": 3600},
		"Content-Length cannot be set": {"workflowId": on, "headers": object{"content-length": "5"}},
	} {
		if a := call(t, i, flows, execute, args); !a.IsError || a.sent || !strings.Contains(a.Content[0].Text, want) {
			t.Errorf("%s: %+v", want, a)
		}
	}
	if api.Started() != 0 {
		t.Errorf("%d executions", api.Started())
	}
	api.FailWrites(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"message":"Authorization data is wrong!"}`))
	})
	if a := call(t, i, flows, execute, object{"workflowId": on}); !a.IsError || !strings.Contains(a.Content[0].Text, "give them in headers") {
		t.Errorf("a webhook with credentials: %+v", a)
	}
}

// TestExecuteTogether: concurrent calls of one workflow each get the answer of their own execution.
func TestExecuteTogether(t *testing.T) {
	i, api := fake(t)
	id := active(t, i, "run", "onReceived")
	var mu sync.Mutex
	n := 0
	api.Ends(func(map[string]any) n8nfake.Outcome {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n8nfake.Outcome{Output: object{"nth": n}}
	})
	var all sync.WaitGroup
	seen := map[string]bool{}
	for range 10 {
		all.Go(func() {
			args, _ := json.Marshal(object{"workflowId": id})
			raw, err := i.Servers()[flows].Call(t.Context(), execute, args, func() {})
			var got struct {
				Value struct {
					ExecutionID string
					Data        struct{ Nth int }
				} `json:"structuredContent"`
			}
			if err != nil || json.Unmarshal(raw, &got) != nil || got.Value.ExecutionID != fmt.Sprint(got.Value.Data.Nth) {
				t.Errorf("got %s, %v", raw, err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[got.Value.ExecutionID] = true
		})
	}
	all.Wait()
	if len(seen) != 10 {
		t.Errorf("%d different executions", len(seen))
	}
}

// TestWebhookSecurity: an address that the mode does not permit is not called, even if a host name resolves to it.
func TestWebhookSecurity(t *testing.T) {
	for _, c := range []struct{ mode, hook, refused string }{
		{"strict", "", "strict"},
		{"strict", "http://localhost:1", "strict"},
		{"moderate", "", ""},
		{"", "", ""},
		{"disabled", "", ""},
		{"moderate", "http://10.1.2.3:5678", "moderate"},
		{"", "http://192.168.0.1", "moderate"},
		{"moderate", "http://169.254.169.254", "moderate"},
		{"moderate", "http://[fd00::1]:5678", "moderate"},
		{"strict", "http://[::ffff:127.0.0.1]:5678", "strict"},
	} {
		api := n8nfake.NewAPI()
		server := httptest.NewServer(api)
		t.Cleanup(server.Close)
		i := open(t, n8n.Options{URL: server.URL, APIKey: n8nfake.Key, WebhookSecurity: c.mode, WebhookURL: c.hook})
		id := active(t, i, "run", "lastNode")
		for tool, a := range map[string]answer{
			execute:           call(t, i, flows, execute, object{"workflowId": id}),
			"trigger_webhook": call(t, i, "n8n-executions", "trigger_webhook", object{"webhookUrl": "run"}),
		} {
			switch {
			case c.refused == "" && (a.IsError || a.err != nil):
				t.Errorf("%+v: %s: %+v", c, tool, a)
			case c.refused != "" && (!a.IsError || a.sent || !strings.Contains(a.Content[0].Text, "n8n.webhookSecurity is "+c.refused)):
				t.Errorf("%+v: %s: %+v", c, tool, a)
			}
		}
		if c.refused != "" && api.Started() != 0 {
			t.Errorf("%+v: %d executions", c, api.Started())
		}
	}
}

// TestTriggerWebhook: only webhooks of this instance are called, and their answers and failures are reported.
func TestTriggerWebhook(t *testing.T) {
	i, api := fake(t)
	active(t, i, "orders/new", "lastNode")
	api.Ends(ends(n8nfake.Outcome{Output: object{"a": 1}}))
	trigger := func(args object) answer { return call(t, i, "n8n-executions", "trigger_webhook", args) }
	for _, at := range []string{"orders/new", "/webhook/orders/new"} {
		if a := trigger(object{"webhookUrl": at, "data": object{"x": 1}}); string(a.Value) != `{"data":{"a":1},"status":200}` || !a.sent {
			t.Errorf("%s: %+v", at, a)
		}
	}
	for want, at := range map[string]string{
		"is not an address of this n8n": "http://example.com/webhook/x", "not the path of a webhook": "../api/v1/workflows", "not registered": "other", "is not the path": "/",
	} {
		if a := trigger(object{"webhookUrl": at}); !a.IsError || !strings.Contains(a.Content[0].Text, want) {
			t.Errorf("%s: %+v", at, a)
		}
	}
	w := echo("by query", "search")
	w["active"] = true
	w["nodes"].([]any)[0].(object)["parameters"] = object{"path": "search", "responseMode": "lastNode"}
	value[stored](t, i, flows, "create_workflow", w)
	if a := trigger(object{"webhookUrl": "search?q=a%20b", "httpMethod": "GET", "data": object{"n": 1}}); a.IsError || !a.sent || api.LastQuery() != "n=1&q=a+b" {
		t.Errorf("by query: %+v, %s", a, api.LastQuery())
	}
	api.Ends(ends(n8nfake.Outcome{Node: "Set", Message: "x"}))
	if a := trigger(object{"webhookUrl": "orders/new"}); !a.IsError || !strings.Contains(a.Content[0].Text, "the workflow failed (500)") {
		t.Errorf("a workflow that fails: %+v", a)
	}
}

// TestRetry: only a failed execution is run again.
func TestRetry(t *testing.T) {
	i, api := fake(t)
	id := active(t, i, "run", "lastNode")
	api.Ends(ends(n8nfake.Outcome{Node: "Set", Message: "x"}))
	failed := value[ran](t, i, flows, execute, object{"workflowId": id})
	api.Ends(nil)
	again := value[struct{ ID, Status, RetryOf string }](t, i, "n8n-executions", "retry_execution", object{"executionId": failed.ExecutionID})
	if again.Status != "success" || again.RetryOf != failed.ExecutionID {
		t.Errorf("retried %+v", again)
	}
	for want, id := range map[string]string{"its status is success": again.ID, "list_executions": "99"} {
		if a := call(t, i, "n8n-executions", "retry_execution", object{"executionId": id}); !a.IsError || a.sent || !strings.Contains(a.Content[0].Text, want) {
			t.Errorf("%s: %+v", want, a)
		}
	}
}
