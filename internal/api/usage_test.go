package api_test

import (
	"net/http"
	"testing"

	"mcp-code-exec-harness/internal/usage"
)

// A user sees only their own usage. A caller who may act for all users sees the usage of all users together, and of each.
func TestUsage(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, bob, anyone := w.key("alice"), w.key("bob"), w.key("")
	for range 2 {
		w.as(alice, "POST", "/v1/runs", map[string]string{"code": "return 1"}).want(http.StatusOK)
	}
	w.as(bob, "POST", "/v1/runs", map[string]string{"code": "throw new Error('no')"}).want(http.StatusOK)
	for _, c := range []struct {
		key, query   string
		runs, failed int64
		rows         int
	}{
		{alice, "", 2, 0, 0}, {bob, "?by=user", 1, 1, 1}, {anyone, "?by=user", 3, 1, 2}, {anyone, "?by=user&userId=alice", 2, 0, 1}, {anyone, "?since=2000-01-01T00:00:00Z", 3, 1, 0},
	} {
		var got usage.Report
		w.as(c.key, "GET", "/v1/usage"+c.query, nil).want(http.StatusOK).json(&got)
		if got.Total.Runs != c.runs || got.Total.RunsFailed != c.failed || len(got.Rows) != c.rows {
			t.Errorf("%q: %+v", c.query, got)
		}
	}
	w.as(alice, "GET", "/v1/usage?userId=bob", nil).want(http.StatusForbidden)
	w.as(alice, "GET", "/v1/usage?since=yesterday", nil).want(http.StatusBadRequest)
	w.as(alice, "GET", "/v1/usage?by=session", nil).want(http.StatusBadRequest)
}
