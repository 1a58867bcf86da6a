package auth

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

// Limits of fetching the keys of an issuer.
const (
	keysFresh    = time.Hour        // age from which keys are fetched again
	keysStale    = 24 * time.Hour   // age from which keys are no longer used, even if the issuer does not answer
	fetchPause   = 10 * time.Second // minimum time between two fetches, so that tokens with made-up key ids do not load the issuer
	fetchTimeout = 5 * time.Second  // time limit of discovery and keys together
	maxKeys      = 100              // maximum number of keys of an issuer
	maxDocument  = 1 << 20          // maximum size of a document in bytes
	minRSA       = 2048             // minimum size of an RSA key in bits (RFC 7518, section 3.3)
)

// keySet holds the signing keys of an issuer. It fetches them for a token when there are no keys, when they are an hour old, and when the token
// names an unknown key, because issuers rotate keys. One fetch serves all waiting requests, and continues if the request that began it ends.
type keySet struct {
	issuer  string
	client  *http.Client
	fetches singleflight.Group
	state   atomic.Pointer[keyState]
}

// keyState is the result of the fetches so far. It is immutable.
type keyState struct {
	keys    []jose.JSONWebKey
	fetched time.Time // time at which keys were fetched
	tried   time.Time // time at which the last fetch ended
	failed  error     // error of the last fetch; nil if it succeeded
}

func newKeySet(issuer string, client *http.Client) *keySet {
	c := *cmp.Or(client, &http.Client{})
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if req.URL.Scheme != via[0].URL.Scheme || len(via) > 3 {
			return errors.New("refused to follow the redirect")
		}
		return nil
	}
	s := &keySet{issuer: issuer, client: &c}
	s.state.Store(&keyState{})
	return s
}

// find returns the keys that may have signed a token with this header.
func (s *keySet) find(ctx context.Context, h jose.Header) ([]jose.JSONWebKey, error) {
	now := s.state.Load()
	found := now.match(h, keysStale)
	if len(now.match(h, keysFresh)) > 0 {
		return found, nil
	}
	if time.Since(now.tried) >= fetchPause {
		fetch := s.fetches.DoChan("", s.refresh)
		if len(found) == 0 || now.failed == nil { // during an outage, requests with a known key do not wait for the next fetch
			select {
			case <-fetch:
			case <-ctx.Done():
				return nil, fmt.Errorf("wait for the keys of issuer %s: %w", s.issuer, ctx.Err())
			}
			now = s.state.Load()
			found = now.match(h, keysStale)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case now.failed != nil:
		return nil, fmt.Errorf("%w: issuer %s: %w", ErrUnavailable, s.issuer, now.failed)
	}
	return nil, refuse("the issuer has no such key")
}

// match returns the keys that fit a header. If the age of the keys has reached most, it returns none.
func (s *keyState) match(h jose.Header, most time.Duration) (out []jose.JSONWebKey) {
	if time.Since(s.fetched) >= most {
		return nil
	}
	for _, k := range s.keys {
		if (h.KeyID == "" || k.KeyID == h.KeyID) && (k.Algorithm == "" || k.Algorithm == h.Algorithm) && fits(k, h.Algorithm) {
			out = append(out, k)
		}
	}
	if h.KeyID == "" && len(out) > 1 {
		return nil // OpenID Connect Core, section 10.1: if there are several keys, the token must name its key
	}
	return out
}

// fits reports whether a key has the type that the algorithm needs.
func fits(k jose.JSONWebKey, algorithm string) bool {
	switch k.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(algorithm, "ES")
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	default:
		return false
	}
}

// refresh fetches the keys, unless the last fetch ended less than fetchPause ago.
func (s *keySet) refresh() (any, error) {
	next := *s.state.Load()
	if time.Since(next.tried) < fetchPause {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	var keys []jose.JSONWebKey
	if keys, next.failed = s.fetch(ctx); next.failed == nil {
		next.keys, next.fetched = keys, time.Now()
	}
	next.tried = time.Now()
	s.state.Store(&next)
	return nil, nil
}

// fetch reads the discovery document and the keys. It reads the document each time, because an issuer may move its keys.
func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	found, err := s.discover(ctx)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := s.get(ctx, found.Keys, &set); err != nil {
		return nil, err
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) == nil && usable(k) { // skip keys of unknown types
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it publishes no key that is of use")
	}
	return keys, nil
}

// discovery is the discovery document of an issuer.
type discovery struct {
	Issuer        string   `json:"issuer"`
	Keys          string   `json:"jwks_uri"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
}

func (s *keySet) discover(ctx context.Context) (found discovery, err error) {
	if err := s.get(ctx, strings.TrimSuffix(s.issuer, "/")+"/.well-known/openid-configuration", &found); err != nil {
		return found, err
	}
	if found.Issuer != s.issuer {
		return found, fmt.Errorf("it calls itself %q; configure it by that name", found.Issuer)
	}
	for _, of := range []struct{ name, at string }{{"jwks_uri", found.Keys}, {"authorization_endpoint", found.Authorization}, {"token_endpoint", found.Token}} {
		if strings.HasPrefix(s.issuer, "https:") && !strings.HasPrefix(of.at, "https:") && (of.at != "" || of.name == "jwks_uri") {
			return found, fmt.Errorf("its %s is no https address", of.name)
		}
	}
	return found, nil
}

// usable reports whether a key may verify tokens: it is public, meant for signatures, and strong enough.
func usable(k jose.JSONWebKey) bool {
	if !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
		return false
	}
	if r, ok := k.Key.(*rsa.PublicKey); ok {
		return r.N.BitLen() >= minRSA
	}
	return true
}

func (s *keySet) get(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: HTTP %d", url, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: the answer is not the JSON that was expected", url)
	}
	return nil
}
