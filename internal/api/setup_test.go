package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/misbehave"
	"mcp-code-exec-harness/internal/wiring"
)

// shared is a directory for the compiled engine, which takes half a second to compile, and for built tools.
var shared string

// TestMain lets the test binary run as worker, supervisor, demo server and misbehaving server, too, because the harness re-executes it. When all tests have
// ended, no goroutine of theirs may be left.
func TestMain(m *testing.M) {
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	misbehave.Main()
	var err error
	if shared, err = os.MkdirTemp("", "harness-api-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	// The goroutine that starts processes never ends.
	if err := goleak.Find(goleak.IgnoreAnyFunction("mcp-code-exec-harness/internal/process.init.func1.1")); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		code = 1
	}
	_ = os.RemoveAll(shared)
	os.Exit(code)
}

// world is a server on a real port. Its model does what a task says; all other parts are real.
type world struct {
	t     testing.TB
	url   string
	h     *wiring.Harness
	tasks *task.Service
	keys  *auth.Keys
	caps  *auth.Capabilities
	model *fake.Server
	log   *buffer
	gate  *gate
	// contract checks all answers against the document.
	contract *contract
	stop     func() error // ends the server, and returns what Serve returned
}

// setting changes a world before it starts.
type setting struct {
	flags   map[string]string
	servers []*config.MCPServer
	options func(*api.Options)
	serve   api.ServeOptions
	keys    bool         // requests need a key
	issuer  *auth.Issuer // issuer of accepted tokens; may be nil
}

