package mcpclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/mcpclient"
)

// growing is a server inside this process that gets one more tool with each value received from the channel more.
type growing struct {
	tools atomic.Int32
	more  chan struct{}
}

func (g *growing) Describe() (mcpclient.Info, string) { return mcpclient.Info{Name: "growing"}, "" }

func (g *growing) Tools(context.Context) (all []mcpclient.Tool, _ error) {
	for n := range g.tools.Load() {
		all = append(all, mcpclient.Tool{Name: fmt.Sprint("tool", n), InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	return all, nil
}

func (g *growing) Call(_ context.Context, tool string, _ json.RawMessage, _ func()) (json.RawMessage, error) {
	return json.RawMessage(`{"content":[{"type":"text","text":"` + tool + `"}]}`), nil
}

func (g *growing) Watch(ctx context.Context, changed func()) {
	for {
		select {
		case <-g.more:
			g.tools.Add(1)
			changed()
		case <-ctx.Done():
			return
		}
	}
}

// TestWatched: tools that a built-in server gets while it is connected are reported and can be called, and its listing is not cached.
func TestWatched(t *testing.T) {
	t.Parallel()
	listed := make(chan int, 10)
	cache := t.TempDir()
	m := mcpclient.NewManager(mcpclient.Options{CacheDir: cache, OnChange: func(s mcpclient.Server) { listed <- len(s.Tools) }})
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	g := &growing{more: make(chan struct{})}
	if err := m.Add(mcpclient.Config{Name: "growing", Within: g}); err != nil {
		t.Fatal(err)
	}
	m.EnsureTools(ctxFor(t), "")
	for want := range 3 {
		select {
		case got := <-listed:
			if got != want {
				t.Errorf("%d tools, want %d", got, want)
			}
		case <-ctxFor(t).Done():
			t.Fatalf("a change to %d tools was not reported", want)
		}
		if want < 2 {
			g.more <- struct{}{}
		}
	}
	result, err := m.Call(ctxFor(t), "growing", "tool1", json.RawMessage(`{}`), mcpclient.CallOptions{})
	if err != nil || result.IsError {
		t.Errorf("called: %+v %v", result, err)
	}
	if kept, err := os.ReadDir(cache); err != nil || len(kept) != 0 {
		t.Errorf("kept %v %v", kept, err)
	}
}
