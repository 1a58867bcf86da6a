package wiring_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/wiring"
)

// TestWebhookValues: if the configuration allows values, the callback of a user's own task contains them. The store contains none while the callback waits to
// be tried again.
func TestWebhookValues(t *testing.T) {
	t.Parallel()
	const token = "pii_1e@d1.pii.invalid"
	models := fake.Serve(func(fake.Request) fake.Reply { return fake.Reply{Text: "Wrote to " + token + "."} })
	t.Cleanup(models.Close)
	for _, c := range []struct{ values, reveal, shown bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		bodies := make(chan string, 100)
		hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies <- string(body)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		t.Cleanup(hook.Close)
		dir := t.TempDir()
		flags := map[string]string{"server.webhooks.allowPrivate": "true"}
		if c.values {
			flags["server.webhooks.values"] = "true"
		}
		f := openIn(t, dir, flags, wiring.Outside{})
		f.useModel(models)
		s, stop := f.work(context.Background(), wiring.TaskOptions{})
		if _, _, err := s.Submit(t.Context(), task.Request{UserID: "ann", Task: "Write to " + value, Callback: hook.URL, Reveal: c.reveal}); err != nil {
			t.Fatal(err)
		}
		body := <-bodies
		if strings.Contains(body, value) != c.shown || strings.Contains(body, token) == c.shown {
			t.Errorf("%+v: the receiver got %s", c, body)
		}
		stop()
		store, err := f.Store()
		if err != nil {
			t.Fatal(err)
		}
		left, _, err := store.TakeWebhooks(t.Context(), task.WebhookQuery{Now: time.Now().Add(time.Hour), Until: time.Now().Add(time.Hour), Limit: 9, Each: 9})
		if err != nil || len(left) != 1 {
			t.Errorf("%d webhooks wait, %v", len(left), err)
		}
		places := map[string][]byte{}
		files(t, dir, places)
		for place, text := range places {
			if strings.Contains(string(text), value) {
				t.Errorf("%+v: %s has the value", c, place)
			}
		}
	}
}

// TestApprovalWebhookAddress: the address in approvals.webhook is checked like that of a callback before anything starts.
func TestApprovalWebhookAddress(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"https://example.com/hook": true, "http://127.0.0.1/": false, "http://localhost:1/": false, "https://u:p@example.com/": false, "example.com": false,
	} {
		dir := t.TempDir()
		cfg, _, err := config.Load(config.Env{Flags: map[string]string{"approvals.webhook": address}, Cwd: dir, HomeDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		h, err := wiring.Open(t.Context(), cfg, wiring.Outside{CacheDir: dir})
		if (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "approvals.webhook: ") {
			t.Errorf("%s: %v", address, err)
		}
		if h != nil {
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
