package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Server configures harness serve.
type Server struct {
	Listen              string        `key:"listen" default:"127.0.0.1:3000" doc:"Address and port to listen on; beyond this machine only with authentication."`
	Hosts               []string      `key:"hosts" doc:"Names under which browsers reach the dashboard, such as harness.example.com; localhost, the name of this machine and IP addresses always do."`
	TLS                 TLS           `key:"tls" doc:"The server's certificate; without one it speaks plain HTTP."`
	CORS                CORS          `key:"cors" doc:"Web pages of other origins."`
	Secret              string        `key:"secret" secret:"true" doc:"Signs the tokens that the server gives to runs, and seals the sessions of the dashboard; empty: a new one at each start, and a file beside the data for the dashboard; with PostgreSQL, one that is in the store."`
	TokenExpiration     time.Duration `key:"tokenExpiration" default:"1h" min:"1s" doc:"How long such a token is valid."`
	RateLimit           RateLimit     `key:"rateLimit" doc:"How many requests a caller may make."`
	BodyLimit           Size          `key:"bodyLimit" default:"8MiB" min:"1KiB" max:"1GiB" doc:"Size of a request's body."`
	HeaderLimit         Size          `key:"headerLimit" default:"64KiB" min:"4KiB" max:"1MiB" doc:"Size of a request's headers together."`
	ReadTimeout         time.Duration `key:"readTimeout" default:"30s" min:"100ms" doc:"Time a request may take to arrive."`
	AllowCommandServers bool          `key:"allowCommandServers" default:"false" doc:"Let administrators add MCP servers that are programs of this machine over HTTP."`
	InternalListen      string        `key:"internalListen" doc:"Address and port for /internal/mcp-call alone; empty: it is on server.listen."`
	Workers             int           `key:"workers" default:"0" min:"0" max:"100000" doc:"Tasks in work at the same time, at most; more wait. One user has at most two thirds of them. 0: as many as a quarter of the memory holds at 4 MiB each, from 256 to 4096."`
	ShutdownTimeout     time.Duration `key:"shutdownTimeout" default:"30s" min:"0" doc:"Time that requests and tasks have to end when the server is stopped."`
	HealthCheck         bool          `key:"healthCheck" default:"true" doc:"Answer /health and /ready."`
	Metrics             Metrics       `key:"metrics" doc:"Metrics on an address of their own, besides /metrics for administrators."`
	Webhooks            Webhooks      `key:"webhooks" doc:"The calls that tell others of ended tasks (callbackUrl)."`
	TrustedProxies      []string      `key:"trustedProxies" doc:"Addresses, or ranges such as 10.0.0.0/8, of proxies before this server. What they say of the client (X-Forwarded-For, X-Forwarded-Proto) is believed, and the server counts as one that other machines can reach."`
	Debug               bool          `key:"debug" default:"false" doc:"Log at level debug while serving, whatever log.level says."`

	err     error          // error that Check returns
	proxies []netip.Prefix // ranges that Proxies returns
}

// TLS is a certificate and its key, in PEM.
type TLS struct {
	Cert string `key:"cert" path:"true" doc:"File with the certificate and those that lead to its root."`
	Key  string `key:"key" path:"true" doc:"File with its private key."`
}

// CORS lists the web pages that may use the API.
type CORS struct {
	Origins []string `key:"origins" doc:"Origins such as https://app.example.com whose pages may use the API; * for all; empty: none."`
}

// RateLimit limits the requests of one caller.
type RateLimit struct {
	Enabled bool          `key:"enabled" default:"true" doc:"Refuse requests above the limit with 429."`
	Max     int           `key:"max" default:"100" min:"1" doc:"Requests for work of a caller in each window: tasks, runs and replays, schedules, calls of tools. What only reads is not counted."`
	Window  time.Duration `key:"window" default:"15m" min:"1s" doc:"Length of a window."`
}

// Metrics configures a second address, where Prometheus reads metrics.
type Metrics struct {
	Enabled bool   `key:"enabled" default:"false" doc:"Serve metrics on server.metrics.listen, without authentication."`
	Listen  string `key:"listen" default:"127.0.0.1:9090" doc:"Address and port for metrics."`
}

