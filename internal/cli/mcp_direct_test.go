package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// upstream starts an MCP server over HTTP with the given tools, three resources and a prompt, and configures it as the server up.
func (f *fixture) upstream(tools map[*mcp.Tool]mcp.ToolHandler) {
	f.t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, nil)
	for tool, handler := range tools {
		s.AddTool(tool, handler)
	}
	for name, uri := range map[string]string{"notes": "test://x/notes?x=1", "a b/c": "test://x/" + url.PathEscape("a b/c") + "?x=1", "skill": "skill://theirs/SKILL.md"} {
		s.AddResource(&mcp.Resource{Name: name, URI: uri, MIMEType: "text/plain"},
			func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: name + " of ann.smith@example.com"}}}, nil
			})
	}
	s.AddPrompt(&mcp.Prompt{Name: "greet", Description: "Greets, as ann.smith@example.com does", Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if r.Params.Arguments["who"] == "" {
				return nil, errors.New("who is required")
			}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
				{Role: "user", Content: &mcp.TextContent{Text: "Greet " + r.Params.Arguments["who"] + " from ann.smith@example.com"}},
			}}, nil
		})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	f.t.Cleanup(web.Close)
	f.write("harness.yaml", "mcpServers:\n  up: {url: "+quoted(web.URL)+"}\n")
}

// offered waits until the gateway lists a tool, and returns the tool.
func (g *gateway) offered(name string) *mcp.Tool {
	g.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		listed, err := g.ListTools(g.t.Context(), nil)
		if err != nil || time.Now().After(deadline) {
			g.t.Fatalf("%s is not offered: %v", name, err)
		}
		for _, tool := range listed.Tools {
			if tool.Name == name {
				return tool
			}
		}
	}
}

