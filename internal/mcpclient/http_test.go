package mcpclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// upstream is a server of the SDK with tools for these tests. Its slow tool reports its start and its cancellation on started and cancelled.
type upstream struct {
	*mcp.Server
	started, cancelled chan struct{}
}

func newUpstream(t testing.TB) *upstream {
	t.Helper()
	u := &upstream{
		Server:  mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, &mcp.ServerOptions{Instructions: "Be kind."}),
		started: make(chan struct{}, 1), cancelled: make(chan struct{}, 1),
	}
	schema := json.RawMessage(`{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"string"}}}`)
	u.AddTool(&mcp.Tool{Name: "echo", InputSchema: schema},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{
				Content: []mcp.Content{&mcp.TextContent{Text: "see"}}, StructuredContent: req.Params.Arguments,
			}, nil
		})
	u.AddTool(&mcp.Tool{Name: "slow", InputSchema: schema},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: 1, Total: 2, Message: "half",
			})
			if err != nil {
				return nil, err
			}
			u.started <- struct{}{}
			<-ctx.Done()
			u.cancelled <- struct{}{}
			return nil, ctx.Err()
		})
	t.Cleanup(func() {
		for session := range u.Sessions() {
			_ = session.Close() // a session of a handler that the test has replaced to simulate a forgotten session
		}
	})
	return u
}

func (u *upstream) handler(opts *mcp.StreamableHTTPOptions) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return u.Server }, opts)
}

// serve runs a handler and returns the configuration of its server.
func serve(t testing.TB, h http.Handler) mcpclient.Config {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return mcpclient.Config{Name: "bad", URL: srv.URL + "/mcp", StartupTimeout: patience, Timeout: patience}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*mcp.StreamableHTTPOptions{
		"events": {}, "json": {JSONResponse: true}, "stateless": {Stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t)
			changes := make(chan mcpclient.Server, 10)
			m := setup(t, mcpclient.Options{OnChange: func(s mcpclient.Server) { changes <- s }}, serve(t, u.handler(opts)))
			s := m.Start(ctxFor(t))[0]
			if s.State != mcpclient.StateReady || s.Transport != "http" || s.Instructions != "Be kind." {
				t.Fatalf("%+v", s.Status)
			}
			<-changes
			want := "2025-11-25" // the newest version with sessions
			if opts.Stateless {
				want = "2026-07-28"
			}
			if s.Protocol != want {
				t.Errorf("protocol %s, want %s", s.Protocol, want)
			}
			res := mustCall(t, m, "echo", `{"n":12345678901234567890,"b":1,"a":2}`)
			if got := string(res.StructuredContent); got != `{"n":12345678901234567890,"b":1,"a":2}` {
				t.Errorf("got %s", got)
			}
			_, err := call(t, m, "nothing", `{}`)
			wantIn(t, "error", callError(t, err, mcpclient.KindRPC, true).Error(), "nothing")
			if name == "stateless" || name == "json" {
				return // there is no stream for notifications
			}
			limit := ctxFor(t).Done()
			for { // a notification that the server sends before its stream is open is lost
				u.AddTool(&mcp.Tool{Name: "new", InputSchema: json.RawMessage(`{"type":"object"}`)},
					func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
				select {
				case s := <-changes:
					if len(s.Tools) != 3 {
						t.Errorf("%d tools after the change", len(s.Tools))
					}
					return
				case <-time.After(time.Second):
				case <-limit:
					t.Fatal("the change is not heard")
				}
			}
		})
	}
}

