package credentials_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/netguard"
)

// TestAddresses checks to which addresses from a server's documents requests may go.
func TestAddresses(t *testing.T) {
	t.Parallel()
	public, _ := setup(t, credentials.Server{URL: "https://mcp.example.com/mcp"})
	local, _ := setup(t, credentials.Server{URL: "http://localhost:8080/mcp"})
	private, _ := setup(t, credentials.Server{URL: "https://mcp.example.com/mcp", AllowPrivate: true})
	for _, c := range []struct {
		address                   string
		forPublic, forLocal, free bool
	}{
		{"https://login.example.com/token", true, true, true},
		{"http://login.example.com/token", false, false, false},
		{"https://127.0.0.1/token", false, true, true},
		{"http://127.0.0.1/token", false, true, false},
		{"http://localhost:9/token", false, true, false},
		{"https://[::1]/token", false, true, true},
		{"https://10.0.0.1/token", false, false, true},
		{"https://169.254.169.254/latest", false, false, true},
		{"https://[::ffff:10.0.0.1]/token", false, false, true},
		{"https://0.0.0.0/token", false, false, true},
		{"https://user:pass@login.example.com/token", false, false, false},
		{"javascript:alert(1)", false, false, false},
		{"data:text/html,x", false, false, false},
		{"file:///etc/passwd", false, false, false},
		{"//login.example.com/token", false, false, false},
		{"", false, false, false},
		{"https://login.example.com/" + strings.Repeat("a", 3000), false, false, false},
	} {
		for of, want := range map[*credentials.OAuth]bool{public: c.forPublic, local: c.forLocal, private: c.free} {
			if err := of.Check(c.address); (err == nil) != want {
				t.Errorf("%.60s: %v", c.address, err)
			}
		}
	}
	// The client refuses to connect to a private address. This check also covers host names that resolve to private addresses.
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a private address was reached") }))
	t.Cleanup(inner.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, inner.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := public.Client().Do(req)
	if err == nil {
		_ = res.Body.Close()
	}
	if !errors.Is(err, netguard.ErrPrivate) {
		t.Errorf("%v", err)
	}
}

// documents serves the metadata of a server and of its authorization server.
type documents struct {
	resource map[string]any
	meta     map[string]any
	serve    func(w http.ResponseWriter, r *http.Request) bool // called before a document is served; returns true if it has answered the request
	header   string                                            // value of the header WWW-Authenticate
}

func (d *documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	write := func(doc any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(doc)
	}
	switch {
	case d.serve != nil && d.serve(w, r):
	case r.URL.Path == "/mcp":
		w.Header().Set("WWW-Authenticate", d.header)
		w.WriteHeader(http.StatusUnauthorized)
	case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource"):
		write(d.resource)
	case r.URL.Path == "/.well-known/oauth-authorization-server":
		write(d.meta)
	case r.URL.Path == "/register":
		w.WriteHeader(http.StatusCreated)
		write(map[string]any{"client_id": "c"})
	case r.URL.Path == "/token":
		write(map[string]any{"access_token": "t", "token_type": "mac"})
	default:
		http.NotFound(w, r)
	}
}

// TestHostileMetadata checks that a login with hostile metadata fails in time, and that no browser is sent to a forbidden address.
func TestHostileMetadata(t *testing.T) {
	t.Parallel()
	redirect := func(path, to string) func(d *documents) {
		return func(d *documents) {
			d.serve = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == path {
					http.Redirect(w, r, to, http.StatusFound)
				}
				return r.URL.Path == path
			}
		}
	}
	meta := func(key string, value any) func(*documents) { return func(d *documents) { d.meta[key] = value } }
	const prm, asm = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
	for name, c := range map[string]struct {
		change func(*documents)
		want   string
	}{
		"metadata at a private address":  {func(d *documents) { d.header = `Bearer resource_metadata="https://10.1.2.3/doc"` }, "private"},
		"metadata without TLS":           {func(d *documents) { d.header = `Bearer resource_metadata="http://example.com/doc"` }, "https"},
		"metadata of a script":           {func(d *documents) { d.header = `Bearer resource_metadata="javascript:alert(1)"` }, "no address"},
		"redirect to a private address":  {redirect(prm, "https://169.254.169.254/latest/meta-data"), "private"},
		"redirect without TLS":           {redirect(asm, "http://example.com/"), "https"},
		"redirects without end":          {redirect(prm, prm), "302"},
		"another resource":               {func(d *documents) { d.resource["resource"] = "https://victim.example.com/mcp" }, "another resource"},
		"no authorization server":        {func(d *documents) { delete(d.resource, "authorization_servers") }, "no authorization server"},
		"private authorization server":   {func(d *documents) { d.resource["authorization_servers"] = []string{"https://192.168.0.1"} }, "private"},
		"script as authorization server": {func(d *documents) { d.resource["authorization_servers"] = []string{"javascript:alert(1)"} }, "no address"},
		"another issuer":                 {meta("issuer", "https://victim.example.com"), "another issuer"},
		"no issuer":                      {meta("issuer", ""), "another issuer"},
		"no PKCE":                        {meta("code_challenge_methods_supported", nil), "PKCE"},
		"plain PKCE":                     {meta("code_challenge_methods_supported", []string{"plain"}), "PKCE"},
		"script as authorization page":   {meta("authorization_endpoint", "javascript:alert(document.cookie)"), "authorization_endpoint"},
		"private authorization page":     {meta("authorization_endpoint", "https://10.0.0.1/authorize"), "authorization_endpoint"},
		"private token endpoint":         {meta("token_endpoint", "https://10.0.0.1/token"), "token_endpoint"},
		"no token endpoint":              {meta("token_endpoint", ""), "token_endpoint"},
		"private registration":           {meta("registration_endpoint", "https://[fd00::1]/register"), "registration_endpoint"},
		"private revocation":             {meta("revocation_endpoint", "https://10.0.0.1/revoke"), "revocation_endpoint"},
		"huge":                           {func(d *documents) { d.meta["x"] = strings.Repeat("a", 1<<20) }, "bytes"},
		"not JSON": {func(d *documents) {
			d.serve = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == prm {
					fmt.Fprint(w, "<html>")
				}
				return r.URL.Path == prm
			}
		}, "not the JSON"},
		"slow": {func(d *documents) {
			d.serve = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == asm {
					<-r.Context().Done()
				}
				return r.URL.Path == asm
			}
		}, "Client.Timeout"},
		"slow body": {func(d *documents) {
			d.serve = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == asm {
					fmt.Fprint(w, `{"issuer":`)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}
				return r.URL.Path == asm
			}
		}, "Client.Timeout"},
		"headers without end":   {func(d *documents) { d.header = "Bearer " + strings.Repeat("a=b,", 10_000) }, "type \"mac\""},
		"token of another type": {func(*documents) {}, `type "mac"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &documents{header: "Bearer"}
			s := httptest.NewServer(d)
			t.Cleanup(s.Close)
			d.resource = map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}}
			d.meta = map[string]any{
				"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
				"registration_endpoint": s.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
			}
			c.change(d)
			o, _ := setup(t, credentials.Server{URL: s.URL + "/mcp"})
			if c.want == "Client.Timeout" {
				o.SetTimeout(2 * time.Second)
			}
			shown := ""
			_, err := o.Login(t.Context(), "", credentials.Browser{Show: func(address string) error {
				shown = address
				return finish(t, address, nil)
			}})
			// The client's timeout also ends the context of its request, so the error may be that of the context.
			ended := c.want == "Client.Timeout" && errors.Is(err, context.DeadlineExceeded)
			if err == nil || !strings.Contains(err.Error(), c.want) && !ended {
				t.Fatalf("login: %v", err)
			}
			if c.want != `type "mac"` && shown != "" {
				t.Errorf("a browser was sent to %s", shown)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// finish redirects to the end of a login as an authorization server does, with the given parameters changed.
func finish(t *testing.T, address string, change map[string]string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	asked := req.URL.Query()
	for name, want := range map[string]string{"code_challenge_method": "S256", "response_type": "code"} {
		if asked.Get(name) != want {
			t.Errorf("%s is %q", name, asked.Get(name))
		}
	}
	if asked.Get("code_challenge") == "" || len(asked.Get("state")) < 20 || asked.Get("resource") == "" {
		t.Errorf("asked for %v", asked)
	}
	back, err := http.NewRequestWithContext(t.Context(), http.MethodGet, asked.Get("redirect_uri"), nil)
	if err != nil {
		return err
	}
	query := back.URL.Query()
	query.Set("code", "the-code")
	query.Set("state", asked.Get("state"))
	for name, value := range change {
		query.Set(name, value)
	}
	back.URL.RawQuery = query.Encode()
	res, err := http.DefaultClient.Do(back)
	if err == nil {
		_ = res.Body.Close()
	}
	return err
}

// TestEnd checks that the end of a login has the state of the login, and the issuer if the authorization server says that it sends the issuer (RFC
// 9207).
func TestEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says   bool // whether the metadata say that the issuer is sent
		change map[string]string
		want   string
	}{
		"as it should be":     {false, nil, `type "mac"`},
		"issuer, not said":    {false, map[string]string{"iss": "ISSUER"}, `type "mac"`},
		"issuer, said":        {true, map[string]string{"iss": "ISSUER"}, `type "mac"`},
		"no issuer":           {true, nil, "instead of"},
		"another issuer":      {true, map[string]string{"iss": "https://evil.example.com"}, "instead of"},
		"another, not said":   {false, map[string]string{"iss": "https://evil.example.com"}, "instead of"},
		"refused":             {false, map[string]string{"error": "access_denied", "error_description": "no\x1b[2J"}, "access_denied"},
		"no code":             {false, map[string]string{"code": ""}, "no code"},
		"another login's end": {false, map[string]string{"state": "x"}, "nobody came"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &documents{header: "Bearer"}
			s := httptest.NewServer(d)
			t.Cleanup(s.Close)
			d.resource = map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}}
			d.meta = map[string]any{
				"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
				"registration_endpoint": s.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
				"authorization_response_iss_parameter_supported": c.says,
			}
			for key, value := range c.change {
				c.change[key] = strings.ReplaceAll(value, "ISSUER", s.URL)
			}
			o, _ := setup(t, credentials.Server{URL: s.URL + "/mcp"})
			came := make(chan struct{})
			_, err := o.Login(t.Context(), "", credentials.Browser{
				Show: func(address string) error {
					defer close(came)
					return finish(t, address, c.change)
				},
				Pasted: func(ctx context.Context) (string, error) {
					if <-came; c.change["state"] != "x" {
						<-ctx.Done()
					}
					return "", errors.New("nobody came")
				},
			})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("login: %v", err)
			}
		})
	}
}

// TestResetConnection checks that a request is repeated once after the server has reset the connection, as busy servers do.
func TestResetConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		resets int32
		want   string
	}{
		"once":   {1, "nobody came"},
		"always": {1000, "ask server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &documents{header: "Bearer"}
			var posts atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && posts.Add(1) <= c.resets {
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					_ = conn.(*net.TCPConn).SetLinger(0) // With this setting, Close resets the connection.
					_ = conn.Close()
					return
				}
				d.ServeHTTP(w, r)
			}))
			t.Cleanup(s.Close)
			d.resource = map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}}
			d.meta = map[string]any{
				"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
				"registration_endpoint": s.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
			}
			o, _ := setup(t, credentials.Server{URL: s.URL + "/mcp"})
			_, err := o.Login(t.Context(), "", credentials.Browser{
				Show:   func(string) error { return nil },
				Pasted: func(context.Context) (string, error) { return "", errors.New("nobody came") },
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("login: %v", err)
			}
		})
	}
}
