package mcpclient_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/realservers"
)

func callOn(t *testing.T, m *mcpclient.Manager, server, tool, args string) *mcpclient.Result {
	t.Helper()
	res, err := m.Call(ctxFor(t), server, tool, json.RawMessage(args), mcpclient.CallOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func tool(t *testing.T, s mcpclient.Server, name string) mcpclient.Tool {
	t.Helper()
	for _, tool := range s.Tools {
		if tool.Name == name {
			return tool
		}
	}
	t.Fatalf("server %s has no tool %s", s.Name, name)
	return mcpclient.Tool{}
}

// TestEverything runs the reference server over each transport.
func TestEverything(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]func(testing.TB) mcpclient.Config{
		"stdio": realservers.Everything, "http": realservers.EverythingHTTP, "sse": realservers.EverythingSSE,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := setup(t, mcpclient.Options{}, config(t))
			s := m.Start(ctxFor(t))[0]
			if s.State != mcpclient.StateReady || s.Transport != name || s.Instructions == "" || len(s.Tools) < 10 {
				t.Fatalf("%+v", s.Status)
			}
			t.Logf("protocol %s, %d tools", s.Protocol, len(s.Tools))

			sum := tool(t, s, "get-sum")
			a, b := strings.Index(string(sum.InputSchema), `"a":`), strings.Index(string(sum.InputSchema), `"b":`)
			if a < 0 || b < a {
				t.Errorf("schema %s", sum.InputSchema)
			}
			if got := callOn(t, m, "everything", "get-sum", `{"a":2,"b":3}`).Content[0].Text; got != "The sum of 2 and 3 is 5." {
				t.Errorf("sum: %s", got)
			}

			weather := tool(t, s, "get-structured-content")
			value := callOn(t, m, "everything", weather.Name, `{"location":"New York"}`).StructuredContent
			var w struct {
				Temperature *float64 `json:"temperature"`
				Conditions  string   `json:"conditions"`
			}
			if err := json.Unmarshal(value, &w); err != nil || w.Temperature == nil || w.Conditions == "" {
				t.Errorf("weather %s: %v", value, err)
			}

			images := 0
			for _, c := range callOn(t, m, "everything", "get-tiny-image", `{}`).Content {
				png, err := base64.StdEncoding.DecodeString(c.Data)
				if c.Type == "image" && err == nil && c.MIMEType == "image/png" && strings.HasPrefix(string(png), "\x89PNG") {
					images++
				}
			}
			if images != 1 {
				t.Errorf("%d images", images)
			}

			_, err := m.Call(ctxFor(t), "everything", "get-sum", json.RawMessage(`{"a":"x"}`), mcpclient.CallOptions{})
			if err == nil {
				res := callOn(t, m, "everything", "get-sum", `{"a":"x"}`)
				wantIn(t, "tool error", string(res.Raw), `"isError":true`, "expected number")
			}

			var reports []mcpclient.Progress
			_, err = m.Call(ctxFor(t), "everything", "trigger-long-running-operation", json.RawMessage(`{"duration":0.2,"steps":4}`),
				mcpclient.CallOptions{Progress: func(p mcpclient.Progress) { reports = append(reports, p) }})
			if err != nil || len(reports) != 4 || reports[3].Progress != 4 || reports[3].Total != 4 {
				t.Errorf("reports %+v, %v", reports, err)
			}

			resources, err := m.Resources(ctxFor(t), "", "everything")
			if err != nil || len(resources) == 0 {
				t.Fatalf("resources %v, %v", resources, err)
			}
			contents, release, err := m.ReadResource(ctxFor(t), "everything", resources[0].URI, mcpclient.CallOptions{})
			if err != nil || len(contents) != 1 || contents[0].Text == "" && contents[0].Blob == "" {
				t.Errorf("contents %+v, %v", contents, err)
			}
			release()

			// The tool runs far longer than the test, so only the cancellation ends the call.
			ctx, cancel := context.WithCancel(t.Context())
			_, err = m.Call(ctx, "everything", "trigger-long-running-operation", json.RawMessage(`{"duration":3600,"steps":72000}`),
				mcpclient.CallOptions{Progress: func(mcpclient.Progress) { cancel() }})
			callError(t, err, mcpclient.KindCancelled, true)
		})
	}
}

func TestEverythingRestarts(t *testing.T) {
	t.Parallel()
	cfg, restart := realservers.Restartable(t)
	m := setup(t, mcpclient.Options{}, cfg)
	before := callOn(t, m, "everything", "echo", `{"message":"x"}`)
	restart()
	var after *mcpclient.Result
	eventually(t, "the new process is used", func() bool {
		var err error
		after, err = m.Call(ctxFor(t), "everything", "echo", json.RawMessage(`{"message":"x"}`), mcpclient.CallOptions{})
		return err == nil
	})
	if after.Conn <= before.Conn {
		t.Errorf("connection %d, then %d", before.Conn, after.Conn)
	}
}

func TestFilesystemAndMemory(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir()) // macOS reaches its temporary directory through a symbolic link
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	configs := []mcpclient.Config{
		realservers.Filesystem(t, dir),
		realservers.Memory(t, filepath.Join(t.TempDir(), "graph.json")),
	}
	m := setup(t, mcpclient.Options{CacheDir: cache}, configs...)
	begin := time.Now()
	for _, s := range m.EnsureTools(ctxFor(t), "") {
		if s.State != mcpclient.StateReady || len(s.Tools) < 9 {
			t.Fatalf("%+v", s.Status)
		}
	}
	t.Logf("both started in %s", time.Since(begin))
	args, err := json.Marshal(map[string]string{"path": filepath.Join(dir, "a.txt")})
	if err != nil {
		t.Fatal(err)
	}
	read := tool(t, m.Tools()[0], "read_text_file")
	if res := callOn(t, m, "filesystem", read.Name, string(args)); !strings.Contains(res.Content[0].Text, "hello") || res.IsError {
		t.Errorf("got %+v", res)
	}
	denied := callOn(t, m, "filesystem", read.Name, `{"path":"/etc/passwd"}`)
	wantIn(t, "tool error", string(denied.Raw), `"isError":true`, "Access denied")

	callOn(t, m, "memory", "create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["wrote"]}]}`)
	graph := tool(t, m.Tools()[1], "read_graph")
	wantIn(t, "graph", string(callOn(t, m, "memory", graph.Name, `{}`).StructuredContent), `"name":"Ada"`)

	begin = time.Now()
	again := setup(t, mcpclient.Options{CacheDir: cache}, configs...)
	for _, s := range again.EnsureTools(ctxFor(t), "") {
		if !s.Known || s.State != mcpclient.StateIdle {
			t.Errorf("%+v", s.Status)
		}
	}
	t.Logf("both known from the cache in %s", time.Since(begin))
}
