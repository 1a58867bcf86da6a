package api_test

import (
	"net/http"
	"testing"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
)

// A held definition is not offered over HTTP until an admin has approved it.
func TestReview(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, flags: map[string]string{"quarantine": "new"}, servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	admin := w.key("", auth.Admin)
	w.as(admin, "GET", "/v1/tools", nil).want(http.StatusOK)
	w.as(admin, "GET", "/v1/tools/bad__echo", nil).want(http.StatusConflict)
	var review api.Review
	w.as(admin, "GET", "/v1/servers/bad/review", nil).want(http.StatusOK).json(&review)
	hash, all := "", len(review.Held)
	for _, h := range review.Held {
		if h.Seen.Tool == "echo" {
			hash = h.Hash
		}
	}
	approve := func(tool, hash string) *reply {
		return w.as(admin, "POST", "/v1/servers/bad/review", map[string]any{"approve": []map[string]string{{"tool": tool, "hash": hash}}})
	}
	if hash == "" || all < 2 {
		t.Fatalf("the review is %+v", review)
	}
	approve("echo", "0"+hash[1:]).want(http.StatusConflict)
	approve("none", hash).want(http.StatusConflict)
	approve("echo", hash).want(http.StatusOK).json(&review)
	if len(review.Held) != all-1 {
		t.Errorf("%d of %d are held after one was approved", len(review.Held), all)
	}
	approve("echo", hash).want(http.StatusConflict)
	w.as(admin, "GET", "/v1/tools/bad__echo", nil).want(http.StatusOK)
	w.as(admin, "GET", "/v1/tools/bad__exit", nil).want(http.StatusConflict)
	w.as(admin, "GET", "/v1/servers/none/review", nil).want(http.StatusNotFound)
	w.as(admin, "POST", "/v1/servers/bad/review", map[string]any{"approve": []string{}}).want(http.StatusBadRequest)
}
