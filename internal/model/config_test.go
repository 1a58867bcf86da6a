package model_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

// TestRouting: each configuration leads to the expected address and headers.
func TestRouting(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		var host, path string
		var header http.Header
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, path, header = r.Host, r.URL.Path, r.Header
			w.WriteHeader(http.StatusTeapot)
		}))
		defer srv.Close()
		cfg := p.cfg
		cfg.HTTPClient = &http.Client{Transport: toServer(srv)}
		m, err := model.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Generate(t.Context(), ask(user("Hi."))); kindOf(err) != model.KindInvalidRequest {
			t.Errorf("error %v", err)
		}
		if host != p.host || path != p.path || header.Get(p.auth) != p.authValue {
			t.Errorf("request to %s%s with %s: %q, want %s%s with %q", host, path, p.auth, header.Get(p.auth), p.host, p.path, p.authValue)
		}
		for _, other := range []string{"X-Api-Key", "Authorization", "Api-Key"} {
			if other != p.auth && header.Get(other) != "" {
				t.Errorf("%s is set too", other)
			}
		}
	})
}

// toServer returns a transport that sends the requests for any host to one server.
func toServer(srv *httptest.Server) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		to := r.Clone(r.Context())
		to.Host, to.URL.Scheme, to.URL.Host = r.URL.Host, "http", srv.Listener.Addr().String()
		return srv.Client().Transport.RoundTrip(to)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestEnvironmentIsIgnored sets every environment variable that the providers' libraries read.
