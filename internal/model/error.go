package model

import (
	"fmt"
	"strings"
	"time"
)

// Kind classifies the errors of models by their causes.
type Kind string

// Kinds of errors.
const (
	KindNoKey          Kind = "no_key"          // no API key is configured
	KindAuth           Kind = "auth"            // the key is wrong or lacks a permission
	KindUnknownModel   Kind = "unknown_model"   // no model is named, or the provider does not know the model
	KindQuota          Kind = "quota"           // credit or budget at the provider is used up
	KindRateLimited    Kind = "rate_limited"    // too many requests or tokens in too little time
	KindOverloaded     Kind = "overloaded"      // the provider has no capacity at the moment
	KindContextLength  Kind = "context_length"  // the conversation is longer than the model can read
	KindInvalidRequest Kind = "invalid_request" // the provider or New rejects the input
	KindRefused        Kind = "refused"         // a filter of the provider refused the request
	KindTimeout        Kind = "timeout"         // the server was silent for longer than Config.Timeout
	KindCut            Kind = "cut"             // the stream ended before the turn was complete
	KindUnavailable    Kind = "unavailable"     // no connection, or an error inside the server
)

// Passing reports whether the same request may succeed later without any action of the user.
func (k Kind) Passing() bool {
	switch k {
	case KindRateLimited, KindOverloaded, KindTimeout, KindCut, KindUnavailable:
		return true
	default:
		return false
	}
}

func (k Kind) words() string { return strings.ReplaceAll(string(k), "_", " ") }

// Error tells why a model did not answer. It never contains the API key.
type Error struct {
	Kind       Kind
	Provider   string
	Model      string
	Status     int           // HTTP status; 0 if there was none
	Message    string        // message of the provider, if it sent one
	Remedy     string        // advice to the user, as an imperative
	RetryAfter time.Duration // pause that the provider asks for; 0 if it asks for none

	code    string // error code of the provider
	noTools bool   // the server reported that the model does not support tools
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

// newError returns an error of a model. It removes the API key from the message.
func (c Config) newError(kind Kind, message string) *Error {
	if c.APIKey != "" {
		message = strings.ReplaceAll(message, c.APIKey, "***")
	}
	return &Error{Kind: kind, Provider: c.Provider, Model: c.Name, Message: message, Remedy: c.remedy(kind)}
}

func (e *Error) withRemedy(remedy string) *Error {
	e.Remedy = remedy
	return e
}

// settings are the environment variables and configuration keys of each provider, for remedies.
var settings = map[string]struct{ key, name, url string }{
	Anthropic: {"ANTHROPIC_API_KEY or model.apiKey", "ANTHROPIC_MODEL or model.name", "ANTHROPIC_BASE_URL or model.baseUrl"},
	OpenAI:    {"OPENAI_API_KEY or model.apiKey", "OPENAI_MODEL or model.name", "OPENAI_BASE_URL or model.baseUrl"},
	Google:    {"GOOGLE_API_KEY or model.apiKey", "GOOGLE_MODEL or model.name", "model.baseUrl"},
	Azure: {
		"AZURE_OPENAI_API_KEY or model.apiKey", "AZURE_OPENAI_DEPLOYMENT or model.deployment", "AZURE_OPENAI_ENDPOINT or model.baseUrl",
	},
	Compatible: {"model.apiKey", "model.name", "model.baseUrl"},
}

// remedies tell what a user can do about each kind of error.
var remedies = map[Kind]string{
	KindNoKey:         "set {key}",
	KindAuth:          "check {key}, and that the key may use this model",
	KindUnknownModel:  "set {name} to a model that the server has",
	KindQuota:         "add credit or raise the limit in the provider's billing settings, or choose another model.provider",
	KindRateLimited:   "wait, or run fewer tasks at a time",
	KindOverloaded:    "try again in a while, or choose another model.name",
	KindContextLength: "start a new session, or choose a model with a larger context window",
	KindTimeout:       "raise model.timeout if the server is only slow",
	KindCut:           "try again; if it happens often, look for a proxy that ends long answers",
	KindUnavailable:   "check the network and {url}",
}

func (c Config) remedy(kind Kind) string {
	s := settings[c.Provider]
	return strings.NewReplacer("{key}", s.key, "{name}", s.name, "{url}", s.url).Replace(remedies[kind])
}
