package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
)

// maxToken is the maximum size of a credential in bytes. JWTs with many groups have some kilobytes.
const maxToken = 16 << 10

var errNoCredential = fmt.Errorf("%w: send an API key or a token as Authorization: Bearer …", ErrUnauthenticated)

// errNoLocalToken replaces errNoCredential in a harness without keys.
var errNoLocalToken = fmt.Errorf("%w: send what `harness token` prints as Authorization: Bearer …", ErrUnauthenticated)

// Authenticator authenticates the senders of requests. Without an Issuer and until the first key is created, the harness is open: the local token belongs to
// an admin, and a request without a credential has the role Anonymous. An open harness may listen on loopback only. The methods of an Authenticator are safe
// for concurrent use.
type Authenticator struct {
	Keys   *Keys   // nil if there are no API keys
	Issuer *Issuer // nil if no JWT is accepted
	Local  string  // the local token; empty if none is accepted

	closed atomic.Bool // set once a key exists; keys are never deleted
}

// Open reports whether there is neither a key nor an Issuer. Until a key exists, each call of Open asks the store, because another process may
// create a key.
func (a *Authenticator) Open(ctx context.Context) (bool, error) {
	switch {
	case a.Issuer != nil || a.closed.Load():
		return false, nil
	case a.Keys == nil:
		return true, nil
	}
	made, err := a.Keys.Any(ctx)
	if made {
		a.closed.Store(true)
	}
	return !made && err == nil, err
}

// Authenticate returns the sender of the request. Errors wrap ErrUnauthenticated, ErrForbidden or ErrUnavailable, or come from the store, and never
// contain the credential. If there is an error, the Identity is empty except for the Principal, which is set if the credential is known.
func (a *Authenticator) Authenticate(ctx context.Context, r *http.Request) (Identity, error) {
	open, err := a.Open(ctx)
	if err != nil {
		return Identity{}, err
	}
	token, err := bearer(r.Header)
	isKey := strings.HasPrefix(token, keyPrefix)
	switch {
	case open && errors.Is(err, errNoCredential):
		return anonymous(r)
	case open && err == nil && a.Local != "" && subtle.ConstantTimeCompare([]byte(token), []byte(a.Local)) == 1:
		return Local(), nil
	case open && err == nil && !isKey:
		return Identity{}, fmt.Errorf("%w: this is not the local token; `harness token` prints it", ErrUnauthenticated)
	case err != nil:
		return Identity{}, err
	case a.Keys != nil && isKey:
		return a.Keys.Authenticate(ctx, token)
	case a.Issuer != nil:
		return a.Issuer.Authenticate(ctx, token)
	default:
		return Identity{}, fmt.Errorf("%w: %w", ErrUnauthenticated, errMistyped)
	}
}

// Active returns an error that wraps ErrUnauthenticated if a principal that Authenticate returned is no longer accepted: its key is revoked or
// has expired, or the principal is local and the harness has keys now.
func (a *Authenticator) Active(ctx context.Context, principal string) error {
	if strings.HasPrefix(principal, keyIDPrefix) && a.Keys != nil {
		_, err := a.Keys.key(ctx, principal)
		return err
	}
	open, err := a.Open(ctx)
	if principal == local && err == nil && !open {
		return fmt.Errorf("%w: the harness has keys now", ErrUnauthenticated)
	}
	return err
}

// anonymous returns the identity of a request without a credential to an open harness.
func anonymous(r *http.Request) (Identity, error) {
	if !localHost(r.Host) {
		return Identity{}, fmt.Errorf("%w: without API keys the harness answers to localhost and IP addresses only; "+
			"make a key with `harness keys create`", ErrForbidden)
	}
	return Identity{Principal: local, Roles: []Role{Anonymous}}, nil
}

// Challenge returns the WWW-Authenticate header for an error (RFC 6750, section 3); "" if the error needs none.
func Challenge(err error) string {
	const realm = `Bearer realm="harness"`
	switch {
	case errors.Is(err, errNoCredential), errors.Is(err, errNoLocalToken):
		return realm
	case errors.Is(err, ErrUnauthenticated):
		return realm + `, error="invalid_token"`
	case errors.Is(err, ErrForbidden):
		return realm + `, error="insufficient_scope"`
	default:
		return ""
	}
}

// bearer returns the credential of a request.
func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", errNoCredential
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case len(values) > 1:
		return "", fmt.Errorf("%w: there is more than one Authorization header", ErrUnauthenticated)
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return "", errNoCredential
	case len(token) > maxToken:
		return "", fmt.Errorf("%w: the token is longer than %d bytes", ErrUnauthenticated, maxToken)
	}
	return token, nil
}

// localHost reports whether a Host header names this machine or is an IP address. Any other name can belong to a web page that makes the
// name resolve to 127.0.0.1 (DNS rebinding); the page then has the same origin as this server.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}
