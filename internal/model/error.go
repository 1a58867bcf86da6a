package model

import (
	"fmt"
	"strings"
	"time"
)

// Kind says what went wrong with a model.
type Kind string

// What can go wrong.
const (
	KindNoKey          Kind = "no_key"          // no API key is configured
	KindAuth           Kind = "auth"            // the key is wrong or may not do this
	KindUnknownModel   Kind = "unknown_model"   // none is named, or the provider does not know it
	KindQuota          Kind = "quota"           // credit or budget at the provider is used up
	KindRateLimited    Kind = "rate_limited"    // too many requests or tokens in too little time
	KindOverloaded     Kind = "overloaded"      // the provider has no capacity at the moment
	KindContextLength  Kind = "context_length"  // the conversation is longer than the model can read
	KindInvalidRequest Kind = "invalid_request" // the provider, or New, refuses what it was given
	KindRefused        Kind = "refused"         // a filter of the provider refused the request
	KindTimeout        Kind = "timeout"         // the server was silent for longer than Config.Timeout
	KindCut            Kind = "cut"             // the stream ended before the turn did
	KindUnavailable    Kind = "unavailable"     // no connection, or an error inside the server
)

// Passing reports whether the same request may succeed later without a change by the user.
func (k Kind) Passing() bool {
	switch k {
	case KindRateLimited, KindOverloaded, KindTimeout, KindCut, KindUnavailable:
		return true
	default:
		return false
	}
}

// words is the kind for people.
func (k Kind) words() string { return strings.ReplaceAll(string(k), "_", " ") }

// Error is why a model did not answer. It never holds the API key.
type Error struct {
	Kind     Kind
	Provider string
	Model    string
	Status   int    // of HTTP; 0 if there was none
	Message  string // the provider's own words, where it said something
	Remedy   string // what the user can do, as an imperative
	// RetryAfter is how long the provider wants to be left alone; 0 if it did not say.
	RetryAfter time.Duration

	code    string // the provider's
	noTools bool   // the server says that the model cannot be given tools
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("model")
	if name := strings.Trim(e.Provider+"/"+e.Model, "/"); name != "" {
		b.WriteString(" " + name)
	}
	b.WriteString(": " + e.Kind.words())
	if e.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.Status)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// settings are the variables of the environment that the configuration reads for a provider.
var settings = map[string]struct{ key, name, url string }{
	Anthropic: {"ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "ANTHROPIC_BASE_URL"},
	OpenAI:    {"OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_BASE_URL"},
	Google:    {"GOOGLE_API_KEY", "GOOGLE_MODEL", ""},
	Azure:     {"AZURE_OPENAI_API_KEY", "AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_ENDPOINT"},
}

func either(variable, key string) string {
	if variable == "" {
		return key
	}
	return variable + " or " + key
}

func keySettings(provider string) string { return either(settings[provider].key, "model.apiKey") }
func urlSettings(provider string) string { return either(settings[provider].url, "model.baseUrl") }

func nameSettings(provider string) string {
	if provider == Azure {
		return either(settings[provider].name, "model.deployment")
	}
	return either(settings[provider].name, "model.name")
}

// remedy is what a user can do about a kind of error.
func remedy(kind Kind, cfg Config) string {
	switch kind {
	case KindNoKey:
		return "set " + keySettings(cfg.Provider)
	case KindAuth:
		return "check " + keySettings(cfg.Provider) + ", and that the key may use this model"
	case KindUnknownModel:
		return "set " + nameSettings(cfg.Provider) + " to a model that the server has"
	case KindQuota:
		return "add credit or raise the limit in the provider's billing settings, or choose another model.provider"
	case KindRateLimited:
		return "wait, or run fewer tasks at a time"
	case KindOverloaded:
		return "try again in a while, or choose another model.name"
	case KindContextLength:
		return "start a new session, or choose a model with a larger context window"
	case KindTimeout:
		return "raise model.timeout if the server is only slow"
	case KindCut:
		return "try again; if it happens often, look for a proxy that ends long answers"
	case KindUnavailable:
		return "check the network and " + urlSettings(cfg.Provider)
	default:
		return ""
	}
}
