package mcpclient_test

import (
	"context"
	"encoding/json"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/child"
)

// modern serves stdio with the SDK's server, which speaks 2026-07-28: it knows server/discover but not initialize, and reports changes to subscribers.
func modern() {
	server := mcp.NewServer(&mcp.Implementation{Name: "modern", Version: "1"}, &mcp.ServerOptions{Instructions: "Be new."})
	schema := json.RawMessage(`{"type":"object"}`)
	var cancelled atomic.Int64
	text := func(s string) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}, nil
	}
	server.AddTool(&mcp.Tool{Name: "grow", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		server.AddTool(&mcp.Tool{Name: "new", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("new")
		})
		return text("grown")
	})
	server.AddTool(&mcp.Tool{Name: "slow", InputSchema: schema}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1})
		if err != nil {
			return nil, err
		}
		<-ctx.Done()
		cancelled.Add(1)
		return nil, ctx.Err()
	})
	server.AddTool(&mcp.Tool{Name: "cancelled", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if cancelled.Load() == 0 {
			return text("no")
		}
		return text("yes")
	})
	_ = server.Run(context.Background(), &mcp.StdioTransport{}) // the server ends when stdin ends
	os.Exit(0)
}

func TestModernStdio(t *testing.T) {
	t.Parallel()
	self := child.Executable(t)
	changes := make(chan mcpclient.Server, 10)
	m := setup(t, mcpclient.Options{OnChange: func(s mcpclient.Server) { changes <- s }}, mcpclient.Config{
		Name: "bad", Command: self, Env: map[string]string{modernVar: "1"}, Timeout: patience,
	})
	s := m.Start(ctxFor(t))[0]
	if s.Protocol != "2026-07-28" || s.Instructions != "Be new." || len(s.Tools) != 3 {
		t.Fatalf("%+v", s.Status)
	}
	<-changes
	limit := ctxFor(t).Done()
	for heard := false; !heard; { // a notification that the server sends before it has the subscription is lost
		mustCall(t, m, "grow", `{}`)
		select {
		case s := <-changes:
			if heard = true; len(s.Tools) != 4 {
				t.Errorf("%d tools after the change", len(s.Tools))
			}
		case <-time.After(time.Second):
		case <-limit:
			t.Fatal("the change is not heard")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := m.Call(ctx, "bad", "slow", nil, mcpclient.CallOptions{Progress: func(mcpclient.Progress) { cancel() }})
	callError(t, err, mcpclient.KindCancelled, true)
	eventually(t, "the server is told", func() bool { return mustCall(t, m, "cancelled", `{}`).Content[0].Text == "yes" })
}
