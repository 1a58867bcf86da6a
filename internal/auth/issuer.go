package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// algorithms are the accepted signature algorithms. They are asymmetric: with an HMAC, anyone could sign with the issuer's public key.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// IssuerOptions describe an OpenID Connect issuer whose JWTs are accepted.
type IssuerOptions struct {
	URL        string        // exactly as in the "iss" claim; https, or http on this machine
	Audience   []string      // accepted audiences; a token must name one of them
	UserClaim  string        // claim with the user that the token acts for; by default "sub"
	RolesClaim string        // claim with the token's roles, as an array or separated by spaces; if empty, every token has the role user
	Skew       time.Duration // tolerated difference of clocks; 0 means one minute
	Client     *http.Client  // client for requests to the issuer; may be nil
}

// Issuer checks JWTs: ID tokens and access tokens. It fetches the issuer's keys when it checks the first token; see keySet. Its methods are
// safe for concurrent use.
type Issuer struct {
	opt  IssuerOptions
	keys *keySet
}

// NewIssuer checks the options. It opens no connection: an issuer that is down locks out only the holders of its tokens.
func NewIssuer(opt IssuerOptions) (*Issuer, error) {
	u, err := url.Parse(opt.URL)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("issuer %q: this is not the address of an issuer; write it as https://…", opt.URL)
	case u.Scheme != "https" && !(u.Scheme == "http" && localHost(u.Host)):
		return nil, fmt.Errorf("issuer %q: use https; anyone on the network can change keys that come over plain http", opt.URL)
	case len(opt.Audience) == 0:
		return nil, fmt.Errorf("issuer %q: set the audience; without one, tokens made for other services would be accepted", opt.URL)
	}
	opt.UserClaim = cmp.Or(opt.UserClaim, "sub")
	opt.Skew = cmp.Or(opt.Skew, time.Minute)
	return &Issuer{opt: opt, keys: newKeySet(opt.URL, opt.Client)}, nil
}

// Authenticate returns the identity of a token's holder. Errors wrap ErrUnauthenticated, or ErrUnavailable if the issuer's keys are not
// available. They never contain the token.
func (i *Issuer) Authenticate(ctx context.Context, token string) (Identity, error) {
	claims, all, err := i.check(ctx, token)
	if err != nil {
		return Identity{}, err
	}
	return i.identity(claims, all)
}

// check returns the claims of a token that the issuer has signed for one of the audiences and that is valid now.
func (i *Issuer) check(ctx context.Context, token string) (claims jwt.Claims, all map[string]any, err error) {
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return claims, nil, refuse("it is no JWT with an accepted signature algorithm")
	}
	if !accessType(parsed.Headers[0]) {
		return claims, nil, refuse("it is of another type than ID and access tokens")
	}
	keys, err := i.keys.find(ctx, parsed.Headers[0])
	if err != nil {
		return claims, nil, err
	}
	signed := func(key jose.JSONWebKey) bool { return parsed.Claims(key.Key, &claims, &all) == nil }
	if !slices.ContainsFunc(keys, signed) {
		return claims, nil, refuse("it is malformed, or its signature is not the issuer's")
	}
	return claims, all, i.valid(claims)
}

// refuse returns the error for a rejected token; why contains nothing of the token.
func refuse(why string) error {
	return fmt.Errorf("%w: the token was refused: %s", ErrUnauthenticated, why)
}

// accessType reports whether a token is an ID or access token. It rejects types for other purposes, such as logout tokens and DPoP proofs.
func accessType(h jose.Header) bool {
	typ, _ := h.ExtraHeaders[jose.HeaderType].(string)
	typ = strings.ToLower(strings.TrimPrefix(typ, "application/"))
	return typ == "" || typ == "jwt" || typ == "at+jwt"
}

func (i *Issuer) valid(c jwt.Claims) error {
	err := c.ValidateWithLeeway(jwt.Expected{Issuer: i.opt.URL, AnyAudience: i.opt.Audience}, i.opt.Skew)
	switch {
	case c.Expiry == nil:
		return refuse("it never expires")
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return refuse("it is of another issuer")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return refuse("it is meant for another audience")
	case errors.Is(err, jwt.ErrExpired):
		return refuse("it has expired")
	default:
		return refuse("it is not valid yet")
	}
}

func (i *Issuer) identity(c jwt.Claims, all map[string]any) (Identity, error) {
	if c.Subject == "" {
		return Identity{}, refuse("it has no subject")
	}
	id := Identity{Principal: oidcPrefix + c.Subject, Roles: []Role{User}}
	user, ok := claim(all, i.opt.UserClaim).(string)
	if !ok {
		return id, refuse("it has no claim " + i.opt.UserClaim + " that names the user")
	}
	if err := CleanUser(user); err != nil {
		return id, fmt.Errorf("%w: claim %s: %w", ErrUnauthenticated, i.opt.UserClaim, err)
	}
	id.User = user
	if i.opt.RolesClaim != "" {
		id.Roles = roles(claim(all, i.opt.RolesClaim))
	}
	return id, nil
}

// claim returns the claim called name. If there is none, it splits name at dots into a path ("realm_access.roles").
func claim(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	first, rest, ok := strings.Cut(name, ".")
	inner, isObject := claims[first].(map[string]any)
	if !ok || !isObject {
		return nil
	}
	return claim(inner, rest)
}

// roles returns the roles in a claim and ignores other values.
func roles(v any) (out []Role) {
	var names []string
	switch v := v.(type) {
	case string:
		names = strings.Fields(v)
	case []any:
		for _, e := range v {
			if s, ok := e.(string); ok {
				names = append(names, s)
			}
		}
	}
	for _, name := range names {
		if role, err := ParseRole(name); err == nil {
			out = append(out, role)
		}
	}
	return out
}
