package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/audit"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	a := NewAuditor(NewLogger(LogOptions{Writer: &b, JSON: true}), AuditFile{})
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

// TestAuditLevel checks that events below the level of the log are left out.
func TestAuditLevel(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	a := NewAuditor(NewLogger(LogOptions{Writer: &b, JSON: true, Level: slog.LevelWarn}), AuditFile{})
	for _, severity := range []Severity{Low, Medium} {
		a.Audit(t.Context(), Event{Type: ToolCall, Severity: severity})
	}
	if lines := jsonLines(t, &b); len(lines) != 1 || lines[0]["level"] != "WARN" {
		t.Errorf("the log has %v", lines)
	}
}

// TestAuditKeepsContentsOut checks that details that may contain arguments or texts are not written.
func TestAuditKeepsContentsOut(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	a := NewAuditor(NewLogger(LogOptions{Writer: &b, JSON: true}), AuditFile{})
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

// TestAuditFile checks that the file has the same events as the log, and that neither has mail addresses.
func TestAuditFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	file, err := audit.Open(audit.Options{Path: path, MaxSize: 1 << 20, MaxFiles: 2, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	const phone = "+49 30 1234567"
	redact := func(text string) string { return strings.ReplaceAll(text, phone, "[PHONE]") }
	a := NewAuditor(NewLogger(LogOptions{Writer: &b, JSON: true, Redact: redact}), AuditFile{Log: file, Redact: redact})
	a.Audit(WithIDs(t.Context(), "task_1", "run_1"), Event{
		Time: time.Date(2026, 11, 20, 14, 3, 5, 0, time.UTC), UserID: "ann@example.com", SessionID: "of " + phone, Type: ToolCall, Severity: Low,
		Details: map[string]any{"principal": "oidc:ann@example.com", "names": []string{phone, "ann@example.com"}, "phone": phone, "calls": 3, "package": "@scope/name"},
	})
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const ann = "sha256-71d4f55f72fa128d"
	want := `{"timestamp":"2026-11-20T14:03:05Z","userId":"` + ann + `","sessionId":"of [PHONE]","eventType":"tool_call","severity":"low",` +
		`"task":"task_1","run":"run_1","details":{"calls":3,"names":["[PHONE]","` + ann + `"],"package":"@scope/name","phone":"[PHONE]","principal":"oidc:` + ann + `"},"seq":1,`
	if !strings.HasPrefix(string(text), want) {
		t.Errorf("the file has\n%s\nwant\n%s", text, want)
	}
	if strings.Contains(b.String(), "ann@") || strings.Contains(b.String(), phone) || strings.Contains(string(text), phone) || !strings.Contains(b.String(), ann) {
		t.Errorf("the log has %s", b.String())
	}
}

// TestAuditFileFails checks that a file that cannot be written is reported once. Ready returns an error until the file can be written again.
func TestAuditFileFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	file, err := audit.Open(audit.Options{Path: filepath.Join(dir, "audit.jsonl"), MaxSize: 1 << 20, MaxFiles: 2, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	report := NewLogger(LogOptions{Writer: &b, JSON: true})
	required, optional := NewAuditor(nil, AuditFile{Log: file, Required: true, Report: report}), NewAuditor(nil, AuditFile{Log: file, Report: report})
	ready := func(want bool) {
		t.Helper()
		if err := required.Ready(); (err == nil) != want {
			t.Error(err)
		}
		if err := optional.Ready(); err != nil {
			t.Error(err)
		}
	}
	ready(true)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		required.Audit(t.Context(), Event{Type: ToolCall})
	}
	ready(false)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ready(true)
	required.Audit(t.Context(), Event{Type: ToolCall})
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	lines := jsonLines(t, &b)
	if len(lines) != 2 || lines[0]["level"] != "ERROR" || lines[1]["msg"] != "audit events are written again" {
		t.Errorf("the log has %v", lines)
	}
}
