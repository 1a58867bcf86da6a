package cli_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogFileAndReports checks that the log of a server is in its file, that a full file is compressed and a new one begins, and that errors are reported to a
// server that speaks Sentry's protocol.
func TestLogFileAndReports(t *testing.T) {
	t.Parallel()
	f := setup(t)
	reports := make(chan string, 100)
	sentry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case reports <- string(body):
		default:
		}
		_, _ = io.WriteString(w, `{"note": "a fake Sentry"}`)
	}))
	t.Cleanup(sentry.Close)
	f.environ = append(f.environ, "SENTRY="+strings.Replace(sentry.URL, "http://", "http://key@", 1)+"/1")
	f.write("harness.yaml", `
log: {file: logs/harness.log, maxSize: 1MiB, maxFiles: 2, level: info}
telemetry: {sentryDsn: "${SENTRY}"}
server: {rateLimit: {enabled: false}}
`)
	// The log is nearly full, so that a few lines fill it.
	f.write("logs/harness.log", strings.Repeat(strings.Repeat("x", 1023)+"\n", 1023))
	server := f.serve()
	token := strings.TrimSpace(f.run("token").want(0).stdout)
	full := func() (names []string) {
		names, _ = filepath.Glob(filepath.Join(f.dir, "logs", "harness.log-*.gz"))
		return names
	}
	eventually(t, "a full log is compressed", func() bool {
		server.do("POST", "/v1/runs", `{"userId":"ann","code":"return 1"}`, "Authorization", "Bearer "+token)
		return len(full()) > 0
	})
	// An audit log that cannot be written is an error.
	if err := os.Remove(filepath.Join(f.dir, "data", "audit.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.dir, "data", "audit.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	server.do("POST", "/v1/runs", `{"userId":"ann","code":"return 1"}`, "Authorization", "Bearer "+token)
	server.stop()
	if report := <-reports; !strings.Contains(report, `"level":"error"`) || !strings.Contains(report, "audit") {
		t.Errorf("report %s", report)
	}
	if text := server.log.String(); strings.Contains(text, "code_execution") || !strings.Contains(text, "listening on") {
		t.Errorf("standard error has %s", text)
	}
	if text := f.read("logs/harness.log"); !strings.Contains(text, "audit") {
		t.Errorf("the log has %s", text)
	}
	packed, err := os.Open(full()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	if old, err := io.ReadAll(z); err != nil || len(old) < 1<<20-4096 || len(old) > 1<<20 {
		t.Errorf("the full log has %d bytes, %v", len(old), err)
	}
	if r := f.run("config", "show").want(0); strings.Contains(r.stdout, "key@") {
		t.Errorf("the DSN is shown: %s", r.stdout)
	}
	f.environ = append(f.environ, "SENTRY=nonsense")
	if r := f.run("serve", "--listen", "127.0.0.1:0").want(2); !strings.Contains(r.stderr, "telemetry.sentryDsn") {
		t.Errorf("a bad DSN: %s", r.stderr)
	}
}
