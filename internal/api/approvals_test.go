package api_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// asking is the policy of the test servers. It asks about calls whose argument zeta is "ask". It denies calls whose argument zeta is "roles"; the reason
// lists the caller's roles.
type asking struct{}

func (asking) Decide(c policy.Call) policy.Verdict {
	if bytes.Contains(c.Args, []byte(`"zeta":"roles"`)) {
		return policy.Verdict{Action: policy.Deny, Rule: 1, Reason: fmt.Sprintf("the roles are %v", c.Roles)}
	}
	if bytes.Contains(c.Args, []byte(`"zeta":"ask"`)) {
		return policy.Verdict{Action: policy.Ask, Rule: 1, Reason: "rule 1 asks"}
	}
	return policy.Verdict{Action: policy.Allow}
}

// asks returns a program whose n calls wait for one approval.
func asks(n int) string {
	return fmt.Sprintf(`return (await Promise.all(Array.from({length: %d}, (_, i) => callMCPTool('bad__echo', {zeta: 'ask', alpha: i})))).length`, n)
}

// ended waits until a run has ended, and returns the run.
func (w *world) ended(id string, headers ...string) (out api.RunDetails) {
	w.t.Helper()
	w.eventually("the run has ended", func() bool {
		out = api.RunDetails{} // clears the fields that the previous answer had and this answer lacks
		w.do("GET", "/v1/runs/"+id, nil, headers...).want(http.StatusOK).json(&out)
		return out.Ended != nil
	})
	return out
}

// A run waits for an approval over HTTP, and continues by itself once the approval is decided.
func TestApprovals(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	var out run.Outcome
	create := func(code string, headers ...string) string {
		w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": code}, headers...).want(http.StatusOK).json(&out)
		if out.Status != run.WaitingApproval || out.Approval == nil || out.Error != nil {
			t.Fatalf("the run is %+v", out)
		}
		return out.RunID
	}
	id := create("console.log('x'); "+asks(3), "Idempotency-Key", "k")
	var shown api.RunDetails
	w.do("GET", "/v1/runs/"+id, nil).want(http.StatusOK).json(&shown)
	if shown.Status != run.WaitingApproval || shown.Approval == nil || len(shown.Approval.Calls) != 3 || len(shown.Logs) != 1 || shown.Ended != nil {
		t.Errorf("the run is shown as %+v", shown)
	}
	if again := create("console.log('x'); "+asks(3), "Idempotency-Key", "k"); again != id {
		t.Errorf("asked again: %s, want %s", again, id)
	}
	var all api.ApprovalList
	w.do("GET", "/v1/approvals?status=waiting&userId=alice", nil).want(http.StatusOK).json(&all)
	if len(all.Approvals) != 1 || all.Approvals[0].Calls[2].Tool != "bad__echo" || all.Approvals[0].Calls[2].Reason != "rule 1 asks" {
		t.Errorf("the list is %+v", all)
	}
	request := "/v1/approvals/" + shown.Approval.ID
	w.do("GET", request, nil).want(http.StatusOK)
	w.do("POST", request, map[string]any{"decision": "maybe"}).want(http.StatusBadRequest)
	w.do("POST", request, map[string]any{"decision": "approve", "reason": "x"}).want(http.StatusBadRequest)
	w.do("POST", request, map[string]any{"decision": "approve"}).want(http.StatusOK)
	w.do("POST", request, map[string]any{"decision": "deny"}).want(http.StatusConflict)
	if got := w.ended(id); got.Status != run.Succeeded || string(got.Output) != "3" || got.Approval != nil {
		t.Errorf("approved: %+v", got)
	}
	w.do("POST", "/v1/runs/"+id+"/replay", nil).want(http.StatusOK)

	id = create("try { " + asks(1) + " } catch (e) { return e.message }")
	w.do("POST", "/v1/approvals/"+out.Approval.ID, map[string]any{"decision": "deny", "reason": "no"}).want(http.StatusOK)
	if got := w.ended(id); string(got.Output) != `"bad__echo was not called: it was denied: no"` {
		t.Errorf("denied: %+v", got)
	}
	for _, path := range []string{"/v1/approvals/apr_none", "/v1/approvals/apr_"} {
		w.do("GET", path, nil).want(http.StatusNotFound)
		w.do("POST", path, map[string]any{"decision": "deny"}).want(http.StatusNotFound)
	}
}

