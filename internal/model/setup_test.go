package model_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "sk-test-0123456789"

// provider is a configuration of a model, and the address that its requests must have.
type provider struct {
	name string
	cfg  model.Config
	host string
	path string
	// auth is the header that contains the key, and authValue its value.
	auth, authValue string
	opaque          bool // reports that the provider sends fields that only it can read
}

// providers are all providers that a configuration can name, with their own addresses. The Client of a fake server sends requests for any address to the
// fake.
var providers = []provider{
	{
		name: "anthropic", cfg: model.Config{Provider: model.Anthropic, Name: "claude-test", APIKey: testKey},
		host: "api.anthropic.com", path: "/v1/messages", auth: "X-Api-Key", authValue: testKey, opaque: true,
	},
	{
		name: "openai", cfg: model.Config{Provider: model.OpenAI, Name: "gpt-test", APIKey: testKey},
		host: "api.openai.com", path: "/v1/responses", auth: "Authorization", authValue: "Bearer " + testKey, opaque: true,
	},
	{
		name: "azure",
		cfg:  model.Config{Provider: model.Azure, Name: "our-gpt", APIKey: testKey, BaseURL: "https://us.openai.azure.com/"},
		host: "us.openai.azure.com", path: "/openai/v1/responses", auth: "Api-Key", authValue: testKey, opaque: true,
	},
	{
		name: "google", cfg: model.Config{Provider: model.Google, Name: "gemini-test", APIKey: testKey},
		host: "generativelanguage.googleapis.com", path: "/v1beta/openai/chat/completions",
		auth: "Authorization", authValue: "Bearer " + testKey, opaque: true,
	},
	{
		name: "ollama", cfg: model.Config{Provider: model.Compatible, Name: "llama-test", BaseURL: "http://localhost:11434/v1"},
		host: "localhost:11434", path: "/v1/chat/completions", auth: "Authorization", authValue: "",
	},
	{
		name: "gateway",
		cfg:  model.Config{Provider: model.OpenAI, Name: "gpt-test", APIKey: testKey, BaseURL: "https://gateway.example/llm/v1/"},
		host: "gateway.example", path: "/llm/v1/chat/completions", auth: "Authorization", authValue: "Bearer " + testKey,
	},
}

// serve starts a fake server that ends with the test.
func serve(t *testing.T, script fake.Script) *fake.Server {
	t.Helper()
	srv := fake.Serve(script)
	t.Cleanup(srv.Close)
	return srv
}

// open returns a model that sends its requests to srv.
func open(t *testing.T, srv *fake.Server, cfg model.Config) model.Model {
	t.Helper()
	cfg.HTTPClient = srv.Client()
	t.Cleanup(cfg.HTTPClient.CloseIdleConnections)
	m, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// each runs a test for every provider.
func each(t *testing.T, test func(t *testing.T, p provider)) {
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

var tools = []model.Tool{
	{Name: "execute_code", Description: "Run a program.", InputSchema: json.RawMessage(`{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`)},
	{Name: "search_tools", Description: "Find tools.", InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}`)},
}

func user(text string) model.Message { return model.Message{Role: model.RoleUser, Text: text} }

func ask(messages ...model.Message) *model.Request {
	return &model.Request{System: "You are a test.", Tools: tools, Messages: messages}
}

// answered returns a turn with a result for each of its calls, encoded as JSON and decoded again, as the store does.
func answered(t *testing.T, turn *model.Turn, results ...string) []model.Message {
	t.Helper()
	list := []model.Message{{Role: model.RoleAssistant, Turn: turn}}
	if len(turn.Calls) > 0 {
		m := model.Message{Role: model.RoleTool}
		for i, c := range turn.Calls {
			m.Results = append(m.Results, model.ToolResult{CallID: c.ID, Name: c.Name, Text: results[i], IsError: strings.HasPrefix(results[i], "error")})
		}
		list = append(list, m)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	list = nil
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func generate(t *testing.T, m model.Model, req *model.Request) *model.Turn {
	t.Helper()
	turn, err := m.Generate(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// inOrder fails the test if the server refused a request.
func inOrder(t *testing.T, srv *fake.Server) {
	t.Helper()
	for _, why := range srv.Refused() {
		t.Errorf("the server refused a request: %s", why)
	}
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

func quote(t *testing.T, text string) string {
	t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
