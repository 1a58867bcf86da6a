package model_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

// TestPromptCache: requests to Anthropic mark two places for its cache: the system prompt, which comes after the tools, and the last message.
func TestPromptCache(t *testing.T) {
	t.Parallel()
	srv := serve(t, fake.Replies(script...))
	play(t, open(t, srv, providers[0].cfg))
	for i, r := range srv.Requests() {
		var body struct {
			System   []map[string]json.RawMessage
			Messages []struct {
				Content []map[string]json.RawMessage
			}
		}
		decode(t, string(r.Raw), &body)
		last := body.Messages[len(body.Messages)-1].Content
		if body.System[0]["cache_control"] == nil || last[len(last)-1]["cache_control"] == nil {
			t.Errorf("request %d does not cache: %s", i, r.Raw)
		}
		if n := strings.Count(string(r.Raw), "cache_control"); n != 2 {
			t.Errorf("request %d has %d marks, want 2", i, n)
		}
	}
	srv = serve(t, fake.Replies(fake.Reply{Text: "ok"}))
	req := ask(user("Hi."))
	req.System = ""
	generate(t, open(t, srv, providers[0].cfg), req)
	var body struct {
		Tools []map[string]json.RawMessage
	}
	decode(t, string(srv.Requests()[0].Raw), &body)
	if body.Tools[0]["cache_control"] != nil || body.Tools[1]["cache_control"] == nil {
		t.Errorf("without a system prompt the tools are not cached: %s", srv.Requests()[0].Raw)
	}
}

// TestMaxTokens: requests contain the configured limit, or the default of the provider if no limit is configured.
func TestMaxTokens(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		for _, configured := range []int{7, 0} {
			want := configured
			if want == 0 && p.cfg.Provider == model.Anthropic {
				want = 32000
			}
			cfg := p.cfg
			cfg.MaxTokens = configured
			srv := serve(t, fake.Replies(fake.Reply{Text: "ok"}))
			req := ask(user("Hi."))
			generate(t, open(t, srv, cfg), req)
			if got := srv.Requests()[0].MaxTokens; got != want {
				t.Errorf("%d: the server was told %d", configured, got)
			}
		}
	})
}
