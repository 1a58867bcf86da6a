package config

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Model chooses the language model and bounds tasks. Choose says which one it is.
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

	err error // why no model can be chosen
}

// Price is what a million model tokens cost, in US dollars.
type Price struct {
	Input       float64 `key:"input" required:"true" doc:"Read, and neither cached nor written to the cache."`
	CachedInput float64 `key:"cachedInput" like:"Input" doc:"Read from the provider's cache; by default as input."`
	CacheWrite  float64 `key:"cacheWrite" like:"Input" doc:"Written to the provider's cache; by default as input."`
	Output      float64 `key:"output" required:"true" doc:"Written by the model, reasoning included."`
}

// The providers that Choose returns.
const (
	anthropic  = "anthropic"
	openai     = "openai"
	azure      = "azure"
	google     = "google"
	compatible = "compatible"
)

// ollamaURL is where Ollama listens unless it is told otherwise.
const ollamaURL = "http://127.0.0.1:11434/v1"

// Choice is a model and how to reach it.
type Choice struct {
	Provider string // anthropic, openai, azure, google or compatible
	Name     string // of the model; with azure of the deployment
	APIKey   string // may be empty where BaseURL is set
	BaseURL  string // empty: the provider's own; with azure the endpoint
}

// Choose returns the model that tasks run with. The error says what to set. Load leaves this to the commands that need a
// model.
func (m Model) Choose() (Choice, error) {
	if m.err != nil {
		return Choice{}, m.err
	}
	c := Choice{Provider: canonical(m.Provider), Name: m.Name, APIKey: m.APIKey, BaseURL: m.BaseURL}
	missing := func(what, key string) (Choice, error) {
		return Choice{}, &Error{
			Key: key, Problem: fmt.Sprintf("no %s is set for the provider %s", what, m.Provider), Hint: "set " + settings(c.Provider, key),
		}
	}
	switch {
	case c.Provider == "":
		return Choice{}, &Error{Key: "model.provider", Problem: "no model is configured", Hint: "set one of " + strings.Join(keyVariables(), ", ") +
			", or for a model on this machine model.provider: ollama and model.name"}
	case c.APIKey == "" && (c.Provider == azure || c.Provider != compatible && c.BaseURL == ""):
		return missing("API key", "model.apiKey")
	case c.BaseURL == "" && (c.Provider == azure || c.Provider == compatible):
		return missing("address", "model.baseUrl")
	case c.Name == "":
		return missing("model", "model.name")
	case c.BaseURL != "" && !isWebAddress(c.BaseURL):
		return Choice{}, &Error{
			Key: "model.baseUrl", Problem: "it is not an address that begins with http:// or https://", Hint: "correct " + settings(c.Provider, "model.baseUrl"),
		}
	}
	return c, nil
}

// canonical is the provider that a name of one stands for.
func canonical(provider string) string {
	switch provider {
	case "ollama", "local":
		return compatible
	}
	return provider
}

// settings names what sets a key for a provider: the provider's variable and the key.
func settings(provider, key string) string {
	for _, o := range originals {
		if o.provider == provider && o.key == key {
			return o.name + " or " + key
		}
	}
	return key
}

// keyVariables are the variables that hold the providers' API keys.
func keyVariables() []string {
	var names []string
	for _, o := range originals {
		if o.provider != "" && o.key == "model.apiKey" {
			names = append(names, o.name)
		}
	}
	return names
}

// candidate is a provider that something set speaks for.
type candidate struct {
	provider string
	at       position
}

// chooseModel finds the provider and takes over its variables.
func (l *loader) chooseModel() {
	m := &l.config.Model
	if m.Provider == "" {
		c, err := l.provider()
		if err != nil {
			m.err = err
		}
		if c.provider == "" {
			return
		}
		m.Provider, l.positions["model.provider"] = c.provider, c.at
	}
	for _, v := range [...]layer{l.dotenv, l.environ} {
		for _, o := range originals {
			if text := v.vars[o.name]; text != "" && o.provider == canonical(m.Provider) {
				at := v.position(o.name)
				at.weight++ // above LLM_API_KEY and its kin
				l.setText(o.key, text, at, v.base)
			}
		}
	}
	if m.Provider == "ollama" && m.BaseURL == "" {
		m.BaseURL = ollamaURL
	}
	var errs []error
	for _, key := range sortedKeys(l.postponed) {
		if strings.HasPrefix(key, "model.") {
			errs = append(errs, l.postponed[key].err)
		}
	}
	m.err = errors.Join(errs...)
	m.Prices = qualified(m.Prices, canonical(m.Provider))
}

// provider finds the one provider that is meant where none is named; a candidate without provider if there is none.
func (l *loader) provider() (candidate, error) {
	m := l.config.Model
	var found []candidate
	add := func(c candidate) {
		for _, other := range found {
			if other.provider == c.provider {
				return
			}
		}
		found = append(found, c)
	}
	if at, set := l.at("model.baseUrl"); set && m.BaseURL != "" {
		add(candidate{compatible, at})
	} else if at, set := l.at("model.apiKey"); set && (m.APIKey != "" || l.postponed["model.apiKey"].err != nil) {
		provider := providerOf(m.Name)
		if provider == "" {
			return candidate{}, at.errorf("model.apiKey", "set model.provider or LLM_PROVIDER", "it does not say which provider's key it is")
		}
		add(candidate{provider, at})
	}
	l.speakers("model.apiKey", add)
	if len(found) == 0 { // servers on this machine want no key
		l.speakers("model.baseUrl", add)
	}
	switch len(found) {
	case 0:
		return candidate{}, nil
	case 1:
		return found[0], nil
	}
	var positions, names []string
	for _, c := range found {
		positions = append(positions, c.at.origin())
		names = append(names, c.provider)
	}
	return candidate{}, &Error{
		Key: "model.provider", Problem: "several providers are possible: " + strings.Join(names, ", ") + " (" + strings.Join(positions, ", ") + ")",
		Hint: "set model.provider or LLM_PROVIDER to one of them",
	}
}

// speakers reports the providers whose variable for a key is set.
func (l *loader) speakers(key string, report func(candidate)) {
	for _, o := range originals {
		if text, at := l.variable(o.name); o.provider != "" && o.key == key && text != "" {
			report(candidate{o.provider, at})
		}
	}
}

// providerOf is the provider whose models have such a name; empty if that is not certain.
func providerOf(model string) string {
	for prefix, provider := range map[string]string{"claude-": anthropic, "gpt-": openai, "chatgpt-": openai, "gemini-": google} {
		if strings.HasPrefix(model, prefix) {
			return provider
		}
	}
	return ""
}

// qualified puts the provider before the names that have none.
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

// validateModel checks the section model, the choice of a model apart.
func (l *loader) validateModel() {
	m := l.config.Model
	if _, set := l.at("model.baseUrl"); set && m.BaseURL != "" && !isWebAddress(m.BaseURL) {
		l.wrong("it is not an address that begins with http:// or https://", "write http://127.0.0.1:11434/v1", "model.baseUrl")
	}
	l.isDirectory("model.prompts", m.Prompts, "correct the path")
}
