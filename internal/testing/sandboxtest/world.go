package sandboxtest

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/store/sqlstore"
	"mcp-code-exec-harness/internal/telemetry"
)

const (
	// patience is the maximum wait of tests; only a failure reaches it.
	patience = 2 * time.Minute
	// briefWall is the time limit of programs that wait. briefCompute is the limit on computing of programs that compute without end.
	briefWall    = time.Second
	briefCompute = 300 * time.Millisecond
)

const storeFile = "harness.db"

// Memory is the maximum memory of a program, in bytes.
const Memory = 32 << 20

// limits are small, so that the suite is quick, except the time limits: a program that another limit ends must have the time to reach it.
var limits = run.Limits{
	Timeout: 30 * time.Second, MaxWall: patience, Memory: Memory, MaxOutput: 256 << 10, MaxLogLines: 2000, MaxCalls: 50, MaxHostCalls: 600,
	MaxInFlight: 20, MaxValue: 1 << 20,
}

// world is a harness around a tier, and the things that a program could harm.
type world struct {
	tier  string
	kind  string // Tier.Kind, or the tier
	of    Tier
	pools atomic.Pointer[sandbox.Pool]
	box   sandbox.Sandbox
	runs  *runs.Service
	brief *runs.Service // runs with briefWall

	natives atomic.Pointer[sandbox.Pool] // runners with machine code in place of the engine
	native  *runs.Service                // runs with natives

	dir   string       // empty directory of the host
	file  string       // file of the host, with secret in it
	host  string       // name of the host
	port  int          // port of a listener on the host
	dials atomic.Int64 // number of connections to the port

	bystanders atomic.Int64

	empty, each holdings // holdings without runners, and those that each runner adds

	mu   sync.Mutex
	hold chan struct{}  // closed when a call of the tool hold is to be answered
	held chan struct{}  // closed when the call has come
	got  map[string]int // number of calls, by tool and arguments
}

// secret is a text that no program may see.
const secret = "canary-7d1e"

// open creates the world of a tier, which exists until the test ends.
func open(t *testing.T, tier Tier, box func(testing.TB) sandbox.Sandbox) *world {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("HARNESS_CANARY", secret) // no variable of the host's environment may reach a program
	w := &world{got: map[string]int{}, of: tier, dir: filepath.Join(tmp, "dir"), file: filepath.Join(tmp, "secret.txt")}
	if err := os.Mkdir(w.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.file, []byte(secret), 0o666); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.host, err = os.Hostname(); err != nil {
		t.Fatal(err)
	}
	w.listen(t)
	w.box = box(t)
	t.Cleanup(func() {
		if err := w.box.Close(); err != nil {
			t.Error(err)
		}
	})
	w.tier = w.box.Info().Tier
	w.kind = cmp.Or(tier.Kind, w.tier)
	w.serve(t, tmp)
	t.Cleanup(func() { w.closePool() })
	return w
}

// listen starts a listener on the host and counts connections to it.
func (w *world) listen(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	w.port = l.Addr().(*net.TCPAddr).Port
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.dials.Add(1)
			conn.Close()
		}
	}()
}

// serve creates a harness from its parts.
func (w *world) serve(t *testing.T, tmp string) {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), "sqlite:"+filepath.Join(tmp, storeFile), sqlstore.Options{Sync: sqlstore.SyncNormal, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	room := files.Limits{MaxBytes: 1 << 20, MaxFiles: 100}
	kept, err := skills.Open(filepath.Join(tmp, "skills"), room, skills.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	workspace, err := files.OpenBase(filepath.Join(tmp, "workspace"), files.Options{Limits: room, Section: "workspace"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { workspace.Close() })
	known := catalog.New()
	s := &servers{Manager: mcpclient.NewManager(mcpclient.Options{
		CacheDir: filepath.Join(tmp, "tools"), ClientVersion: "test",
		OnChange: func(server mcpclient.Server) { known.SetServer(offered(server)) },
	})}
	t.Cleanup(func() { s.Close(context.Background()) })
	if err := s.Add(mcpclient.Config{Name: "up", URL: w.upstream(t), StartupTimeout: patience, Timeout: patience}); err != nil {
		t.Fatal(err)
	}
	opt := runs.Options{
		Store:  func() (runs.Store, error) { return store, nil },
		Pool:   func(string) (*sandbox.Pool, error) { return w.pools.Load(), nil },
		Skills: func() (*skills.Store, error) { return kept, nil }, Workspace: func() (files.Base, error) { return workspace, nil },
		Inputs:  func() (files.Base, error) { return workspace, nil },
		Gate:    gate.New(gate.Options{Catalog: known, Servers: s, Zones: zone, Now: time.Now}),
		Catalog: known, EnsureTools: s.EnsureTools, Modules: program.NewCache(), Limits: limits, Now: time.Now, Metrics: telemetry.NewMetrics(),
	}
	w.runs = runs.New(opt)
	t.Cleanup(w.runs.Close)
	opt.Limits.MaxWall = briefWall
	w.brief = runs.New(opt)
	t.Cleanup(w.brief.Close)
	opt.Limits.MaxWall = limits.MaxWall
	opt.Pool = func(string) (*sandbox.Pool, error) { return w.natives.Load(), nil }
	w.native = runs.New(opt)
	t.Cleanup(w.native.Close)
}

// upstream starts an MCP server with the tools read, which echoes its arguments, send, which echoes and writes, and hold, which
// answers when the test releases it.
func (w *world) upstream(t *testing.T) (url string) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, nil)
	for name, hints := range map[string]*mcp.ToolAnnotations{"read": {ReadOnlyHint: true}, "send": nil, "hold": {ReadOnlyHint: true}} {
		s.AddTool(&mcp.Tool{Name: name, Annotations: hints, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				w.mu.Lock()
				w.got[name+" "+string(req.Params.Arguments)]++
				w.mu.Unlock()
				if name == "hold" {
					if err := w.wait(ctx); err != nil {
						return nil, err
					}
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(req.Params.Arguments)}}}, nil
			})
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

