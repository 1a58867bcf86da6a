package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"testing"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/task"
)

var eventExample = regexp.MustCompile("(?s)```json (\\S+)\n(.*?)\n```")

// docs/EVENTS.md has an example of every type of event, which is as the document says, as is every event that a test reads of a stream; and the events of a task have no field that its examples lack.
func TestDocumentedEvents(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/EVENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]map[string]any{}
	for _, m := range eventExample.FindAllStringSubmatch(string(text), -1) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(m[2]), &fields); err != nil {
			t.Errorf("the example of %s: %v", m[1], err)
		}
		documented[m[1]] = fields
	}
	seen := map[string]bool{task.EventNote: true} // a note needs a long conversation
	w := setup(t, setting{servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	for kind := range task.EventData {
		if documented[kind] == nil {
			t.Errorf("docs/EVENTS.md has no example of %s", kind)
		} else if kind != task.EventEnded { // its example has only some fields
			data, _ := json.Marshal(documented[kind])
			w.contract.event(t, "TaskEvent", event{Type: kind, Data: string(data)})
		}
	}
	for _, order := range []string{
		"RUN<<" + asks(1) + ">>",
		"RUN<<console.log('x'); await fs.writeFile('/workspace/a', 'b'); return 1>>", "RUN<<await callMCPTool('none__none', {})>>", "SAY<<hello>>",
	} {
		id := w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": order}).want(http.StatusAccepted).field("id")
		if waiting := w.task(id); waiting.Status == task.WaitingApproval {
			var all api.ApprovalList
			w.do("GET", "/v1/approvals", nil).want(http.StatusOK).json(&all)
			w.do("POST", "/v1/approvals/"+all.Approvals[0].ID, map[string]any{"decision": "approve"}).want(http.StatusOK)
		}
		s := w.sse(id, 0)
		for {
			e, err := s.next()
			if err != nil {
				break
			}
			seen[e.Type] = true
			fields := map[string]any{}
			if err := json.Unmarshal([]byte(e.Data), &fields); err != nil {
				t.Errorf("%s: %v: %s", e.Type, err, e.Data)
			}
			if documented[e.Type] == nil {
				t.Errorf("docs/EVENTS.md has no example of %s: %s", e.Type, e.Data)
			}
			for name := range fields {
				if _, there := documented[e.Type][name]; !there && e.Type != task.EventEnded { // OpenAPI describes the fields of task.ended
					t.Errorf("docs/EVENTS.md has no field %s of %s: %s", name, e.Type, e.Data)
				}
			}
		}
		s.close()
	}
	for name := range documented {
		if !seen[name] && name != task.EventDelta && name != task.EventProgress { // a client that connects late gets no deltas and no progress
			t.Errorf("no task has an event %s", name)
		}
	}
}
