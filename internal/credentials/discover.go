package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/netguard"
)

const (
	requestTimeout = 10 * time.Second // time limit of one request to an authorization server, its body included
	maxDocument    = 256 << 10        // maximum bytes of an answer
	maxRedirects   = 3                // maximum number of redirects of a metadata document
)

// guarded returns the HTTP client for all requests except those to the upstream server. The client connects only to allowed addresses, by
// default public ones, and limits the size of answers.
func (o *OAuth) guarded() *http.Client {
	var transport http.RoundTripper = &http.Transport{
		DialContext: netguard.Dialer(requestTimeout, o.allowed), TLSHandshakeTimeout: requestTimeout,
		MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true, ForceAttemptHTTP2: true,
	}
	if o.opt.transport != nil {
		transport = o.opt.transport
	}
	return &http.Client{
		Timeout:   requestTimeout,
		Transport: bounded{transport},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.Method != http.MethodGet || via[0].Method != http.MethodGet || len(via) > maxRedirects {
				return http.ErrUseLastResponse // A posted form contains secrets and is not sent elsewhere. Other requests were redirected too often.
			}
			return o.check(req.URL.String())
		},
	}
}

// allowed reports whether requests may go to an address.
func (o *OAuth) allowed(ip netip.Addr) bool {
	return o.server.AllowPrivate || netguard.Public(ip) || ip.IsLoopback() && o.onLoopback()
}

// onLoopback reports whether the configured address of the server is on this machine.
func (o *OAuth) onLoopback() bool {
	u, err := url.Parse(o.server.URL)
	return err == nil && loopback(u.Hostname())
}

func loopback(host string) bool {
	return netguard.Named(host, func(ip netip.Addr) bool { return !ip.Unmap().IsLoopback() })
}

// check returns an error if requests must not go to an address from a document. The addresses to which its host name resolves are checked on
// connecting.
func (o *OAuth) check(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || len(address) > 2048:
		return fmt.Errorf("%q is no address", clip.Text(address, maxSaid))
	case u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname()) && o.onLoopback()):
		return fmt.Errorf("%q is not an https address", clip.Text(address, maxSaid))
	case u.User != nil || u.Fragment != "":
		return fmt.Errorf("the address of host %q holds a user name or a fragment", u.Host)
	case netguard.Named(u.Hostname(), o.allowed):
		return fmt.Errorf("%q: %w", clip.Text(address, maxSaid), o.errPrivate())
	}
	return nil
}

func (o *OAuth) errPrivate() error {
	return fmt.Errorf("%w; mcpServers.%s.auth.allowPrivate allows them", netguard.ErrPrivate, o.server.Name)
}

// bounded limits the size of answers.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		res.Body = &limited{res.Body, maxDocument}
	}
	return res, err
}

var errLarge = fmt.Errorf("the answer has more than %d bytes", maxDocument)

// limited returns an error once more than left bytes are read.
type limited struct {
	io.ReadCloser
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left+1)])
	if l.left -= n; l.left < 0 {
		return 0, errLarge
	}
	return n, err
}

// withoutURL returns an error of an HTTP client without the address, whose query may contain secrets.
func withoutURL(err error) error {
	if failed, is := errors.AsType[*url.Error](err); is {
		return failed.Err
	}
	return err
}

