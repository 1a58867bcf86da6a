package gate_test

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/mcpclient/supervisor"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// TestMain lets the test binary also be the supervisor and the misbehaving server, because the client executes it as both.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervisor.Command {
		os.Exit(supervisor.Main(os.Args[2:]))
	}
	misbehave.Main()
	goleak.VerifyTestMain(m)
}

// servers are upstream servers without processes: a function answers every call.
type servers struct {
	mu        sync.Mutex
	conn      map[string]int64 // numbers of connections by server; 1 if not set, negative if the server cannot be connected
	stateful  map[string]bool
	called    []string
	keys      []string
	conns     []int64 // connections that calls require
	ensured   int
	answer    func(ctx context.Context, server, tool string, args json.RawMessage) (*mcpclient.Result, error)
	onEnsure  func()
	onConnect func()
	missing   []string
	recorded  []string // requests other than calls of tools
	resources map[string][]mcpclient.Resource
	contents  []mcpclient.ResourceContents
}

var _ gate.Servers = (*servers)(nil)

func (s *servers) EnsureTools(context.Context, string) {
	s.mu.Lock()
	s.ensured++
	s.mu.Unlock()
	if s.onEnsure != nil {
		s.onEnsure()
	}
}

func (s *servers) Unavailable(string) (all []*mcpclient.CallError) {
	for _, name := range s.missing {
		all = append(all, &mcpclient.CallError{Server: name, Kind: mcpclient.KindUnavailable})
	}
	return all
}

func (s *servers) Connect(_ context.Context, _, server string) (int64, error) {
	if s.onConnect != nil {
		s.onConnect()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n, set := s.conn[server]; {
	case n < 0:
		return 0, &mcpclient.CallError{Server: server, Kind: mcpclient.KindUnavailable, Message: "it did not start: no such file"}
	case set:
		return n, nil
	}
	return 1, nil
}

func (s *servers) Call(ctx context.Context, server, tool string, args json.RawMessage, opts mcpclient.CallOptions) (*mcpclient.Result, error) {
	s.mu.Lock()
	s.called = append(s.called, server+"/"+tool+" "+string(args))
	s.keys = append(s.keys, opts.IdempotencyKey)
	s.conns = append(s.conns, opts.Conn)
	s.mu.Unlock()
	return s.answer(ctx, server, tool, args)
}

func (s *servers) Resources(_ context.Context, _, server string) ([]mcpclient.Resource, error) {
	list, ok := s.resources[server]
	if !ok {
		return nil, &mcpclient.CallError{Server: server, Kind: mcpclient.KindUnavailable, Message: "it is down"}
	}
	return list, nil
}

func (s *servers) ResourceTemplates(_ context.Context, _, server string) ([]mcpclient.ResourceTemplate, error) {
	return []mcpclient.ResourceTemplate{{Server: server, URITemplate: "file:///{name}"}}, nil
}

func (s *servers) Prompts(_ context.Context, _, server string) ([]mcpclient.Prompt, error) {
	return []mcpclient.Prompt{{Server: server, Name: "greet"}}, nil
}

func (s *servers) Prompt(_ context.Context, _, name string, args map[string]string, _ mcpclient.CallOptions) (json.RawMessage, func(), error) {
	result, err := json.Marshal(map[string]any{"description": name, "messages": args})
	return result, func() {}, err
}

func (s *servers) ReadResource(_ context.Context, server, uri string, _ mcpclient.CallOptions) ([]mcpclient.ResourceContents, func(), error) {
	s.mu.Lock()
	s.called = append(s.called, server+"/resources/read "+uri)
	s.mu.Unlock()
	return s.contents, func() {}, nil
}

func (s *servers) Complete(_ context.Context, _ string, params *mcp.CompleteParams, _ mcpclient.CallOptions) (mcpclient.Completion, error) {
	return mcpclient.Completion{Values: []string{params.Ref.Name + " " + params.Argument.Value}}, nil
}

func (s *servers) Request(ctx context.Context, server, name string, _ int, send func(context.Context) error) error {
	s.mu.Lock()
	s.recorded = append(s.recorded, server+"__"+name)
	s.mu.Unlock()
	return send(ctx)
}

func (s *servers) Stateful(server string) bool { return s.stateful[server] }

// fixture is a gate for one run, with the files of the run in a temporary directory.
type fixture struct {
	*gate.Run
	t       *testing.T
	servers *servers
	catalog *catalog.Catalog
	options gate.Options
	gate    *gate.Gate
	scope   gate.Scope
	work    *files.Dir // the workspace
	now     time.Time
	calls   int
	intents []journal.Intent
	refuse  error       // error of the journal for each intent; nil if it takes them
	kept    []time.Time // times of the earlier calls whose answers were given
}

var yes = true

// crm is the server whose tools the tests call.
var crm = catalog.Server{Name: "crm", Tools: []catalog.Tool{
	{Server: "crm", Name: "search", Annotations: catalog.Annotations{ReadOnly: &yes}, InputSchema: json.RawMessage(
		`{"type":"object","properties":{"limit":{"type":"integer","maximum":50},"q":{"type":"string"}},"required":["q"],"additionalProperties":false}`)},
	{Server: "crm", Name: "create_note", InputSchema: json.RawMessage(`{"type":"object"}`)},
	{Server: "crm", Name: "set_stage", Annotations: catalog.Annotations{Idempotent: &yes}, InputSchema: json.RawMessage(`{"type":"object"}`)},
	{Server: "crm", Name: "list_stages", Annotations: catalog.Annotations{ReadOnly: &yes}, OutputSchema: json.RawMessage(
		`{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}`)},
}}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, catalog: catalog.New(), now: time.Unix(1_800_000_000, 0), servers: &servers{}}
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		return result(`{"content":[{"type":"text","text":"hello"}]}`), nil
	}
	f.catalog.SetServer(crm)
	base, err := files.OpenBase(t.TempDir(), files.Options{Section: "workspace"})
	if err != nil {
		t.Fatal(err)
	}
	skills, err := base.Open("skills")
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := base.Open("workspace")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		skills.Close()
		workspace.Close()
		if err := base.Close(); err != nil {
			t.Error(err)
		}
	})
	f.work = workspace
	f.options = gate.Options{
		Catalog: f.catalog, Servers: f.servers, Now: func() time.Time { return f.now },
		Zones: func(name string) (json.RawMessage, error) { return json.Marshal(name) },
	}
	f.gate = gate.New(f.options)
	f.scope = gate.Scope{
		Run: "run_x", MaxCalls: 100, MaxValue: 1000, Files: files.NewSpace(skills, workspace, nil),
		Modules: func(context.Context, string, string, func(time.Duration) error) (*program.Loaded, error) {
			return &program.Loaded{ID: "m"}, nil
		},
	}
	f.Run = f.gate.Open(f.scope)
	return f
}