func (w *world) wait(ctx context.Context) error {
	w.mu.Lock()
	hold, held := w.hold, w.held
	w.mu.Unlock()
	close(held)
	select {
	case <-hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// warm is the number of runners that are kept ready for users without one.
const warm = 2

// openPool starts a pool.
func (w *world) openPool() {
	opt := w.of.Pool
	opt.Size, opt.PerOwner, opt.Warm = 6, 2, warm
	w.pools.Store(sandbox.NewPool(w.box, opt))
}

func (w *world) closePool() {
	if p := w.pools.Swap(nil); p != nil {
		p.Close()
	}
}

// servers records the calls that each run sends to the server.
type servers struct{ *mcpclient.Manager }

var _ gate.Servers = servers{}

// sent holds the calls that the server gets from one run.
type sent struct {
	mu    sync.Mutex
	calls []string // tool and arguments
}

type sentKey struct{}

// Call implements gate.Servers.
func (s servers) Call(ctx context.Context, server, tool string, args json.RawMessage, opts mcpclient.CallOptions) (*mcpclient.Result, error) {
	if sent, ok := ctx.Value(sentKey{}).(*sent); ok {
		sent.mu.Lock()
		written := strings.NewReplacer("\u2028", `\u2028`, "\u2029", `\u2029`).Replace(string(args)) // These characters would end a comment in an attack's file.
		sent.calls = append(sent.calls, tool+" "+written)
		sent.mu.Unlock()
	}
	return s.Manager.Call(ctx, server, tool, args, opts)
}

// EnsureTools implements gate.Servers.
func (s servers) EnsureTools(ctx context.Context, user string) { s.Manager.EnsureTools(ctx, user) }

// Request implements gate.Servers.
func (servers) Request(ctx context.Context, _, _ string, _ int, send func(context.Context) error) error {
	return send(ctx)
}

// Stateful implements gate.Servers.
func (servers) Stateful(string) bool { return false }

// Unavailable implements gate.Servers.
func (servers) Unavailable(string) []*mcpclient.CallError { return nil }

func offered(s mcpclient.Server) catalog.Server {
	out := catalog.Server{Name: s.Name}
	for _, t := range s.Tools {
		out.Tools = append(out.Tools, catalog.Tool{
			Server: s.Name, Name: t.Name, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
			Annotations: catalog.Annotations(t.Annotations),
		})
	}
	return out
}

func zone(name string) (json.RawMessage, error) {
	canonical, transitions, err := guest.Zone(name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"zone": canonical, "transitions": transitions})
}

// execute runs a program. It returns the outcome, and the calls that the server got from the program.
func (w *world) execute(t testing.TB, s *runs.Service, req runs.Request) (*run.Outcome, []string) {
	t.Helper()
	sent := &sent{}
	out, err := s.Execute(context.WithValue(t.Context(), sentKey{}, sent), req)
	if err != nil {
		t.Error(err)
		out = &run.Outcome{}
	}
	sent.mu.Lock()
	defer sent.mu.Unlock()
	return out, slices.Clone(sent.calls)
}

// kindOf returns the kind of an outcome's error, or "" for a program that ended well.
func kindOf(out *run.Outcome) string {
	if out.Error == nil {
		return ""
	}
	return out.Error.Kind
}
