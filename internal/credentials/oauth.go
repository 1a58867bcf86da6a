package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/pii/seal"
)

// Server is an upstream server that needs OAuth tokens.
type Server struct {
	Name string
	URL  string
	// Headers are sent with every request to the server, including those of a login.
	Headers map[string]string

	ClientID     string   // id of a registered client, or the https URL of a client metadata document; if empty, the harness registers itself
	ClientSecret string   // secret of ClientID, sent to Issuer only
	Issuer       string   // authorization server for the login; if empty, the one that the server names
	Scopes       []string // scopes to ask for; if empty, those that the server names
	RedirectPort int      // port of the loopback address that a login returns to; 0 means any port
	PerUser      bool     // true if each user logs in, false if one login is for all users
	AllowPrivate bool     // metadata and tokens may come from loopback and private addresses
	// Machine means that no person logs in: the tokens are for the client itself (RFC 6749, section 4.4). It needs ClientID, ClientSecret and
	// Issuer.
	Machine bool
}

// Options are shared by several OAuth sources.
type Options struct {
	Store func() (Store, error)
	Keys  func() (*seal.Keys, error)
	Dir   string // directory of lock files
	Now   func() time.Time
	// transport replaces the transport of requests to authorization servers, in tests; it does not check addresses.
	transport http.RoundTripper
}

// OAuth provides the tokens for one server and renews them. It implements [Source].
type OAuth struct {
	server Server
	opt    Options
	client *http.Client

	refreshing singleflight.Group // refreshes in progress, by user and access token

	mu      sync.Mutex
	unsaved map[string]*grant // renewed grants that could not be stored, by user
}

var _ Source = (*OAuth)(nil)

// NewOAuth returns the source of tokens for a server. It sends no requests before its first use.
func NewOAuth(server Server, opt Options) *OAuth {
	o := &OAuth{server: server, opt: opt, unsaved: map[string]*grant{}}
	o.client = o.guarded()
	return o
}

// expirySlack is how long before its expiry an access token is renewed: clocks differ and requests take time.
const expirySlack = 20 * time.Second

// refreshTimeout bounds the renewal of a token, including the wait for another process that renews it.
const refreshTimeout = 30 * time.Second

// key returns the name under which the grant of a user is stored.
func (o *OAuth) key(user string) string {
	if o.server.PerUser {
		return user
	}
	return ""
}

func (o *OAuth) needsLogin(g *grant) *NeedsLogin {
	e := &NeedsLogin{Server: o.server.Name}
	if g != nil {
		e.Reason, e.Scopes = g.Void, g.Wanted
	}
	return e
}

// Header implements [Source].
func (o *OAuth) Header(ctx context.Context, user string) (name, value string, err error) {
	user = o.key(user)
	g, err := o.load(ctx, user)
	switch {
	case err != nil:
		return "", "", err
	case o.server.Machine && g == nil:
		if g, err = o.refresh(ctx, user, ""); err != nil {
			return "", "", err
		}
	case g == nil || g.Void != "" || g.Access == "":
		return "", "", o.needsLogin(g)
	case !g.Expiry.IsZero() && !o.opt.Now().Add(expirySlack).Before(g.Expiry):
		if g, err = o.refresh(ctx, user, g.Access); err != nil {
			return "", "", err
		}
	}
	return "Authorization", "Bearer " + g.Access, nil
}

// Refused implements [Source].
func (o *OAuth) Refused(ctx context.Context, user, value string, again bool, status int, answer http.Header) error {
	user = o.key(user)
	access := strings.TrimPrefix(value, "Bearer ")
	said := bearer(answer)
	if status == http.StatusForbidden {
		switch {
		case said["error"] != "insufficient_scope":
			return ErrNotMeant
		case o.server.Machine:
			return fmt.Errorf("server %q asks for the scopes %q; add them to mcpServers.%[1]s.auth.scopes", o.server.Name, scopes(said["scope"]))
		}
		return o.stepUp(ctx, user, scopes(said["scope"]))
	}
	switch {
	case again && o.server.Machine:
		return fmt.Errorf("server %q refuses the token that its authorization server has just issued; check mcpServers.%[1]s.auth: clientId, issuer and scopes", o.server.Name)
	case again:
		return o.void(ctx, user, access, "the server refuses the token that was renewed for it")
	}
	_, err := o.refresh(ctx, user, access)
	return err
}

