package mcpclient_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// TestWhatDidNotArrive: a call that provably did not reach its server is not in doubt, whether or not its tool may change something.
func TestWhatDidNotArrive(t *testing.T) {
	t.Parallel()
	// stopped returns the configuration of a server and a function that stops the server. Its connections are kept alive until then.
	stopped := func(t *testing.T, h http.Handler) (mcpclient.Config, func()) {
		srv := httptest.NewServer(h)
		end := func() { srv.CloseClientConnections(); srv.Close() }
		return mcpclient.Config{Name: "bad", URL: srv.URL + "/mcp", StartupTimeout: patience, Timeout: patience}, end
	}
	for name, start := range map[string]func(t *testing.T) (cfg mcpclient.Config, end func()){
		"refused at once": func(*testing.T) (mcpclient.Config, func()) { return mcpclient.Config{Name: "bad", URL: unused}, nil },
		"an unknown host": func(*testing.T) (mcpclient.Config, func()) {
			return mcpclient.Config{Name: "bad", URL: "http://nowhere.invalid/mcp"}, nil
		},
		"no TLS": func(t *testing.T) (mcpclient.Config, func()) {
			cfg := serve(t, http.NotFoundHandler())
			cfg.URL = strings.Replace(cfg.URL, "http:", "https:", 1)
			return cfg, nil
		},
		"streamable HTTP": func(t *testing.T) (mcpclient.Config, func()) { return stopped(t, newUpstream(t).handler(nil)) },
		"stateless": func(t *testing.T) (mcpclient.Config, func()) {
			return stopped(t, newUpstream(t).handler(&mcp.StreamableHTTPOptions{Stateless: true}))
		},
		"SSE": func(t *testing.T) (mcpclient.Config, func()) {
			u := newUpstream(t)
			cfg, end := stopped(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return u.Server }, nil))
			cfg.Transport = "sse"
			return cfg, end
		},
		"no process": func(*testing.T) (mcpclient.Config, func()) {
			return mcpclient.Config{Name: "bad", Command: "/nowhere/at/all"}, nil
		},
		"a process that dies at its start": func(t *testing.T) (mcpclient.Config, func()) { return bad(t, misbehave.Dies), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, end := start(t)
			opts := mcpclient.Options{}
			opts.SetBackoff(time.Millisecond, time.Millisecond)
			m := setup(t, opts, cfg)
			if end != nil {
				for range 3 {
					mustCall(t, m, "echo", `{}`)
				}
				end()
				// A request may have arrived if it is written before the client notices the end of the connection.
				eventually(t, "the end is seen", func() bool {
					_, err := call(t, m, "echo", `{}`)
					ce, ok := errors.AsType[*mcpclient.CallError](err)
					return ok && !ce.InDoubt()
				})
			}
			for range 3 {
				_, err := m.Call(ctxFor(t), "bad", "echo", json.RawMessage(`{}`), mcpclient.CallOptions{})
				ce, ok := errors.AsType[*mcpclient.CallError](err)
				if !ok || ce.InDoubt() || ce.Sent || ce.Kind != mcpclient.KindUnavailable && ce.Kind != mcpclient.KindConnectionLost {
					t.Errorf("%+v", err)
				}
			}
		})
	}
}
