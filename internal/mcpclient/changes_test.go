package mcpclient_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/mcpclient"
)

// TestSubscribe: subscribers are notified of changes of a resource by servers of both generations of the protocol, also after the server has forgotten the
// session. A subscription may be cancelled twice.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	for name, versions := range map[string][]string{"sessions": {"2025-11-25"}, "without sessions": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			up := mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, &mcp.ServerOptions{
				SupportedProtocolVersions: versions,
				SubscribeHandler: func(context.Context, *mcp.SubscribeRequest) error {
					asked.Add(1)
					return nil
				},
				UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
			})
			up.AddResource(&mcp.Resource{Name: "notes", URI: "test://notes"}, nil)
			web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return up }, nil))
			t.Cleanup(web.Close)
			m := setup(t, mcpclient.Options{}, mcpclient.Config{Name: "up", URL: web.URL, Timeout: patience})
			heard := make(chan struct{}, 1)
			cancel, err := m.Subscribe(ctxFor(t), "", "up", "test://notes", func() {
				select {
				case heard <- struct{}{}:
				default:
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			limit := ctxFor(t).Done()
			until := func(what, uri string) {
				t.Helper()
				for {
					_ = up.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
					select {
					case <-heard:
						return
					case <-time.After(time.Second): // a change that the server reports before it has the subscription is lost
					case <-limit:
						t.Fatalf("%s is not heard", what)
					}
				}
			}
			until("a change", "test://notes")
			if versions != nil {
				for session := range up.Sessions() {
					_ = session.Close()
				}
				_, _ = m.Resources(ctxFor(t), "", "up") // the server does not know the session; the client notices this now
				eventually(t, "it is asked again", func() bool { return asked.Load() > 1 })
				until("a change after the server has forgotten the session", "test://notes")
			}
			cancel()
			cancel()
			if _, err := m.Subscribe(ctxFor(t), "", "none", "test://notes", func() {}); err == nil {
				t.Error("an unknown server takes a subscription")
			}
		})
	}
}

// TestSubscribeRefused: subscribing fails if the server does not support subscriptions.
func TestSubscribeRefused(t *testing.T) {
	t.Parallel()
	up := mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, nil)
	up.AddResource(&mcp.Resource{Name: "notes", URI: "test://notes"}, nil)
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return up }, nil))
	t.Cleanup(web.Close)
	m := setup(t, mcpclient.Options{}, mcpclient.Config{Name: "up", URL: web.URL, Timeout: patience})
	_, err := m.Subscribe(ctxFor(t), "", "up", "test://notes", func() {})
	callError(t, err, mcpclient.KindRefused, false)
}
