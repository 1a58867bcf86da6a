package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// How the keys of an issuer are kept.
const (
	keysFresh    = time.Hour        // how long keys are used without asking again
	keysStale    = 24 * time.Hour   // and if the issuer does not answer then
	fetchPause   = 10 * time.Second // between two fetches, whoever wants them: tokens with made-up key ids cost the issuer nothing
	fetchTimeout = 5 * time.Second  // of discovery and keys together
	maxKeys      = 100              // of an issuer
	maxDocument  = 1 << 20          // bytes
	minRSA       = 2048             // bits (RFC 7518, section 3.3)
)

// keySet holds the signing keys of an issuer. They are fetched when a token first needs them, again after an hour, and
// when a token names a key that is not among them: that is how issuers rotate keys. One fetch serves all who wait, and
// outlives the request that began it.
type keySet struct {
	issuer string
	client *http.Client

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time     // when keys were
	tried   time.Time     // when the last fetch began, or ended
	failed  error         // why the last fetch did; nil if it did not
	running chan struct{} // closed when the fetch under way ends; nil if there is none
}

func newKeySet(issuer string, client *http.Client) *keySet {
	if client == nil {
		client = &http.Client{}
	}
	c := *client
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if req.URL.Scheme != via[0].URL.Scheme || len(via) > 3 {
			return errors.New("refused to follow the redirect")
		}
		return nil
	}
	return &keySet{issuer: issuer, client: &c}
}

// find returns the keys that may have signed a token with this header.
func (s *keySet) find(ctx context.Context, h jose.Header) ([]jose.JSONWebKey, error) {
	for {
		s.mu.Lock()
		found := s.match(h)
		age, pause := time.Since(s.fetched), time.Since(s.tried)
		switch {
		case len(found) > 0 && age < keysFresh:
			s.mu.Unlock()
			return found, nil
		case s.running == nil && !s.tried.IsZero() && pause < fetchPause:
			failed := s.failed
			s.mu.Unlock()
			switch {
			case len(found) > 0 && age < keysStale:
				return found, nil
			case failed != nil:
				return nil, fmt.Errorf("%w: issuer %s: %w", ErrUnavailable, s.issuer, failed)
			default:
				return nil, refuse("the issuer has no such key")
			}
		case s.running == nil:
			s.tried = time.Now()
			s.running = make(chan struct{})
			go s.refresh()
		}
		if len(found) > 0 && age < keysStale && s.failed != nil {
			s.mu.Unlock()
			return found, nil // the last fetch has failed: nobody waits for the outcome of the next
		}
		running := s.running
		s.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the keys of issuer %s: %w", s.issuer, ctx.Err())
		}
	}
}

// match is called with mu held.
func (s *keySet) match(h jose.Header) []jose.JSONWebKey {
	var out []jose.JSONWebKey
	for _, k := range s.keys {
		if (h.KeyID == "" || k.KeyID == h.KeyID) && (k.Algorithm == "" || k.Algorithm == h.Algorithm) && fits(k, h.Algorithm) {
			out = append(out, k)
		}
	}
	if h.KeyID == "" && len(out) > 1 {
		return nil // OpenID Connect Core, section 10.1: with several keys the token has to name its own
	}
	return out
}

// fits says whether a key is of the algorithm's kind.
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

func (s *keySet) refresh() {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	keys, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.keys, s.fetched = keys, time.Now()
	}
	s.tried, s.failed = time.Now(), err
	close(s.running)
	s.running = nil
}

// fetch reads the discovery document every time: an issuer that moves its keys says so there.
func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	var discovery struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := s.get(ctx, strings.TrimSuffix(s.issuer, "/")+"/.well-known/openid-configuration", &discovery); err != nil {
		return nil, err
	}
	if discovery.Issuer != s.issuer {
		return nil, fmt.Errorf("it calls itself %q; configure it by that name", discovery.Issuer)
	}
	if strings.HasPrefix(s.issuer, "https:") && !strings.HasPrefix(discovery.Keys, "https:") {
		return nil, errors.New("its jwks_uri is no https address")
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := s.get(ctx, discovery.Keys, &set); err != nil {
		return nil, err
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) == nil && usable(k) { // keys of kinds that are not known yet are skipped
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it publishes no key that is of use")
	}
	return slices.Clip(keys), nil
}

// usable says whether tokens may be signed with a key: a public one, meant for signatures, and strong enough.
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
