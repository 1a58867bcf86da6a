package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, c := range [...]struct {
		file, dotenv, environ string
		want                  Choice
	}{
		{"provider: openai\n  name: m\n  apiKey: k", "", "", Choice{"openai", "m", "k", ""}},
		{"provider: ollama\n  name: m", "", "OPENAI_API_KEY=k", Choice{"compatible", "m", "", "http://127.0.0.1:11434/v1"}},
		{"provider: ollama\n  name: m\n  baseUrl: http://gpu:11434/v1", "", "", Choice{"compatible", "m", "", "http://gpu:11434/v1"}},
		{"provider: local\n  name: m\n  baseUrl: http://h/v1\n  apiKey: k", "", "", Choice{"compatible", "m", "k", "http://h/v1"}},
		{"name: m\n  baseUrl: http://h/v1", "", "", Choice{"compatible", "m", "", "http://h/v1"}},
		{"provider: azure\n  endpoint: http://h\n  deployment: d\n  apiKey: k", "", "", Choice{"azure", "d", "k", "http://h"}},
		// If two API keys are set, the provider decides.
		{"provider: google\n  name: m", "", "GOOGLE_API_KEY=g OPENAI_API_KEY=o", Choice{"google", "m", "g", ""}},
		{"name: m", "OPENAI_API_KEY=o", "GOOGLE_API_KEY=g LLM_PROVIDER=openai", Choice{"openai", "m", "o", ""}},
		{"name: m", "", "LLM_API_KEY=k HARNESS_MODEL_PROVIDER=anthropic", Choice{"anthropic", "m", "k", ""}},
		{"name: gemini-m", "", "LLM_API_KEY=k", Choice{"google", "gemini-m", "k", ""}},
		{"name: gpt-m", "", "LLM_API_KEY=k OPENAI_API_KEY=o", Choice{"openai", "gpt-m", "o", ""}},
		// The environment precedes .env, and .env precedes the file. In each, the harness's own name precedes the provider's name, which precedes the common
		// name.
		{"name: file\n  apiKey: file", "OPENAI_MODEL=dotenv\nOPENAI_API_KEY=dotenv", "LLM_PROVIDER=openai", Choice{"openai", "dotenv", "dotenv", ""}},
		{"", "HARNESS_MODEL_NAME=ours", "OPENAI_API_KEY=k OPENAI_MODEL=theirs", Choice{"openai", "theirs", "k", ""}},
		{"", "", "HARNESS_MODEL_DEPLOYMENT=ours OPENAI_MODEL=theirs LLM_MODEL=plain OPENAI_API_KEY=k", Choice{"openai", "ours", "k", ""}},
		{"", "", "OPENAI_MODEL=theirs LLM_MODEL=plain OPENAI_API_KEY=k LLM_API_KEY=plain LLM_PROVIDER=openai", Choice{"openai", "theirs", "k", ""}},
		{"", "OPENAI_MODEL=theirs", "LLM_MODEL=plain OPENAI_API_KEY=k", Choice{"openai", "plain", "k", ""}},
		// An unset variable does not matter if another source sets the key.
		{"provider: openai\n  name: m\n  apiKey: ${NOWHERE}", "", "OPENAI_API_KEY=k", Choice{"openai", "m", "k", ""}},
	} {
		e := world(t, map[string]string{"work/harness.yaml": "model:\n  " + c.file + "\n", "work/.env": c.dotenv})
		e.Environ = strings.Fields(c.environ)
		cfg, warnings := load(t, e)
		got, err := cfg.Model.Choose()
		if got != c.want || err != nil || len(warnings) != 0 {
			t.Errorf("%q %q %q\n got %+v, %v %v\nwant %+v", c.file, c.dotenv, c.environ, got, err, warnings, c.want)
		}
	}
}

