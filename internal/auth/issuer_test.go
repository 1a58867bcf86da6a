package auth

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

func TestIssuerAccepts(t *testing.T) {
	t.Parallel()
	es, ed, rs, ps := newSigningKey(t, "es"), newEdKey(t, "ed"), newRSAKey(t, "rs", jose.RS256, 2048), newRSAKey(t, "ps", jose.PS512, 2048)
	issuer := serve(t, es, ed, rs, ps)
	roles := func(o *IssuerOptions) { o.RolesClaim = "realm_access.roles" }
	for _, tt := range []struct {
		name    string
		key     *signingKey
		claims  map[string]any
		options func(*IssuerOptions)
		want    Identity
	}{
		{"es256", es, nil, nil, Identity{"oidc:alice", "alice", []Role{User}}},
		{"eddsa", ed, nil, nil, Identity{"oidc:alice", "alice", []Role{User}}},
		{"rs256", rs, nil, nil, Identity{"oidc:alice", "alice", []Role{User}}},
		{"ps512", ps, nil, nil, Identity{"oidc:alice", "alice", []Role{User}}},
		{"one of several audiences", es, map[string]any{"aud": []string{"other", "harness"}}, nil, Identity{"oidc:alice", "alice", []Role{User}}},
		{"clock a little behind", es, map[string]any{"exp": time.Now().Add(-30 * time.Second).Unix()}, nil, Identity{"oidc:alice", "alice", []Role{User}}},
		{"clock a little ahead", es, map[string]any{"nbf": time.Now().Add(30 * time.Second).Unix()}, nil, Identity{"oidc:alice", "alice", []Role{User}}},
		{
			"user claim", es,
			map[string]any{"email": "alice@example.com"},
			func(o *IssuerOptions) { o.UserClaim = "email" },
			Identity{"oidc:alice", "alice@example.com", []Role{User}},
		},
		{
			"roles by path", es,
			map[string]any{"realm_access": map[string]any{"roles": []any{"offline_access", "approver", 7, "admin"}}},
			roles,
			Identity{"oidc:alice", "alice", []Role{Approver, Admin}},
		},
		{
			"roles by name with dots", es,
			map[string]any{"https://example.com/roles": "user approver"},
			func(o *IssuerOptions) { o.RolesClaim = "https://example.com/roles" },
			Identity{"oidc:alice", "alice", []Role{User, Approver}},
		},
		{"no roles", es, map[string]any{"realm_access": "admin"}, roles, Identity{"oidc:alice", "alice", nil}},
		// A subject cannot pass for an API key or for the local admin.
		{"odd subject", es, map[string]any{"sub": "local"}, nil, Identity{"oidc:local", "local", []Role{User}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := newTestIssuer(t, issuer, tt.options).Authenticate(t.Context(), tt.key.token(t, issuer.url, tt.claims))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIssuerRefuses(t *testing.T) {
	t.Parallel()
	key, rs := newSigningKey(t, "k1"), newRSAKey(t, "rs", jose.RS256, 2048)
	issuer := serve(t, key, rs)
	impostor := newSigningKey(t, "k1")
	now := time.Now()
	claims := func(name string, v any) string { return key.token(t, issuer.url, map[string]any{name: v}) }
	withHeader := func(name jose.HeaderKey, v any) string {
		return sign(t, key.algorithm, key.private, map[jose.HeaderKey]any{"kid": "k1", name: v}, goodClaims(issuer.url, nil))
	}
	der, err := x509.MarshalPKIXPublicKey(rs.private.Public())
	if err != nil {
		t.Fatal(err)
	}
	good := key.token(t, issuer.url, nil)
	parts := strings.Split(good, ".")
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	embedded := impostor.public()
	for name, tt := range map[string]struct{ token, why string }{
		"expired":                 {claims("exp", now.Add(-2*time.Minute).Unix()), "expired"},
		"no expiry":               {claims("exp", nil), "never expires"},
		"not yet":                 {claims("nbf", now.Add(2*time.Minute).Unix()), "not valid yet"},
		"from the future":         {claims("iat", now.Add(2*time.Minute).Unix()), "not valid yet"},
		"wrong audience":          {claims("aud", "other"), "audience"},
		"no audience":             {claims("aud", nil), "audience"},
		"audience in other case":  {claims("aud", "Harness"), "audience"},
		"wrong issuer":            {claims("iss", issuer.url+"/"), "another issuer"},
		"no issuer":               {claims("iss", nil), "another issuer"},
		"no subject":              {claims("sub", nil), "no subject"},
		"subject no text":         {claims("sub", 7), "malformed"},
		"subject no user id":      {claims("sub", "a\x00"), "U+0000"},
		"long subject":            {claims("sub", strings.Repeat("a", MaxUser+1)), "longer"},
		"impostor":                {impostor.token(t, issuer.url, nil), "signature"},
		"embedded key":            {sign(t, jose.ES256, impostor.private, map[jose.HeaderKey]any{"kid": "k1", "jwk": embedded}, goodClaims(issuer.url, nil)), "signature"},
		"changed claims":          {parts[0] + "." + encode(goodClaims(issuer.url, map[string]any{"sub": "bob"})) + "." + parts[2], "signature"},
		"no signature":            {parts[0] + "." + parts[1] + ".", "signature"},
		"alg none":                {encode(map[string]string{"alg": "none"}) + "." + parts[1] + ".", "algorithm"},
		"alg None":                {encode(map[string]string{"alg": "None", "kid": "k1"}) + "." + parts[1] + "." + parts[2], "algorithm"},
		"hmac with public key":    {sign(t, jose.HS256, der, map[jose.HeaderKey]any{"kid": "rs"}, goodClaims(issuer.url, nil)), "algorithm"},
		"another key's algorithm": {sign(t, jose.PS256, rs.private, map[jose.HeaderKey]any{"kid": "rs"}, goodClaims(issuer.url, nil)), "no such key"},
		"key of another kind":     {sign(t, jose.ES256, key.private, map[jose.HeaderKey]any{"kid": "rs"}, goodClaims(issuer.url, nil)), "no such key"},
		"logout token":            {withHeader("typ", "logout+jwt"), "another type"},
		"dpop proof":              {withHeader("typ", "dpop+jwt"), "another type"},
		"critical header":         {withHeader("crit", []string{"future"}), ""},
		"no jwt":                  {"alice", "no JWT"},
		"empty":                   {"", "no JWT"},
		"two tokens":              {good + "." + good, "no JWT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newTestIssuer(t, issuer, nil).Authenticate(t.Context(), tt.token)
			if !errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrUnavailable) {
				t.Fatalf("error %v", err)
			}
			if !strings.Contains(err.Error(), tt.why) {
				t.Errorf("error %q does not say %q", err, tt.why)
			}
			if tt.token != "" && strings.Contains(err.Error(), tt.token) {
				t.Errorf("the error %q tells the token", err)
			}
		})
	}
	if _, err := newTestIssuer(t, issuer, nil).Authenticate(t.Context(), good); err != nil {
		t.Errorf("the token that the others were made from: %v", err)
	}
	for _, typ := range []string{"JWT", "at+jwt", "application/at+jwt"} {
		if _, err := newTestIssuer(t, issuer, nil).Authenticate(t.Context(), withHeader("typ", typ)); err != nil {
			t.Errorf("type %s: %v", typ, err)
		}
	}
}

func TestIssuerTokenWithoutKeyID(t *testing.T) {
	t.Parallel()
	one, two := newSigningKey(t, "k1"), newSigningKey(t, "k2")
	issuer := serve(t, one, newEdKey(t, "ed"))
	token := sign(t, one.algorithm, one.private, nil, goodClaims(issuer.url, nil))
	if _, err := newTestIssuer(t, issuer, nil).Authenticate(t.Context(), token); err != nil {
		t.Errorf("the issuer has one key of the kind: %v", err)
	}
	issuer.publish(one, two)
	if _, err := newTestIssuer(t, issuer, nil).Authenticate(t.Context(), token); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("the issuer has two: %v", err)
	}
}

// Many issuers publish keys that do not name their algorithm.
func TestIssuerKeysWithoutAlgorithm(t *testing.T) {
	t.Parallel()
	es, rs := newSigningKey(t, "es"), newRSAKey(t, "rs", jose.RS256, 2048)
	issuer := serve(t)
	issuer.set(func() {
		for _, k := range []*signingKey{es, rs} {
			public := k.public()
			public.Algorithm, public.Use = "", ""
			issuer.keys = append(issuer.keys, public)
		}
	})
	i := newTestIssuer(t, issuer, nil)
	for _, k := range []*signingKey{es, rs} {
		for _, header := range []map[jose.HeaderKey]any{{"kid": k.id}, nil} {
			if _, err := i.Authenticate(t.Context(), sign(t, k.algorithm, k.private, header, goodClaims(issuer.url, nil))); err != nil {
				t.Errorf("%s, header %v: %v", k.id, header, err)
			}
		}
	}
	token := sign(t, es.algorithm, es.private, map[jose.HeaderKey]any{"kid": "rs"}, goodClaims(issuer.url, nil))
	if _, err := i.Authenticate(t.Context(), token); !errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("an ES256 token that names an RSA key: %v", err)
	}
}

func TestNewIssuerChecks(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "issuer.example.com", "http://issuer.example.com", "ftp://issuer.example.com", "https://a?b", "https://a#b", "https://%"} {
		if _, err := NewIssuer(IssuerOptions{URL: url, Audience: []string{"harness"}}); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
	if _, err := NewIssuer(IssuerOptions{URL: "https://issuer.example.com"}); err == nil || !strings.Contains(err.Error(), "audience") {
		t.Errorf("without audience: %v", err)
	}
	for _, url := range []string{"https://issuer.example.com", "https://issuer.example.com/tenant/", "http://localhost:8080/realms/a", "http://[::1]:8080"} {
		if _, err := NewIssuer(IssuerOptions{URL: url, Audience: []string{"harness"}}); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}