func TestHTTPCancelAndProgress(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	m := setup(t, mcpclient.Options{}, serve(t, u.handler(nil)))
	before := mustCall(t, m, "echo", `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reports := make(chan mcpclient.Progress, 1)
	go func() {
		<-u.started
		<-reports
		cancel()
	}()
	_, err := m.Call(ctx, "bad", "slow", nil, mcpclient.CallOptions{Progress: func(p mcpclient.Progress) {
		if p == (mcpclient.Progress{Progress: 1, Total: 2, Message: "half"}) {
			reports <- p
		}
	}})
	callError(t, err, mcpclient.KindCancelled, true)
	select {
	case <-u.cancelled:
	case <-ctxFor(t).Done():
		t.Error("the server was not told")
	}
	if after := mustCall(t, m, "echo", `{}`); after.Conn != before.Conn {
		t.Error("a cancelled call cost the connection")
	}
}

func TestSSEFallback(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	sse := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return u.Server }, nil)
	refused := make(chan struct{}, 1)
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.RawQuery == "" {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		sse.ServeHTTP(&errorWatch{w, refused}, r)
	}))
	m := setup(t, mcpclient.Options{}, cfg)
	s := m.Start(ctxFor(t))[0]
	if s.State != mcpclient.StateReady || s.Transport != "sse" {
		t.Fatalf("%+v", s.Status)
	}
	if got := string(mustCall(t, m, "echo", `{"n":12345678901234567890,"b":1}`).StructuredContent); got !=
		`{"n":12345678901234567890,"b":1}` {
		t.Errorf("got %s", got)
	}
	// The server answers a cancelled call with an error, which arrives before Call returns. Call must report the cancellation nevertheless.
	ctx, cancel := context.WithCancel(t.Context())
	_, err := m.Call(ctx, "bad", "slow", nil, mcpclient.CallOptions{Progress: func(mcpclient.Progress) {
		cancel()
		select {
		case <-refused:
		case <-ctxFor(t).Done():
			t.Error("the server did not answer the cancelled call")
		}
		mustCall(t, m, "echo", `{}`) // the answer to this call comes after the error, on the same stream
	}})
	callError(t, err, mcpclient.KindCancelled, true)
	select {
	case <-u.cancelled:
	case <-ctxFor(t).Done():
		t.Error("the server was not told")
	}
}

// errorWatch signals the first JSON-RPC error that a server writes.
type errorWatch struct {
	http.ResponseWriter
	seen chan struct{}
}

func (w *errorWatch) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *errorWatch) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

func (w *errorWatch) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if bytes.Contains(p, []byte(`"error":`)) {
		select {
		case w.seen <- struct{}{}:
		default:
		}
	}
	return n, err
}

func TestHTTPHeadersStayWithTheHost(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "")
		http.Error(w, "other", http.StatusTeapot)
	}))
	t.Cleanup(other.Close)
	inner := u.handler(nil)
	var redirect atomic.Bool
	var without atomic.Int64
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case redirect.Load():
			// Another port counts as another origin, because another user may listen there.
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			return
		case r.URL.Path == "/mcp":
			http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect) // The redirect stays within the origin, so it is followed.
			return
		case r.Header.Get("Authorization") != "Bearer s3cret":
			without.Add(1)
		}
		inner.ServeHTTP(w, r)
	}))
	cfg.Headers = map[string]string{"Authorization": "Bearer s3cret"}
	m := setup(t, mcpclient.Options{}, cfg)
	mustCall(t, m, "echo", `{}`)
	redirect.Store(true)
	_, err := call(t, m, "echo", `{}`)
	wantIn(t, "error", callError(t, err, mcpclient.KindUnavailable, false).Error(), "another origin than configured")
	if leaked.Load() || without.Load() != 0 {
		t.Errorf("leaked %t, requests without the header %d", leaked.Load(), without.Load())
	}
}

func TestSSEEndpointOnAnotherHost(t *testing.T) {
	t.Parallel()
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: http://evil.invalid/messages\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	cfg.Transport, cfg.Headers = "sse", map[string]string{"Authorization": "Bearer s3cret"}
	m := setup(t, mcpclient.Options{}, cfg)
	s := m.Start(ctxFor(t))[0]
	wantIn(t, "reason", s.Reason, "http://evil.invalid, another origin than configured")
}

// interceptor is a server whose answers to tool calls a test replaces.
type interceptor struct {
	inner http.Handler
	mu    sync.Mutex
	calls map[string]int                                 // number of calls by tool
	on    map[string]func(http.ResponseWriter, wireCall) // replacements of answers by tool
	get   http.HandlerFunc                               // handler of GET requests; nil for the server's own
}

// wireCall is a tools/call request as the server received it.
type wireCall struct {
	id      json.RawMessage
	session string
	ctx     context.Context
}

func (i *interceptor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && i.get != nil {
		i.get(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var msg struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	_ = json.Unmarshal(body, &msg) // decoding fails for a GET, which has no body
	if msg.Method == "tools/call" {
		i.mu.Lock()
		i.calls[msg.Params.Name]++
		on := i.on[msg.Params.Name]
		i.mu.Unlock()
		if on != nil {
			on(w, wireCall{msg.ID, r.Header.Get("Mcp-Session-Id"), r.Context()})
			return
		}
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	i.inner.ServeHTTP(w, r)
}

func (i *interceptor) count(tool string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.calls[tool]
}

func intercept(t testing.TB, on map[string]func(http.ResponseWriter, wireCall)) (*interceptor, mcpclient.Config) {
	t.Helper()
	i := &interceptor{inner: newUpstream(t).handler(nil), calls: map[string]int{}, on: on}
	return i, serve(t, i)
}

func answers(kind, text string) func(http.ResponseWriter, wireCall) {
	return func(w http.ResponseWriter, c wireCall) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", string(c.id)))
	}
}

func refuses(status int, kind, text string) func(http.ResponseWriter, wireCall) {
	return func(w http.ResponseWriter, c wireCall) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", string(c.id)))
	}
}

// refusal is a server's answer to one call and the error that the caller should get.
type refusal struct {
	answer  func(http.ResponseWriter, wireCall)
	kind    mcpclient.Kind
	sent    bool
	inDoubt bool
	want    string
}

// refusals returns all ways in which the server of these tests refuses a call, breaks off its answer or floods.
func refusals() map[string]refusal {
	const events, plain = "text/event-stream", "text/plain"
	return map[string]refusal{
		"400": {refuses(400, plain, "no"), mcpclient.KindHTTP, false, false, "no"},
		"401": {refuses(401, plain, "no"), mcpclient.KindHTTP, false, false, "give credentials"},
		"403": {refuses(403, plain, "no"), mcpclient.KindHTTP, false, false, "HTTP 403 Forbidden: no"},
		"404": {refuses(404, plain, "no"), mcpclient.KindHTTP, false, false, "HTTP 404 Not Found: no"},
		"408": {refuses(408, plain, "no"), mcpclient.KindHTTP, true, true, "HTTP 408"},
		"409": {refuses(409, plain, "no"), mcpclient.KindHTTP, false, false, "HTTP 409 Conflict: no"},
		"413": {refuses(413, plain, "no"), mcpclient.KindHTTP, false, false, "HTTP 413"},
		"418": {refuses(418, plain, "no"), mcpclient.KindHTTP, false, false, "HTTP 418 I'm a teapot: no"},
		"429": {refuses(429, plain, "no"), mcpclient.KindHTTP, false, false, "call it less often: no"},
		"500": {refuses(500, plain, "no"), mcpclient.KindHTTP, true, true, "HTTP 500"},
		"503": {refuses(503, plain, "no"), mcpclient.KindHTTP, true, true, "HTTP 503"},
		"501": {refuses(501, plain, "no"), mcpclient.KindHTTP, false, false, "HTTP 501"},
		"a sentence on sessions": {
			refuses(400, plain, "the training session is full"), mcpclient.KindHTTP, false, false, "HTTP 400 Bad Request: the training session is full",
		},
		"an answer on sessions": {
			refuses(400, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32050,"message":"training session is full"}}`),
			mcpclient.KindRPC, true, true, "training session is full",
		},
		"an answer with 404": {
			refuses(404, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such customer"}}`),
			mcpclient.KindRPC, true, false, "no such customer",
		},
		"a timeout of a proxy": {
			answers("application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"Request timed out"}}`),
			mcpclient.KindRPC, true, true, "timed out",
		},
		"an internal error": {
			answers("application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"oops"}}`),
			mcpclient.KindRPC, true, true, "oops",
		},
		"no id":        {answers("application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no such thing"}}`), mcpclient.KindRPC, true, true, "no such thing"},
		"another id":   {answers("application/json", `{"jsonrpc":"2.0","id":"other","result":{}}`), mcpclient.KindProtocol, true, true, "another request"},
		"a page":       {answers("text/html", `<h1>Welcome</h1>`), mcpclient.KindProtocol, true, true, `type "text/html"`},
		"nothing":      {refuses(202, "", ""), mcpclient.KindProtocol, true, true, "HTTP 202"},
		"deep":         {answers("application/json", `{"jsonrpc":"2.0","id":ID,"result":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+"}"), mcpclient.KindProtocol, true, true, "nesting depth"},
		"deep event":   {answers(events, `data: {"jsonrpc":"2.0","id":ID,"result":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+"}\n\n"), mcpclient.KindProtocol, true, true, "nesting depth"},
		"broken event": {answers(events, "data: {\n\n"), mcpclient.KindProtocol, true, true, "invalid message"},
		"no event":     {answers(events, ""), mcpclient.KindConnectionLost, true, true, "without response"},
		"flood of events": {
			answers(events, strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n", 100_000)),
			mcpclient.KindProtocol, true, true, "more than 1000 messages a second",
		},
		"a stream that cannot be resumed": {
			answers(events, "id: 1\nretry: 100\ndata:\n\n"), mcpclient.KindConnectionLost, true, true, "could not be resumed: it answered HTTP 405",
		},
		"a redirect to a page": {func(w http.ResponseWriter, _ wireCall) {
			w.Header().Set("Location", "/login")
			w.WriteHeader(http.StatusSeeOther)
		}, mcpclient.KindUnavailable, true, true, "cannot be followed"},
		"a cut connection": {func(w http.ResponseWriter, _ wireCall) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = c.Close()
			}
		}, mcpclient.KindConnectionLost, true, true, "no answer came"},
	}
}

// TestHTTPRefusals: no answer to one call ends the connection or affects the calls of others.
func TestHTTPRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started, release := make(chan struct{}), make(chan struct{})
			i, cfg := intercept(t, map[string]func(http.ResponseWriter, wireCall){
				"echo": tc.answer,
				"slow": func(w http.ResponseWriter, c wireCall) {
					close(started)
					<-release
					answers("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`)(w, c)
				},
			})
			i.get = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-Id") != "" {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				i.inner.ServeHTTP(w, r)
			}
			m := setup(t, mcpclient.Options{}, cfg)
			before, err := m.Connect(ctxFor(t), "", "bad")
			if err != nil {
				t.Fatal(err)
			}
			other := make(chan error, 1)
			go func() {
				_, err := m.Call(ctxFor(t), "bad", "slow", nil, mcpclient.CallOptions{})
				other <- err
			}()
			<-started
			_, err = m.Call(ctxFor(t), "bad", "echo", nil, mcpclient.CallOptions{})
			close(release)
			ce := callError(t, err, tc.kind, tc.sent)
			wantIn(t, "error", ce.Error(), tc.want)
			if ce.InDoubt() != tc.inDoubt {
				t.Errorf("in doubt: %t", ce.InDoubt())
			}
			if n := i.count("echo"); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
			if err := <-other; err != nil {
				t.Errorf("another call failed: %v", err)
			}
			if after, err := m.Connect(ctxFor(t), "", "bad"); err != nil || after != before {
				t.Errorf("connection %d, then %d (%v)", before, after, err)
			}
		})
	}
}