func setup(t testing.TB, s setting) *world {
	t.Helper()
	w := &world{t: t, log: &buffer{}, gate: newGate()}
	w.model = fake.Serve(w.obey)
	t.Cleanup(w.model.Close)
	t.Cleanup(w.gate.open)
	dir := t.TempDir()
	flags := map[string]string{
		"store.url": "sqlite:" + filepath.Join(dir, "harness.db"), "skills.dir": filepath.Join(dir, "skills"),
		"workspace.dir": filepath.Join(dir, "workspace"), "server.webhooks.allowPrivate": "true",
		"server.webhooks.secret": webhookSecret, "model.allow": "other-model", "server.shutdownTimeout": "10s", "model.maxRetries": "0",
	}
	for key, value := range s.flags {
		flags[key] = value
	}
	cfg, _, err := config.Load(config.Env{
		Flags: flags, Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS,
		Environ: []string{"OPENAI_API_KEY=sk-test", "OPENAI_MODEL=test-model", "OPENAI_BASE_URL=" + w.model.URL + "/v1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.MCPServers = s.servers
	log := telemetry.NewLogger(telemetry.LogOptions{Writer: w.log, Level: slog.LevelDebug, JSON: true})
	executable := child.Executable(t)
	audit, metrics := telemetry.NewAuditor(log, telemetry.AuditFile{}), telemetry.NewMetrics()
	w.h, err = wiring.Open(t.Context(), cfg, wiring.Outside{
		Environ: os.Environ(), Executable: executable, CacheDir: filepath.Join(shared, "cache"), ToolCache: filepath.Join(dir, "tools"),
		Logger: log, Now: time.Now, Version: "test", Audit: audit, Metrics: metrics, Policy: asking{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := w.h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	w.must(&err, func() (err error) { w.keys, err = w.h.Keys(); return })
	w.must(&err, func() (err error) { w.caps, err = auth.NewCapabilities(nil, time.Hour); return })
	w.must(&err, func() (err error) {
		w.tasks, err = w.h.Tasks(wiring.TaskOptions{})
		return
	})
	who := &auth.Authenticator{Issuer: s.issuer, Local: localToken}
	if s.keys {
		who.Keys = w.keys
		w.key("") // until a key exists, the local token is accepted for everything
	}
	options := api.Options{
		Harness: w.h, Tasks: w.tasks, Auth: who, Keys: w.keys, Capabilities: w.caps, Metrics: metrics, Audit: audit, Logger: log,
		Now: time.Now, Version: "v1.2.3", BodyLimit: 1 << 20, Health: true,
	}
	if s.options != nil {
		s.options(&options)
	}
	w.serve(options, s.serve, s.keys || s.issuer != nil)
	w.contract, err = newContract(w.do("GET", "/openapi.json", nil).want(http.StatusOK).body)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) must(err *error, do func() error) {
	w.t.Helper()
	if *err = do(); *err != nil {
		w.t.Fatal(*err)
	}
}

// serve starts the server and the work on tasks.
func (w *world) serve(options api.Options, opt api.ServeOptions, keys bool) {
	service := api.New(options)
	l, err := api.Listen(w.t.Context(), "127.0.0.1:0", service.Handler(), nil, options.Proxies)
	if err != nil {
		w.t.Fatal(err)
	}
	w.url = "http://" + l.Addr().String()
	if openHosts.Delete(l.Addr().String()); !keys { // an earlier world may have had the address
		openHosts.Store(l.Addr().String(), true)
	}
	if opt.ReadTimeout == 0 {
		opt.ReadTimeout = 30 * time.Second
	}
	if opt.HeaderLimit == 0 {
		opt.HeaderLimit = 64 << 10
	}
	if opt.Grace == 0 {
		opt.Grace = 10 * time.Second
	}
	opt.Logger = options.Logger
	ctx, cancel := context.WithCancel(context.Background())
	work, stopWork := context.WithCancel(options.Tracer.With(context.Background()))
	worked, served := make(chan error, 1), make(chan error, 1)
	go func() {
		var all sync.WaitGroup
		all.Go(func() { w.h.Runs().ResumeDecided(work, func() { w.tasks.Decided("") }) })
		err := w.tasks.Work(work)
		all.Wait()
		worked <- err
	}()
	go func() {
		served <- service.Serve(ctx, []*api.Listener{l}, opt, func() {
			stopWork()
			if err := <-worked; err != nil {
				w.t.Error(err)
			}
		})
	}()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	w.t.Cleanup(func() {
		w.gate.open()
		if err := w.stop(); err != nil {
			w.t.Error(err)
		}
	})
	w.eventually("the queue is worked", func() bool { return w.tasks.Working() == nil })
}

// eventually polls is until it returns true. It is for changes for which there is no signal.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("it does not come to pass that %s", what)
		}
	}
}

var discard = slog.New(slog.DiscardHandler)

// webhookSecret is the key that signs callbacks.
const webhookSecret = "0123456789abcdef0123456789abcdef"

// gate holds back the model until the test opens the gate.
type gate struct {
	shut chan struct{}
	open func()
}

func newGate() *gate {
	g := &gate{shut: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.shut) })
	return g
}

var orders = regexp.MustCompile(`(?s)(RUN|SAY|HOLD|DENY)<<(.*?)>>`)

// obey is a model that does what the task says. RUN<<a program>> runs the program and then says "Done.". SAY<<a text>> says the text. HOLD<<a text>> says the
// text once the test opens the gate. DENY<<>> makes the provider refuse the request.
func (w *world) obey(r fake.Request) fake.Reply {
	last := r.Last()
	if last.Role == "tool" {
		return fake.Reply{Text: "Done.", Usage: fake.Usage{Input: 200, Output: 2}}
	}
	order := orders.FindStringSubmatch(last.Text)
	switch {
	case order == nil:
		return fake.Reply{Text: "Nothing to do.", Usage: fake.Usage{Input: 10, Output: 3}}
	case order[1] == "RUN":
		input, _ := json.Marshal(map[string]string{"code": order[2]})
		return fake.Reply{Calls: []fake.Call{{Name: "execute_code", Input: string(input)}}, Usage: fake.Usage{Input: 100, Output: 20}}
	case order[1] == "DENY":
		return fake.Reply{Status: http.StatusUnauthorized}
	case order[1] == "HOLD":
		return fake.Reply{Text: order[2], Wait: w.gate.shut}
	}
	return fake.Reply{Text: order[2], Usage: fake.Usage{Input: 10, Output: 3}}
}

// key creates an API key. A key with an empty user may act for every user.
func (w *world) key(user string, roles ...auth.Role) string {
	w.t.Helper()
	_, value, err := w.keys.Create(w.t.Context(), auth.NewKey{Name: "test", User: user, Roles: roles})
	if err != nil {
		w.t.Fatal(err)
	}
	return value
}

// reply is an answer that was read to its end.
type reply struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   string
}

