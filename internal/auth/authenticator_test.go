package auth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func request(host string, authorization ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/tasks", nil)
	r.Host = host
	for _, a := range authorization {
		r.Header.Add("Authorization", a)
	}
	return r
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	signer := newSigningKey(t, "k1")
	issuer := serve(t, signer)
	keys := NewKeys(&memoryKeys{})
	key, value := mustCreate(t, keys, NewKey{User: "alice"})
	byKey := Identity{key.ID, "alice", []Role{User}}
	byToken := Identity{"oidc:alice", "alice", []Role{User}}
	both := &Authenticator{Keys: keys, Issuer: newTestIssuer(t, issuer, nil)}
	onlyKeys := &Authenticator{Keys: keys}
	onlyIssuer := &Authenticator{Issuer: newTestIssuer(t, issuer, nil)}
	token := signer.token(t, issuer.url, nil)
	const none, invalid = `Bearer realm="harness"`, `Bearer realm="harness", error="invalid_token"`
	for name, tt := range map[string]struct {
		a         *Authenticator
		headers   []string
		want      Identity
		challenge string // expected challenge; empty if the request is accepted
	}{
		"key":                {both, []string{"Bearer " + value}, byKey, ""},
		"scheme in any case": {both, []string{"bearer  " + value}, byKey, ""},
		"token":              {both, []string{"Bearer " + token}, byToken, ""},
		"only keys":          {onlyKeys, []string{"Bearer " + value}, byKey, ""},
		"only issuer":        {onlyIssuer, []string{"Bearer " + token}, byToken, ""},
		"nothing":            {both, nil, Identity{}, none},
		"another scheme":     {both, []string{"Basic " + value}, Identity{}, none},
		"no value":           {both, []string{"Bearer"}, Identity{}, none},
		"no scheme":          {both, []string{value}, Identity{}, none},
		"two":                {both, []string{"Bearer " + value, "Bearer " + value}, Identity{}, invalid},
		"long":               {both, []string{"Bearer " + strings.Repeat("a", maxToken+1)}, Identity{}, invalid},
		"bad key":            {both, []string{"Bearer hk_bad"}, Identity{}, invalid},
		"bad token":          {both, []string{"Bearer bad"}, Identity{}, invalid},
		"token for keys":     {onlyKeys, []string{"Bearer " + token}, Identity{}, invalid},
		"key for issuer":     {onlyIssuer, []string{"Bearer " + value}, Identity{}, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.a.Authenticate(t.Context(), request("harness.example.com", tt.headers...))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if errors.Is(err, ErrUnauthenticated) != (tt.challenge != "") || Challenge(err) != tt.challenge {
				t.Errorf("error %v, challenge %q", err, Challenge(err))
			}
		})
	}
}

// Without keys, the local token makes its holder an admin. Requests without a credential may only submit tasks.
func TestAuthenticateOpen(t *testing.T) {
	t.Parallel()
	a := &Authenticator{Keys: NewKeys(&memoryKeys{}), Local: "hl_local"}
	for _, host := range []string{"localhost", "localhost:3000", "LOCALHOST.:3000", "app.localhost:3000", "127.0.0.1", "127.0.0.1:3000", "[::1]:3000", "[::1]"} {
		id, err := a.Authenticate(t.Context(), request(host, "Bearer hl_local"))
		if err != nil || id.Principal != "local" || id.ActFor("anybody") != nil || id.Require(Admin) != nil {
			t.Errorf("%s: %+v, %v", host, id, err)
		}
		id, err = a.Authenticate(t.Context(), request(host))
		if err != nil || id.Principal != "local" || id.ActFor("anybody") != nil || id.Caller() != "local" {
			t.Errorf("%s: %+v, %v", host, id, err)
		}
		for _, role := range []Role{User, Approver, Admin} {
			if err := id.Require(role); !errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), "harness token") {
				t.Errorf("%s: without the token it is %s: %v", host, role, err)
			}
		}
	}
	for _, host := range []string{"", "evil.example.com", "evil.example.com:3000", "localhost.evil.example.com", "127.0.0.1.evil.example.com"} {
		if id, err := a.Authenticate(t.Context(), request(host)); !errors.Is(err, ErrForbidden) || id.May(Anonymous) {
			t.Errorf("%q: %+v, %v", host, id, err)
		}
	}
	for _, token := range []string{"ignored", "hl_loca", "hl_local2"} {
		if id, err := a.Authenticate(t.Context(), request("localhost", "Bearer "+token)); !errors.Is(err, ErrUnauthenticated) || id.May(Anonymous) {
			t.Errorf("%q: %+v, %v", token, id, err)
		}
	}
}

// Limits count requests by the user that a credential is bound to, and not by a user that the request names.
func TestCaller(t *testing.T) {
	t.Parallel()
	for want, id := range map[string]Identity{
		"user:alice": {Principal: "key_a", User: "alice"}, "key_a": {Principal: "key_a"}, "local": {Principal: local},
	} {
		if got := id.Caller(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// An open harness checks the key of a request, and refuses the request if the key is unknown or mistyped.
func TestAuthenticateOpenChecksKeys(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]*Authenticator{"no key yet": {Keys: NewKeys(&memoryKeys{})}, "no keys ever": {}} {
		for _, value := range []string{newKeyValue(), "hk_bad"} {
			if id, err := a.Authenticate(t.Context(), request("localhost", "Bearer "+value)); !errors.Is(err, ErrUnauthenticated) || id.May(User) {
				t.Errorf("%s, %s: %+v, %v", name, value, id, err)
			}
		}
	}
}

// The first key closes an open harness, which then never opens again.
func TestAuthenticateFirstKey(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{}
	a, keys := &Authenticator{Keys: NewKeys(store), Local: "hl_local"}, NewKeys(store) // keys stands for another process
	ask := func(authorization ...string) error {
		_, err := a.Authenticate(t.Context(), request("localhost", authorization...))
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	key, value := mustCreate(t, keys, NewKey{})
	if err := ask(); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("without the key: %v", err)
	}
	if err := ask("Bearer " + value); err != nil {
		t.Errorf("with the key: %v", err)
	}
	if err := keys.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	for _, authorization := range [][]string{nil, {"Bearer " + value}, {"Bearer hl_local"}} {
		if err := ask(authorization...); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("after the key, with %v: %v", authorization, err)
		}
	}
}

// If the store cannot say whether a key exists, every request is refused.
func TestAuthenticateFailsWithTheStore(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{fail: errors.New("disk full")}
	a := &Authenticator{Keys: NewKeys(store)}
	if id, err := a.Authenticate(t.Context(), request("localhost")); !errors.Is(err, store.fail) || id.May(User) {
		t.Errorf("%+v, %v", id, err)
	}
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	if got := Challenge(Identity{}.Require(Admin)); got != `Bearer realm="harness", error="insufficient_scope"` {
		t.Errorf("forbidden: %q", got)
	}
	for _, err := range []error{nil, ErrUnavailable, errors.New("disk full")} {
		if got := Challenge(err); got != "" {
			t.Errorf("%v: %q", err, got)
		}
	}
}
