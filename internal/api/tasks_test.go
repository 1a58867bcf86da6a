package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/task"
)

// A list leaves out the large fields of tasks. A single task has them.
func TestTaskListIsSmall(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	id := w.do("POST", "/v1/tasks", map[string]any{
		"userId": "alice", "task": "RUN<<console.log('a line')>>", "context": map[string]string{"country": "DE"},
	}).want(http.StatusAccepted).field("id")
	if alone := w.task(id); string(alone.Context) != `{"country":"DE"}` || len(alone.Logs) != 1 {
		t.Errorf("the task alone has context %s and logs %q", alone.Context, alone.Logs)
	}
	var listed struct{ Tasks []map[string]json.RawMessage }
	w.do("GET", "/v1/tasks", nil).want(http.StatusOK).json(&listed)
	if len(listed.Tasks) != 1 || string(listed.Tasks[0]["runs"]) == "[]" {
		t.Fatalf("the list is %s", listed.Tasks)
	}
	if context, there := listed.Tasks[0]["context"]; there || string(listed.Tasks[0]["logs"]) != "[]" {
		t.Errorf("the list has context %s and logs %s", context, listed.Tasks[0]["logs"])
	}
}

// A policy gets the roles of the callers of tasks and schedules, as it does for runs.
func TestRolesOfTasks(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	const order = `RUN<<try { await callMCPTool('bad__echo', {zeta: 'roles'}) } catch (e) { return e.message }>>`
	key := w.key("ann", auth.User, auth.Approver)
	answered := func(what, id string) {
		t.Helper()
		var got task.Task
		w.eventually("the task has ended", func() bool {
			w.as(key, "GET", "/v1/tasks/"+id, nil).want(http.StatusOK).json(&got)
			return got.Status.Ended()
		})
		if text := string(got.Output); !strings.Contains(text, "the roles are [user approver]") {
			t.Errorf("%s: %s, %+v", what, text, got.Error)
		}
	}
	answered("a task", w.as(key, "POST", "/v1/tasks", map[string]string{"task": order}).want(http.StatusAccepted).field("id"))
	w.as(key, "POST", "/v1/schedules", map[string]string{"task": order, "runAt": time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)}).want(http.StatusCreated)
	var all struct{ Tasks []task.Task }
	w.eventually("the schedule has made a task", func() bool {
		w.as(key, "GET", "/v1/tasks", nil).want(http.StatusOK).json(&all)
		return len(all.Tasks) == 2
	})
	answered("a schedule", all.Tasks[0].ID)
}
