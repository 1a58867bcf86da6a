package model

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Providers of models, the values of Config.Provider.
const (
	Anthropic  = "anthropic"
	OpenAI     = "openai"
	Google     = "google"
	Azure      = "azure"
	Compatible = "compatible" // any other server with chat completions: Ollama, llama.cpp, vLLM, a gateway
)

// Base URLs of the providers.
const (
	anthropicURL = "https://api.anthropic.com"
	openAIURL    = "https://api.openai.com/v1"
	googleURL    = "https://generativelanguage.googleapis.com/v1beta/openai"
)

// Ways to offer tools to a model, the values of Config.Tools.
const (
	ToolsAuto   = "auto"   // ToolsNative, until the server reports that the model has no tool calling; then ToolsFenced
	ToolsNative = "native" // tools of the provider's interface
	ToolsFenced = "fenced" // tools are described in the system prompt, and calls are read from fenced blocks
)

// Config describes the model and how to reach it. Environment variables have no effect, except HTTP_PROXY and related ones if HTTPClient is nil.
type Config struct {
	Provider string // Anthropic, OpenAI, Google, Azure or Compatible
	Name     string // name of the model; the deployment for Azure
	APIKey   string // required unless BaseURL is set; always required for Azure
	// BaseURL is the address of another server with the provider's format. For Azure it is the endpoint. For Compatible it is the server's address with the
	// prefix of its operations, such as /v1. An empty BaseURL means the provider's own address. BaseURL may end in the path of an operation, as portals and
	// documentation show it. Except for Anthropic and Azure, the end /responses or /chat/completions also selects one of OpenAI's two formats.
	BaseURL string

	// Timeout is the maximum silence of a server, before and within the answer. 0 means five minutes.
	Timeout    time.Duration
	MaxRetries int // maximum number of retries of one request
	// MaxTokens limits the output of a turn, including reasoning. With 0 the server decides. Anthropic requires a
	// limit, so it then gets 32,000, or less if the model has a lower limit.
	MaxTokens     int
	ContextWindow int    // size of the context window in tokens, for Info; 0 means the known size of the model
	Tools         string // ToolsAuto, ToolsNative or ToolsFenced; empty means ToolsAuto

	// HTTPClient sends the requests; nil means a client with the standard library's transport. Redirects are never
	// followed, because the next server would receive the key.
	HTTPClient *http.Client
}

// New returns a model without contacting its server. For a missing or invalid setting in cfg it returns an *Error that tells what to set.
func New(cfg Config) (Model, error) {
	cfg.Tools = cmp.Or(cfg.Tools, ToolsAuto)
	if !slices.Contains([]string{ToolsAuto, ToolsNative, ToolsFenced}, cfg.Tools) {
		return nil, cfg.newError(KindInvalidRequest, fmt.Sprintf("unknown way %q to offer tools", cfg.Tools)).
			withRemedy("set model.tools to auto, native or fenced")
	}
	cfg.MaxTokens = max(cfg.MaxTokens, 0)
	cfg.ContextWindow = cmp.Or(max(cfg.ContextWindow, 0), contextWindow(cfg.Name))
	c, operation, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	cfg = c.cfg
	c.header.Set("Accept", "text/event-stream")
	switch {
	case cfg.Provider == Anthropic:
		c.wire, c.url = &messages{}, cfg.BaseURL+"/v1/messages"
	case cfg.Provider == Azure, operation == "/responses", cfg.Provider == OpenAI && cfg.BaseURL == openAIURL && operation == "":
		c.wire, c.url = &responses{}, cfg.BaseURL+"/responses"
	default:
		c.wire, c.url = &chat{google: cfg.Provider == Google}, cfg.BaseURL+"/chat/completions"
	}
	if cfg.Tools == ToolsNative {
		return c, nil
	}
	f := &fenced{inner: c}
	f.on.Store(cfg.Tools == ToolsFenced)
	return f, nil
}

