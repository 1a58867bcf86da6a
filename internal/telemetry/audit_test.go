package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	a := NewAuditor(NewLogger(LogOptions{Writer: &b, JSON: true}))
	at := time.Date(2026, 11, 20, 14, 3, 5, 0, time.UTC)
	a.Audit(WithIDs(t.Context(), "task_1", "run_1"), Event{
		Time: at, UserID: "alice", SessionID: "sess_1", Type: CodeExecution, Severity: Low,
		Details: map[string]any{"calls": 3, "status": "succeeded", "tools": []string{"crm__search"}, "took": time.Second, "recorded": false},
	})
	a.Audit(t.Context(), Event{Time: at, Type: AuthFailure, Severity: Medium})
	want := []map[string]any{
		{
			"time": "2026-11-20T14:03:05Z", "level": "INFO", "msg": "audit", "task": "task_1", "run": "run_1",
			"audit": map[string]any{
				"eventType": "code_execution", "severity": "low", "userId": "alice", "sessionId": "sess_1",
				"details": map[string]any{"calls": 3.0, "status": "succeeded", "tools": []any{"crm__search"}, "took": 1e9, "recorded": false},
			},
		},
		{"time": "2026-11-20T14:03:05Z", "level": "WARN", "msg": "audit", "audit": map[string]any{"eventType": "auth_failure", "severity": "medium"}},
	}
	if diff := cmp.Diff(want, jsonLines(t, &b)); diff != "" {
		t.Error(diff)
	}
}

// Events below the log's level are left out.
func TestAuditLevel(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	a := NewAuditor(NewLogger(LogOptions{Writer: &b, JSON: true, Level: slog.LevelWarn}))
	for _, severity := range []Severity{Low, Medium} {
		a.Audit(t.Context(), Event{Type: ToolCall, Severity: severity})
	}
	if lines := jsonLines(t, &b); len(lines) != 1 || lines[0]["level"] != "WARN" {
		t.Errorf("the log has %v", lines)
	}
}

// What could hold an argument or a text is not written, even if somebody puts it there.
func TestAuditKeepsContentsOut(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	a := NewAuditor(NewLogger(LogOptions{Writer: &b, JSON: true}))
	details := map[string]any{
		"args": map[string]any{"q": "CONTENT"}, "raw": json.RawMessage(`"CONTENT"`), "bytes": []byte("CONTENT"),
		"error": errors.New("CONTENT"), "list": []any{"CONTENT"}, "struct": address{"CONTENT"},
		"long":    strings.Repeat("é", maxDetail) + "CONTENT",
		"entries": append(make([]string, maxDetails), "CONTENT"),
	}
	for i := range 2 * maxDetails {
		details[fmt.Sprintf("x%03d", i)] = i
	}
	a.Audit(t.Context(), Event{UserID: strings.Repeat("u", 1000) + "CONTENT", Type: ToolCall, Severity: Low, Details: details})
	if strings.Contains(b.String(), "CONTENT") || !utf8.ValidString(b.String()) {
		t.Errorf("the log has %s", b.String())
	}
	got := jsonLines(t, &b)[0]["audit"].(map[string]any)["details"].(map[string]any)
	if len(got) != maxDetails || got["args"] != "map[string]interface {}" {
		t.Errorf("%d details, args are %v", len(got), got["args"])
	}
}

func TestNilAuditor(t *testing.T) {
	t.Parallel()
	var a *Auditor
	a.Audit(t.Context(), Event{Type: ToolCall})
}