// unused is an address at which no server listens. A port that was free a moment ago may be in use by another test.
const unused = "http://127.0.0.1:1"

func TestHTTPUnreachable(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, mcpclient.Config{Name: "bad", URL: unused})
	s := m.Start(ctxFor(t))[0]
	if s.State != mcpclient.StateFailed {
		t.Errorf("state %s", s.State)
	}
	wantIn(t, "reason", s.Reason, "connection refused")
}

func TestHTTPSessionLost(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	var h atomic.Pointer[http.Handler]
	forget := func() { inner := u.handler(nil); h.Store(&inner) }
	forget()
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*h.Load()).ServeHTTP(w, r) }))

	m := setup(t, mcpclient.Options{}, cfg)
	before := mustCall(t, m, "echo", `{}`)
	forget()
	// The server did not accept the call, so the client sends it again in a new session.
	if after := mustCall(t, m, "echo", `{}`); after.Conn <= before.Conn {
		t.Errorf("connection %d, then %d", before.Conn, after.Conn)
	}

	cfg.Stateful = true
	stateful := setup(t, mcpclient.Options{}, cfg)
	before = mustCall(t, stateful, "echo", `{}`)
	forget()
	_, err := call(t, stateful, "echo", `{}`)
	wantIn(t, "error", callError(t, err, mcpclient.KindConnectionLost, false).Error(), "forgotten the session")
	eventually(t, "a new session, without a backoff", func() bool {
		res, err := call(t, stateful, "echo", `{}`)
		var ce *mcpclient.CallError
		if errors.As(err, &ce) && ce.Kind == mcpclient.KindUnavailable {
			t.Fatal(err)
		}
		return err == nil && res.Conn > before.Conn
	})
}

