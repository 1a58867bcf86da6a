package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// waits is a program that waits for the file /workspace/go and returns its content.
const waits = `for (;;) {
	try { return await fs.readFile('/workspace/go') } catch { await utils.sleep(5) }
}`

// A run counts as a use of its session when it begins and when it ends.
func TestRunUsesSession(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	w.do("POST", "/v1/sessions", map[string]string{"userId": "alice", "id": "s"}).want(http.StatusCreated)
	get := func() (s task.Session) {
		t.Helper()
		w.do("GET", "/v1/sessions/s?userId=alice", nil).want(http.StatusOK).json(&s)
		return s
	}
	before := get()
	w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "sessionId": "s", "code": "return 1"}).want(http.StatusOK)
	after := get()
	lasts := before.ExpiresAt.Sub(before.UsedAt)
	if !after.UsedAt.After(before.UsedAt) || after.ExpiresAt.Sub(after.UsedAt) != lasts {
		t.Errorf("used %s, until %s; before the run %s, until %s", after.UsedAt, after.ExpiresAt, before.UsedAt, before.ExpiresAt)
	}
	other := time.Now() // the end of alice's run may still be recorded, with its earlier time
	w.do("POST", "/v1/runs", map[string]string{"userId": "bob", "sessionId": "s", "code": "return 1"}).want(http.StatusOK)
	if now := get(); now.UsedAt.After(other) {
		t.Error("a run in another user's session of the same id is a use")
	}
	w.do("GET", "/v1/sessions/s", nil).want(http.StatusBadRequest) // two users have a session with this id, and the request names no user
}

// A session in which a run is in progress is not deleted and loses no file. The run continues in it.
func TestDeleteSessionUnderRun(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	run := func(code string) string {
		return w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "sessionId": "s", "code": code}).want(http.StatusOK).body
	}
	run("await fs.writeFile('/workspace/kept', 'all here')")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if r := w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "sessionId": "s", "code": waits}); !strings.Contains(r.body, `"output":"now"`) {
			t.Errorf("the run under way: %d %s", r.status, r.body)
		}
	}()
	w.eventually("it is under way", func() bool {
		return strings.Contains(w.do("GET", "/v1/runs?sessionId=s&status=running", nil).want(http.StatusOK).body, `"runId"`)
	})
	w.do("DELETE", "/v1/sessions/s", nil).want(http.StatusConflict)
	if got := run("return await fs.readFile('/workspace/kept')"); !strings.Contains(got, "all here") {
		t.Errorf("its file is %s", got)
	}
	run("await fs.writeFile('/workspace/go', 'now')")
	<-ended
	w.do("DELETE", "/v1/sessions/s", nil).want(http.StatusNoContent)
	if runs := w.do("GET", "/v1/runs", nil).want(http.StatusOK).body; strings.Contains(runs, `"runId"`) {
		t.Errorf("its runs are left: %s", runs)
	}
	if got := run("return await fs.exists('/workspace/kept')"); !strings.Contains(got, `"output":false`) {
		t.Errorf("a new session of its id has its file: %s", got)
	}
}

// A request can lower the time limit of its run below the configured one, but not raise it.
func TestRunTimeoutIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{flags: map[string]string{"sandbox.timeout": "10s"}})
	for _, c := range []struct {
		timeout any
		status  int
	}{
		{"10s", http.StatusOK},
		{10_000, http.StatusOK},
		{0, http.StatusOK},
		{"1s", http.StatusOK},
		{"10.001s", http.StatusBadRequest},
		{10_001, http.StatusBadRequest},
		{"9m", http.StatusBadRequest},
	} {
		r := w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": "return 1", "timeout": c.timeout}).want(c.status)
		if c.status != http.StatusOK && !strings.Contains(r.body, "sandbox.timeout, which is 10s") {
			t.Errorf("%v: it does not name the bound: %s", c.timeout, r.body)
		}
	}
	var stopped run.Outcome
	w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": "for (;;) {}", "timeout": "100ms"}).want(http.StatusOK).json(&stopped)
	if stopped.Error == nil || stopped.Error.Kind != "timeout" || !strings.Contains(stopped.Error.Message, "more than 100ms") {
		t.Errorf("got %+v", stopped)
	}
}
