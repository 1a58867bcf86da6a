package api_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/task"
)

// TestMCPTask has the queue of the server work the tasks of MCP clients. A user sees only their own tasks, and a task ends when its client gives up.
func TestMCPTask(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, options: func(o *api.Options) { o.MCPTasks = true }})
	alice, bob := w.mcpClient(w.key("alice"), nil), w.mcpClient(w.key("bob"), nil)
	call := func(ctx context.Context, session *mcp.ClientSession, args map[string]any) (out struct{ TaskID, Status, Text string }, text string) {
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "run_task", Arguments: args})
		if err != nil {
			return out, err.Error()
		}
		raw, _ := json.Marshal(r.StructuredContent)
		_ = json.Unmarshal(raw, &out)
		all, _ := json.Marshal(r.Content)
		return out, string(all)
	}
	out, text := call(t.Context(), alice, map[string]any{"task": "RUN<<return 'ada.lovelace@example.org'>>"})
	if out.Status != "succeeded" || out.Text != "Done." {
		t.Fatalf("alice gets %+v, %s", out, text)
	}
	if same, _ := call(t.Context(), alice, map[string]any{"taskId": out.TaskID}); same != out {
		t.Errorf("alice fetches %+v", same)
	}
	if got, text := call(t.Context(), bob, map[string]any{"taskId": out.TaskID}); got.TaskID != "" || !strings.Contains(text, "you have no task") {
		t.Errorf("bob gets %+v, %s", got, text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for asked := len(w.model.Requests()); len(w.model.Requests()) == asked; time.Sleep(5 * time.Millisecond) {
		}
		cancel()
	}()
	if got, text := call(ctx, bob, map[string]any{"task": "HOLD<<late>>"}); got.TaskID != "" {
		t.Errorf("bob's task ends with %+v, %s", got, text)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		tasks, _, err := w.tasks.Tasks(t.Context(), task.Filter{UserID: "bob"})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("bob's tasks are %+v, %v", tasks, err)
		}
		if len(tasks) == 1 && tasks[0].Status == task.Cancelled {
			return
		}
	}
}