// TestHTTPStreamThatSaysNothing: a server may send no header for the optional stream of notifications, although the SDK waits for the header.
func TestHTTPStreamThatSaysNothing(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	inner := u.handler(nil)
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			return
		}
		if r.Header.Get("Mcp-Method") == "server/discover" {
			http.Error(w, "unknown", http.StatusBadRequest) // servers before 2026-07-28 answer this way, and offer the stream
			return
		}
		inner.ServeHTTP(w, r)
	}))
	m := setup(t, mcpclient.Options{}, cfg)
	mustCall(t, m, "echo", `{}`)
}

func TestHTTPAnswerThatIsTooLargeOrWrong(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"application/json", "text/event-stream"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t)
			inner := u.handler(nil)
			var answer atomic.Pointer[string]
			cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if a := answer.Load(); a != nil && strings.Contains(string(body), "tools/call") {
					w.Header().Set("Content-Type", mode)
					text := *a
					if mode == "text/event-stream" {
						text = "id: 1\ndata: " + text + "\n\n"
					}
					_, _ = io.WriteString(w, text) // the client may close the connection before the end of the text
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				inner.ServeHTTP(w, r)
			}))
			m := setup(t, mcpclient.Options{MaxResult: 1 << 20}, cfg)
			before := mustCall(t, m, "echo", `{}`)
			for text, want := range map[string]string{
				`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 2<<20) + `"}]}}`: "larger than 1048576 bytes",
				`{"jsonrpc":"2.0","id":1,"result":{"content":[}}`:                                                             "invalid message",
			} {
				answer.Store(&text)
				_, err := call(t, m, "echo", `{}`)
				wantIn(t, "error", callError(t, err, mcpclient.KindProtocol, true).Error(), want)
			}
			answer.Store(nil)
			if after := mustCall(t, m, "echo", `{}`); after.Conn != before.Conn {
				t.Error("a bad answer cost the connection")
			}
		})
	}
}

