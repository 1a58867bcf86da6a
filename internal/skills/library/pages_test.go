package library_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/runs"
)

// TestPages executes the program in SKILL.md of paged-calls with the tool of a server that fails now and then.
func TestPages(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "crm", Version: "1"}, nil)
	var mu sync.Mutex
	var asked []string
	failing := map[string]string{"": "temporarily unavailable", "c2": "rate limit exceeded, try again"} // messages of the first call of a page
	denied := false
	server.AddTool(
		&mcp.Tool{
			Name: "list_contacts", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"cursor":{"type":"string"},"limit":{"type":"integer"}}}`),
		},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var args struct {
				Cursor string
				Limit  int
			}
			if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, fmt.Sprint(args.Cursor, " ", args.Limit))
			message := failing[args.Cursor]
			delete(failing, args.Cursor)
			if denied {
				message = "contact list does not exist"
			}
			if message != "" {
				return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: message}}}, nil
			}
			page := map[string]string{
				"": `{"contacts":[{"id":1},{"id":2}],"next_cursor":"c2"}`, "c2": `{"contacts":[{"id":2},{"id":3}],"next_cursor":""}`,
			}[args.Cursor]
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: page}}}, nil
		})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: true}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	h := open(t, nil, &config.MCPServer{Name: "crm", Type: config.HTTP, URL: web.URL, Enabled: true, StartupTimeout: patience, Timeout: time.Minute})
	h.EnsureTools(t.Context(), "local")

	code := fence.FindStringSubmatch(read(t, "paged-calls")["SKILL.md"])[1]
	got := execute(t, h, runs.Request{Code: code})
	if diff := cmp.Diff(map[string]any{"count": 3.0, "complete": true, "why": "the last page was read"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	mu.Lock()
	if want := []string{" 100", " 100", "c2 100", "c2 100"}; !slices.Equal(asked, want) {
		t.Errorf("the server got %q, want %q", asked, want)
	}
	asked, denied = nil, true
	mu.Unlock()
	out := outcome(t, h, runs.Request{Code: code})
	mu.Lock()
	defer mu.Unlock()
	if out.Error == nil || len(asked) != 1 {
		t.Errorf("a failure that will not change was asked for %d times, and ended in %+v", len(asked), out.Error)
	}
}
