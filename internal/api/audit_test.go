package api_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/audit"
	"mcp-code-exec-harness/internal/auth"
)

// An admin reads the audit log in pages and verifies it. The verification finds a changed line, and the server remembers its result.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	file := api.AuditFile{Path: filepath.Join(t.TempDir(), "audit.jsonl"), Key: "secret"}
	w := setup(t, setting{keys: true, options: func(o *api.Options) { o.AuditFile = file }})
	key, user := w.key("", auth.Admin), w.key("alice", auth.User, auth.Approver)
	w.as(key, "POST", "/v1/audit/verification", nil).want(http.StatusNotFound)
	log, err := audit.Open(audit.Options{Path: file.Path, Key: file.Key, MaxSize: 1 << 20, MaxFiles: 2, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := log.Append(audit.Event{Type: []string{"tool_call", "key_change"}[i%2], User: fmt.Sprint("user-", i), Time: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	var page, next api.AuditPage
	w.as(key, "GET", "/v1/audit?limit=3", nil).want(http.StatusOK).json(&page)
	w.as(key, "GET", "/v1/audit?limit=3&cursor="+page.Next, nil).want(http.StatusOK).json(&next)
	if len(page.Entries) != 3 || page.Entries[0].User != "user-4" || page.Seq != 5 || page.Hash == "" || page.Verified != nil || len(next.Entries) != 2 || next.Entries[1].Seq != 1 || next.Next != "" {
		t.Errorf("two pages: %+v, %+v", page, next)
	}
	for query, want := range map[string]int{"eventType=key_change": 2, "userId=user-3": 1, "userId=nobody": 0} {
		if w.as(key, "GET", "/v1/audit?"+query, nil).want(http.StatusOK).json(&page); len(page.Entries) != want {
			t.Errorf("%s: %+v", query, page)
		}
	}
	w.as(key, "GET", "/v1/audit?cursor=x", nil).want(http.StatusBadRequest)
	w.as(user, "GET", "/v1/audit", nil).want(http.StatusForbidden)
	w.as(user, "POST", "/v1/audit/verification", nil).want(http.StatusForbidden)

	var got api.AuditVerification
	if w.as(key, "POST", "/v1/audit/verification", nil).want(http.StatusOK).json(&got); !got.Whole || got.Report.Lines != 5 || !strings.Contains(got.Summary, "is whole: 5 lines in 1 files") {
		t.Errorf("a whole log: %+v", got)
	}
	text, err := os.ReadFile(file.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file.Path, []byte(strings.Replace(string(text), "user-2", "user-0", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if w.as(key, "POST", "/v1/audit/verification", nil).want(http.StatusOK).json(&got); got.Whole || got.Report.Line != 3 || !strings.Contains(got.Summary, "audit.jsonl:3: it was changed") {
		t.Errorf("a changed log: %+v", got)
	}
	if w.as(key, "GET", "/v1/audit", nil).want(http.StatusOK).json(&page); page.Verified == nil || page.Verified.Whole || page.Verified.Summary != got.Summary {
		t.Errorf("the last verification: %+v", page.Verified)
	}
}

// Without a file there is no audit log to read.
func TestNoAuditLog(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	w.do("GET", "/v1/audit", nil).want(http.StatusNotFound)
	w.do("POST", "/v1/audit/verification", nil).want(http.StatusNotFound)
}