// A task that waits for an approval has the status waiting_approval, and its events contain the approval request.
func TestTaskApprovals(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	id := w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": "RUN<<" + asks(2) + ">>"}).want(http.StatusAccepted).field("id")
	if waiting := w.task(id); waiting.Status != task.WaitingApproval || w.tasks.Running() != 0 {
		t.Errorf("the task is %s, %d are in work", waiting.Status, w.tasks.Running())
	}
	var all api.ApprovalList
	w.do("GET", "/v1/approvals?taskId="+id, nil).want(http.StatusOK).json(&all)
	if len(all.Approvals) != 1 || len(all.Approvals[0].Calls) != 2 || all.Approvals[0].Task != id {
		t.Fatalf("the list is %+v", all)
	}
	next := w.do("POST", "/v1/tasks", map[string]string{
		"userId": "alice", "task": "SAY<<next>>", "sessionId": all.Approvals[0].Session,
	}).want(http.StatusAccepted).field("id")
	w.do("POST", "/v1/approvals/"+all.Approvals[0].ID, map[string]any{"decision": "approve", "remember": true}).want(http.StatusOK)
	if after := w.task(next); after.Status != task.Succeeded { // tasks of one session are worked one after another
		t.Errorf("the next task is %s", after.Status)
	}
	if got := w.task(id); got.Status != task.Succeeded || string(got.Output) != "2" {
		t.Errorf("the task is %+v", got)
	}
	var types []string
	events := w.sse(id, 0)
	for e, err := events.next(); err == nil; e, err = events.next() {
		if e.Type != task.EventCall && e.Type != task.EventAnswer && e.Type != task.EventTurn {
			types = append(types, e.Type)
		}
	}
	events.close()
	want := []string{
		task.EventQueued, task.EventStarted, task.EventRunStarted, task.EventApprovalRequested, task.EventApprovalDecided,
		task.EventRunEnded, task.EventEnded,
	}
	if !slices.Equal(types, want) {
		t.Errorf("events %q, want %q", types, want)
	}
	// Cancelling a task that waits for an approval closes the approval request.
	id = w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": "RUN<<" + asks(1) + ">>"}).want(http.StatusAccepted).field("id")
	w.task(id)
	w.do("GET", "/v1/approvals?status=waiting", nil).want(http.StatusOK).json(&all)
	w.do("POST", "/v1/tasks/"+id+"/cancel", nil).want(http.StatusOK)
	var closed approval.Request
	w.do("GET", "/v1/approvals/"+all.Approvals[0].ID, nil).want(http.StatusOK).json(&closed)
	if cancelled := w.task(id); cancelled.Status != task.Cancelled || closed.Status != approval.Closed {
		t.Errorf("the cancelled task is %s, its request %s", cancelled.Status, closed.Status)
	}
	// POST /task answers while the task waits for an approval.
	var original api.OriginalAnswer
	w.do("POST", "/task", map[string]string{"userId": "alice", "task": "RUN<<" + asks(1) + ">>"}).want(http.StatusOK).json(&original)
	if original.Message == "" || original.Error != "" {
		t.Errorf("POST /task answers %+v", original)
	}
}

