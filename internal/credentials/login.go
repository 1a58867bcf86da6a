package credentials

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"mcp-code-exec-harness/internal/clip"
)

// Browser has the functions by which a person takes part in a login.
type Browser struct {
	// Show shows the address at which the person logs in. It is called once.
	Show func(address string) error
	// Pasted, if not nil, returns what the person copied: the address that the browser was sent to at the end, or the code in it. It is called
	// in a goroutine of its own; the login does not wait for it to return.
	Pasted func(ctx context.Context) (string, error)
}

// Granted is the result of a login.
type Granted struct {
	Issuer  string    `json:"issuer"`
	Scopes  []string  `json:"scopes,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // expiry of the access token
	Renewed bool      `json:"renewed"`          // whether the tokens include a refresh token
}

const callbackPath = "/callback"

// Login lets a person log in, tests that the server accepts the tokens, and stores them. They replace earlier tokens, which are revoked if the
// authorization server supports that.
func (o *OAuth) Login(ctx context.Context, user string, b Browser) (*Granted, error) {
	if user = o.key(user); o.server.PerUser && user == "" {
		return nil, fmt.Errorf("server %q has a login for each user; say for which one", o.server.Name)
	}
	f, err := o.discover(ctx)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.server.RedirectPort)))
	if err != nil {
		return nil, fmt.Errorf("listen for the end of the login: %w", err)
	}
	redirect := "http://" + listener.Addr().String() + callbackPath
	g, err := o.authorize(ctx, user, f, redirect, listener, b)
	if err != nil {
		return nil, err
	}
	status, _, err := o.ask(ctx, probe, g.Access)
	if err != nil {
		return nil, err
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		o.revoke(ctx, g)
		return nil, fmt.Errorf("server %q refuses the token that %s issued for %s: HTTP %d", o.server.Name, clip.Text(g.Issuer, maxSaid), g.Resource, status)
	}
	var before *grant
	err = o.locked(ctx, user, func() error {
		before, _ = o.load(ctx, user) // an unreadable grant cannot be revoked
		return o.keep(ctx, user, g)
	})
	if err != nil {
		return nil, err
	}
	if before != nil && before.Access != g.Access && before.Refresh != g.Refresh {
		o.revoke(ctx, before) // No request uses the earlier tokens any more.
	}
	return &Granted{g.Issuer, g.Scopes, g.Expiry, g.Refresh != ""}, nil
}

// authorize lets the person log in, and exchanges the code at the end of the login for tokens. It closes the listener.
func (o *OAuth) authorize(ctx context.Context, user string, f *found, redirect string, listener net.Listener, b Browser) (*grant, error) {
	state := rand.Text()
	callback := serveCallback(listener, state)
	defer callback.close()
	g := &grant{URL: o.server.URL, Resource: f.resource, Issuer: f.meta.Issuer, TokenURL: f.meta.TokenEndpoint, RevokeURL: f.meta.RevocationEndpoint}
	if err := o.register(ctx, g, f.meta, redirect); err != nil {
		return nil, err
	}
	asked := o.server.Scopes
	if len(asked) == 0 {
		asked = f.scopes
	}
	before, err := o.load(ctx, user)
	if err != nil {
		before = nil // the login replaces an unreadable grant
	}
	if before != nil {
		asked = joined(asked, before.Wanted...)
	}
	if slices.Contains(f.meta.ScopesSupported, "offline_access") {
		asked = joined(asked, "offline_access")
	}
	cfg := g.config()
	cfg.Endpoint.AuthURL, cfg.RedirectURL, cfg.Scopes = f.meta.AuthorizationEndpoint, redirect, asked
	verifier := oauth2.GenerateVerifier()
	address := cfg.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", f.resource))
	if err := b.Show(address); err != nil {
		return nil, err
	}
	code, err := callback.wait(ctx, b.Pasted, f.meta)
	if err != nil {
		return nil, err
	}
	token, err := o.token(ctx, cfg, code, f.resource, oauth2.VerifierOption(verifier))
	if err != nil {
		return nil, fmt.Errorf("exchange the code of the login: %w", err)
	}
	g.Scopes = asked
	g.take(token)
	return g, nil
}

// asRegistered stores the configured client in the grant.
func (o *OAuth) asRegistered(g *grant, meta *oauthex.AuthServerMeta) {
	g.ClientID, g.ClientSecret, g.AuthStyle = o.server.ClientID, o.server.ClientSecret, oauth2.AuthStyleInParams
	if g.ClientSecret != "" && !slices.Contains(meta.TokenEndpointAuthMethodsSupported, "client_secret_post") {
		g.AuthStyle = oauth2.AuthStyleInHeader // This is client_secret_basic, also the default for servers that name no method (RFC 8414).
	}
}

// register stores a client in the grant: the configured client if the authorization server accepts it, otherwise a client that is registered
// now (RFC 7591).
func (o *OAuth) register(ctx context.Context, g *grant, meta *oauthex.AuthServerMeta, redirect string) error {
	document := strings.HasPrefix(o.server.ClientID, "https://")
	if o.server.ClientID != "" && (!document || meta.ClientIDMetadataDocumentSupported) {
		o.asRegistered(g, meta)
		return nil
	}
	if meta.RegistrationEndpoint == "" {
		return fmt.Errorf("the authorization server %s registers no clients by itself: register one there with the redirect %s and give its id in "+
			"mcpServers.%s.auth.clientId", clip.Text(meta.Issuer, maxSaid), redirect, o.server.Name)
	}
	client, err := oauthex.RegisterClient(ctx, meta.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		ClientName: "mcp-code-exec-harness", ApplicationType: "native", RedirectURIs: []string{redirect},
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
	}, o.client)
	if refused, is := errors.AsType[*oauthex.ClientRegistrationError](err); is {
		return fmt.Errorf("the authorization server does not register this client: %q", clip.Text(refused.ErrorCode, maxSaid))
	}
	if err != nil { // the error's text may repeat the answer, which may contain a secret
		return fmt.Errorf("the authorization server %s does not register this client", clip.Text(meta.Issuer, maxSaid))
	}
	g.ClientID, g.ClientSecret, g.AuthStyle = client.ClientID, client.ClientSecret, oauth2.AuthStyleInParams
	if client.ClientSecret != "" && client.TokenEndpointAuthMethod != "client_secret_post" && client.TokenEndpointAuthMethod != "none" {
		g.AuthStyle = oauth2.AuthStyleInHeader
	}
	return nil
}

// callback waits for the browser's request at the end of a login.
type callback struct {
	server *http.Server
	state  string
	got    chan url.Values // query of the request; buffered
}

// serveCallback starts a server on a loopback address that answers the browser at the end of a login.
func serveCallback(listener net.Listener, state string) *callback {
	c := &callback{state: state, got: make(chan url.Values, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		query := r.URL.Query()
		said := "You can close this window and go back to the terminal."
		if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(c.state)) != 1 {
			w.WriteHeader(http.StatusBadRequest)
			said = "This is not the login that the terminal waits for."
		} else {
			select {
			case c.got <- query:
			default:
			}
		}
		fmt.Fprintf(w, "<!doctype html><title>harness</title><p>%s</p>\n", html.EscapeString(said))
	})
	c.server = &http.Server{Handler: mux, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, MaxHeaderBytes: 32 << 10}
	go func() { _ = c.server.Serve(listener) }() // runs until close
	return c
}

// close stops the server after the answer in progress has reached the browser.
func (c *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		_ = c.server.Close()
	}
}

// wait waits for the end of the login and returns the code.
func (c *callback) wait(ctx context.Context, pasted func(context.Context) (string, error), meta *oauthex.AuthServerMeta) (string, error) {
	type paste struct {
		text string
		err  error
	}
	typed := make(chan paste, 1)
	if pasted != nil {
		go func() {
			text, err := pasted(ctx)
			typed <- paste{text, err}
		}()
	}
	var query url.Values
	select {
	case query = <-c.got:
	case p := <-typed:
		if p.err != nil {
			return "", fmt.Errorf("read the address of the login's end: %w", p.err)
		}
		text := strings.TrimSpace(p.text)
		u, err := url.Parse(text)
		if err != nil || text == "" || len(text) > 8<<10 {
			return "", errors.New("that is neither the address that the browser was sent to nor the code in it")
		}
		if query = u.Query(); u.Scheme == "" && !strings.Contains(text, "=") {
			if meta.AuthorizationResponseIssParameterSupported {
				return "", errors.New("paste the whole address that the browser was sent to: the code alone does not say who issued it")
			}
			return text, nil // PKCE binds the code to this login
		}
		if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(c.state)) != 1 {
			return "", errors.New("that is the end of another login: its state is not the one of this login")
		}
	case <-ctx.Done():
		return "", fmt.Errorf("wait for the login: %w", context.Cause(ctx))
	}
	return checkEnd(query, meta)
}

// checkEnd returns the code in the query with which the authorization server redirected the browser (RFC 6749, RFC 9207).
func checkEnd(query url.Values, meta *oauthex.AuthServerMeta) (string, error) {
	iss, code, failed := query.Get("iss"), query.Get("code"), query.Get("error")
	switch {
	case iss != meta.Issuer && (iss != "" || meta.AuthorizationResponseIssParameterSupported):
		return "", fmt.Errorf("the login was ended by %q instead of %q", clip.Text(iss, maxSaid), clip.Text(meta.Issuer, maxSaid))
	case failed != "":
		return "", fmt.Errorf("the authorization server refused: %q", clip.Text(strings.TrimSpace(failed+" "+query.Get("error_description")), maxSaid))
	case code == "":
		return "", errors.New("the authorization server sent no code")
	}
	return code, nil
}

// Logout revokes the tokens of a user, if the authorization server supports that (RFC 7009), and deletes them. had reports whether there were
// tokens, revoked whether they were revoked.
func (o *OAuth) Logout(ctx context.Context, user string) (had, revoked bool, err error) {
	user = o.key(user)
	err = o.locked(ctx, user, func() error {
		g, err := o.load(ctx, user)
		if g != nil && err == nil {
			had, revoked = true, o.revoke(ctx, g)
		}
		store, err := o.opt.Store()
		if err != nil {
			return err
		}
		o.mu.Lock()
		delete(o.unsaved, user)
		o.mu.Unlock()
		return store.DeleteCredential(ctx, o.server.Name, user)
	})
	return had, revoked, err
}

// revoke asks the authorization server to revoke the refresh token and the access token, and reports whether it has done so.
func (o *OAuth) revoke(ctx context.Context, g *grant) bool {
	if g.RevokeURL == "" || o.check(g.RevokeURL) != nil {
		return false
	}
	done := false
	for hint, token := range map[string]string{"refresh_token": g.Refresh, "access_token": g.Access} {
		if token == "" {
			continue
		}
		form := url.Values{"token": {token}, "token_type_hint": {hint}}
		if g.AuthStyle != oauth2.AuthStyleInHeader {
			form.Set("client_id", g.ClientID)
			if g.ClientSecret != "" {
				form.Set("client_secret", g.ClientSecret)
			}
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.RevokeURL, strings.NewReader(form.Encode()))
		if err != nil {
			return false
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if g.AuthStyle == oauth2.AuthStyleInHeader {
			req.SetBasicAuth(url.QueryEscape(g.ClientID), url.QueryEscape(g.ClientSecret))
		}
		res, err := o.client.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return false
		}
		done = true
	}
	return done
}
