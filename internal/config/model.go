package config

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Model selects the language model and sets limits for tasks. Choose returns the selected model.
type Model struct {
	Provider      string           `key:"provider" oneof:"anthropic,openai,azure,google,compatible,ollama,local" doc:"Who answers; empty: the provider whose API key is set. compatible, or local: any server that speaks OpenAI's chat completions. ollama: Ollama on this machine."`
	Name          string           `key:"name,deployment" doc:"Name of the model, as its provider writes it; for Azure of the deployment."`
	Allow         []string         `key:"allow" doc:"Other models of the provider that requests may name."`
	APIKey        string           `key:"apiKey" secret:"true" doc:"The provider's key; better in the provider's own variable."`
	BaseURL       string           `key:"baseUrl,endpoint" doc:"Address of another server that speaks the provider's format, with /v1 or the like; for Azure the endpoint. One that ends in /responses or /chat/completions says which of OpenAI's two formats is spoken."`
	Timeout       time.Duration    `key:"timeout" default:"5m" min:"1s" doc:"How long the provider may be silent."`
	MaxRetries    int              `key:"maxRetries" default:"4" min:"0" max:"20" doc:"How often a request is tried again after overload, rate limits and lost connections."`
	MaxTokens     int              `key:"maxTokens" default:"0" min:"0" doc:"Model tokens of one answer, reasoning included; 0: what the provider allows."`
	ContextWindow int              `key:"contextWindow" default:"0" min:"0" doc:"Model tokens that the model can read and write in all; 0: what is known of it."`
	Tools         string           `key:"tools" default:"auto" oneof:"auto,native,fenced" doc:"How it is offered tools: native by the provider's interface, fenced in the prompt for models that know no tools, auto the first that works."`
	MaxTurns      int              `key:"maxTurns" default:"20" min:"1" doc:"Responses of the model in one task."`
	MaxRuns       int              `key:"maxRuns" default:"50" min:"1" doc:"Programs in one task."`
	MaxCost       float64          `key:"maxCost" default:"0" min:"0" doc:"US dollars that one task may cost; refused where the model's price is not known; 0: no limit."`
	MaxTaskTokens int              `key:"maxTaskTokens" default:"0" min:"0" doc:"Model tokens of one task, read and written together; 0: no limit."`
	MaxTaskTime   time.Duration    `key:"maxTaskTime" default:"1h" min:"0" doc:"Time of work on one task, without outages; 0: no limit."`
	Prices        map[string]Price `key:"prices" doc:"Prices in US dollars per million model tokens, by provider/model, or by the model's name alone; * at the end stands for any text."`
	Prompts       string           `key:"prompts" path:"true" doc:"A directory with prompts that replace the built-in ones of the same file name."`

	err error // reason why no model can be selected
}

// Price is the price of a million model tokens, in US dollars.
type Price struct {
	Input       float64 `key:"input" required:"true" doc:"Read, and neither cached nor written to the cache."`
	CachedInput float64 `key:"cachedInput" like:"Input" doc:"Read from the provider's cache; by default as input."`
	CacheWrite  float64 `key:"cacheWrite" like:"Input" doc:"Written to the provider's cache; by default as input."`
	Output      float64 `key:"output" required:"true" doc:"Written by the model, reasoning included."`
}

// Providers that Choose returns.
const (
	anthropic  = "anthropic"
	openai     = "openai"
	azure      = "azure"
	google     = "google"
	compatible = "compatible"
)

const ollamaURL = "http://127.0.0.1:11434/v1"

// Choice is a model and the data needed to reach it.
type Choice struct {
	Provider string // anthropic, openai, azure, google or compatible
	Name     string // name of the model; with azure, of the deployment
	APIKey   string // key; may be empty if BaseURL is set, except with azure
	BaseURL  string // empty: the provider's default; with azure, the endpoint
}

// Choose returns the model that tasks run with. Its error tells which setting is missing or wrong. Load does not call it, because only
// some commands need a model.
func (m Model) Choose() (Choice, error) {
	if m.err != nil {
		return Choice{}, m.err
	}
	c := Choice{Provider: canonical(m.Provider), Name: m.Name, APIKey: m.APIKey, BaseURL: m.BaseURL}
	wrong := func(key, hint, format string, args ...any) (Choice, error) {
		return Choice{}, position{}.errorf(key, hint, format, args...)
	}
	missing := func(what, key string) (Choice, error) {
		return wrong(key, "set "+settings(c.Provider, key), "no %s is set for the provider %s", what, m.Provider)
	}
	switch {
	case c.Provider == "":
		return wrong("model.provider", "set one of "+strings.Join(variablesOf("model.apiKey", openai, anthropic, google, azure), ", ")+
			", or for a model on this machine model.provider: ollama and model.name", "no model is configured")
	case c.APIKey == "" && (c.Provider == azure || c.Provider != compatible && c.BaseURL == ""):
		return missing("API key", "model.apiKey")
	case c.BaseURL == "" && (c.Provider == azure || c.Provider == compatible):
		return missing("address", "model.baseUrl")
	case c.Name == "":
		return missing("model", "model.name")
	case c.BaseURL != "" && !isWebAddress(c.BaseURL):
		return wrong("model.baseUrl", "correct "+settings(c.Provider, "model.baseUrl"), notWebAddress)
	}
	return c, nil
}