// TestChosenModelIsShown checks that Effective shows the values that the model uses.
func TestChosenModelIsShown(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{"work/harness.yaml": "model:\n  apiKey: ${KEY}\n  name: m\n", "work/.env": "GOOGLE_MODEL=g\nKEY=hunter2"})
	e.Environ = []string{"GOOGLE_API_KEY=hunter2"}
	e.Flags = map[string]string{"model.name": "flag", "model.provider": "google"}
	c, _ := load(t, e)
	for _, want := range []Entry{
		{Key: "model.provider", Value: "google", Origin: "flag"},
		{Key: "model.name", Value: "flag", Origin: "flag"},
		{Key: "model.apiKey", Value: masked, Origin: "env GOOGLE_API_KEY", Secret: true},
	} {
		if got := entryOf(t, c, want.Key); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	e.Environ = nil
	c, _ = load(t, e)
	if got, want := entryOf(t, c, "model.apiKey"), (Entry{"model.apiKey", "${KEY}", "harness.yaml:2", true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestChooseErrors checks that settings without a usable model are errors of Choose and not of Load.
func TestChooseErrors(t *testing.T) {
	t.Parallel()
	for _, c := range [...]struct{ file, environ, want string }{
		{"", "", "model.provider: no model is configured; set one of OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY, AZURE_OPENAI_API_KEY, or for a model on this machine model.provider: ollama and model.name"},
		{"", "OPENAI_API_KEY=k ANTHROPIC_API_KEY=k", "model.provider: several providers are possible: openai, anthropic (env OPENAI_API_KEY, env ANTHROPIC_API_KEY); set model.provider or LLM_PROVIDER to one of them"},
		{"baseUrl: http://h", "OPENAI_API_KEY=k", "model.provider: several providers are possible: compatible, openai (harness.yaml:2, env OPENAI_API_KEY); set model.provider or LLM_PROVIDER to one of them"},
		{"", "OPENAI_BASE_URL=http://a ANTHROPIC_BASE_URL=http://b", "model.provider: several providers are possible: openai, anthropic (env OPENAI_BASE_URL, env ANTHROPIC_BASE_URL); set model.provider or LLM_PROVIDER to one of them"},
		{"apiKey: k\n  name: m", "", "harness.yaml:2:11: model.apiKey: it does not say which provider's key it is; set model.provider or LLM_PROVIDER"},
		{"apiKey: ${NO}\n  name: gpt-m", "", "harness.yaml:2:11: model.apiKey: the variable NO is not set; set it in the environment or in .env, or write ${NO:-default}"},
		{"provider: openai\n  name: m", "", "model.apiKey: no API key is set for the provider openai; set OPENAI_API_KEY or model.apiKey"},
		{"provider: azure\n  apiKey: k", "", "model.baseUrl: no address is set for the provider azure; set AZURE_OPENAI_ENDPOINT or model.baseUrl"},
		{"provider: azure\n  baseUrl: http://h", "", "model.apiKey: no API key is set for the provider azure; set AZURE_OPENAI_API_KEY or model.apiKey"},
		{"provider: local\n  name: m", "", "model.baseUrl: no address is set for the provider local; set model.baseUrl"},
		{"provider: ollama", "", "model.name: no model is set for the provider ollama; set model.name"},
		{"", "ANTHROPIC_API_KEY=k", "model.name: no model is set for the provider anthropic; set ANTHROPIC_MODEL or model.name"},
		{"name: m", "OPENAI_API_KEY=k OPENAI_BASE_URL=h:1", "model.baseUrl: it is not an address that begins with http:// or https://; correct OPENAI_BASE_URL or model.baseUrl"},
	} {
		e := world(t, map[string]string{"work/harness.yaml": "model:\n  " + c.file + "\n"})
		e.Environ = strings.Fields(c.environ)
		cfg, _ := load(t, e)
		if got, err := cfg.Model.Choose(); err == nil || err.Error() != c.want {
			t.Errorf("%q %q\n got %+v, %v\nwant %s", c.file, c.environ, got, err, c.want)
		}
	}
}

func TestPrices(t *testing.T) {
	t.Parallel()
	e := world(t, nil)
	e.Environ = []string{`HARNESS_MODEL_PRICES={"m": {"input": 1, "output": 2}, "openai/m": {"input": 3, "output": 4}, "x/y": {"input": 5, "output": 6}}`, "LLM_PROVIDER=openai"}
	c, _ := load(t, e)
	want := map[string]Price{"openai/m": {3, 3, 3, 4}, "openai/x/y": {5, 5, 5, 6}}
	if diff := cmp.Diff(want, c.Model.Prices); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
