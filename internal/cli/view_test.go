package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// TestApprovalTime shows what a call and its run took without the hour in which a person was asked, and the hour beside the decision.
func TestApprovalTime(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	v := newView(newConsole(&out, &screen{}, func(string) string { return "" }))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	event := func(after time.Duration, kind string, data string) {
		at = at.Add(after)
		v.event(task.Event{Type: kind, Time: at, Data: json.RawMessage(data)})
	}
	event(0, task.EventRunStarted, `{"runId":"run_1","code":"await tools.mailer.send({})"}`)
	event(time.Second, task.EventCall, `{"n":1,"kind":"tool","name":"mailer__send","args":{"input":{}}}`)
	event(time.Second, task.EventApprovalRequested, `{"approvalId":"apr_1","calls":[{"call":1,"tool":"mailer__send"}]}`)
	event(time.Hour, task.EventApprovalDecided, `{"approvalId":"apr_1","decision":"approved"}`)
	event(2*time.Second, task.EventAnswer, `{"n":1,"bytes":2}`)
	event(0, task.EventRunEnded, `{"output":1}`)
	for _, want := range []string{"approved after 1h0m0s\n", "mailer__send {}: 2.0 s\n", "4.0 s, 1 tool call\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
