package model

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Providers of models, as Config.Provider names them.
const (
	Anthropic  = "anthropic"
	OpenAI     = "openai"
	Google     = "google"
	Azure      = "azure"
	Compatible = "compatible" // any other server that speaks chat completions: Ollama, llama.cpp, vLLM, a gateway
)

// The providers' own base URLs.
const (
	anthropicURL = "https://api.anthropic.com"
	openAIURL    = "https://api.openai.com/v1"
	googleURL    = "https://generativelanguage.googleapis.com/v1beta/openai"
)

// How a model is offered tools, as Config.Tools names it.
const (
	ToolsAuto   = "auto"   // native, until the server says that the model cannot
	ToolsNative = "native" // through the provider's interface for tools
	ToolsFenced = "fenced" // described in the system prompt; code is taken from fenced blocks
)

// Config says which model to ask and how. Nothing else is consulted, in particular not the variables of the environment
// that the providers' libraries know; only HTTP_PROXY and its kin count, where HTTPClient is nil.
type Config struct {
	Provider string // one of the providers above
	Name     string // of the model; for Azure the deployment is used instead
	APIKey   string // needed unless BaseURL is set; Azure always needs it
	// BaseURL is the address of another server that speaks the provider's format; for Azure the endpoint, which it needs;
	// for Compatible where the server is, including /v1 or the like. Empty means the provider's own. It may be given as
	// portals and documents show it, with the path of an operation: one that ends in /responses or /chat/completions also
	// says which of OpenAI's two formats is spoken.
	BaseURL    string
	Deployment string // Azure's name for a model

	// Timeout is how long a server may be silent: until it begins to answer, and then between any two pieces. 0 means
	// five minutes.
	Timeout time.Duration
	// MaxRetries is how often a request is tried again. 0 means four times, less than 0 never.
	MaxRetries int
	// MaxTokens limits the output of a turn where a request does not. 0 leaves it to the server; Anthropic, which wants a
	// limit, is then given 32,000, or less if the model cannot write as much.
	MaxTokens int
	// ContextWindow is what Info says where it is more than 0; otherwise Info says what is known of the model.
	ContextWindow int
	// Tools is one of the three ways above; empty means ToolsAuto.
	Tools string

	// HTTPClient sends the requests; nil means one with the standard library's transport. Redirects are never followed,
	// since the next server would be sent the key.
	HTTPClient *http.Client
}

const (
	defaultTimeout = 5 * time.Minute
	defaultRetries = 4
)

// New prepares a model. It contacts nobody. What is missing or wrong in cfg is an *Error that says what to set.
func New(cfg Config) (Model, error) {
	fail := func(kind Kind, message, remedy string) (Model, error) {
		return nil, &Error{Kind: kind, Provider: cfg.Provider, Model: cfg.Name, Message: message, Remedy: remedy}
	}
	own, known := map[string]string{Anthropic: anthropicURL, OpenAI: openAIURL, Google: googleURL, Azure: "", Compatible: ""}[cfg.Provider]
	if !known {
		return fail(KindInvalidRequest, fmt.Sprintf("unknown provider %q", cfg.Provider),
			"set model.provider to anthropic, openai, google, azure or compatible")
	}
	if cfg.Provider == Azure {
		if cfg.Deployment == "" {
			cfg.Deployment = cfg.Name
		}
		cfg.Name = cfg.Deployment
	}
	if cfg.Name == "" {
		return fail(KindUnknownModel, "no model is named", "set "+nameSettings(cfg.Provider))
	}
	base, err := url.Parse(cmp.Or(cfg.BaseURL, own))
	if err != nil {
		base = &url.URL{} // as one that is missing
	}
	operation := normalize(cfg.Provider, base)
	official := own != "" && base.String() == own
	if cfg.APIKey == "" && (cfg.Provider == Azure || official) {
		return fail(KindNoKey, "no API key is set", "set "+keySettings(cfg.Provider))
	}
	if base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return fail(KindInvalidRequest, "the base URL is not an http or https URL", "set "+urlSettings(cfg.Provider))
	}
	cfg.BaseURL = base.String()
	switch cfg.Tools {
	case "":
		cfg.Tools = ToolsAuto
	case ToolsAuto, ToolsNative, ToolsFenced:
	default:
		return fail(KindInvalidRequest, fmt.Sprintf("unknown way %q to offer tools", cfg.Tools), "set model.tools to auto, native or fenced")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.MaxRetries == 0 {
		cfg.MaxRetries = defaultRetries
	}
	if cfg.ContextWindow <= 0 {
		cfg.ContextWindow = contextWindow(cfg.Name)
	}

	c := &client{cfg: cfg}
	sender := newSender(cfg)
	switch {
	case cfg.Provider == Anthropic:
		c.wire = newAnthropic(cfg, sender)
	case cfg.Provider == Azure, operation == "/responses", cfg.Provider == OpenAI && official && operation == "":
		c.wire = newResponses(cfg, sender)
	default:
		c.wire = newChat(cfg, sender)
	}
	switch cfg.Tools {
	case ToolsNative:
		return c, nil
	case ToolsFenced:
		return newFenced(c, true), nil
	default:
		return newFenced(c, false), nil
	}
}

// normalize brings a base URL into the form to which requests add the path of their operation, and returns the operation
// that it had itself: "/responses", "/chat/completions", "/messages" or "".
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