// result decodes the JSON of a server's answer.
func result(raw string) *mcpclient.Result {
	res := &mcpclient.Result{Raw: json.RawMessage(raw)}
	var wire struct {
		Content           []mcpclient.Content
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(res.Raw, &wire); err != nil {
		panic(err) // a mistake in the test
	}
	var blocks struct{ Content []json.RawMessage }
	if err := json.Unmarshal(res.Raw, &blocks); err != nil {
		panic(err)
	}
	for i := range wire.Content {
		wire.Content[i].Raw = blocks.Content[i]
	}
	res.Content, res.StructuredContent, res.IsError = wire.Content, wire.StructuredContent, wire.IsError
	return res
}

// do makes a call and waits for its answer.
func (f *fixture) do(kind frame.Kind, name, args string) (string, *frame.Error) {
	f.t.Helper()
	return f.again(f.t.Context(), kind, name, args, nil)
}

// again does the same as do, for a call for which a dead process has journaled an intent.
func (f *fixture) again(ctx context.Context, kind frame.Kind, name, args string, intent *journal.Intent) (string, *frame.Error) {
	f.t.Helper()
	f.calls++
	c := &journal.Call{N: f.calls, Kind: string(kind), Name: name, Args: json.RawMessage(args)}
	value, err := f.Prepare(c, intent)(ctx, flight{f})
	return string(value), err
}

// flight is a call in progress of a fixture.
type flight struct{ f *fixture }

func (c flight) Intend(_ context.Context, i journal.Intent) error {
	c.f.intents = append(c.f.intents, i)
	return c.f.refuse
}

func (c flight) Ask(approval.Call) *frame.Error {
	return &frame.Error{Kind: frame.KindDenied, Name: "DeniedError"}
}
func (c flight) Charge(time.Duration) error { return nil }
func (c flight) Tell(run.Told)              {}
func (c flight) Kept(at time.Time)          { c.f.kept = append(c.f.kept, at) }

// tool calls a tool that must succeed.
func (f *fixture) tool(name, input string) string {
	f.t.Helper()
	value, err := f.do(frame.Tool, name, `{"input":`+input+`}`)
	if err != nil {
		f.t.Fatalf("%s: %v", name, err)
	}
	return value
}

func executable(t *testing.T) string {
	t.Helper()
	return child.Executable(t)
}