// localToken is the local token of worlds without keys.
const localToken = "hl_test"

// do sends a request. headers are names and values. A body that is not a string is sent as JSON.
func (w *world) do(method, path string, body any, headers ...string) *reply {
	w.t.Helper()
	var text string
	switch body := body.(type) {
	case nil:
	case string:
		text = body
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			w.t.Fatal(err)
		}
		text = string(encoded)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	if text != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	return w.send(req)
}

func (w *world) send(req *http.Request) *reply {
	w.t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	r := &reply{w.t, req.Method + " " + req.URL.Path, resp.StatusCode, resp.Header, string(text)}
	if w.contract != nil && req.Method != http.MethodHead && req.Method != http.MethodOptions {
		w.contract.check(w.t, req, r)
	}
	return r
}

// client follows no redirects, and closes each connection after its request, so that no goroutines are left. It adds the local token to requests to a world
// without keys that have no Authorization header.
var client = &http.Client{
	Transport:     withToken{&http.Transport{DisableKeepAlives: true}},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// openHosts holds the addresses of the worlds without keys.
var openHosts sync.Map

type withToken struct{ http.RoundTripper }

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	_, open := openHosts.Load(r.URL.Host)
	if _, there := r.Header["Authorization"]; open && !there {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+localToken)
	}
	return t.RoundTripper.RoundTrip(r)
}

// as sends a request with a key.
func (w *world) as(key, method, path string, body any, headers ...string) *reply {
	w.t.Helper()
	return w.do(method, path, body, append(headers, "Authorization", "Bearer "+key)...)
}

// want checks the status.
func (r *reply) want(status int) *reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: %d, want %d: %s", r.what, r.status, status, r.body)
	}
	return r
}

// json decodes the body.
func (r *reply) json(into any) *reply {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.body), into); err != nil {
		r.t.Fatalf("%s: %v: %s", r.what, err, r.body)
	}
	return r
}

// field returns a top-level field of the body as text.
func (r *reply) field(name string) string {
	r.t.Helper()
	var fields map[string]any
	r.json(&fields)
	text, _ := fields[name].(string)
	return text
}

// task waits until a task has ended or waits for an approval, and returns the task.
func (w *world) task(id string, headers ...string) task.Task {
	w.t.Helper()
	if _, err := w.tasks.Wait(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
	var t task.Task
	w.do("GET", "/v1/tasks/"+id, nil, headers...).want(http.StatusOK).json(&t)
	return t
}

// demoServer returns the configuration of a demo server, which runs as a child process.
func demoServer(t testing.TB, name string) *config.MCPServer {
	executable := child.Executable(t)
	return &config.MCPServer{
		Name: name, Type: config.Stdio, Command: executable, Args: []string{"__demo-server", name, t.TempDir()}, Enabled: true,
		StartupTimeout: time.Minute,
	}
}

// badServer returns the configuration of a server that misbehaves in the named way.
func badServer(t testing.TB, name, how string) *config.MCPServer {
	s := demoServer(t, name)
	s.Args, s.Env, s.Timeout = nil, misbehave.Env(how, filepath.Join(t.TempDir(), "pids")), 30*time.Second
	return s
}

// buffer is a buffer that several goroutines use.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
