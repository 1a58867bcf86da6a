package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/config"
)

// TestMCPManyCalls makes 500 calls of tools at the same time over HTTP: each client gets the answers to its own.
func TestMCPManyCalls(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{
		keys: true, servers: []*config.MCPServer{badServer(t, "up", "normal")}, options: func(o *api.Options) { o.MCPMode = "direct" },
	})
	const clients, calls = 2, 250
	var all sync.WaitGroup
	for c := range clients {
		session := w.mcpClient(w.key(fmt.Sprint("user", c)), nil)
		for i := range calls {
			all.Go(func() {
				want := fmt.Sprintf("call %d of client %d", i, c)
				r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": want}})
				if err != nil {
					t.Errorf("%s: %v", want, err)
				} else if got, _ := json.Marshal(r); r.IsError || !strings.Contains(string(got), `"structuredContent":{"text":"`+want+`"}`) {
					t.Errorf("%s gets %s", want, got)
				}
			})
		}
	}
	all.Wait()
}
