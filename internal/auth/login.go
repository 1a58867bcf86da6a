package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
)

// Login logs people in at an issuer by the authorization code flow of OpenID Connect, with PKCE. Its methods are safe for concurrent use.
type Login struct {
	issuer       *Issuer
	id, secret   string
	mu           sync.Mutex
	found        discovery
	looked       time.Time // time at which the last discovery ended
	discoverFail error     // error of the last discovery; nil if it succeeded
}

// Flow is a login that a browser has begun. Only that browser stores it.
type Flow struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // code verifier of PKCE
	Redirect string `json:"r"` // address to which the issuer sends the browser back
}

// NewLogin returns the Login for a client that is registered at an issuer. secret is empty for a public client.
func NewLogin(issuer *Issuer, id, secret string) *Login {
	return &Login{issuer: issuer, id: id, secret: secret}
}

// Issuer returns the host of the issuer, for display.
func (l *Login) Issuer() string {
	u, err := url.Parse(l.issuer.opt.URL)
	if err != nil {
		return l.issuer.opt.URL
	}
	return u.Host
}

// Begin returns a new Flow and the issuer's address to which the browser goes. The error wraps ErrUnavailable.
func (l *Login) Begin(ctx context.Context, redirect string) (Flow, string, error) {
	client, err := l.client(ctx, redirect)
	if err != nil {
		return Flow{}, "", err
	}
	f := Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Redirect: redirect}
	return f, client.AuthCodeURL(f.State, oauth2.S256ChallengeOption(f.Verifier), oauth2.SetAuthURLParam("nonce", f.Nonce)), nil
}

// Finish completes a login with the parameters that the issuer added to the redirect address, and returns the ID token. The error wraps
// ErrUnauthenticated or ErrUnavailable, and contains no secrets.
func (l *Login) Finish(ctx context.Context, f Flow, given url.Values) (token string, expires time.Time, err error) {
	refused := func(why string) (string, time.Time, error) {
		return "", time.Time{}, fmt.Errorf("%w: %s", ErrUnauthenticated, why)
	}
	switch {
	case f.State == "" || subtle.ConstantTimeCompare([]byte(f.State), []byte(given.Get("state"))) != 1:
		return refused("this browser has not begun this login, or has begun another since: log in again")
	case given.Has("iss") && given.Get("iss") != l.issuer.opt.URL: // RFC 9207
		return refused("another issuer has answered")
	case given.Has("error"):
		return refused("the issuer has refused: " + word(given.Get("error")))
	case given.Get("code") == "":
		return refused("the issuer has given no code")
	}
	client, err := l.client(ctx, f.Redirect)
	if err != nil {
		return "", time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	got, err := client.Exchange(context.WithValue(ctx, oauth2.HTTPClient, l.issuer.keys.client), given.Get("code"), oauth2.VerifierOption(f.Verifier))
	var answered *oauth2.RetrieveError
	switch {
	case errors.As(err, &answered) && answered.Response.StatusCode < http.StatusInternalServerError:
		return refused("the issuer does not take the code: " + word(answered.ErrorCode))
	case err != nil:
		return "", time.Time{}, fmt.Errorf("%w: issuer %s: its token endpoint does not answer as it should", ErrUnavailable, l.issuer.opt.URL)
	}
	token, _ = got.Extra("id_token").(string)
	if token == "" {
		return refused("the issuer has given no ID token")
	}
	claims, all, err := l.issuer.check(ctx, token)
	if err != nil {
		return "", time.Time{}, err
	}
	return l.own(f, token, claims, all)
}

// own returns an ID token and the expiry of the token. It returns an error unless the token was issued for this client and for the login f.
func (l *Login) own(f Flow, token string, claims jwt.Claims, all map[string]any) (string, time.Time, error) {
	nonce, _ := all["nonce"].(string)
	party, named := all["azp"]
	switch {
	case subtle.ConstantTimeCompare([]byte(nonce), []byte(f.Nonce)) != 1:
		return "", time.Time{}, refuse("it is of another login")
	case !slices.Contains(claims.Audience, l.id) || named && party != l.id:
		return "", time.Time{}, refuse("it is meant for another client")
	}
	return token, claims.Expiry.Time(), nil
}

// client returns the OAuth configuration of this client at the issuer.
func (l *Login) client(ctx context.Context, redirect string) (*oauth2.Config, error) {
	at, err := l.discover(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: issuer %s: %w", ErrUnavailable, l.issuer.opt.URL, err)
	}
	style := oauth2.AuthStyleInHeader // the default of OpenID Connect
	if l.secret == "" || len(at.Methods) > 0 && !slices.Contains(at.Methods, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: l.id, ClientSecret: l.secret, RedirectURL: redirect, Scopes: []string{"openid", "profile", "email"},
		Endpoint: oauth2.Endpoint{AuthURL: at.Authorization, TokenURL: at.Token, AuthStyle: style},
	}, nil
}

// discover returns the endpoints of the issuer. It asks the issuer if the last answer is an hour old, or if the last attempt failed and fetchPause
// has passed since.
func (l *Login) discover(ctx context.Context) (discovery, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	age := time.Since(l.looked)
	if l.looked.IsZero() || age >= keysFresh || l.discoverFail != nil && age >= fetchPause {
		fetch, cancel := context.WithTimeout(ctx, fetchTimeout)
		defer cancel()
		l.found, l.discoverFail = l.issuer.keys.discover(fetch)
		if l.discoverFail == nil && (l.found.Authorization == "" || l.found.Token == "") {
			l.discoverFail = errors.New("it has no authorization endpoint, or no token endpoint")
		}
		if ctx.Err() != nil { // the browser has gone away, or fetchTimeout has passed; the next call asks the issuer again
			return l.found, l.discoverFail
		}
		l.looked = time.Now()
	}
	return l.found, l.discoverFail
}

// word returns a text that has the form of an OAuth error code. It replaces any other text by a fixed one.
func word(code string) string {
	if code == "" || len(code) > 60 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "for a reason that is no code"
	}
	return code
}
