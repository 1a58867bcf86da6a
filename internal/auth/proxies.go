package auth

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the addresses of trusted proxies: what their X-Forwarded-For and X-Forwarded-Proto headers say about a client is believed. Headers of other
// peers are ignored, because a client can forge them.
type Proxies []netip.Prefix

// Trusts reports whether an address is that of a trusted proxy.
func (p Proxies) Trusts(at netip.Addr) bool {
	at = at.Unmap()
	return slices.ContainsFunc(p, func(prefix netip.Prefix) bool { return prefix.Contains(at) })
}

// Client returns the address of the client that has sent a request. It is the address of the peer or, if the peer is a trusted proxy, the address that
// X-Forwarded-For has. The last entry is from the nearest proxy. Client reads the entries backwards from the last and stops at the first untrusted address,
// because a client can forge all entries before it. Without a valid peer, the address is the zero Addr.
func (p Proxies) Client(r *http.Request) netip.Addr {
	at := peer(r)
	hops := forwarded(r, "X-Forwarded-For")
	for i := len(hops) - 1; i >= 0 && p.Trusts(at); i-- {
		before, err := netip.ParseAddr(hops[i])
		if err != nil {
			break
		}
		at = before.Unmap()
	}
	return at
}

// Secure reports whether the client has sent a request over TLS: to this server or, if the peer is a trusted proxy, to that proxy, as X-Forwarded-Proto says.
// Of several entries the last counts, because it is from the nearest proxy.
func (p Proxies) Secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	schemes := forwarded(r, "X-Forwarded-Proto")
	return p.Trusts(peer(r)) && strings.EqualFold(schemes[len(schemes)-1], "https")
}

// peer returns the address of the other end of a request's connection, or the zero Addr if it has none.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// forwarded returns the entries of a header that proxies append to, at least one.
func forwarded(r *http.Request, header string) []string {
	entries := strings.Split(strings.Join(r.Header.Values(header), ","), ",")
	for i := range entries {
		entries[i] = strings.TrimSpace(entries[i])
	}
	return entries
}