// TestHTTPHostile: a handshake with endless data fails, and a server that floods its stream of notifications can still be called.
func TestHTTPHostile(t *testing.T) {
	t.Parallel()
	pour := func(w http.ResponseWriter, r *http.Request, text string) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
	}
	t.Run("handshake", func(t *testing.T) {
		t.Parallel()
		cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			pour(w, r, strings.Repeat(" ", 1<<16))
		}))
		m := setup(t, mcpclient.Options{}, cfg)
		s := m.Start(ctxFor(t))[0]
		if s.State != mcpclient.StateFailed {
			t.Errorf("state %s", s.State)
		}
		wantIn(t, "reason", s.Reason, "larger than 1048576 bytes")
	})
	for name, event := range map[string]string{
		"notifications": `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`,
		"changes":       `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		"requests":      `{"jsonrpc":"2.0","id":"again","method":"ping"}`,
		"answers":       `{"jsonrpc":"2.0","id":12345,"result":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := newUpstream(t).handler(nil)
			poured := make(chan struct{})
			var once sync.Once
			cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, "data: "+event+"\n\n")
					w.(http.Flusher).Flush()
					once.Do(func() { close(poured) })
					pour(w, r, strings.Repeat("data: "+event+"\n\n", 100))
					return
				}
				inner.ServeHTTP(w, r)
			}))
			m := setup(t, mcpclient.Options{}, cfg)
			m.Start(ctxFor(t))
			<-poured
			eventually(t, "the server can be used", func() bool {
				_, err := call(t, m, "echo", `{}`)
				return err == nil
			})
		})
	}
}