// TestGatewayDirectHides checks that tokens replace personal data in definitions of tools and in all parts of an answer. The server gets the values of the
// tokens, and the journal contains only tokens.
func TestGatewayDirectHides(t *testing.T) {
	t.Parallel()
	const ann, bob = "ann.smith@example.com", "bob.jones@example.com"
	f := setup(t)
	var got atomic.Value
	f.upstream(map[*mcp.Tool]mcp.ToolHandler{
		{
			Name: "lookup", Title: "Ask " + ann, Description: "Questions go to " + ann + ".", Annotations: &mcp.ToolAnnotations{Title: ann},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string","description":"Such as ` + ann + `"}}}`),
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"mail":{"type":"string","format":"email","pattern":"@"},"phone":{"type":"integer"},` +
				`"id":{"enum":["a"]}},"required":["mail"]}`),
		}: func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			got.Store(string(r.Params.Arguments))
			return &mcp.CallToolResult{
				Content: []mcp.Content{
					&mcp.TextContent{Text: ann},
					&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a.bin", Blob: []byte("a blob of " + ann)}},
					&mcp.AudioContent{MIMEType: "audio/wav", Data: []byte("\xff\xfe" + strings.Join(strings.Split(ann, ""), "\x00") + "\x00")}, // UTF-16
				},
				StructuredContent: map[string]any{"mail": ann, "id": "a"},
			}, nil
		},
		{Name: "list_mcp_tools", InputSchema: json.RawMessage(`{"type":"object"}`)}: func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "mine"}}}, nil
		},
	})
	g := f.gateway(nil, "--mode", "both")
	tool := g.offered("lookup")
	said, err := json.Marshal(tool)
	if err != nil || strings.Contains(string(said), ann) || strings.Count(string(said), "pii_1e@d1.pii.invalid") != 4 {
		t.Errorf("the client reads %s, %v", said, err)
	}
	schema, _ := json.Marshal(tool.OutputSchema)
	if string(schema) != `{"properties":{"id":{"enum":["a"]},"mail":{"type":"string"},"phone":{"type":["integer","string"]}},"required":["mail"],"type":"object"}` {
		t.Errorf("the output schema is %s", schema)
	}
	args := map[string]any{"to": "to pii_1e@d1.pii.invalid\n" + bob}
	r, err := g.CallTool(t.Context(), &mcp.CallToolParams{Name: "lookup", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Content) != 3 {
		t.Fatalf("the client gets %+v", r.Content[0])
	}
	answer, _ := json.Marshal(r.StructuredContent)
	parts, _ := json.Marshal(r.Content[:2])
	sound := strings.ReplaceAll(string(r.Content[2].(*mcp.AudioContent).Data), "\x00", "")
	if string(answer) != `{"id":"a","mail":"pii_1e@d1.pii.invalid"}` || !strings.HasPrefix(string(parts), `[{"type":"text","text":"pii_1e@d1.pii.invalid"},{"type":"text","text":"{\"type\":\"resource\"`) ||
		!strings.Contains(string(parts), `\"blob\":\"[EMAIL_`) || sound != "\xff\xfepii_1e@d1.pii.invalid" {
		t.Errorf("the client gets %s, %s, %q", answer, parts, sound)
	}
	if want, _ := json.Marshal(map[string]any{"to": "to " + ann + "\n" + bob}); got.Load() != string(want) {
		t.Errorf("the server gets %s", got.Load())
	}
	var page struct{ Runs []struct{ ID string } }
	f.run("runs", "list", "--json").want(0).value(&page)
	for _, run := range page.Runs {
		if journal := f.run("runs", "show", run.ID, "--json").want(0).stdout; strings.Contains(journal, "jones@example.com") {
			t.Errorf("the journal has %s", journal)
		}
	}
	if text, failed := g.call("list_mcp_tools", nil, nil); failed || strings.Contains(text, "mine") || !strings.Contains(text, "up__lookup") {
		t.Errorf("the original's tool gives %s", text)
	}
	if text, failed := g.call("up__list_mcp_tools", nil, nil); failed || text != "mine" {
		t.Errorf("the server's tool of that name gives %s", text)
	}
}

// TestGatewayResources lists and reads the servers' resources, with tokens in place of personal data.
func TestGatewayResources(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.upstream(nil)
	g := f.gateway(nil, "--mode", "direct")
	listed, err := g.ListResources(t.Context(), nil)
	if err != nil || len(listed.Resources) != 3 {
		t.Fatalf("listed %+v, %v", listed, err)
	}
	for _, resource := range listed.Resources {
		read, err := g.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: resource.URI})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != resource.Name+" of pii_1e@d1.pii.invalid" || read.Contents[0].URI != resource.URI {
			t.Errorf("%s reads %+v, %v", resource.URI, read, err)
		}
	}
	if read, err := g.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "mcp://up/test:%2F%2Fx%2Fnotes%3Fx=1"}); err != nil || read.Contents[0].Text != "notes of pii_1e@d1.pii.invalid" {
		t.Errorf("with its server's name it reads %+v, %v", read, err)
	}
	for _, uri := range []string{"mcp://up/test:%2F%2Fnone", "mcp://none/test:%2F%2Fnotes", "mcp://up", "test://none", "skill://theirs/SKILL.md"} {
		if read, err := g.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s reads %+v", uri, read.Contents[0])
		}
	}
}