func TestEnvironmentIsIgnored(t *testing.T) {
	for _, name := range []string{
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID",
		"AZURE_OPENAI_API_KEY", "GOOGLE_API_KEY",
	} {
		t.Setenv(name, "from-the-environment")
	}
	for _, name := range []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"} {
		t.Setenv(name, "http://from-the-environment.invalid")
	}
	for _, name := range []string{"ANTHROPIC_CUSTOM_HEADERS", "OPENAI_CUSTOM_HEADERS"} {
		t.Setenv(name, "X-Custom: from-the-environment")
	}
	t.Setenv("ANTHROPIC_CONFIG_DIR", t.TempDir())
	for _, p := range providers {
		srv := serve(t, fake.Replies(fake.Reply{Text: "ok"}))
		if p.name == "gateway" {
			p.cfg.BaseURL = "https://gateway.example/v1"
		}
		generate(t, open(t, srv, p.cfg), ask(user("Hi.")))
		r := srv.Requests()[0]
		if text := fmt.Sprint(r.Host, r.Path, r.Header, string(r.Raw)); strings.Contains(text, "from-the-environment") {
			t.Errorf("%s: the environment is in the request: %s", p.name, text)
		}
	}
	if _, err := model.New(model.Config{Provider: model.OpenAI, Name: "m"}); kindOf(err) != model.KindNoKey {
		t.Errorf("a key was taken from the environment: %v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		cfg    model.Config
		kind   model.Kind // empty if the configuration is valid
		remedy string
	}{
		{"nothing", model.Config{}, model.KindInvalidRequest, "set model.provider to anthropic, openai, google, azure or compatible"},
		{"no name", model.Config{Provider: model.Anthropic, APIKey: "k"}, model.KindUnknownModel, "set ANTHROPIC_MODEL or model.name"},
		{"anthropic without key", model.Config{Provider: model.Anthropic, Name: "m"}, model.KindNoKey, "set ANTHROPIC_API_KEY or model.apiKey"},
		{"openai without key", model.Config{Provider: model.OpenAI, Name: "m"}, model.KindNoKey, "set OPENAI_API_KEY or model.apiKey"},
		{"openai's own address without key", model.Config{Provider: model.OpenAI, Name: "m", BaseURL: "https://API.openai.com/v1/"}, model.KindNoKey, "set OPENAI_API_KEY or model.apiKey"},
		{"google without key", model.Config{Provider: model.Google, Name: "m"}, model.KindNoKey, "set GOOGLE_API_KEY or model.apiKey"},
		{"azure without key", model.Config{Provider: model.Azure, Name: "m", BaseURL: "https://x.openai.azure.com"}, model.KindNoKey, "set AZURE_OPENAI_API_KEY or model.apiKey"},
		{"azure without endpoint", model.Config{Provider: model.Azure, Name: "m", APIKey: "k"}, model.KindInvalidRequest, "set AZURE_OPENAI_ENDPOINT or model.baseUrl"},
		{"azure without deployment", model.Config{Provider: model.Azure, APIKey: "k", BaseURL: "https://x.openai.azure.com"}, model.KindUnknownModel, "set AZURE_OPENAI_DEPLOYMENT or model.deployment"},
		{"compatible without address", model.Config{Provider: model.Compatible, Name: "m"}, model.KindInvalidRequest, "set model.baseUrl"},
		{"no URL", model.Config{Provider: model.Compatible, Name: "m", BaseURL: "localhost:11434"}, model.KindInvalidRequest, "set model.baseUrl"},
		{"bad way for tools", model.Config{Provider: model.Anthropic, Name: "m", APIKey: "k", Tools: "sometimes"}, model.KindInvalidRequest, "set model.tools to auto, native or fenced"},
		{"a local server needs no key", model.Config{Provider: model.Compatible, Name: "m", BaseURL: "http://localhost:11434/v1"}, "", ""},
		{"nor does another server for OpenAI's models", model.Config{Provider: model.OpenAI, Name: "m", BaseURL: "http://localhost:8000/v1"}, "", ""},
	} {
		_, err := model.New(c.cfg)
		if c.kind == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Remedy != c.remedy {
			t.Errorf("%s: %v (%s), want %s and to %q", c.name, err, kindOf(err), c.kind, c.remedy)
		}
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"claude-opus-5-5": 1_000_000, "claude-haiku-4-5-20251001": 200_000, "some-model": 0} {
		m, err := model.New(model.Config{Provider: model.Anthropic, Name: name, APIKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Info(); got != (model.Info{Provider: "anthropic", Name: name, ContextWindow: want, NativeTools: true}) {
			t.Errorf("info %+v", got)
		}
	}
	m, err := model.New(model.Config{Provider: model.Azure, Name: "d", APIKey: "k", BaseURL: "https://x", ContextWindow: 5, Tools: model.ToolsFenced})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Info(); got != (model.Info{Provider: "azure", Name: "d", ContextWindow: 5}) {
		t.Errorf("info %+v", got)
	}
}

// TestKeyStaysSecret: no error shows the key, even if the server's answer or the address contains it.
func TestKeyStaysSecret(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		p.cfg.APIKey = testKey
		for _, reply := range []fake.Reply{
			{Status: 401, Message: "Incorrect API key provided: " + testKey},
			{Status: 500, Message: "trace: " + testKey},
		} {
			srv := serve(t, fake.Replies(reply))
			_, err := open(t, srv, p.cfg).Generate(t.Context(), ask(user("Hi.")))
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), testKey) {
				t.Errorf("error %#v", err)
			}
		}
		cfg := p.cfg
		cfg.BaseURL = "http://user:" + testKey + "@127.0.0.1:1/v1?key=" + testKey
		m, err := model.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Generate(t.Context(), ask(user("Hi.")))
		if kindOf(err) != model.KindUnavailable || strings.Contains(err.Error(), testKey) {
			t.Errorf("error %v", err)
		}
	})
}

// TestWrongServer: the error for a server that is not a model's names the remedy.
func TestWrongServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		var followed bool
		for name, handler := range map[string]http.HandlerFunc{
			"redirect": func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					followed = true
				}
				http.Redirect(w, r, "https://elsewhere.example/elsewhere?token=secret", http.StatusTemporaryRedirect)
			},
			"page": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				w.Write([]byte("<html>Please log in</html>"))
			},
			"page of an error": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(http.StatusBadGateway)
				w.Write([]byte("<html><body>nginx</body></html>"))
			},
			"nothing": func(http.ResponseWriter, *http.Request) {},
		} {
			srv := httptest.NewServer(handler)
			cfg := p.cfg
			cfg.HTTPClient = &http.Client{Transport: toServer(srv)}
			m, err := model.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			_, err = m.Generate(t.Context(), ask(user("Hi.")))
			srv.Close()
			want := map[string][]string{
				"redirect": {string(model.KindInvalidRequest), "redirects to https://elsewhere.example/elsewhere;", "aseUrl"}, "page": {string(model.KindInvalidRequest), "text/html"},
				"page of an error": {string(model.KindUnavailable), "bad gateway"}, "nothing": {string(model.KindCut), "ended before the turn"},
			}[name]
			if err == nil || string(kindOf(err)) != want[0] {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, part := range want[1:] {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %v does not say %q", name, err, part)
				}
			}
		}
		if followed {
			t.Error("a redirect was followed")
		}
	})
}

