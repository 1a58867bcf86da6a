package wiring_test

import (
	"path/filepath"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// A server can be added while a server with the same name is still ending, which takes seconds. The added server keeps its tools.
func TestRemoveAndAddAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := func(kind string) map[string]string { return misbehave.Env(kind, filepath.Join(dir, "pids")) }
	f := open(t, dir, nil, &config.MCPServer{
		Name: "bad", Command: self(t), Env: env(misbehave.Grandchild), StartupTimeout: patience,
	})
	f.EnsureTools(t.Context(), "")
	if _, err := f.Catalog().Resolve("bad__echo"); err != nil {
		t.Fatal(err)
	}
	removed := make(chan error, 1)
	go func() { removed <- f.Servers().Remove(t.Context(), "bad") }()
	for {
		err := f.Servers().AddLater(mcpclient.Config{Name: "bad", Command: self(t), Env: env(misbehave.Normal)})
		if err == nil {
			break
		}
		time.Sleep(time.Millisecond) // waits until the name is free, which no signal announces
	}
	f.EnsureTools(t.Context(), "")
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	if _, err := f.Catalog().Resolve("bad__echo"); err != nil {
		t.Errorf("the server that was added has lost its tools: %v", err)
	}
}
