package api_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// Lists leave out what makes tasks big; a task alone has it.
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