// Approvers and admins decide about calls of the users that they may act for. An approver does not approve the calls of their own key.
func TestApprovers(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	agent, other := w.key("alice"), w.key("alice")
	approver, bobs, anyones := w.key("alice", auth.Approver), w.key("bob", auth.Approver), w.key("", auth.Approver)
	admin := w.key("root", auth.Admin)
	request := func(key string) string {
		var out run.Outcome
		w.as(key, "POST", "/v1/runs", map[string]any{"userId": "alice", "code": asks(1)}).want(http.StatusOK).json(&out)
		return "/v1/approvals/" + out.Approval.ID
	}
	first := request(agent)
	approve := map[string]any{"decision": "approve"}
	w.as(agent, "GET", first, nil).want(http.StatusOK)
	w.as(bobs, "GET", first, nil).want(http.StatusNotFound)
	w.as(agent, "POST", first, approve).want(http.StatusForbidden)
	w.as(agent, "POST", first, map[string]any{"decision": "deny"}).want(http.StatusForbidden)
	w.as(other, "POST", first, approve).want(http.StatusForbidden)
	w.as(bobs, "POST", first, approve).want(http.StatusNotFound)
	w.as(approver, "POST", first, approve).want(http.StatusOK)
	w.as(anyones, "POST", request(agent), approve).want(http.StatusOK)
	w.as(admin, "POST", request(agent), approve).want(http.StatusOK)
	own := request(approver)
	w.as(approver, "POST", own, approve).want(http.StatusForbidden)
	w.as(approver, "POST", own, map[string]any{"decision": "deny"}).want(http.StatusOK)
	w.as(admin, "POST", request(admin), approve).want(http.StatusOK)
	id := w.as(approver, "POST", "/v1/tasks", map[string]string{"task": "RUN<<" + asks(1) + ">>"}).want(http.StatusAccepted).field("id")
	w.task(id, "Authorization", "Bearer "+approver)
	var all api.ApprovalList
	w.as(approver, "GET", "/v1/approvals?taskId="+id, nil).want(http.StatusOK).json(&all)
	w.as(approver, "POST", "/v1/approvals/"+all.Approvals[0].ID, approve).want(http.StatusForbidden)
	w.as(anyones, "POST", "/v1/approvals/"+all.Approvals[0].ID, approve).want(http.StatusOK)
	w.as(bobs, "GET", "/v1/approvals", nil).want(http.StatusOK).json(&all)
	if len(all.Approvals) != 0 {
		t.Errorf("bob sees %+v", all.Approvals)
	}
}

// An approval request lists the places where tokens in arguments are replaced, and warns of an embedded value that may end a text in code. A caller who acts
// for the user also sees the value. Lists and the stored request contain none of this.
func TestReplacedTokens(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	alice, admin := w.key("alice"), w.key("root", auth.Admin)
	w.as(alice, "PUT", "/v1/sessions/s/files/who", "o'brien@example.com").want(http.StatusCreated)
	for _, more := range []int{0, 100_000} { // small arguments, which the request contains, and large ones, which only the journal contains
		var out run.Outcome
		w.as(alice, "POST", "/v1/runs", map[string]any{"userId": "alice", "sessionId": "s", "code": fmt.Sprintf(
			`const whole = await fs.readFile('/workspace/who', 'utf8')
			return await callMCPTool('bad__echo', {zeta: 'ask', whole, note: `+"`('${whole}')`, query: `INSERT INTO t VALUES ('${whole}')`"+`, more: 'x'.repeat(%d)})`, more)}).want(http.StatusOK).json(&out)
		const warning = "the value of [EMAIL_1] contains a quote, which may end a text in code"
		for key, value := range map[string]string{alice: "o'brien@example.com", admin: ""} {
			var shown approval.Request
			w.as(key, "GET", "/v1/approvals/"+out.Approval.ID, nil).want(http.StatusOK).json(&shown)
			want := []approval.Replacement{
				{Token: "[EMAIL_1]", Path: "$.whole", Value: value},
				{Token: "[EMAIL_1]", Path: "$.note", Embedded: true, Value: value, Warning: warning},
				{Token: "[EMAIL_1]", Path: "$.query", Embedded: true, Value: value, Written: strings.ReplaceAll(value, "'", "''"), Language: "sql"},
			}
			slices.SortFunc(shown.Calls[0].Replaced, func(a, b approval.Replacement) int { return strings.Compare(b.Path, a.Path) }) // arguments are sorted in a request, but not in a journal
			slices.SortFunc(want, func(a, b approval.Replacement) int { return strings.Compare(b.Path, a.Path) })
			if diff := cmp.Diff(want, shown.Calls[0].Replaced); diff != "" {
				t.Errorf("arguments with %d bytes more, value %q: %s", more, value, diff)
			}
		}
		if list := w.as(alice, "GET", "/v1/approvals", nil).want(http.StatusOK).body; strings.Contains(list, "brien") || strings.Contains(list, "replaced") {
			t.Errorf("the list has %s", list)
		}
	}
}

