package model

import (
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
	// for Compatible where the server is, including /v1 or the like. Empty means the provider's own.
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
	if cfg.APIKey == "" && (cfg.Provider == Azure || own != "" && (cfg.BaseURL == "" || sameURL(cfg.BaseURL, own))) {
		return fail(KindNoKey, "no API key is set", "set "+keySettings(cfg.Provider))
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = own
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return fail(KindInvalidRequest, "the base URL is not an http or https URL", "set "+urlSettings(cfg.Provider))
	}
	cfg.BaseURL = strings.TrimRight(cfg.BaseURL, "/")
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
	case cfg.Provider == Azure || cfg.Provider == OpenAI && sameURL(cfg.BaseURL, openAIURL):
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

// sameURL says whether two base URLs are the same but for a slash at the end and the case of the host.
func sameURL(a, b string) bool {
	x, err := url.Parse(a)
	if err != nil {
		return false
	}
	y, err := url.Parse(b)
	return err == nil && x.Scheme == y.Scheme && strings.EqualFold(x.Host, y.Host) &&
		strings.TrimRight(x.Path, "/") == strings.TrimRight(y.Path, "/")
}

// azureURL is where an Azure endpoint has its Responses.
func azureURL(endpoint string) string {
	if strings.HasSuffix(endpoint, "/openai/v1") {
		return endpoint
	}
	return endpoint + "/openai/v1"
}
