package mcpclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/mcpclient"
)

// upstream is a server of the SDK with tools for these tests. started and cancelled say what its slow tool sees.
type upstream struct {
	*mcp.Server
	started, cancelled chan struct{}
}

func newUpstream(t *testing.T) *upstream {
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
			_ = session.Close() // of a handler that "forgot" it
		}
	})
	return u
}

func (u *upstream) handler(opts *mcp.StreamableHTTPOptions) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return u.Server }, opts)
}

// serve runs a handler and gives the configuration of its server.
func serve(t *testing.T, h http.Handler) mcpclient.Config {
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
			want := "2025-11-25" // the newest with sessions
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
				return // there is no stream on which the server could speak by itself
			}
			u.AddTool(&mcp.Tool{Name: "new", InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
			if s := <-changes; len(s.Tools) != 3 {
				t.Errorf("%d tools after the change", len(s.Tools))
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
	// The server answers a cancelled call with an error. It arrives before Call returns: the call is cancelled all the same.
	ctx, cancel := context.WithCancel(t.Context())
	_, err := m.Call(ctx, "bad", "slow", nil, mcpclient.CallOptions{Progress: func(mcpclient.Progress) {
		cancel()
		select {
		case <-refused:
		case <-ctxFor(t).Done():
			t.Error("the server did not answer the cancelled call")
		}
		mustCall(t, m, "echo", `{}`) // its answer comes behind the error, on the same stream
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
			// Another port is another host for this purpose: it may be another user's.
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			return
		case r.URL.Path == "/mcp":
			http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect) // the same host: followed
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
	wantIn(t, "error", callError(t, err, mcpclient.KindUnavailable, false).Error(), "another host than configured")
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
	wantIn(t, "reason", s.Reason, "http://evil.invalid, another host than configured")
}

func TestHTTPRefusals(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	inner := u.handler(nil)
	var status atomic.Int64
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if code := int(status.Load()); code != 0 && strings.Contains(string(body), "tools/call") {
			http.Error(w, "refused", code)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		inner.ServeHTTP(w, r)
	}))
	m := setup(t, mcpclient.Options{}, cfg)
	for code, tc := range map[int]struct {
		sent bool
		want string
	}{
		401: {false, "give credentials"},
		403: {false, "HTTP 403 Forbidden"},
		429: {false, "call it less often"},
		413: {false, "HTTP 413"},
		500: {true, "HTTP 500"},
		503: {true, "HTTP 503"},
	} {
		status.Store(0)
		mustReconnect(t, m)
		status.Store(int64(code))
		_, err := call(t, m, "echo", `{}`)
		wantIn(t, "error", callError(t, err, mcpclient.KindUnavailable, tc.sent).Error(), tc.want)
	}
}

func mustReconnect(t *testing.T, m *mcpclient.Manager) {
	t.Helper()
	if err := m.Reconnect(ctxFor(t), "bad"); err != nil {
		t.Fatal(err)
	}
}

func TestHTTPUnreachable(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	cfg := mcpclient.Config{Name: "bad", URL: srv.URL}
	srv.Close()
	m := setup(t, mcpclient.Options{}, cfg)
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
	// The server did not accept the call, so it is made on a new session.
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

// TestHTTPStreamThatSaysNothing: the SDK waits for the header of the optional stream of notifications.
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
			http.Error(w, "unknown", http.StatusBadRequest) // as servers before 2026-07-28 do, which have the stream
			return
		}
		inner.ServeHTTP(w, r)
	}))
	cfg.StartupTimeout = 10 * time.Second
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
					_, _ = io.WriteString(w, text) // the client may go before the end
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

// TestHTTPHostile: a server that pours out data where little is expected harms nobody, and is done with soon.
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
		wantIn(t, "reason", s.Reason, "too large")
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