// fetch reads a JSON document. It returns nil if there is none at the address.
func fetch[T any](ctx context.Context, o *OAuth, address string) (*T, error) {
	if err := o.check(address); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, withoutURL(err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := o.client.Do(req)
	if errors.Is(err, netguard.ErrPrivate) {
		err = o.errPrivate()
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", clip.Text(address, maxSaid), withoutURL(err))
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusOK:
	case res.StatusCode >= 400 && res.StatusCode < 500:
		return nil, nil
	default:
		return nil, fmt.Errorf("get %s: it answered HTTP %d", clip.Text(address, maxSaid), res.StatusCode)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", clip.Text(address, maxSaid), withoutURL(err))
	}
	doc := new(T)
	if err := json.Unmarshal(text, doc); err != nil {
		return nil, fmt.Errorf("get %s: it is not the JSON document that is expected there", clip.Text(address, maxSaid))
	}
	return doc, nil
}

// found is the metadata of a server and its authorization server.
type found struct {
	resource string
	scopes   []string // scopes that the server asks for
	meta     *oauthex.AuthServerMeta
}

// probe is a request that a server has to refuse before a login and accept after it. Some servers accept probe without a login, but refuse
// listing.
const (
	probe = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"mcp-code-exec-harness","version":"login"}}}`
	listing = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"mcp-code-exec-harness","version":"login"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
)

// ask sends the probe or listing to the server, with the access token, if access is not empty.
func (o *OAuth) ask(ctx context.Context, what, access string) (status int, header http.Header, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.server.URL, strings.NewReader(what))
	if err != nil {
		return 0, nil, withoutURL(err)
	}
	for name, value := range o.server.Headers {
		req.Header.Set(name, value)
	}
	if what == listing {
		req.Header.Set("MCP-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/list")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if access != "" {
		req.Header.Set("Authorization", "Bearer "+access)
	}
	// This client is not guarded: the configured server may be on a private network, or behind a proxy.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil && ctx.Err() == nil { // A busy or restarting server may have closed the connection. The request has no effects and is sent again.
		again := req.Clone(ctx)
		again.Body = io.NopCloser(strings.NewReader(what))
		res, err = client.Do(again)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("ask server %q: %w", o.server.Name, withoutURL(err))
	}
	if session := res.Header.Get("Mcp-Session-Id"); session != "" && res.StatusCode == http.StatusOK {
		o.endSession(ctx, client, req, session)
	}
	return res.StatusCode, res.Header, res.Body.Close()
}

// endSession ends the session that the probe began. It ignores errors, because some servers do not let clients end sessions.
func (o *OAuth) endSession(ctx context.Context, client *http.Client, probe *http.Request, session string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, o.server.URL, nil)
	if err != nil {
		return
	}
	req.Header = probe.Header.Clone()
	req.Header.Set("Mcp-Session-Id", session)
	if res, err := client.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

// discover finds out where to log in for the server.
func (o *OAuth) discover(ctx context.Context) (*found, error) {
	status, header, err := o.ask(ctx, probe, "")
	if err == nil && status == http.StatusOK {
		status, header, err = o.ask(ctx, listing, "")
	}
	if err != nil {
		return nil, err
	}
	said := map[string]string{}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		said = bearer(header)
	}
	resource, named, err := o.resource(ctx, said["resource_metadata"])
	if err != nil {
		return nil, err
	}
	f := &found{resource: resource.Resource, scopes: scopes(said["scope"])}
	if len(f.scopes) == 0 {
		f.scopes = scopes(strings.Join(resource.ScopesSupported, " "))
	}
	issuer := resource.AuthorizationServers[0]
	if own := o.server.Issuer; own != "" {
		accepts := o.server.Machine && !named // Many services have no metadata. Machine accepts this, because the secret goes only to the configured issuer.
		if !accepts && !slices.ContainsFunc(resource.AuthorizationServers, func(named string) bool { return sameIssuer(named, own) }) {
			return nil, fmt.Errorf("server %q wants logins at %s, and not at %s (mcpServers.%[1]s.auth.issuer)", o.server.Name, clip.Text(issuer, maxSaid), own)
		}
		issuer = own
	}
	f.meta, err = o.authorizationServer(ctx, issuer)
	return f, err
}

// resource reads the protected resource metadata (RFC 9728) of the server. The resource that the metadata names has to be the server's
// address or its origin. named is false if the server has no such document.
func (o *OAuth) resource(ctx context.Context, at string) (metadata *oauthex.ProtectedResourceMetadata, named bool, err error) {
	u, err := url.Parse(o.server.URL)
	if err != nil {
		return nil, false, err
	}
	const wellKnown = "/.well-known/oauth-protected-resource"
	origin := u.Scheme + "://" + u.Host
	full := origin + u.EscapedPath()
	if u.RawQuery != "" {
		full += "?" + u.RawQuery
	}
	places := []string{at, origin + wellKnown + strings.TrimSuffix(u.EscapedPath(), "/"), origin + wellKnown}
	for i, address := range places {
		if address == "" || slices.Contains(places[:i], address) {
			continue
		}
		doc, err := fetch[oauthex.ProtectedResourceMetadata](ctx, o, address)
		if err != nil {
			return nil, false, fmt.Errorf("read the metadata of server %q: %w", o.server.Name, err)
		}
		if doc == nil {
			continue
		}
		same := slices.Contains([]string{full, strings.TrimSuffix(full, "/"), full + "/", origin, origin + "/"}, doc.Resource)
		switch {
		case !same:
			return nil, false, fmt.Errorf("the metadata of server %q is that of another resource, %q", o.server.Name, clip.Text(doc.Resource, maxSaid))
		case len(doc.AuthorizationServers) == 0:
			return nil, false, fmt.Errorf("the metadata of server %q names no authorization server", o.server.Name)
		}
		return doc, true, nil
	}
	// Before version 2025-06-18 of the protocol, the authorization server was at the server's origin.
	return &oauthex.ProtectedResourceMetadata{Resource: full, AuthorizationServers: []string{origin}}, false, nil
}

// authorizationServer reads the metadata of an issuer (RFC 8414, OpenID Connect Discovery) and checks it.
func (o *OAuth) authorizationServer(ctx context.Context, issuer string) (*oauthex.AuthServerMeta, error) {
	if err := o.check(issuer); err != nil {
		return nil, fmt.Errorf("the authorization server of server %q: %w", o.server.Name, err)
	}
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, err
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, origin+path+"/.well-known/openid-configuration")
	}
	for _, address := range places {
		meta, err := fetch[oauthex.AuthServerMeta](ctx, o, address)
		if err != nil {
			return nil, fmt.Errorf("read the metadata of the authorization server: %w", err)
		}
		if meta != nil {
			return meta, o.checkMeta(meta, issuer)
		}
	}
	return nil, fmt.Errorf("the authorization server %s describes itself neither as OAuth nor as OpenID Connect asks for; if server %q takes keys, "+
		"put one into its headers", clip.Text(issuer, maxSaid), o.server.Name)
}

func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// checkMeta returns an error if an authorization server cannot be used.
func (o *OAuth) checkMeta(meta *oauthex.AuthServerMeta, issuer string) error {
	if !sameIssuer(meta.Issuer, issuer) {
		return fmt.Errorf("the metadata of the authorization server %s is that of another issuer, %q", clip.Text(issuer, maxSaid), clip.Text(meta.Issuer, maxSaid))
	}
	if !o.server.Machine && !slices.Contains(meta.CodeChallengeMethodsSupported, "S256") {
		return fmt.Errorf("the authorization server %s does not say that it knows PKCE with S256, which is required", clip.Text(issuer, maxSaid))
	}
	for _, endpoint := range []struct {
		name, address string
		optional      bool
	}{
		{"authorization_endpoint", meta.AuthorizationEndpoint, o.server.Machine},
		{"token_endpoint", meta.TokenEndpoint, false},
		{"registration_endpoint", meta.RegistrationEndpoint, true},
		{"revocation_endpoint", meta.RevocationEndpoint, true},
	} {
		if endpoint.optional && endpoint.address == "" {
			continue
		}
		if err := o.check(endpoint.address); err != nil {
			return fmt.Errorf("the %s of the authorization server: %w", endpoint.name, err)
		}
	}
	return nil
}
