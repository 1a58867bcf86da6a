package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// fakeIssuer is an OpenID Connect issuer with discovery and keys. It answers over a connection (see serve) or, in tests with a fake clock, as an
// http.RoundTripper.
type fakeIssuer struct {
	url     string
	name    string // issuer in the discovery document; empty means url
	keysURI string // jwks_uri in the discovery document; empty means the issuer's own
	fetches atomic.Int64

	mu   sync.Mutex
	keys []any // published keys: jose.JSONWebKey, or any JSON
	down bool
	hang bool // the issuer accepts requests and never answers
}

const inMemory = "https://issuer.test"

func (f *fakeIssuer) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		name, keys := f.name, f.keysURI
		if name == "" {
			name = f.url
		}
		if keys == "" {
			keys = f.url + "/keys"
		}
		json.NewEncoder(w).Encode(map[string]string{"issuer": name, "jwks_uri": keys})
	case "/keys":
		f.fetches.Add(1)
		json.NewEncoder(w).Encode(map[string]any{"keys": f.keys})
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	hang := f.hang
	f.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result(), nil
}

func (f *fakeIssuer) publish(keys ...*signingKey) {
	f.set(func() {
		f.keys = nil
		for _, k := range keys {
			f.keys = append(f.keys, k.public())
		}
	})
}

// serve starts the issuer on a real connection.
func serve(t *testing.T, keys ...*signingKey) *fakeIssuer {
	t.Helper()
	f := &fakeIssuer{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	f.publish(keys...)
	return f
}

func newTestIssuer(t *testing.T, f *fakeIssuer, change func(*IssuerOptions)) *Issuer {
	t.Helper()
	opt := IssuerOptions{URL: f.url, Audience: []string{"harness"}}
	if f.url == inMemory {
		opt.Client = &http.Client{Transport: f}
	}
	if change != nil {
		change(&opt)
	}
	i, err := NewIssuer(opt)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// signingKey is a private key with its id.
type signingKey struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

func (k *signingKey) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Algorithm: string(k.algorithm), Use: "sig"}
}

// newSigningKey makes an ES256 key.
func newSigningKey(t *testing.T, id string) *signingKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signingKey{id, jose.ES256, private}
}

func newRSAKey(t *testing.T, id string, algorithm jose.SignatureAlgorithm, bits int) *signingKey {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return &signingKey{id, algorithm, private}
}

func newEdKey(t *testing.T, id string) *signingKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signingKey{id, jose.EdDSA, private}
}

// token returns a signed token with the claims of a valid one, changed by change. A claim that is nil in change is left out.
func (k *signingKey) token(t *testing.T, issuer string, change map[string]any) string {
	t.Helper()
	return sign(t, k.algorithm, k.private, map[jose.HeaderKey]any{"kid": k.id}, goodClaims(issuer, change))
}

func goodClaims(issuer string, change map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{
		"iss": issuer, "aud": "harness", "sub": "alice", "iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(),
	}
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, header map[jose.HeaderKey]any, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, &jose.SignerOptions{ExtraHeaders: header})
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
