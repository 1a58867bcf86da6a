package agent

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/fake"
)

// providers has a model for each wire format, and a model without tool calling.
var providers = map[string]model.Config{
	"messages":  {Provider: model.Anthropic, Name: "claude-test", APIKey: "sk-test-0123456789"},
	"responses": {Provider: model.OpenAI, Name: "gpt-test", APIKey: "sk-test-0123456789"},
	"gemini":    {Provider: model.Google, Name: "gemini-test", APIKey: "sk-test-0123456789"},
	"chat":      {Provider: model.Compatible, Name: "llama-test", BaseURL: "http://localhost:11434/v1"},
	"fenced":    {Provider: model.Compatible, Name: "small-test", BaseURL: "http://localhost:11434/v1", Tools: model.ToolsFenced},
}

// serve returns an agent of w whose model sends its requests to a fake server over HTTP.
func serve(t *testing.T, w *world, cfg model.Config, replies ...fake.Reply) (*Agent, *fake.Server) {
	t.Helper()
	srv := fake.Serve(fake.Replies(replies...))
	t.Cleanup(srv.Close)
	cfg.HTTPClient = srv.Client()
	t.Cleanup(cfg.HTTPClient.CloseIdleConnections)
	m, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := w.agent()
	a.opt.Models = func(string) (model.Model, error) { return m, nil }
	return a, srv
}

// execution returns a reply that runs a program.
func execution(name, code string) fake.Reply {
	if name == "fenced" {
		return fake.Reply{Text: "I will run this.\n\n```js\n" + code + "\n```\n", Usage: fake.Usage{Input: 100, Output: 20}}
	}
	return fake.Reply{
		Thinking: "It needs a program.", Calls: []fake.Call{{Name: executeCode, Input: string(encode(map[string]string{"code": code}))}},
		Usage: fake.Usage{Input: 100, Output: 20},
	}
}

// TestProviders: in every wire format, the request after a failed program contains what a model needs to correct the program.
func TestProviders(t *testing.T) {
	t.Parallel()
	for name, cfg := range providers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.programs["bad"] = fails(
				run.Effect{Call: 1, Kind: "tool", Name: "mailer__send", State: "done"}, run.Effect{Call: 2, Kind: "tool", Name: "crm__add", State: "in_doubt"},
			)
			w.programs["good"] = succeeds(`{"rows":3}`)
			a, srv := serve(t, w, cfg, execution(name, "bad"), execution(name, "good"), fake.Reply{Text: "Three rows.", Usage: fake.Usage{Input: 150, Output: 5}})
			ended, err := a.Do(t.Context(), newTask(), nil, nil, w)
			if err != nil || ended.Status != task.Succeeded || ended.Text != "Three rows." || string(ended.Output) != `{"rows":3}` {
				t.Fatalf("got %+v, %v; refused: %v", ended, err, srv.Refused())
			}
			if ended.Usage.Tokens.Input != 350 || ended.Usage.Tokens.Output != 45 || ended.Usage.Turns != 3 || ended.Usage.Runs != 2 {
				t.Errorf("usage: %+v", ended.Usage)
			}
			requests := srv.Requests()
			if len(requests) != 3 || len(srv.Refused()) > 0 {
				t.Fatalf("%d requests, refused: %v", len(requests), srv.Refused())
			}
			second := string(requests[1].Raw)
			for _, want := range []string{
				"ToolError (tool): Tool not found: crm__serach. Closest: crm__search, crm__save", "at program:3:7", "await callMCPTool('crm__serach')",
				"hint: look at the names", "call 1, tool mailer__send", "call 2, tool crm__add", "in doubt, it may have happened", "was done: do not repeat it",
			} {
				if !strings.Contains(second, want) && !strings.Contains(second, strings.ReplaceAll(want, "'", `\u0027`)) {
					t.Errorf("the second request does not say %q:\n%s", want, second)
				}
			}
			if !strings.Contains(string(requests[2].Raw), `\"rows\": 3`) {
				t.Errorf("the third request does not have the output:\n%s", requests[2].Raw)
			}
			if len(w.deltas) == 0 {
				t.Error("nothing was streamed")
			}
			for _, s := range w.steps {
				if s.Turn != nil && len(s.Turn.Raw) == 0 && name != "fenced" {
					t.Error("a turn was stored without the provider's own JSON")
				}
			}
		})
	}
}

// TestProvidersAfterCrash: the conversation after a crash is the one that the provider has seen before, including signatures and encrypted reasoning.
func TestProvidersAfterCrash(t *testing.T) {
	t.Parallel()
	for name, cfg := range providers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.programs["good"] = succeeds(`1`)
			a, srv := serve(t, w, cfg, execution(name, "good"), execution(name, "good"), fake.Reply{Text: "done"})
			crash := errors.New("crash")
			w.fail = func(c task.Change) error {
				for _, s := range c.Steps {
					if s.Result != nil && w.fail != nil {
						w.fail = nil
						return crash
					}
				}
				return nil
			}
			if _, err := a.Do(t.Context(), newTask(), nil, nil, w); !errors.Is(err, crash) {
				t.Fatal(err)
			}
			stored, err := json.Marshal(w.steps)
			if err != nil {
				t.Fatal(err)
			}
			var steps []task.Step
			if err := json.Unmarshal(stored, &steps); err != nil {
				t.Fatal(err)
			}
			ended, err := a.Do(t.Context(), newTask(), nil, steps, w)
			if err != nil || ended.Status != task.Succeeded || len(srv.Refused()) > 0 || len(srv.Requests()) != 3 || len(w.executed) != 2 {
				t.Errorf("got %+v, %v; refused: %v; executed %v", ended, err, srv.Refused(), w.executed)
			}
		})
	}
}

// TestProvidersShortened: providers accept a conversation that was cut, although the content that they signed has changed.
func TestProvidersShortened(t *testing.T) {
	t.Parallel()
	for name, cfg := range providers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.programs["long"] = succeeds(`"` + strings.Repeat("word ", 1000) + `"`)
			cfg.ContextWindow = 4000
			replies := make([]fake.Reply, 0, 7)
			for range 6 {
				r := execution(name, "long")
				r.Usage = fake.Usage{}
				replies = append(replies, r)
			}
			a, srv := serve(t, w, cfg, append(replies, fake.Reply{Text: "done"})...)
			ended, err := a.Do(t.Context(), newTask(), nil, nil, w)
			if err != nil || ended.Status != task.Succeeded || !strings.Contains(stepKinds(w.steps), "compact") {
				t.Errorf("got %s, %v; refused: %v; %s", ended.Message, err, srv.Refused(), stepKinds(w.steps))
			}
		})
	}
}

// TestProviderErrors: a task that ends with an error of the provider reports the provider's message and the remedy.
func TestProviderErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := serve(t, w, providers["messages"], fake.Reply{Status: 401, Message: "invalid x-api-key"})
	ended, err := a.Do(t.Context(), newTask(), nil, nil, w)
	if err != nil || ended.Error == nil || ended.Error.Kind != task.KindModel || !strings.Contains(ended.Message, "invalid x-api-key") ||
		!strings.Contains(ended.Message, "ANTHROPIC_API_KEY") {
		t.Errorf("got %+v, %v", ended, err)
	}
}
