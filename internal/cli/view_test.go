package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

// TestApprovalTime checks that the times of a call and its run exclude the hour of a person's decision, which is shown beside the decision.
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
	event(time.Second, task.EventApprovalRequested, `{"approvalId":"apr_1","calls":[{"n":1,"tool":"mailer__send"}]}`)
	event(time.Hour, task.EventApprovalDecided, `{"approvalId":"apr_1","decision":"approved"}`)
	event(2*time.Second, task.EventAnswer, `{"n":1,"bytes":2}`)
	event(0, task.EventRunEnded, `{"output":1}`)
	for _, want := range []string{"approved after 1h0m0s\n", "mailer__send {}: 2.0 s\n", "4.0 s, 1 tool call\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestRecordedApprovalTime checks that the times of recorded calls exclude the hours of people's decisions: for a write, which has an intent record, for a
// read, and for a call with two requests.
func TestRecordedApprovalTime(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	v := newView(newConsole(&out, &screen{}, func(string) string { return "" }))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) int64 { return start.Add(d).UnixMicro() }
	request := func(created, decided time.Duration, calls ...int) approval.Request {
		r := approval.Request{Created: start.Add(created), DecidedAt: new(start.Add(decided))}
		for _, n := range calls {
			r.Calls = append(r.Calls, approval.Call{N: n})
		}
		return r
	}
	v.decisions([]approval.Request{
		request(time.Second, 2*time.Hour+time.Second, 1, 2, 3), request(3*time.Hour, 4*time.Hour, 3), {Created: start, Calls: []approval.Call{{N: 4}}},
	})
	v.record(journal.Record{Start: &journal.Start{Run: "run_1", Source: "x", Time: at(0)}})
	for n := range 4 {
		v.record(journal.Record{Call: &journal.Call{N: n + 1, Kind: "tool", Name: "send", Args: json.RawMessage(`{"server":"mailer","input":{}}`)}})
	}
	v.record(journal.Record{Intent: &journal.Intent{N: 1, Time: at(2*time.Hour + 3*time.Second)}})
	v.record(journal.Record{Answer: &journal.Answer{N: 1, Now: at(2*time.Hour + 3*time.Second + 31*time.Millisecond)}})
	v.record(journal.Record{Answer: &journal.Answer{N: 2, Now: at(2*time.Hour + 5*time.Second)}})
	v.record(journal.Record{Answer: &journal.Answer{N: 3, Now: at(4*time.Hour + 50*time.Millisecond)}})
	v.record(journal.Record{Answer: &journal.Answer{N: 4, Now: at(4*time.Hour + time.Minute)}})
	for _, want := range []string{
		"call 1: mailer__send {}: waited 2h0m0s for approval, took 31 ms\n", "call 2: mailer__send {}: waited 2h0m0s for approval, took 4.0 s\n",
		"call 3: mailer__send {}: waited 1h0m0s for approval, took 50 ms\n", "call 4: mailer__send {}: 4h1m0s\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