// stepUp stores the scopes that a server asks for, for the next login.
func (o *OAuth) stepUp(ctx context.Context, user string, asked []string) error {
	var wanted []string
	err := o.locked(ctx, user, func() error {
		g, err := o.load(ctx, user)
		if err != nil {
			return err
		}
		if g == nil {
			return o.needsLogin(nil)
		}
		wanted = joined(joined(g.Scopes, g.Wanted...), asked...)
		if slices.Equal(wanted, g.Wanted) {
			return nil
		}
		g.Wanted = wanted
		return o.save(ctx, user, g)
	})
	if err != nil {
		return err
	}
	return &NeedsLogin{Server: o.server.Name, Scopes: wanted, Reason: "the server asks for more scopes than were granted"}
}

// void marks the tokens of a user as unusable, unless they have been replaced meanwhile.
func (o *OAuth) void(ctx context.Context, user, access, why string) error {
	var now *grant
	err := o.locked(ctx, user, func() (err error) {
		if now, err = o.load(ctx, user); err != nil || now == nil || now.Access != access {
			return err
		}
		now.Void = why
		return o.save(ctx, user, now)
	})
	if err != nil {
		return err
	}
	if now != nil && now.Void == "" {
		return errors.New("the server refuses the request; the login was renewed meanwhile")
	}
	return o.needsLogin(now)
}

// refresh renews the access token of a user, once for all concurrent callers, and stores the new grant before it is used. If access has already
// been replaced, it returns the present grant. The renewal continues after ctx has ended: if a refresh token was used and its successor is lost,
// the login is lost.
func (o *OAuth) refresh(ctx context.Context, user, access string) (*grant, error) {
	done := o.refreshing.DoChan(user+"\x00"+access, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
		defer cancel()
		var g *grant
		err := o.locked(ctx, user, func() (err error) {
			g, err = o.renew(ctx, user, access)
			return err
		})
		return g, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*grant), nil
	}
}

// renew does the work of refresh. The caller holds the lock on the user's grant that all processes share (see OAuth.locked).
func (o *OAuth) renew(ctx context.Context, user, access string) (*grant, error) {
	g, err := o.load(ctx, user)
	if err != nil {
		return nil, err
	}
	if g != nil && g.Access == access { // a renewed grant that could not be stored is newer than this one
		o.mu.Lock()
		if later := o.unsaved[user]; later != nil {
			g = later
		}
		o.mu.Unlock()
		if g.Access != access {
			return g, o.keep(ctx, user, g)
		}
	}
	switch {
	case o.server.Machine && (g == nil || g.Access == access):
		if g, err = o.asClient(ctx, g); err != nil {
			return nil, err
		}
		return g, o.keep(ctx, user, g)
	case g == nil || g.Void != "":
		return nil, o.needsLogin(g)
	case g.Access != access:
		return g, nil
	case g.Refresh == "":
		g.Void = "its access token has ended, and it has no refresh token"
	default:
		token, err := o.token(ctx, g.config(), "", g.Resource,
			oauth2.SetAuthURLParam("grant_type", "refresh_token"), oauth2.SetAuthURLParam("refresh_token", g.Refresh))
		if failed, is := errors.AsType[*tokenError](err); is && failed.final() {
			g.Void = "its authorization server does not renew it: " + failed.Error()
		} else if err != nil {
			return nil, fmt.Errorf("renew the token: %w", err)
		} else {
			g.take(token)
			return g, o.keep(ctx, user, g)
		}
	}
	if err := o.save(ctx, user, g); err != nil {
		return nil, err
	}
	return nil, o.needsLogin(g)
}

// asClient gets a token for the client itself. before is the client's present grant, or nil.
func (o *OAuth) asClient(ctx context.Context, before *grant) (*grant, error) {
	g := &grant{URL: o.server.URL}
	if before != nil && before.ClientID == o.server.ClientID && sameIssuer(before.Issuer, o.server.Issuer) {
		*g = *before
		g.ClientSecret, g.Access, g.Refresh = o.server.ClientSecret, "", ""
	} else {
		f, err := o.discover(ctx)
		if err != nil {
			return nil, err
		}
		g.Resource, g.Issuer, g.TokenURL, g.RevokeURL = f.resource, f.meta.Issuer, f.meta.TokenEndpoint, f.meta.RevocationEndpoint
		o.asRegistered(g, f.meta)
	}
	more := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("grant_type", "client_credentials")}
	if len(o.server.Scopes) > 0 {
		more = append(more, oauth2.SetAuthURLParam("scope", strings.Join(o.server.Scopes, " ")))
	}
	token, err := o.token(ctx, g.config(), "", g.Resource, more...)
	if failed, is := errors.AsType[*tokenError](err); is && failed.final() {
		return nil, fmt.Errorf("the authorization server of server %q gives its client no token: %w; check mcpServers.%[1]s.auth: clientId, clientSecret and scopes",
			o.server.Name, failed)
	} else if err != nil {
		return nil, fmt.Errorf("get a token for the client: %w", err)
	}
	g.Scopes = o.server.Scopes
	g.take(token)
	return g, nil
}