// TestHTTPSessionForgotten: when a server has forgotten the session, the client opens a new one. Calls in flight in the old session still get their
// answers.
func TestHTTPSessionForgotten(t *testing.T) {
	t.Parallel()
	const typeJSON, typeEvents, answer = "application/json", "text/event-stream", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Session not found"},"id":%s}`
	for name, tc := range map[string]struct {
		status     int
		kind, text string         // content type and body; %s stands for the id of the request
		err        mcpclient.Kind // kind of the call's error; empty if the call is sent again, because a refused call was not carried out
		doubt      bool
	}{
		"as specified":                          {404, typeJSON, fmt.Sprintf(answer, "null"), "", false},
		"as the examples of the TypeScript SDK": {400, typeJSON, fmt.Sprintf(answer, "null"), "", false},
		"with its id":                           {404, typeJSON, answer, "", false},
		"without a word":                        {404, "", "", "", false},
		"as gone":                               {410, "text/plain", "gone", "", false},
		"as unauthorized":                       {401, "text/plain", "Unauthorized: Session not found", "", false},
		"as forbidden":                          {403, typeJSON, `{"detail":"unknown sessionId"}`, "", false},
		"as unprocessable":                      {422, typeJSON, `{"error":"Mcp-Session-Id is not valid"}`, "", false},
		"as an error of the server":             {500, "text/html", "<h1>Session expired</h1>", mcpclient.KindHTTP, true},
		"as an answer":                          {200, typeJSON, answer, mcpclient.KindRPC, true},
		"as an answer to no request":            {200, typeJSON, fmt.Sprintf(answer, "null"), mcpclient.KindRPC, true},
		"as an event":                           {200, typeEvents, "data: " + answer + "\n\n", mcpclient.KindRPC, true},
		"as an event that is no message":        {200, typeEvents, "event: message\ndata: {\"error\": \"Session not found\"}\n\n", mcpclient.KindProtocol, true},
		"as a page":                             {200, typeJSON, `{"error":"invalid session"}`, mcpclient.KindProtocol, true},
	} {
		for _, c := range []struct {
			suffix string
			source credentials.Source
		}{{"", nil}, {", with credentials", &credentials.Keys{Server: "bad", HeaderIn: "Authorization", ByUser: map[string]string{"*": "a-key"}}}} {
			t.Run(name+c.suffix, func(t *testing.T) {
				t.Parallel()
				started, release := make(chan struct{}), make(chan struct{})
				i, cfg := intercept(t, map[string]func(http.ResponseWriter, wireCall){
					"slow": func(w http.ResponseWriter, call wireCall) {
						close(started)
						<-release
						answers("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`)(w, call)
					},
				})
				var forgotten atomic.Pointer[string]
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					session := r.Header.Get("Mcp-Session-Id")
					if gone := forgotten.Load(); gone != nil && *gone == session && r.Method == http.MethodPost {
						var msg struct{ ID json.RawMessage }
						_ = json.NewDecoder(r.Body).Decode(&msg) // decoding leaves the id of a notification empty
						w.Header().Set("Content-Type", tc.kind)
						w.WriteHeader(tc.status)
						_, _ = io.WriteString(w, strings.ReplaceAll(tc.text, "%s", string(msg.ID)))
						return
					}
					i.ServeHTTP(w, r)
				}))
				t.Cleanup(srv.Close)
				cfg.URL, cfg.Credentials = srv.URL, c.source
				m := setup(t, mcpclient.Options{}, cfg)
				var session string
				i.on["session"] = func(w http.ResponseWriter, call wireCall) {
					session = call.session
					answers("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`)(w, call)
				}
				before := mustCall(t, m, "session", `{}`)
				other := make(chan error, 1)
				go func() {
					_, err := m.Call(ctxFor(t), "bad", "slow", nil, mcpclient.CallOptions{})
					other <- err
				}()
				<-started
				forgotten.Store(&session)
				after, err := call(t, m, "echo", `{}`)
				if tc.err != "" {
					ce, ok := errors.AsType[*mcpclient.CallError](err)
					if !ok || ce.Kind != tc.err || ce.InDoubt() != tc.doubt || !strings.Contains(strings.ToLower(ce.Error()), "session") {
						t.Errorf("%+v, %v", after, err)
					}
					after, err = call(t, m, "echo", `{}`)
				}
				close(release)
				if err != nil || after.Conn <= before.Conn {
					t.Errorf("%+v, %v", after, err)
				}
				if err := <-other; err != nil {
					t.Errorf("the call in flight failed: %v", err)
				}
				if n := i.count("echo"); n != 1 {
					t.Errorf("the call arrived %d times", n)
				}
			})
		}
	}
}

