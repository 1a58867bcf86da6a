package task

import (
	"context"
	"net/http"
	"net/netip"

	"mcp-code-exec-harness/internal/netguard"
)

// SetTransport has webhooks delivered without a network: a bubble of synctest has none.
func (s *Service) SetTransport(t http.RoundTripper) { s.client.Transport = t }

// Client is what connects.
func (w Webhooks) Client() *http.Client { return w.client() }

// Public says whether an address is one of the internet at large.
func Public(ip netip.Addr) bool { return netguard.Public(ip) }

// Session returns a user's session; the error wraps ErrNotFound.
func (s *Service) Session(ctx context.Context, user, id string) (Session, error) {
	return s.opt.Store.Session(ctx, user, id, s.opt.Now())
}
