package credentials_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/pii/seal"
	"mcp-code-exec-harness/internal/store/sqlstore"
	"mcp-code-exec-harness/internal/testing/oauthtest"
	"mcp-code-exec-harness/internal/testing/postgrestest"
)

// setup returns an OAuth source for a server, with a new store, and the directory of the store.
func setup(t *testing.T, server credentials.Server) (*credentials.OAuth, string) {
	t.Helper()
	dir := t.TempDir()
	store, err := sqlstore.Open(t.Context(), "sqlite:"+filepath.Join(dir, "harness.db"), sqlstore.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return source(t, server, store, dir), dir
}

func source(t *testing.T, server credentials.Server, store credentials.Store, dir string) *credentials.OAuth {
	t.Helper()
	if server.Name == "" {
		server.Name = "crm"
	}
	return credentials.NewOAuth(server, credentials.Options{
		Store: func() (credentials.Store, error) { return store, nil },
		Keys: func() (*seal.Keys, error) {
			return seal.Open(seal.Options{Name: "key", File: filepath.Join(dir, "pii.key")})
		},
		Dir: filepath.Join(dir, "logins"), Now: time.Now,
	})
}

func browser(t *testing.T, s *oauthtest.Server) credentials.Browser {
	return credentials.Browser{Show: func(address string) error { return s.Visit(t.Context(), address) }}
}

func login(t *testing.T, s *oauthtest.Server, o *credentials.OAuth, user string) *credentials.Granted {
	t.Helper()
	granted, err := o.Login(t.Context(), user, browser(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return granted
}

// get sends a request with the header of the source, again after each refusal that permits it, and returns the status of the last answer.
func get(t *testing.T, s *oauthtest.Server, o *credentials.OAuth, user string) (int, error) {
	t.Helper()
	for again := false; ; again = true {
		name, value, err := o.Header(t.Context(), user)
		if err != nil {
			return 0, err
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(name, value)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			return res.StatusCode, nil
		}
		if err := o.Refused(t.Context(), user, value, again, res.StatusCode, res.Header); err != nil {
			return res.StatusCode, err
		}
	}
}

func wantLogin(t *testing.T, what string, err error) *credentials.NeedsLogin {
	t.Helper()
	needs, is := errors.AsType[*credentials.NeedsLogin](err)
	if !is {
		t.Fatalf("%s: %v", what, err)
	}
	return needs
}

// TestLogin logs in, uses the token, renews it, and logs out.
func TestLogin(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	o, _ := setup(t, credentials.Server{URL: s.URL})
	_, _, err := o.Header(t.Context(), "ann")
	if needs := wantLogin(t, "before the login", err); needs.Error() != "needs login: harness servers login crm" {
		t.Error(needs)
	}
	granted := login(t, s, o, "ann")
	if granted.Issuer != s.Issuer || !granted.Renewed || !slices.Contains(granted.Scopes, "profile") {
		t.Errorf("granted %+v", granted)
	}
	if status, err := get(t, s, o, "ben"); err != nil || status == http.StatusUnauthorized { // Ann's login is for all users.
		t.Errorf("after the login: HTTP %d, %v", status, err)
	}
	s.Expire()
	if status, err := get(t, s, o, "ann"); err != nil || status == http.StatusUnauthorized || s.Refreshes() != 1 {
		t.Errorf("after the token's end: HTTP %d, %v, %d renewals", status, err, s.Refreshes())
	}
	for _, resource := range s.Resources() {
		if resource != s.URL {
			t.Errorf("a token was asked for resource %q", resource)
		}
	}
	had, revoked, err := o.Logout(t.Context(), "ann")
	if !had || !revoked || err != nil || s.Valid() != 0 {
		t.Errorf("logout: %t, %t, %v, %d tokens are valid", had, revoked, err, s.Valid())
	}
	_, _, err = o.Header(t.Context(), "ann")
	wantLogin(t, "after the logout", err)
}

// TestRefreshOnce checks that an expired token is renewed once, although many requests of several sources use it at the same time, as in several
// processes.
func TestRefreshOnce(t *testing.T) {
	t.Parallel()
	t.Run("a machine", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		refreshOnce(t, "sqlite:"+filepath.Join(dir, "harness.db"), dir, dir, dir)
	})
	t.Run("machines", func(t *testing.T) {
		t.Parallel()
		url := postgrestest.Start(t, postgrestest.Fast...).Schema(t)
		first := t.TempDir()
		dirs := []string{first, t.TempDir(), t.TempDir()}
		if _, err := seal.Open(seal.Options{Name: "key", File: filepath.Join(first, "pii.key")}); err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs[1:] {
			if err := os.Link(filepath.Join(first, "pii.key"), filepath.Join(dir, "pii.key")); err != nil {
				t.Fatal(err)
			}
		}
		refreshOnce(t, url, dirs...)
	})
}

// refreshOnce tests processes with state directories.
func refreshOnce(t *testing.T, url string, dirs ...string) {
	t.Helper()
	s := oauthtest.New(t)
	var all []*credentials.OAuth
	for _, dir := range dirs {
		store, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		all = append(all, source(t, credentials.Server{URL: s.URL}, store, dir))
	}
	login(t, s, all[0], "")
	s.Expire()
	var calls sync.WaitGroup
	for i := range 60 {
		calls.Go(func() {
			if status, err := get(t, s, all[i%3], ""); err != nil || status == http.StatusUnauthorized {
				t.Errorf("HTTP %d, %v", status, err)
			}
		})
	}
	calls.Wait()
	if s.Refreshes() != 1 {
		t.Errorf("the token was renewed %d times", s.Refreshes())
	}
}

// TestExpiry checks that a token is renewed shortly before it expires.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	s.Lifetime = 10 * time.Second
	o, _ := setup(t, credentials.Server{URL: s.URL})
	login(t, s, o, "")
	if _, _, err := o.Header(t.Context(), ""); err != nil || s.Refreshes() != 1 {
		t.Errorf("%v, %d renewals", err, s.Refreshes())
	}
}

// TestRevoked checks that a new login is needed after the tokens were revoked.
func TestRevoked(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	o, _ := setup(t, credentials.Server{URL: s.URL})
	login(t, s, o, "")
	s.Revoke()
	_, err := get(t, s, o, "")
	if needs := wantLogin(t, "after the revocation", err); needs.Reason == "" {
		t.Error("there is no reason")
	}
	_, _, err = o.Header(t.Context(), "")
	wantLogin(t, "later", err)
	login(t, s, o, "")
	if status, err := get(t, s, o, ""); err != nil || status == http.StatusUnauthorized {
		t.Errorf("after another login: HTTP %d, %v", status, err)
	}
}

// TestWrongAudience checks that a login fails if the server does not accept the new token.
func TestWrongAudience(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	s.Audience = func(string) string { return "https://elsewhere.example/mcp" }
	o, _ := setup(t, credentials.Server{URL: s.URL})
	if _, err := o.Login(t.Context(), "", browser(t, s)); err == nil || !strings.Contains(err.Error(), "refuses the token") {
		t.Errorf("login: %v", err)
	}
	_, _, err := o.Header(t.Context(), "")
	wantLogin(t, "later", err)
	if s.Valid() != 0 {
		t.Error("the token that is of no use was not revoked")
	}
}

// TestStepUp checks that the next login asks for the scopes that the server has asked for.
func TestStepUp(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	o, _ := setup(t, credentials.Server{URL: s.URL})
	login(t, s, o, "")
	_, value, err := o.Header(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	answer := http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="email"`}}
	needs := wantLogin(t, "step up", o.Refused(t.Context(), "", value, false, http.StatusForbidden, answer))
	if !slices.Contains(needs.Scopes, "email") || !strings.Contains(needs.Error(), "email") {
		t.Errorf("%v", needs)
	}
	if _, _, err := o.Header(t.Context(), ""); err != nil {
		t.Errorf("what the login permits fails: %v", err)
	}
	if granted := login(t, s, o, ""); !slices.Contains(granted.Scopes, "email") || !slices.Contains(granted.Scopes, "profile") {
		t.Errorf("granted %v", granted.Scopes)
	}
}

// TestPerUser checks that the login of a user is not used for another user.
func TestPerUser(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	o, _ := setup(t, credentials.Server{URL: s.URL, PerUser: true})
	login(t, s, o, "ann")
	if _, err := get(t, s, o, "ann"); err != nil {
		t.Error(err)
	}
	_, _, err := o.Header(t.Context(), "ben")
	wantLogin(t, "another user", err)
}

// TestPerUserAfterShared checks that an empty user does not get an earlier login for all users after the server was changed to a login for each user.
func TestPerUserAfterShared(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	shared, dir := setup(t, credentials.Server{URL: s.URL})
	login(t, s, shared, "")
	store, err := sqlstore.Open(t.Context(), "sqlite:"+filepath.Join(dir, "harness.db"), sqlstore.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	own := source(t, credentials.Server{URL: s.URL, PerUser: true}, store, dir)
	_, _, err = own.Header(t.Context(), "")
	wantLogin(t, "nobody", err)
	if _, err := own.Login(t.Context(), "", browser(t, s)); err == nil || !strings.Contains(err.Error(), "for which one") {
		t.Errorf("a login of nobody: %v", err)
	}
}

// TestIssuer checks that a login fails before a browser is opened if the server names another authorization server than the configured issuer.
func TestIssuer(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	o, _ := setup(t, credentials.Server{URL: s.URL, Issuer: "https://login.example.com/", ClientID: "c", ClientSecret: "secret"})
	_, err := o.Login(t.Context(), "", credentials.Browser{Show: func(string) error { t.Error("a browser was opened"); return nil }})
	if err == nil || !strings.Contains(err.Error(), "mcpServers.crm.auth.issuer") {
		t.Errorf("login: %v", err)
	}
	o, _ = setup(t, credentials.Server{URL: s.URL, Issuer: s.Issuer + "/"})
	login(t, s, o, "")
}

// TestPasted checks the end of a login with an address, or a code, that a person has copied from a browser on another machine.
func TestPasted(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	o, _ := setup(t, credentials.Server{URL: s.URL})
	paste := func(change func(string) string) error {
		end := make(chan string, 1)
		_, err := o.Login(t.Context(), "", credentials.Browser{
			Show: func(address string) error {
				at, err := s.Browse(t.Context(), address)
				end <- at
				return err
			},
			Pasted: func(context.Context) (string, error) { return change(<-end), nil },
		})
		return err
	}
	if err := paste(func(at string) string { return strings.Replace(at, "state=", "state=x", 1) }); err == nil || !strings.Contains(err.Error(), "state") {
		t.Errorf("another state: %v", err)
	}
	if err := paste(func(at string) string { return " " + at + "\n" }); err != nil {
		t.Error(err)
	}
	if err := paste(func(at string) string {
		_, code, _ := strings.Cut(at, "code=")
		code, _, _ = strings.Cut(code, "&")
		return code
	}); err != nil {
		t.Errorf("the code alone: %v", err)
	}
}

// TestAgain checks that a login revokes the tokens of the login before it.
func TestAgain(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	o, _ := setup(t, credentials.Server{URL: s.URL})
	login(t, s, o, "")
	login(t, s, o, "")
	if s.Valid() != 1 {
		t.Errorf("%d tokens are valid after two logins", s.Valid())
	}
	if status, err := get(t, s, o, ""); err != nil || status == http.StatusUnauthorized {
		t.Errorf("HTTP %d, %v", status, err)
	}
}

// TestMachine checks that a client gets one token for all users, from the configured issuer only, and a new token after the expiry or revocation of
// the old one.
func TestMachine(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	server := credentials.Server{URL: s.URL, ClientID: oauthtest.Machine, ClientSecret: oauthtest.MachineSecret, Issuer: s.Issuer, Machine: true}
	o, _ := setup(t, server)
	for _, user := range []string{"ann", "ben", ""} {
		if status, err := get(t, s, o, user); err != nil || status == http.StatusUnauthorized {
			t.Errorf("%s: HTTP %d, %v", user, status, err)
		}
	}
	if got := s.Resources(); !slices.Equal(got, []string{s.URL}) {
		t.Errorf("tokens for %q", got)
	}
	s.Expire()
	if status, err := get(t, s, o, "ann"); err != nil || status == http.StatusUnauthorized {
		t.Errorf("after its end: HTTP %d, %v", status, err)
	}
	s.Revoke()
	if status, err := get(t, s, o, "ann"); err != nil || status == http.StatusUnauthorized {
		t.Errorf("after the revocation: HTTP %d, %v", status, err)
	}
	s.Audience = func(string) string { return "https://elsewhere.example/mcp" }
	s.Revoke()
	if _, err := get(t, s, o, "ann"); err == nil || !strings.Contains(err.Error(), "auth") || strings.Contains(err.Error(), oauthtest.MachineSecret) {
		t.Errorf("for another audience: %v", err)
	}
	answer := http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="email"`}}
	if err := o.Refused(t.Context(), "", "Bearer x", false, http.StatusForbidden, answer); err == nil || !strings.Contains(err.Error(), "auth.scopes") {
		t.Errorf("step up: %v", err)
	}
	server.ClientSecret = "wrong"
	o, _ = setup(t, server)
	if _, _, err := o.Header(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "clientSecret") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("with a wrong secret: %v", err)
	}
	server.Issuer = "http://127.0.0.1:9/"
	o, _ = setup(t, server)
	if _, _, err := o.Header(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "issuer") {
		t.Errorf("for another issuer: %v", err)
	}
}
