package task

import (
	"context"
	"net/http"
	"net/netip"

	"mcp-code-exec-harness/internal/netguard"
)

// SetTransport replaces the transport of webhooks, because a synctest bubble has no network.
func (s *Service) SetTransport(t http.RoundTripper) { s.client.Transport = t }

// Client returns the HTTP client for webhooks.
func (w Webhooks) Client() *http.Client { return w.client() }

// Public reports whether an address is a public address of the internet.
func Public(ip netip.Addr) bool { return netguard.Public(ip) }

// Session returns a user's session; the error wraps ErrNotFound.
func (s *Service) Session(ctx context.Context, user, id string) (Session, error) {
	return s.opt.Store.Session(ctx, user, id, s.opt.Now())
}