// TestGatewayPrompts lists and gets the servers' prompts, with tokens in place of personal data. If two servers have a prompt of the same name, the names of
// the servers precede it.
func TestGatewayPrompts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.upstream(nil)
	g := f.gateway(nil, "--mode", "direct")
	prompt := func(g *gateway, name string) {
		t.Helper()
		got, err := g.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name, Arguments: map[string]string{"who": "Bob"}})
		if err != nil || len(got.Messages) != 1 || got.Messages[0].Role != "user" {
			t.Fatalf("%s is %+v, %v", name, got, err)
		}
		if text, _ := got.Messages[0].Content.(*mcp.TextContent); text == nil || text.Text != "Greet Bob from pii_1e@d1.pii.invalid" {
			t.Errorf("%s says %+v", name, got.Messages[0].Content)
		}
	}
	listed, err := g.ListPrompts(t.Context(), nil)
	if err != nil || len(listed.Prompts) != 1 || listed.Prompts[0].Name != "greet" || listed.Prompts[0].Description != "Greets, as pii_1e@d1.pii.invalid does" ||
		len(listed.Prompts[0].Arguments) != 1 || !listed.Prompts[0].Arguments[0].Required {
		t.Fatalf("listed %+v, %v", listed, err)
	}
	prompt(g, "greet")
	for _, params := range []*mcp.GetPromptParams{{Name: "none"}, {Name: "greet"}, {Name: strings.Repeat("x", 100_000)}} {
		if got, err := g.GetPrompt(t.Context(), params); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.20s is %+v, %v", params.Name, got, err)
		}
	}
	f.write("harness.yaml", f.read("harness.yaml")+strings.ReplaceAll(strings.TrimPrefix(f.read("harness.yaml"), "mcpServers:\n"), "up:", "down:"))
	g = f.gateway(nil, "--mode", "both")
	if listed, err = g.ListPrompts(t.Context(), nil); err != nil || len(listed.Prompts) != 2 {
		t.Fatalf("listed %+v, %v", listed, err)
	}
	prompt(g, "up__greet")
	prompt(g, "down__greet")
	if got, err := f.gateway(nil).ListPrompts(t.Context(), nil); err == nil && len(got.Prompts) > 0 {
		t.Errorf("the mode code lists %+v", got)
	}
}

// TestGatewaySkills checks that clients get exactly those skills as tools that the configuration names.
func TestGatewaySkills(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "mcp: {skills: [sums/add, none]}\n")
	g := f.gateway(nil)
	listed := func() (found *mcp.Tool) {
		list, err := g.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			if strings.HasPrefix(tool.Name, "skill_") {
				if found != nil {
					t.Errorf("there are %s and %s", found.Name, tool.Name)
				}
				found = tool
			}
		}
		return found
	}
	if tool := listed(); tool != nil {
		t.Errorf("before it is there, clients get %+v", tool)
	}
	if text, failed := g.call("skill_sums_add", map[string]any{"a": 1}, nil); !failed || !strings.Contains(text, "you have no skill sums/add") {
		t.Errorf("before it is there, a call gives %s", text)
	}
	g.call("execute_code", map[string]any{"code": `await fs.writeFile('/skills/sums/add.ts', '// Adds numbers.\nexport default ({ a, b }: any) => a + b')
		await fs.writeFile('/skills/other.js', 'export default () => 1')`}, nil)
	if tool := listed(); tool == nil || tool.Name != "skill_sums_add" || !strings.Contains(tool.Description, "Adds numbers.") {
		t.Errorf("clients get %+v", tool)
	}
	var out gatewayRun
	if text, failed := g.call("skill_sums_add", map[string]any{"a": 1, "b": 2}, &out); failed || string(out.Output) != "3" {
		t.Errorf("a call gives %s", text)
	}

	// A search finds skills, each with a short description without personal data.
	f.write("long.js", "/** Sends a greeting to ada@acme.com"+strings.Repeat(" and one more", 50)+". */ export default () => 1")
	f.run("files", "put", "/skills", "long.js").want(0)
	var found struct {
		Skills []struct{ Path, Description string }
	}
	if text, failed := g.call("search_tools", map[string]any{"query": "add numbers"}, &found); failed || len(found.Skills) != 1 || found.Skills[0].Path != "/skills/sums/add.ts" ||
		!strings.Contains(text, "/skills/sums/add.ts — Adds numbers.") {
		t.Errorf("a search gives %+v, %s", found, text)
	}
	found.Skills = nil
	if text, failed := g.call("search_tools", map[string]any{"query": "send a greeting"}, &found); failed || len(found.Skills) != 1 ||
		len(found.Skills[0].Description) > 200 || strings.Contains(text, "ada@acme.com") || !strings.HasPrefix(found.Skills[0].Description, "Sends a greeting to ") {
		t.Errorf("a search gives %+v, %s", found, text)
	}
}
