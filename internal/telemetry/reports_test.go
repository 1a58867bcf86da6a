package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeSentry stands for a server of Sentry, and says so in its answers. It keeps the events in the envelopes that it receives. An envelope has a line of JSON
// for itself and, for each item, a line with the header and a line with the payload.
type fakeSentry struct {
	*httptest.Server
	mu     sync.Mutex
	events []map[string]any
	raw    bytes.Buffer
}

func newFakeSentry(t *testing.T) *fakeSentry {
	t.Helper()
	f := &fakeSentry{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "a fake Sentry")
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/api/42/envelope/" || !strings.Contains(r.Header.Get("X-Sentry-Auth"), "sentry_key=public") {
			t.Errorf("%s %s, %q, %v", r.Method, r.URL, r.Header.Get("X-Sentry-Auth"), err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.raw.Write(body)
		for _, k := range []string{"User-Agent", "X-Sentry-Auth"} {
			f.raw.WriteString(r.Header.Get(k))
		}
		lines := strings.Split(string(body), "\n")
		for i := 1; i+1 < len(lines); i += 2 {
			var header struct{ Type string }
			var event map[string]any
			if json.Unmarshal([]byte(lines[i]), &header) == nil && header.Type == "event" && json.Unmarshal([]byte(lines[i+1]), &event) == nil {
				f.events = append(f.events, event)
			}
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeSentry) dsn() string {
	return strings.Replace(f.URL, "http://", "http://public@", 1) + "/42"
}

func (f *fakeSentry) all() []map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events
}

// TestReports checks that a report has the content of the log line, redacted in the same way, and no information about the machine.
func TestReports(t *testing.T) {
	t.Parallel()
	f := newFakeSentry(t)
	r, err := NewReporter(ReportOptions{DSN: f.dsn(), Version: "v1.2.3", Redact: hide, Client: f.Client()})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	log := NewLogger(LogOptions{Writer: &text, Level: slog.LevelError, Redact: hide, Report: r}).With("server", "crm")
	ctx := WithIDs(t.Context(), "task_1", "run_1")
	log.WarnContext(ctx, "no error")
	log.ErrorContext(ctx, "call alice@example.com", "error", errors.New("ask alice@example.com of alice@example.com"), "n", 3, slog.Group("more", "deep", "alice@example.com", "list", []string{"alice@example.com"}))
	log.WithGroup("g").Error("another", "k", "v")
	flush, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.Close(flush)
	all := f.all()
	if len(all) != 2 {
		t.Fatalf("%d reports: %v", len(all), all)
	}
	first := all[0]
	details := first["contexts"].(map[string]any)["details"].(map[string]any)
	tags := first["tags"].(map[string]any)
	if first["message"] != "call [EMAIL_1]" || first["level"] != "error" || first["release"] != "mcp-code-exec-harness@v1.2.3" || tags["task"] != "task_1" || tags["run"] != "run_1" {
		t.Errorf("report %v", first)
	}
	if details["server"] != "crm" || details["error"] != "ask [EMAIL_1] of [EMAIL_1]" || details["n"] != "3" || details["more.deep"] != "[EMAIL_1]" {
		t.Errorf("details %v", details)
	}
	second := all[1]["contexts"].(map[string]any)["details"].(map[string]any)
	if second["g.k"] != "v" || second["server"] != "crm" {
		t.Errorf("details of the second: %v", second)
	}
	name, _ := os.Hostname()
	for _, private := range []string{"alice@example.com", name, "GOPATH", "user.home"} {
		if private != "" && strings.Contains(f.raw.String(), private) {
			t.Errorf("%q was sent: %s", private, f.raw.String())
		}
	}
	if got := text.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "alice@example.com") {
		t.Errorf("the log has %s", got)
	}
}

// TestManyReports checks that a repeated error is reported a limited number of times, that the missed ones are counted, and that logging never waits for a
// report.
func TestManyReports(t *testing.T) {
	t.Parallel()
	f := newFakeSentry(t)
	r, err := NewReporter(ReportOptions{DSN: f.dsn(), Client: f.Client()})
	if err != nil {
		t.Fatal(err)
	}
	log := NewLogger(LogOptions{Writer: io.Discard, Report: r})
	for range 1000 {
		log.Error("again")
	}
	flush, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.Close(flush)
	if n := len(f.all()); n == 0 || n > reportsFirst+5 {
		t.Errorf("%d reports", n)
	}
	if r.missed.Load() < 900 {
		t.Errorf("%d were counted", r.missed.Load())
	}
}

func TestBadDSN(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"x", "https://errors.example.com/1", "ftp://key@h/1", "https://secretkey@h/"} {
		if r, err := NewReporter(ReportOptions{DSN: dsn}); err == nil || r != nil || strings.Contains(err.Error(), "secretkey") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	if r, err := NewReporter(ReportOptions{}); r != nil || err != nil {
		t.Errorf("without one: %v, %v", r, err)
	}
}