// Approval requests are sent to the callback of their task and to approvals.webhook, signed and with tokens in place of values, until the receiver accepts
// them. They contain what a decision needs.
func TestApprovalWebhooks(t *testing.T) {
	t.Parallel()
	type call struct {
		path   string
		header http.Header
		body   []byte
	}
	calls := make(chan call, 100)
	var refused atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/all" && !refused.Swap(true) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		calls <- call{r.URL.Path, r.Header, body}
	}))
	defer receiver.Close()
	w := setup(t, setting{
		servers: []*config.MCPServer{badServer(t, "bad", "normal")},
		flags:   map[string]string{"approvals.webhook": receiver.URL + "/all", "server.webhooks.values": "true"},
	})
	const address = "ann.lee@example.com"
	program := `await callMCPTool('bad__echo', {zeta: 'ask', to: '` + address + `'}); return 'to ` + address + `'`
	id := w.do("POST", "/v1/tasks", map[string]any{
		"userId": "alice", "task": "RUN<<" + program + ">>", "callbackUrl": receiver.URL + "/task",
	}).want(http.StatusAccepted).field("id")
	next := func() (call, task.Notification) {
		t.Helper()
		select {
		case c := <-calls:
			mac := hmac.New(sha256.New, []byte(webhookSecret))
			fmt.Fprintf(mac, "%s.%s", c.header.Get("X-Harness-Timestamp"), c.body)
			if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); c.header.Get("X-Harness-Signature") != want {
				t.Errorf("the signature is %s, want %s", c.header.Get("X-Harness-Signature"), want)
			}
			var e task.Notification
			if err := json.Unmarshal(c.body, &e); err != nil {
				t.Errorf("%v: %s", err, c.body)
			}
			return c, e
		case <-time.After(2 * time.Minute):
			t.Fatal("no webhook comes")
		}
		panic("unreachable")
	}
	seen := map[string]bool{}
	var decide string
	for range 2 { // one of the two comes after a pause, because its first attempt was refused
		c, e := next()
		seen[c.path] = true
		decide = e.Decide
		if e.Type != task.EventApprovalRequested || e.Approval.Task != id || len(e.Approval.Calls) != 1 ||
			bytes.Contains(c.body, []byte(address)) || !bytes.Contains(e.Approval.Calls[0].Args, []byte(`"pii_1e@d1.pii.invalid"`)) {
			t.Errorf("%s got %s", c.path, c.body)
		}
	}
	if !seen["/all"] || !seen["/task"] {
		t.Errorf("told are %v", seen)
	}
	w.do("POST", decide, map[string]any{"decision": "approve"}).want(http.StatusOK)
	if c, e := next(); c.path != "/task" || e.Type != task.EventEnded || !bytes.Contains(c.body, []byte(`"output":"to `+address+`"`)) {
		t.Errorf("%s got %s", c.path, c.body)
	}

	// A run that belongs to no task.
	var out run.Outcome
	w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": program}).want(http.StatusOK).json(&out)
	c, e := next()
	if c.path != "/all" || e.Approval.ID != out.Approval.ID || bytes.Contains(c.body, []byte(address)) {
		t.Errorf("%s got %s", c.path, c.body)
	}
	w.do("POST", e.Decide, map[string]any{"decision": "deny"}).want(http.StatusOK)
	w.ended(out.RunID)
}

// A callback contains values only if server.webhooks.values is set and the caller of the task acts for its user.
func TestCallbackValues(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
	}))
	defer receiver.Close()
	const address = "ann.lee@example.com"
	for _, c := range []struct {
		values, admin, shown bool
	}{{true, false, true}, {true, true, false}, {false, false, false}} {
		w := setup(t, setting{keys: true, flags: map[string]string{"server.webhooks.values": fmt.Sprint(c.values)}})
		key := w.key("ann")
		if c.admin {
			key = w.key("root", auth.Admin)
		}
		body := map[string]any{"userId": "ann", "task": "SAY<<to " + address + ">>", "callbackUrl": receiver.URL, "context": map[string]any{"of": address}}
		w.as(key, "POST", "/v1/tasks", body).want(http.StatusAccepted)
		if got := <-bodies; strings.Contains(got, address) != c.shown || strings.Contains(got, "pii_1e@d1.pii.invalid") == c.shown {
			t.Errorf("values %t, admin %t: %s", c.values, c.admin, got)
		}
	}
}