// TestBaseURLs has addresses as portals and documentation show them.
func TestBaseURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ provider, base, want string }{
		{model.Azure, "https://x.openai.azure.com", "https://x.openai.azure.com/openai/v1/responses"},
		{model.Azure, "https://x.openai.azure.com/openai", "https://x.openai.azure.com/openai/v1/responses"},
		{model.Azure, "https://x.openai.azure.com/openai/v1/", "https://x.openai.azure.com/openai/v1/responses"},
		{model.Azure, "https://x.openai.azure.com/openai/responses?api-version=2025-04-01-preview", "https://x.openai.azure.com/openai/v1/responses"},
		{model.Azure, "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21", "https://x.openai.azure.com/openai/v1/responses"},
		{model.Azure, "https://x.services.ai.azure.com/api/projects/p", "https://x.services.ai.azure.com/openai/v1/responses"},
		{model.Azure, "https://gateway.example/team/openai", "https://gateway.example/team/openai/v1/responses"},
		{model.OpenAI, "", "https://api.openai.com/v1/responses"},
		{model.OpenAI, "https://API.openai.com", "https://api.openai.com/v1/responses"},
		{model.OpenAI, "https://api.openai.com/v1/responses", "https://api.openai.com/v1/responses"},
		{model.OpenAI, "https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1/chat/completions"},
		{model.OpenAI, "https://gateway.example/v1", "https://gateway.example/v1/chat/completions"},
		{model.OpenAI, "https://gateway.example/v1/chat/completions", "https://gateway.example/v1/chat/completions"},
		{model.OpenAI, "https://gateway.example/v1/responses", "https://gateway.example/v1/responses"},
		{model.Compatible, "http://localhost:11434/v1/", "http://localhost:11434/v1/chat/completions"},
		{model.Compatible, "http://localhost:8000/v1/responses", "http://localhost:8000/v1/responses"},
		{model.Anthropic, "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"},
		{model.Anthropic, "https://gateway.example/anthropic/v1/messages", "https://gateway.example/anthropic/v1/messages"},
		{model.Google, "https://generativelanguage.googleapis.com/v1beta", "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"},
		{model.Google, "https://generativelanguage.googleapis.com/v1beta/models/gemini:generateContent", "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"},
	} {
		var got string
		client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			got = r.URL.String()
			return nil, errors.New("no network")
		})}
		m, err := model.New(model.Config{Provider: c.provider, Name: "m", APIKey: testKey, BaseURL: c.base, HTTPClient: client})
		if err != nil {
			t.Errorf("%s: %v", c.base, err)
			continue
		}
		m.Generate(t.Context(), ask(user("Hi.")))
		if got != c.want {
			t.Errorf("%s %s: request to %s, want %s", c.provider, c.base, got, c.want)
		}
	}
}

// TestAddressesStayInside: the error for a failed connection shows users no address.
func TestAddressesStayInside(t *testing.T) {
	t.Parallel()
	inside := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 443}
	for _, failure := range []error{
		&net.OpError{Op: "dial", Net: "tcp", Addr: inside, Err: errors.New("connection refused")},
		&net.OpError{Op: "read", Net: "tcp", Source: inside, Addr: inside, Err: errors.New("connection reset by peer")},
		&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "llm.corp.example", Server: "10.1.2.3:53"}},
		errors.New("x509: certificate is valid for other.example, not llm.corp.example"),
	} {
		client := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, failure })}
		m, err := model.New(model.Config{Provider: model.Compatible, Name: "m", BaseURL: "https://llm.corp.example:8443/v1", HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Generate(t.Context(), ask(user("Hi.")))
		if text := fmt.Sprint(err); kindOf(err) != model.KindUnavailable || strings.Contains(text, "10.1.2.3") || strings.Contains(text, "corp.example") {
			t.Errorf("error %v", err)
		}
	}
}
