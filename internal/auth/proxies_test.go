package auth_test

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"testing"

	"mcp-code-exec-harness/internal/auth"
)

// TestProxies checks that what a trusted proxy says of a client is believed, and nothing that a client can write itself.
func TestProxies(t *testing.T) {
	t.Parallel()
	proxies := auth.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	for name, c := range map[string]struct {
		peer       string
		tls        bool
		addresses  []string // X-Forwarded-For
		schemes    []string // X-Forwarded-Proto
		wantClient string
		wantSecure bool
	}{
		"direct":                        {peer: "203.0.113.7:1", wantClient: "203.0.113.7"},
		"direct with TLS":               {peer: "203.0.113.7:1", tls: true, schemes: []string{"http"}, wantClient: "203.0.113.7", wantSecure: true},
		"forged by a client":            {peer: "203.0.113.7:1", addresses: []string{"10.0.0.1"}, schemes: []string{"https"}, wantClient: "203.0.113.7"},
		"a proxy with TLS":              {peer: "10.0.0.1:1", addresses: []string{"203.0.113.7"}, schemes: []string{"https"}, wantClient: "203.0.113.7", wantSecure: true},
		"in capitals":                   {peer: "10.0.0.1:1", schemes: []string{" HTTPS "}, wantClient: "10.0.0.1", wantSecure: true},
		"a proxy without TLS":           {peer: "10.0.0.1:1", addresses: []string{"203.0.113.7"}, schemes: []string{"http"}, wantClient: "203.0.113.7"},
		"a proxy that says nothing":     {peer: "10.0.0.1:1", addresses: []string{"203.0.113.7"}, wantClient: "203.0.113.7"},
		"forged through a proxy":        {peer: "10.0.0.1:1", addresses: []string{"198.51.100.1, 203.0.113.7"}, schemes: []string{"https, http"}, wantClient: "203.0.113.7"},
		"forged in a header of its own": {peer: "10.0.0.1:1", schemes: []string{"https", "http"}, wantClient: "10.0.0.1"},
		"a mapped address":              {peer: "[::ffff:10.0.0.1]:1", addresses: []string{"::ffff:203.0.113.7"}, schemes: []string{"https"}, wantClient: "203.0.113.7", wantSecure: true},
		"no peer":                       {peer: "@", addresses: []string{"203.0.113.7"}, schemes: []string{"https"}, wantClient: "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.addresses, "X-Forwarded-Proto": c.schemes}}
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if client, secure := proxies.Client(r).String(), proxies.Secure(r); client != c.wantClient || secure != c.wantSecure {
			t.Errorf("%s: client %s, secure %v", name, client, secure)
		}
	}
}