// canonical returns the provider that a configured name denotes.
func canonical(provider string) string {
	switch provider {
	case "ollama", "local":
		return compatible
	}
	return provider
}

// settings returns the names of the variables that set a key for a provider, and the key itself, joined by "or".
func settings(provider, key string) string {
	return strings.Join(append(variablesOf(key, provider), key), " or ")
}

// variablesOf returns the names of the variables that set a key for the providers.
func variablesOf(key string, providers ...string) (names []string) {
	for _, o := range originals {
		if o.key == key && slices.Contains(providers, o.provider) {
			names = append(names, o.name)
		}
	}
	return names
}

// chooseProvider returns the provider whose variables are used. This is the configured provider or, if none is configured, the only
// provider for which an API key or an address is set. In the second case, chooseProvider adds the provider to the settings.
func (l *loader) chooseProvider() string {
	if named := l.collected("model.provider"); named.text != "" {
		return canonical(named.text)
	}
	var found, origins []string
	var at position
	add := func(provider string, p position) {
		if !slices.Contains(found, provider) {
			found, origins, at = append(found, provider), append(origins, p.origin()), p
		}
	}
	if url, apiKey := l.collected("model.baseUrl"), l.collected("model.apiKey"); url.text != "" {
		add(compatible, url.position)
	} else if apiKey.text != "" || apiKey.errs != nil {
		provider := providerOf(l.collected("model.name").text)
		if provider == "" {
			l.config.Model.err = apiKey.errorf("model.apiKey", "set model.provider or LLM_PROVIDER", "it does not say which provider's key it is")
			return ""
		}
		add(provider, apiKey.position)
	}
	for _, key := range [...]string{"model.apiKey", "model.baseUrl"} {
		for _, o := range originals {
			text, at := l.variable(o.name)
			if o.provider != "" && o.key == key && text != "" {
				add(o.provider, at)
			}
		}
		if len(found) > 0 { // addresses are only looked at if no API key is set: local servers need no key
			break
		}
	}
	switch len(found) {
	case 0:
		return ""
	case 1:
		l.settings = append(l.settings, setting{node: node{position: at, kind: scalar, text: found[0]}, key: l.byPath["model.provider"]})
		return found[0]
	}
	l.config.Model.err = position{}.errorf("model.provider", "set model.provider or LLM_PROVIDER to one of them",
		"several providers are possible: %s (%s)", strings.Join(found, ", "), strings.Join(origins, ", "))
	return ""
}

// collected returns the last setting of a key among the settings that apply to every provider.
func (l *loader) collected(path string) setting {
	for _, s := range slices.Backward(l.settings) {
		if s.key.path == path && s.provider == "" {
			return s
		}
	}
	return setting{}
}

// finishModel completes the section model after the settings have been applied.
func (l *loader) finishModel() {
	m := &l.config.Model
	if m.err != nil || m.Provider == "" {
		return
	}
	if m.Provider == "ollama" && m.BaseURL == "" {
		m.BaseURL = ollamaURL
	}
	m.err = errors.Join(l.unusable(func(path string) bool { return strings.HasPrefix(path, "model.") })...)
	m.Prices = qualified(m.Prices, canonical(m.Provider))
}

// providerOf returns the provider of a model, judged by the prefix of the model's name. It returns "" if no prefix matches.
func providerOf(model string) string {
	for prefix, provider := range map[string]string{"claude-": anthropic, "gpt-": openai, "chatgpt-": openai, "gemini-": google} {
		if strings.HasPrefix(model, prefix) {
			return provider
		}
	}
	return ""
}

// qualified adds the provider to the model names that have none.
func qualified(prices map[string]Price, provider string) map[string]Price {
	if prices == nil {
		return nil
	}
	out := make(map[string]Price, len(prices))
	for name, p := range prices {
		switch first, _, _ := strings.Cut(name, "/"); first {
		case anthropic, openai, azure, google, compatible:
			out[name] = p
		default:
			if _, exact := prices[provider+"/"+name]; !exact {
				out[provider+"/"+name] = p
			}
		}
	}
	return out
}