// TestHTTPNotificationsRefused: if a server refuses the notification of a cancelled call, other calls are not affected.
func TestHTTPNotificationsRefused(t *testing.T) {
	t.Parallel()
	inner := newUpstream(t).handler(nil)
	refused := make(chan struct{}, 1)
	started := make(chan struct{}, 1)
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "notifications/cancelled"):
			http.Error(w, "no", http.StatusBadRequest)
			refused <- struct{}{}
			return
		case strings.Contains(string(body), `"slow"`):
			started <- struct{}{}
			<-r.Context().Done()
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		inner.ServeHTTP(w, r)
	}))
	m := setup(t, mcpclient.Options{}, cfg)
	before := mustCall(t, m, "echo", `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	_, err := m.Call(ctx, "bad", "slow", nil, mcpclient.CallOptions{})
	callError(t, err, mcpclient.KindCancelled, true)
	<-refused
	if after := mustCall(t, m, "echo", `{}`); after.Conn != before.Conn {
		t.Error("the connection is lost")
	}
}

// TestHTTPListening: the stream of notifications is opened again when it ends, with the id of its last event, and calls continue meanwhile.
func TestHTTPListening(t *testing.T) {
	t.Parallel()
	i, cfg := intercept(t, nil)
	opened := make(chan string, 10)
	i.get = func(w http.ResponseWriter, r *http.Request) {
		select {
		case opened <- r.Header.Get("Last-Event-Id"):
		default:
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
	}
	m := setup(t, mcpclient.Options{}, cfg)
	before := mustCall(t, m, "echo", `{}`)
	for _, want := range []string{"", "7", "7"} {
		if got := <-opened; got != want {
			t.Errorf("opened behind event %q, want %q", got, want)
		}
	}
	if after := mustCall(t, m, "echo", `{}`); after.Conn != before.Conn {
		t.Error("the connection is lost")
	}
}

// TestMemoryOfResults: the memory of one user's answers is bounded, and another user's calls do not wait for this budget.
func TestMemoryOfResults(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	large := `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", limit-1000) + `"}]}}`
	_, cfg := intercept(t, map[string]func(http.ResponseWriter, wireCall){
		"json":   answers("application/json", large),
		"events": answers("text/event-stream", "data: "+large+"\n\n"),
	})
	stdio := bad(t, misbehave.Normal)
	stdio.Name = "stdio"
	m := setup(t, mcpclient.Options{MaxResult: limit}, cfg, stdio)
	read := func(owner, server, tool string, timeout time.Duration) (*mcpclient.Result, error) {
		return m.Call(ctxFor(t), server, tool, json.RawMessage(`{"bytes":1000000}`), mcpclient.CallOptions{User: owner, Timeout: timeout})
	}
	must := func(owner, server, tool string) *mcpclient.Result {
		t.Helper()
		res, err := read(owner, server, tool, patience)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for _, tc := range []struct{ server, tool, want string }{
		{"bad", "json", "4194304 bytes"}, {"bad", "events", "4194304 bytes"}, {"stdio", "big", "4194304 bytes"},
	} {
		var held []*mcpclient.Result
		for range 4 {
			held = append(held, must("greedy", tc.server, tc.tool))
		}
		timeout := 100 * time.Millisecond // over HTTP the answer waits for the budget until the timeout
		if tc.server == "stdio" {
			timeout = patience
		}
		eventually(t, "the fifth answer comes before its timeout, and is not held", func() bool {
			_, err := read("greedy", tc.server, tc.tool, timeout)
			if err == nil {
				t.Fatalf("%s: a fifth answer is held", tc.tool)
			}
			return strings.Contains(err.Error(), "held for this user") && strings.Contains(err.Error(), tc.want)
		})
		must("modest", tc.server, tc.tool).Release()
		waiting := make(chan error, 1)
		if tc.server == "bad" { // over HTTP the answer waits for the budget; over stdio this would block the stream that all calls share
			go func() {
				res, err := read("greedy", tc.server, tc.tool, patience)
				if err == nil {
					res.Release()
				}
				waiting <- err
			}()
		} else {
			waiting <- nil
		}
		for _, res := range held {
			res.Release()
			res.Release()
		}
		if err := <-waiting; err != nil {
			t.Error(err)
		}
		must("greedy", tc.server, tc.tool).Release()
	}
}

// TestHTTPSecretsInTheURL: texts about a server do not show the parameters of its address.
func TestHTTPSecretsInTheURL(t *testing.T) {
	t.Parallel()
	cfg := mcpclient.Config{Name: "bad", URL: strings.Replace(unused, "http://", "http://ann:s3cret@", 1) + "/mcp?code=s3cret"}
	var log strings.Builder
	m := setup(t, mcpclient.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, cfg)
	s := m.Start(ctxFor(t))[0]
	_, err := call(t, m, "echo", `{}`)
	wantIn(t, "reason", s.Reason, "connection refused")
	for _, text := range []string{s.Reason, err.Error(), log.String()} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("it shows the secret: %s", text)
		}
	}
}
