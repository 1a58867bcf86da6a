package wiring_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/audit"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/wiring"
)

// TestAuditRequired: with audit.required, no tool is called while events cannot be written to the audit file.
func TestAuditRequired(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "audit")
	path := filepath.Join(dir, "audit.jsonl")
	file, err := audit.Open(audit.Options{Path: path, MaxSize: 1 << 20, MaxFiles: 2, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	up := newUpstream(t, "up")
	auditor := telemetry.NewAuditor(nil, telemetry.AuditFile{Log: file, Required: true, Report: slog.New(slog.NewTextHandler(io.Discard, nil))})
	f := openIn(t, t.TempDir(), nil, wiring.Outside{Audit: auditor}, up.entry)
	call := func() string {
		t.Helper()
		out, err := f.Runs().Execute(t.Context(), code(`
			try { await callMCPTool('up__send', {n: 1}); return 'called' }
			catch (e) { return e.message }`))
		if err != nil {
			t.Fatal(err)
		}
		return decoded[string](t, out)
	}
	if got := call(); got != "called" {
		t.Error(got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_ = call() // The event of this call is the first that is lost.
	sent := len(up.sent())
	if got := call(); !strings.Contains(got, "audit.required") || len(up.sent()) != sent {
		t.Errorf("%s, and %d calls", got, len(up.sent())-sent)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := call(); got != "called" || len(up.sent()) != sent+1 {
		t.Errorf("%s, and %d calls", got, len(up.sent())-sent)
	}
}
