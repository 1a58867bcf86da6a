package web_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	clientID     = "dashboard"
	clientSecret = "a secret of the client, which is long enough"
)

// provider is an OpenID Connect provider at which the user ann is logged in.
type provider struct {
	url string
	key *ecdsa.PrivateKey

	mu      sync.Mutex
	logins  map[string]url.Values // parameters of logins, by code
	down    bool
	loose   bool                 // does not check PKCE
	life    time.Duration        // lifetime of its tokens
	changes func(map[string]any) // changes the claims of ID tokens; may be nil
	refuses string               // error of the authorization endpoint; empty: none
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	p := &provider{key: key, logins: map[string]url.Values{}, life: time.Hour}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// ServeHTTP implements http.Handler.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := func(status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	switch q := r.URL.Query(); {
	case p.down:
		w.WriteHeader(http.StatusBadGateway)
	case r.URL.Path == "/.well-known/openid-configuration":
		answer(200, map[string]any{
			"issuer": p.url, "jwks_uri": p.url + "/keys", "authorization_endpoint": p.url + "/authorize", "token_endpoint": p.url + "/token",
			"token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
		})
	case r.URL.Path == "/keys":
		answer(200, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &p.key.PublicKey, KeyID: "1", Use: "sig", Algorithm: "ES256"}}})
	case r.URL.Path == "/authorize":
		back, err := url.Parse(q.Get("redirect_uri"))
		if err != nil || back.Path != "/login/callback" || q.Get("client_id") != clientID || q.Get("response_type") != "code" || !strings.Contains(q.Get("scope"), "openid") ||
			q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || q.Get("nonce") == "" || q.Get("state") == "" {
			answer(400, map[string]string{"error": "invalid_request"})
			return
		}
		given := url.Values{"state": {q.Get("state")}}
		if p.refuses != "" {
			given.Set("error", p.refuses)
		} else {
			code := rand.Text()
			p.logins[code] = q
			given.Set("code", code)
		}
		back.RawQuery = given.Encode()
		http.Redirect(w, r, back.String(), http.StatusFound)
	case r.URL.Path == "/token":
		id, secret, _ := r.BasicAuth()
		code := r.PostFormValue("code")
		login, there := p.logins[code]
		delete(p.logins, code)
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		switch {
		case id != url.QueryEscape(clientID) || secret != url.QueryEscape(clientSecret):
			answer(401, map[string]string{"error": "invalid_client"})
		case !there || r.PostForm.Get("redirect_uri") != login.Get("redirect_uri") || r.PostForm.Get("grant_type") != "authorization_code" ||
			!p.loose && base64.RawURLEncoding.EncodeToString(sum[:]) != login.Get("code_challenge"):
			answer(400, map[string]string{"error": "invalid_grant"})
		default:
			answer(200, map[string]any{"access_token": "opaque", "token_type": "Bearer", "id_token": p.token(login.Get("nonce"))})
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// token returns an ID token for ann.
func (p *provider) token(nonce string) string {
	claims := map[string]any{
		"iss": p.url, "aud": clientID, "sub": "ann", "nonce": nonce, "iat": time.Now().Unix(), "exp": time.Now().Add(p.life).Unix(), "roles": []string{"approver"},
	}
	if p.changes != nil {
		p.changes(claims)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: "1"}}, nil)
	if err != nil {
		return err.Error()
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		return err.Error()
	}
	return token
}