// Webhooks configures callbacks.
type Webhooks struct {
	AllowPrivate bool   `key:"allowPrivate" default:"false" doc:"Call addresses of this machine and of private networks too."`
	Secret       string `key:"secret" secret:"true" doc:"Signs callbacks, so that receivers can tell where they come from; empty: no signature."`
	MaxAttempts  int    `key:"maxAttempts" default:"8" min:"1" max:"100" doc:"How often a callback is tried until its receiver accepts it."`
	Values       bool   `key:"values" default:"false" doc:"Callbacks have the values of personal data in task, context, text and output of the task, where the caller that asked for it acts for its user. Otherwise they have tokens, and so have requests for approvals."`
}

// Auth configures who may use the HTTP server. API keys are not configured: they are in the store.
type Auth struct {
	OIDC OIDC `key:"oidc" doc:"Bearer tokens (JWT) of an OpenID Connect provider, and logins of the dashboard there."`
	// Teams are lists of user ids by the names of the teams.
	Teams map[string][]string `key:"teams" doc:"Users of teams, by the name of the team: those with whom a skill is shared as team:NAME."`
}

// OIDC configures the issuer whose tokens are accepted. Without an issuer, no tokens are accepted.
type OIDC struct {
	Issuer    string `key:"issuer" doc:"The provider's address, as the iss of its tokens says it; empty: API keys only."`
	Audience  string `key:"audience" doc:"What the aud of a token must hold, so that a token for another service is worth nothing here. For MCP clients, which ask for tokens for the address that they connect to, it is that address, such as https://harness.example.com/mcp."`
	UserClaim string `key:"userClaim" default:"sub" doc:"The claim that holds the user id."`
	// ClientID and ClientSecret identify the dashboard to the issuer.
	ClientID     string `key:"clientId" doc:"The client that the dashboard is to the provider; with it, people log in there. Its redirect address is /login/callback on the dashboard. ID tokens for it are accepted as bearer tokens too. Empty: no logins."`
	ClientSecret string `key:"clientSecret" secret:"true" doc:"Secret of that client; empty: it is a public client. PKCE is always used."`
	RolesClaim   string `key:"rolesClaim" default:"roles" doc:"The claim that holds the roles: user, approver, admin."`
}

// Local reports whether only programs of this machine can reach the server: it listens on a loopback address, and there is no proxy before it. A server
// that other machines can reach needs authentication.
func (s Server) Local() bool {
	return len(s.TrustedProxies) == 0 && s.loopback()
}

func (s Server) loopback() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// Check returns why the server cannot start with these settings: an address from HOST, PORT or METRICS_PORT is invalid, the variable of a
// secret is not set, or two addresses are equal. Load accepts such settings, because no other command needs them.
func (s Server) Check() error { return s.err }

// Proxies returns TrustedProxies as address ranges.
func (s Server) Proxies() []netip.Prefix { return s.proxies }

func parsePrefix(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

// withPart returns address with its host or port replaced by the value of a variable of the original system.
func withPart(address string, s setting) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port, _ = net.SplitHostPort(s.key.value)
	}
	if s.part == "host" {
		return net.JoinHostPort(strings.Trim(s.text, "[]"), port)
	}
	return net.JoinHostPort(host, s.text)
}

