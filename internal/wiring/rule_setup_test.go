package wiring_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// patience is the maximum time that tests wait; only a failure reaches it.
const patience = 2 * time.Minute

// upstream is an MCP server in this process, so that a test sees what the server receives and decides when it answers. Its tools are read (read-only), put
// (an idempotent write) and send (any other write).
type upstream struct {
	entry *config.MCPServer
	web   *httptest.Server
	conns atomic.Int64 // open connections
	mcp   *mcp.Server
	// on answers calls; nil echoes the arguments. An error drops the connection without an answer.
	on func(ctx context.Context, tool, key string, args json.RawMessage) (string, error)

	mu    sync.Mutex
	calls []string // tool and arguments of each call
}

// keyMeta is the name under which a server gets the idempotency key of a call.
const keyMeta = "mcp-code-exec-harness/idempotencyKey"

func newUpstream(t testing.TB, name string) *upstream {
	t.Helper()
	u := &upstream{mcp: mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)}
	s := u.mcp
	for tool, hints := range map[string]*mcp.ToolAnnotations{
		"read": {ReadOnlyHint: true}, "put": {IdempotentHint: true}, "send": nil,
	} {
		u.add(&mcp.Tool{Name: tool, Annotations: hints})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true})
	u.web = httptest.NewUnstartedServer(handler)
	u.web.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			u.conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			u.conns.Add(-1)
		}
	}
	u.web.Start()
	t.Cleanup(func() {
		u.web.CloseClientConnections()
		u.web.Close()
	})
	u.entry = &config.MCPServer{Name: name, URL: u.web.URL, StartupTimeout: patience, Timeout: patience}
	return u
}

// add adds a tool, or replaces it.
func (u *upstream) add(tool *mcp.Tool) {
	if tool.InputSchema == nil {
		tool.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	u.mcp.AddTool(tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		u.mu.Lock()
		u.calls = append(u.calls, tool.Name+" "+string(req.Params.Arguments))
		on := u.on
		u.mu.Unlock()
		text := string(req.Params.Arguments)
		if on != nil {
			key, _ := req.Params.Meta[keyMeta].(string)
			var err error
			if text, err = on(ctx, tool.Name, key, req.Params.Arguments); err != nil {
				return nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
}

func (u *upstream) called() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.calls)
}

// journalOf returns the records of a run.
func (f *fixture) journalOf(id string) []journal.Record {
	f.t.Helper()
	records, err := f.Runs().Journal(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return records
}

// replayed replays records, with other code unless code is empty.
func (f *fixture) replayed(records []journal.Record, code string) *run.Outcome {
	f.t.Helper()
	out, err := f.Runs().Replay(f.t.Context(), records, runs.Replay{Code: code})
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// resumed stores records as the journal of a run whose process died, under a new id, and resumes the run.
func (f *fixture) resumed(id string, records []journal.Record) *run.Outcome {
	f.t.Helper()
	keep, err := f.Store()
	if err != nil {
		f.t.Fatal(err)
	}
	w, err := keep.Create(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	records = edited(f.t, records, func(r *journal.Record) {
		if r.Start != nil {
			r.Start.Run = id
		}
	})
	for _, r := range records {
		w.Append(r)
	}
	if err := w.Close(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	out, err := f.Runs().Resume(f.t.Context(), id, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// edited returns a deep copy of records, in which edit has changed each record.
func edited(t testing.TB, records []journal.Record, edit func(*journal.Record)) []journal.Record {
	t.Helper()
	text, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	var all []journal.Record
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		edit(&all[i])
	}
	return all
}

// until returns the beginning of a journal, up to and including the first record for which fits returns true.
func until(t testing.TB, records []journal.Record, fits func(journal.Record) bool) []journal.Record {
	t.Helper()
	i := slices.IndexFunc(records, fits)
	if i < 0 {
		t.Fatal("no record fits")
	}
	return records[:i+1]
}

// kind returns the kind of an outcome's error, or "" for a program that succeeded.
func kind(out *run.Outcome) string {
	if out.Error == nil {
		return ""
	}
	return out.Error.Kind
}

// status returns the status of a server.
func (f *fixture) status(name string) mcpclient.Status {
	f.t.Helper()
	for _, s := range f.Servers().Servers() {
		if s.Name == name {
			return s
		}
	}
	f.t.Fatalf("no server %s", name)
	return mcpclient.Status{}
}

// eventually polls until a condition holds that no signal announces, such as the state of another process.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// decoded returns the decoded output of an outcome.
func decoded[T any](t testing.TB, out *run.Outcome) T {
	t.Helper()
	if out.Error != nil {
		t.Fatalf("the program failed: %s: %s (line %d)\n%s", out.Error.Kind, out.Error.Message, out.Error.Line, out.Error.Stack)
	}
	var v T
	if err := json.Unmarshal(out.Output, &v); err != nil {
		t.Fatalf("output %s: %v", out.Output, err)
	}
	return v
}

// code returns a request for a program in a session.
func code(text string) runs.Request { return runs.Request{Code: text, Session: "s"} }