// newClient returns a client without a wire, and the operation that the base URL ended in.
func newClient(cfg Config) (c *client, operation string, err error) {
	own, known := map[string]string{Anthropic: anthropicURL, OpenAI: openAIURL, Google: googleURL, Azure: "", Compatible: ""}[cfg.Provider]
	if !known {
		return nil, "", cfg.newError(KindInvalidRequest, fmt.Sprintf("unknown provider %q", cfg.Provider)).
			withRemedy("set model.provider to anthropic, openai, google, azure or compatible")
	}
	if cfg.Name == "" {
		return nil, "", cfg.newError(KindUnknownModel, "no model is named").withRemedy("set " + settings[cfg.Provider].name)
	}
	base, err := url.Parse(cmp.Or(cfg.BaseURL, own))
	if err != nil {
		base = &url.URL{} // reported below as missing
	}
	operation = normalize(cfg.Provider, base)
	official := own != "" && base.String() == own
	if cfg.APIKey == "" && (cfg.Provider == Azure || official) {
		return nil, "", cfg.newError(KindNoKey, "no API key is set")
	}
	if base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, "", cfg.newError(KindInvalidRequest, "the base URL is not an http or https URL").withRemedy("set " + settings[cfg.Provider].url)
	}
	cfg.BaseURL = base.String()
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), 5*time.Minute)

	c = &client{cfg: cfg, header: http.Header{"Content-Type": {"application/json"}}, http: &http.Client{}}
	if cfg.HTTPClient != nil {
		*c.http = *cfg.HTTPClient
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	keyHeader, key := "Authorization", "Bearer "+cfg.APIKey
	switch cfg.Provider {
	case Anthropic:
		c.header.Set("Anthropic-Version", "2023-06-01")
		keyHeader, key = "X-Api-Key", cfg.APIKey
	case Azure:
		keyHeader, key = "Api-Key", cfg.APIKey
	}
	if cfg.APIKey != "" {
		c.header.Set(keyHeader, key)
	}
	return c, operation, nil
}

// normalize changes a base URL into the address to which requests append their operations. If the URL ends in an operation, normalize
// removes and returns it: "/responses", "/chat/completions" or "/messages".
func normalize(provider string, base *url.URL) (operation string) {
	base.Host = strings.ToLower(base.Host)
	base.RawQuery, base.Fragment = "", ""
	path := strings.TrimRight(base.Path, "/")
	for _, known := range []string{"/responses", "/chat/completions", "/messages"} {
		if rest, ok := strings.CutSuffix(path, known); ok {
			path, operation = rest, known
			break
		}
	}
	switch {
	case provider == Anthropic:
		path = strings.TrimSuffix(path, "/v1")
	case provider == Azure:
		path, _, _ = strings.Cut(path+"/", "/openai/")
		path, _, _ = strings.Cut(path, "/api/projects/")
		path = strings.TrimRight(path, "/") + "/openai/v1"
	case provider == OpenAI && base.Host == "api.openai.com" && path == "":
		path = "/v1"
	case provider == Google && base.Host == "generativelanguage.googleapis.com":
		path = "/v1beta/openai"
	}
	base.Path, base.RawPath = path, ""
	return operation
}

// contextWindow returns the maximum number of tokens that a model can read and write in all, if its provider
// documents it, or else 0. https://platform.claude.com/docs/en/about-claude/models/overview, October 2026.
func contextWindow(name string) int {
	for _, known := range []struct {
		prefix string
		tokens int
	}{
		{"claude-fable-5", 1_000_000},
		{"claude-opus-5", 1_000_000},
		{"claude-sonnet-5", 1_000_000},
		{"claude-haiku-5", 1_000_000},
		{"claude-haiku-4-5", 200_000},
	} {
		if strings.HasPrefix(name, known.prefix) {
			return known.tokens
		}
	}
	return 0
}
