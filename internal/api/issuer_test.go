package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"mcp-code-exec-harness/internal/auth"
)

// idp is an OpenID Connect issuer with discovery and one key.
type idp struct {
	url string
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *idp {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &idp{key: key}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
			return
		}
		json.NewEncoder(w).Encode(map[string]string{"issuer": i.url, "jwks_uri": i.url + "/keys"})
	}))
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

// issuer returns the auth.Issuer that accepts tokens of the idp.
func (i *idp) issuer(t *testing.T) *auth.Issuer {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	known, err := auth.NewIssuer(auth.IssuerOptions{
		URL: i.url, Audience: []string{"harness"}, RolesClaim: "roles", Client: &http.Client{Transport: transport},
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// token returns a token of alice. change replaces or adds claims.
func (i *idp) token(t *testing.T, change map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{
		"iss": i.url, "aud": "harness", "sub": "alice", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "roles": []string{"user"},
	}
	maps.Copy(claims, change)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