// visitor returns a browser that follows no redirects.
func (w *world) visitor() *reader {
	jar, _ := cookiejar.New(nil)
	return &reader{w: w, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// sent begins a login, and returns the path to which the provider redirects the browser.
func (r *reader) sent(to string) string {
	r.w.t.Helper()
	begin := r.get("/login/oidc?to=" + url.QueryEscape(to))
	if begin.status != http.StatusSeeOther {
		r.w.t.Fatalf("begin: %d %s", begin.status, begin.text)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Get(begin.header.Get("Location"))
	must(r.w.t, err)
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	back := answer.Header.Get("Location")
	if !strings.HasPrefix(back, r.w.url+"/login/callback?") {
		r.w.t.Fatalf("the provider: %d %s %s", answer.StatusCode, back, said)
	}
	return strings.TrimPrefix(back, r.w.url)
}

// loggedIn reports whether the browser has a session.
func (r *reader) loggedIn() bool { return r.get("/runs").status == http.StatusOK }

func withProvider(t testing.TB, p *provider) *world {
	t.Helper()
	return setup(t, false, `auth: {oidc: {issuer: "`+p.url+`", audience: api, clientId: `+clientID+`, clientSecret: "`+clientSecret+`"}}`)
}

// TestLoginAtProvider checks that a person who logs in at the provider gets to the requested page, and is logged out when the token expires.
func TestLoginAtProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	w := withProvider(t, p)
	r := w.visitor()
	if page := r.get("/login?to=/runs"); !strings.Contains(page.text, `href="/login/oidc?to=%2fruns"`) {
		t.Errorf("the page: %s", page.text)
	}
	got := r.get(r.sent("/runs"))
	if got.status != http.StatusOK || got.header.Get("Refresh") != "0; url=/runs" {
		t.Fatalf("back: %d %q %s", got.status, got.header.Get("Refresh"), got.text)
	}
	if page := r.get("/runs"); page.status != http.StatusOK || !strings.Contains(page.text, "<span>ann</span>") {
		t.Errorf("the session: %d", page.status)
	}
	for _, to := range []string{"//evil.example", "https://evil.example", `/\evil.example`, ""} {
		if got := w.visitor(); got.get(got.sent(to)).header.Get("Refresh") == "" || got.get(got.sent(to)).header.Get("Refresh") != "0; url=/" {
			t.Errorf("to %q", to)
		}
	}
	p.set(func() { p.life = 2 * time.Second })
	short := w.visitor()
	short.get(short.sent("/"))
	if !short.loggedIn() {
		t.Error("a short session does not begin")
	}
	w.eventually("the session ends with the token", func() bool { return !short.loggedIn() })
	if !r.loggedIn() {
		t.Error("another session has ended")
	}
}

// TestLoginAttacks checks that a login fails if this browser has not begun it, or if the provider does not confirm it for this client. Each attack gets an
// error page.
func TestLoginAttacks(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	w := withProvider(t, p)
	claim := func(name string, value any) func() {
		return func() { p.changes = func(all map[string]any) { all[name] = value } }
	}
	for name, c := range map[string]struct {
		prepare func()
		attack  func(r *reader) answer
		status  int
	}{
		"another browser's login": {nil, func(r *reader) answer { return r.get(w.visitor().sent("/")) }, 401},
		"another browser's code": {nil, func(r *reader) answer {
			return r.get(exchanged(r.sent("/"), "code", w.visitor().sent("/")))
		}, 401},
		"another browser's code, at a provider without PKCE": {func() { p.loose = true }, func(r *reader) answer {
			return r.get(exchanged(r.sent("/"), "code", w.visitor().sent("/")))
		}, 401},
		"another state": {nil, func(r *reader) answer {
			return r.get(exchanged(r.sent("/"), "state", w.visitor().sent("/")))
		}, 401},
		"no state":       {nil, func(r *reader) answer { return r.get(exchanged(r.sent("/"), "state", "/?")) }, 401},
		"another issuer": {nil, func(r *reader) answer { return r.get(r.sent("/") + "&iss=https://evil.example") }, 401},
		"the cookie once more": {nil, func(r *reader) answer {
			at := r.sent("/")
			u, _ := url.Parse(w.url + "/login/callback")
			cookies := r.client.Jar.Cookies(u)
			r.get(at)
			again := w.visitor()
			again.client.Jar.SetCookies(u, cookies)
			got := again.get(at)
			*r = *again
			return got
		}, 401},
		"the page was not begun":        {nil, func(r *reader) answer { return r.get("/login/callback?code=x&state=") }, 401},
		"a token for another client":    {claim("aud", "other"), func(r *reader) answer { return r.get(r.sent("/")) }, 401},
		"a token for the API":           {claim("aud", "api"), func(r *reader) answer { return r.get(r.sent("/")) }, 401},
		"a token that another asks for": {claim("azp", "other"), func(r *reader) answer { return r.get(r.sent("/")) }, 401},
		"a token of another issuer":     {claim("iss", "https://evil.example"), func(r *reader) answer { return r.get(r.sent("/")) }, 401},
		"a token without nonce":         {claim("nonce", nil), func(r *reader) answer { return r.get(r.sent("/")) }, 401},
		"a token that has ended":        {claim("exp", time.Now().Add(-time.Hour).Unix()), func(r *reader) answer { return r.get(r.sent("/")) }, 401},
		"a refusal":                     {func() { p.refuses = "access_denied" }, func(r *reader) answer { return r.get(r.sent("/")) }, 401},
		"a refusal that is a script":    {func() { p.refuses = "<script>attacked()</script>" }, func(r *reader) answer { return r.get(r.sent("/")) }, 401},
	} {
		p.set(func() {
			if p.changes, p.loose, p.refuses = nil, false, ""; c.prepare != nil {
				c.prepare()
			}
		})
		r := w.visitor()
		got := c.attack(r)
		if got.status != c.status || r.loggedIn() || strings.Contains(got.text, "attacked()") || !strings.Contains(got.text, "Log in") {
			t.Errorf("%s: %d, logged in: %t, %s", name, got.status, r.loggedIn(), got.text)
		}
	}
	p.set(func() { p.changes, p.loose, p.refuses = nil, false, "" })
	r := w.visitor()
	at := r.sent("/")
	p.set(func() { p.down = true })
	if got := r.get(at); got.status != http.StatusServiceUnavailable || r.loggedIn() {
		t.Errorf("a provider that is down: %d", got.status)
	}
	if text := w.out.String(); strings.Contains(text, clientSecret) {
		t.Error("the log has the secret of the client")
	}
}

// exchanged returns an address with one parameter replaced by that of another address.
func exchanged(at, name, other string) string {
	mine, _ := url.Parse(at)
	its, _ := url.Parse(other)
	query := mine.Query()
	query.Set(name, its.Query().Get(name))
	mine.RawQuery = query.Encode()
	return mine.String()
}
