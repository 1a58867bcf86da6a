package cli_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// offering starts an MCP server over HTTP with prompts, resources, templates and completions, and configures it as the server up.
func (f *fixture) offering() *mcp.Server {
	f.t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{
			Tools: &mcp.ToolCapabilities{ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true}, Resources: &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
		},
		SubscribeHandler: func(_ context.Context, r *mcp.SubscribeRequest) error {
			if r.Params.URI != "test://notes" && r.Params.URI != "test://users/7" {
				return errors.New("unknown resource")
			}
			return nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			who := "somebody"
			if r.Params.Context != nil {
				who = r.Params.Context.Arguments["who"]
			}
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
				Values: []string{r.Params.Ref.Type + " " + r.Params.Argument.Name + " " + r.Params.Argument.Value + " " + who, "ann.smith@example.com"}, Total: 5, HasMore: true,
			}}, nil
		},
	})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "read " + r.Params.URI}}}, nil
	}
	s.AddResource(&mcp.Resource{Name: "notes", URI: "test://notes"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "user", Description: "As ann.smith@example.com", URITemplate: "test://users/{id}"}, read)
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "lang"}}}, nil)
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	f.t.Cleanup(web.Close)
	f.write("harness.yaml", "mcpServers:\n  up: {url: "+quoted(web.URL)+"}\n")
	return s
}

// TestGatewayTemplates lists the servers' resource templates, and reads resources that match them.
func TestGatewayTemplates(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.offering()
	g := f.gateway(nil, "--mode", "direct")
	listed, err := g.ListResourceTemplates(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, template := range listed.ResourceTemplates {
		names = append(names, template.Name+" "+template.URITemplate)
		if template.Name == "user" && template.Description != "As pii_1e@d1.pii.invalid" {
			t.Errorf("its description is %q", template.Description)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, ", "); got != "servers mcp://{server}/{uri}, skills skill://{+path}, user test://users/{id}, workspace workspace://{session}/{+path}" {
		t.Errorf("the templates are %s", got)
	}
	for _, uri := range []string{"test://users/7", "mcp://up/test:%2F%2Fusers%2F7"} {
		read, err := g.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "read test://users/7" || read.Contents[0].URI != uri {
			t.Errorf("%s reads %+v, %v", uri, read, err)
		}
	}
	if read, err := g.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://others/7"}); err == nil {
		t.Errorf("what no template describes reads %+v", read.Contents[0])
	}
}

// TestGatewayCompletes checks that arguments of prompts and templates get the completions of their server, with tokens in place of personal data.
func TestGatewayCompletes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.offering()
	g := f.gateway(nil, "--mode", "both")
	for want, params := range map[string]*mcp.CompleteParams{
		"ref/prompt lang fr Bob": {
			Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "greet"}, Argument: mcp.CompleteParamsArgument{Name: "lang", Value: "fr"},
			Context: &mcp.CompleteContext{Arguments: map[string]string{"who": "Bob"}},
		},
		"ref/resource id 7 somebody": {
			Ref: &mcp.CompleteReference{Type: "ref/resource", URI: "test://users/{id}"}, Argument: mcp.CompleteParamsArgument{Name: "id", Value: "7"},
		},
	} {
		got, err := g.Complete(t.Context(), params)
		if err != nil || !slices.Equal(got.Completion.Values, []string{want, "pii_1e@d1.pii.invalid"}) || got.Completion.Total != 5 || !got.Completion.HasMore {
			t.Errorf("%s: %+v, %v", want, got, err)
		}
	}
	if got, err := g.Complete(t.Context(), &mcp.CompleteParams{
		Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "none"}, Argument: mcp.CompleteParamsArgument{Name: "a"},
	}); err == nil {
		t.Errorf("an unknown prompt gives %+v", got)
	}
	if caps := f.gateway(nil).InitializeResult().Capabilities; caps.Completions != nil || caps.Resources.Subscribe {
		t.Errorf("the mode code says that it has %+v", caps)
	}
}

// TestGatewayChanges checks that a client is notified when the servers' tools, prompts, resources or subscribed resources change.
func TestGatewayChanges(t *testing.T) {
	t.Parallel()
	f := setup(t)
	up := f.offering()
	heard := map[string]chan struct{}{}
	for _, what := range []string{"tools", "prompts", "resources", "test://notes", "test://users/7", "mcp://up/test:%2F%2Fnotes"} {
		heard[what] = make(chan struct{}, 1)
	}
	hear := func(what string) {
		select {
		case heard[what] <- struct{}{}:
		default:
		}
	}
	g := f.gateway(&mcp.ClientOptions{
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { hear("tools") },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { hear("prompts") },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { hear("resources") },
		ResourceUpdatedHandler:     func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { hear(r.Params.URI) },
	}, "--mode", "direct")
	until := func(what string, change func()) {
		t.Helper()
		limit := time.After(2 * time.Minute)
		for {
			change() // repeated, because a notification that the server sends before it has the subscription is lost
			select {
			case <-heard[what]:
				return
			case <-time.After(time.Second):
			case <-limit:
				t.Fatalf("the change of %s is not heard\n%s", what, g.stderr)
			}
		}
	}
	if _, err := g.ListPrompts(t.Context(), nil); err != nil { // connects the server
		t.Fatal(err)
	}
	n := 0
	name := func() string { n++; return "new" + strings.Repeat("x", n) }
	read := func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) { return nil, nil }
	until("prompts", func() { up.AddPrompt(&mcp.Prompt{Name: name()}, nil) })
	until("resources", func() { up.AddResource(&mcp.Resource{Name: name(), URI: "test://" + name()}, read) })
	until("tools", func() {
		mcp.AddTool(up, &mcp.Tool{Name: name()}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
	})
	for _, uri := range []string{"test://notes", "test://users/7", "mcp://up/test:%2F%2Fnotes"} {
		if err := g.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Fatalf("subscribe to %s: %v", uri, err)
		}
		there := strings.TrimPrefix(strings.ReplaceAll(uri, "%2F", "/"), "mcp://up/")
		until(uri, func() { _ = up.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: there}) })
	}
	if err := g.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "test://notes"}); err != nil {
		t.Error(err)
	}
}
