package api_test

import (
	"net/http"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
)

// Admins list keys in pages and revoke them, and the audit log names the revocation. Values and hashes of keys are not shown.
func TestKeys(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	admin, user := w.key("", auth.Admin), w.key("ann")
	w.as(user, "GET", "/v1/keys", nil).want(http.StatusForbidden)
	w.as(user, "DELETE", "/v1/keys/key_none", nil).want(http.StatusForbidden)
	var seen []auth.Key
	for path := "/v1/keys?limit=2"; path != ""; {
		var page api.KeyList
		r := w.as(admin, "GET", path, nil).want(http.StatusOK)
		r.json(&page)
		if strings.Contains(r.body, "hk_") || strings.Contains(strings.ToLower(r.body), "hash") {
			t.Errorf("the page has values: %s", r.body)
		}
		if seen = append(seen, page.Keys...); page.Next == "" {
			break
		}
		path = "/v1/keys?limit=2&cursor=" + page.Next
	}
	if len(seen) != 3 || seen[0].User != "ann" {
		t.Fatalf("listed: %+v", seen)
	}
	w.as(admin, "GET", "/v1/keys?cursor=key_none", nil).want(http.StatusBadRequest)
	w.as(admin, "DELETE", "/v1/keys/key_none", nil).want(http.StatusNotFound)
	w.as(admin, "DELETE", "/v1/keys/"+seen[0].ID, nil).want(http.StatusNoContent)
	w.as(user, "GET", "/v1/runs", nil).want(http.StatusUnauthorized)
	if text := w.log.String(); !strings.Contains(text, "key_change") || !strings.Contains(text, seen[0].ID) {
		t.Errorf("the audit log has: %s", text)
	}
}