// keep saves a renewed grant. If that fails, the grant stays in memory, unused, until a later attempt saves it.
func (o *OAuth) keep(ctx context.Context, user string, g *grant) error {
	err := o.save(ctx, user, g)
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.unsaved, user); err != nil {
		o.unsaved[user] = g
		return fmt.Errorf("keep the renewed token: %w", err)
	}
	return nil
}

// take copies the answer of a token endpoint into the grant.
func (g *grant) take(t *oauth2.Token) {
	g.Access, g.Expiry = t.AccessToken, t.Expiry
	if t.RefreshToken != "" {
		g.Refresh = t.RefreshToken
	}
	if granted, ok := t.Extra("scope").(string); ok && granted != "" {
		g.Scopes = scopes(granted)
	}
}

// maxToken is the maximum size of a token, in bytes: tokens are sent in a header.
const maxToken = 16 << 10

// token requests a token from a token endpoint. It also sends renewals. A renewal is the exchange of an empty code with other parameters, because
// x/oauth2's own renewal does not send the resource. A parameter without a value counts as omitted (RFC 6749, section 3.2).
func (o *OAuth) token(ctx context.Context, cfg *oauth2.Config, code, resource string, more ...oauth2.AuthCodeOption) (*oauth2.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, o.client)
	token, err := cfg.Exchange(ctx, code, append(more, oauth2.SetAuthURLParam("resource", resource))...)
	if err != nil {
		return nil, newTokenError(err)
	}
	wrong := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case !strings.EqualFold(token.TokenType, "Bearer"):
		return nil, fmt.Errorf("the authorization server issued a token of type %q; only Bearer is known", clip.Text(token.TokenType, 40))
	case len(token.AccessToken) > maxToken || strings.ContainsFunc(token.AccessToken, wrong), len(token.RefreshToken) > maxToken:
		return nil, errors.New("the authorization server issued a token that cannot be sent")
	}
	return token, nil
}

// tokenError is the refusal of a token endpoint, without its text, which may repeat secrets of the request.
type tokenError struct {
	status int
	code   string // error code of RFC 6749, section 5.2; may be empty
}

func (e *tokenError) Error() string {
	if e.code != "" {
		return e.code
	}
	return fmt.Sprintf("HTTP %d", e.status)
}

// final reports whether asking again gives the same answer.
func (e *tokenError) final() bool {
	return slices.Contains([]string{"invalid_grant", "invalid_client", "unauthorized_client", "invalid_target", "unsupported_grant_type", "invalid_scope"}, e.code)
}

func newTokenError(err error) error {
	if refused, is := errors.AsType[*oauth2.RetrieveError](err); is {
		code := refused.ErrorCode
		if strings.ContainsFunc(code, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }) || len(code) > 40 {
			code = "" // not a code of the specification
		}
		return &tokenError{refused.Response.StatusCode, code}
	}
	return withoutURL(err)
}

const (
	maxChallenges = 8       // maximum number of WWW-Authenticate headers that are read
	maxChallenge  = 4 << 10 // maximum bytes of one of these headers
)

// bearer returns the parameters of the Bearer challenge in an answer, or nil if there is none.
func bearer(answer http.Header) map[string]string {
	values := answer.Values("WWW-Authenticate")
	for i := range values[:min(len(values), maxChallenges)] {
		if len(values[i]) > maxChallenge {
			return nil
		}
	}
	challenges, err := oauthex.ParseWWWAuthenticate(values[:min(len(values), maxChallenges)])
	if err != nil {
		return nil
	}
	for _, c := range challenges {
		if c.Scheme == "bearer" {
			return c.Params
		}
	}
	return nil
}
