package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/testing/generated"
)

// TestMCPManyCalls makes 500 calls of tools at the same time over HTTP. Each client gets the answers to its own calls.
func TestMCPManyCalls(t *testing.T) {
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

// TestMCPHostileClient has honest clients work beside a hostile one, which floods the server, sends giant programs and programs without end, never reads,
// opens sessions without end and cancels everything. Each honest call gets its own answer.
func TestMCPHostileClient(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{
		keys: true, servers: []*config.MCPServer{badServer(t, "up", "normal")}, options: func(o *api.Options) { o.MCPMode = "both" },
		flags: map[string]string{"sandbox.timeout": "2s"}, // The programs without end compute until then, also after the test.
	})
	clients, rounds := 4, 2
	if generated.Long() {
		clients, rounds = 12, 3
	}
	sessions := make([]*mcp.ClientSession, clients)
	for i := range sessions {
		sessions[i] = w.mcpClient(w.key(fmt.Sprint("user", i)), nil)
	}
	honest := func(when string) time.Duration {
		var all sync.WaitGroup
		took := make([]time.Duration, clients*rounds*2)
		for c, session := range sessions {
			all.Go(func() {
				for i := range rounds {
					want := fmt.Sprintf("%s %d of client %d", when, i, c)
					for j, call := range []*mcp.CallToolParams{
						{Name: "echo", Arguments: map[string]any{"text": want}},
						{Name: "execute_code", Arguments: map[string]any{"code": fmt.Sprintf("return (await callMCPTool('up__echo', {text: %q}))", want)}},
					} {
						began := time.Now()
						r, err := session.CallTool(t.Context(), call)
						took[(c*rounds+i)*2+j] = time.Since(began)
						if err != nil {
							t.Errorf("%s: %v", want, err)
						} else if got, _ := json.Marshal(r); r.IsError || !strings.Contains(string(got), want) {
							t.Errorf("%s gets %s", want, got)
						}
					}
				}
			})
		}
		all.Wait()
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	alone := honest("alone")
	ctx, stop := context.WithCancel(t.Context())
	hostile := w.hostile(ctx, w.key("mallory"))
	beside := honest("beside")
	stop()
	hostile.Wait()
	t.Logf("the slowest hundredth of the honest calls took %v alone and %v beside the hostile client", alone, beside)
}

// hostile is a client that misbehaves in every way until ctx ends.
func (w *world) hostile(ctx context.Context, key string) *sync.WaitGroup {
	call := func(code string) string {
		text, _ := json.Marshal(code)
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":` + string(text) + `}}}`
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: 64, MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}
	post := func(ctx context.Context, body string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/mcp", strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if answer, err := client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	}
	deaf := func(ctx context.Context) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		body := call("return 'x'.repeat(900000)")
		_, _ = fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s",
			key, len(body), body)
		<-ctx.Done()
	}
	giant := call("const a = [" + strings.Repeat("[1, {b: 2}], ", 60_000) + "]; return a.length")
	nested := call("return " + strings.Repeat("(", 100_000))
	var all sync.WaitGroup
	for range 4 {
		for _, misbehave := range []func(){
			func() { post(ctx, call("for (;;) {}")) },
			func() { post(ctx, giant) },
			func() { post(ctx, nested) },
			func() { post(ctx, initialize) },
			func() {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				post(ctx, call("await utils.sleep(60000)"))
			},
		} {
			all.Go(func() {
				for ctx.Err() == nil {
					misbehave()
				}
			})
		}
		all.Go(func() { deaf(ctx) })
	}
	return &all
}