func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsAny(host, " /") {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

const notWebAddress = "it is not an address that begins with http:// or https://"

// isWebAddress reports whether a text is an absolute HTTP or HTTPS URL.
func isWebAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// weakSecret reports whether a secret is short or looks like a placeholder from an example.
func weakSecret(secret string) bool {
	text := strings.ToLower(secret)
	return len(secret) < 32 || strings.Contains(text, "change") || strings.Contains(text, "your") || strings.Contains(text, "example")
}

func (l *loader) validateServer() {
	s, oidc := l.config.Server, l.config.Auth.OIDC
	for _, a := range [...]struct{ key, value, example string }{
		{"server.listen", s.Listen, "127.0.0.1:3000"},
		{"server.internalListen", cmp.Or(s.InternalListen, ":0"), "127.0.0.1:3001"},
		{"server.metrics.listen", s.Metrics.Listen, "127.0.0.1:9090"},
	} {
		l.refuse(!isAddress(a.value), fmt.Sprintf("%q is not an address", a.value), "write host:port, such as "+a.example, a.key)
	}
	l.useless("server.tls.cert", s.TLS.Cert, "server.tls.key", s.TLS.Key)
	l.useless("server.tls.key", s.TLS.Key, "server.tls.cert", s.TLS.Cert)
	for _, origin := range s.CORS.Origins {
		u, err := url.Parse(origin)
		bad := origin != "*" && (err != nil || !isWebAddress(origin) || u.User != nil || u.Path+u.RawQuery+u.Fragment != "")
		l.refuse(bad, fmt.Sprintf("%q is not an origin", origin), "write https://app.example.com, without a path", "server.cors.origins")
	}
	for _, text := range s.TrustedProxies {
		proxy, err := parsePrefix(text)
		l.refuse(err != nil, fmt.Sprintf("%q is neither an address nor a range of addresses", text), "write 10.0.0.1 or 10.0.0.0/8",
			"server.trustedProxies")
		l.config.Server.proxies = append(l.config.Server.proxies, proxy)
	}
	for key, secret := range map[string]string{"server.secret": s.Secret, "server.webhooks.secret": s.Webhooks.Secret} {
		if at, set := l.at(key); set && secret != "" && weakSecret(secret) {
			l.warn(at, key, "it is short or an example's, so it can be guessed", "make one with: openssl rand -hex 32")
		}
	}
	const issuer, audience = "auth.oidc.issuer", "auth.oidc.audience"
	l.useless(audience, oidc.Audience, issuer, oidc.Issuer)
	l.useless("auth.oidc.clientId", oidc.ClientID, issuer, oidc.Issuer)
	l.useless("auth.oidc.clientSecret", oidc.ClientSecret, "auth.oidc.clientId", oidc.ClientID)
	if oidc.Issuer != "" {
		u, err := url.Parse(oidc.Issuer)
		local := err == nil && Server{Listen: net.JoinHostPort(u.Hostname(), "0")}.loopback()
		l.refuse(!isWebAddress(oidc.Issuer) || u.Scheme != "https" && !local,
			fmt.Sprintf("%q is not an address that begins with https://", oidc.Issuer), "write the iss of the provider's tokens", issuer)
		l.refuse(oidc.Audience == "", "tokens that the provider made for other services would be accepted", "set "+audience+" too", issuer)
		l.refuse(oidc.UserClaim == "", "it may not be empty", "remove it to have the default", "auth.oidc.userClaim")
		l.refuse(oidc.RolesClaim == "", "it may not be empty", "remove it to have the default", "auth.oidc.rolesClaim")
	}
	l.config.Server.err = l.cannotServe()
}

// useless reports a value of the setting key that has no effect because another setting is missing. other is the name of that setting.
func (l *loader) useless(key, value, other, otherValue string) {
	l.refuse(value != "" && otherValue == "", "it is of no use without "+other, "set both or neither", key)
}

// cannotServe returns the problems that Server.Check reports.
func (l *loader) cannotServe() error {
	s := l.config.Server
	metrics, used := "", map[string]string{s.Listen: "server.listen"}
	if s.Metrics.Enabled {
		metrics = s.Metrics.Listen
	}
	errs := l.unusable(func(path string) bool {
		return strings.HasPrefix(path, "server.") && (s.Metrics.Enabled || !strings.HasPrefix(path, "server.metrics."))
	})
	for _, a := range [...]struct{ key, address string }{{"server.internalListen", s.InternalListen}, {"server.metrics.listen", metrics}} {
		if other := used[a.address]; a.address != "" && other != "" && !strings.HasSuffix(a.address, ":0") {
			at, _ := l.at(a.key)
			errs = append(errs, at.errorf(a.key, "choose another port", "%s is the address of %s already", a.address, other))
		}
		used[a.address] = a.key
	}
	return errors.Join(errs...)
}
