package mcpclient

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/confine"
	"mcp-code-exec-harness/internal/credentials"
)

// Transports that a server can be configured with. The empty string means stdio for a command. For a URL it means
// streamable HTTP first, then SSE if the server refuses streamable HTTP with a 4xx status, as the specification requires of clients.
const (
	TransportStdio = "stdio"
	TransportHTTP  = "http"
	TransportSSE   = "sse"
)

// TransportOpenAPI is the transport of a server that an OpenAPI document describes: its operations are called over HTTP.
const TransportOpenAPI = "openapi"

// Config describes one upstream server. Name and one of Command, URL, OpenAPI, Document, Fetch and Within are required.
type Config struct {
	Name    string
	Command string            // stdio: program of the server, looked up in the child's PATH
	Args    []string          // stdio: arguments of Command
	Env     map[string]string // stdio: environment variables added to those that every server inherits; they override inherited ones
	Inherit []string          // stdio: names of further variables to inherit; * stands for any text
	Cwd     string            // stdio: working directory; empty is that of the harness
	Sandbox *confine.Sandbox  // stdio: confinement of the process; if nil, the process has all rights of its user
	// OpenAPI is the path or the http or https address of an OpenAPI 3 document. URL is then the address of the service. If URL is
	// empty, the document gives the address; a document fetched over HTTP can give its own origin only.
	OpenAPI string
	// Document is the text of an OpenAPI document, given instead of OpenAPI.
	Document []byte
	// Security maps the names of the OpenAPI document's security schemes to credentials. The credential of a basic scheme is user:password.
	Security map[string]string
	Fetch    *Fetch            // built-in server for HTTP requests; excludes the other ways to reach a server
	Within   Within            // server inside this process; excludes the other ways to reach a server
	Secrets  []string          // secrets that a Within sends (removed from its answers) or that a Command may print (hidden in its output)
	URL      string            // http, sse, openapi: address of the server
	Headers  map[string]string // http, sse, openapi: headers of every request to URL's host; other hosts do not get them
	// Credentials authorizes requests of http, sse and openapi. If Credentials is nil, Headers may hold credentials. PerUser gives each user a
	// connection with the user's own credentials.
	Credentials credentials.Source
	PerUser     bool

	Transport      string        // TransportStdio, TransportHTTP, TransportSSE or empty
	Timeout        time.Duration // timeout of a call; progress restarts it; 0 is 60 s
	InstallTimeout time.Duration // timeout of a download by npx, uvx, docker or podman; 0 is 10 minutes
	StartupTimeout time.Duration // timeout for starting the server and listing its tools; 0 is 30 s

	EnabledTools  []string // names of the only tools that are offered and callable; empty allows all tools; * stands for any text
	DisabledTools []string // tools that are never offered or callable; overrides EnabledTools; * stands for any text
	Disabled      bool     // the server is listed but never started
	// Err is the reason why a configured server cannot be used. The server is then listed as failed and never started.
	Err error

	// Stateful reports that the server keeps state for each connection, so that a call must not silently move to a new connection.
	Stateful bool
}

func (c Config) validate() error {
	fail := func(msg string) error { return fmt.Errorf("configure server %q: %s", c.Name, msg) }
	switch {
	case c.Name == "":
		return errors.New("configure server: it has no name")
	case c.Err != nil:
		return nil // a server with Err is never started, so its other fields do not matter
	case c.Fetch != nil:
		return c.Fetch.Allow.Check()
	case c.Within != nil:
		return nil
	case c.OpenAPI != "" && c.Document != nil:
		return fail("it has both openapi and a document; remove one of them")
	case c.Command == "" && c.URL == "" && !c.documented():
		return fail("it has neither command nor url nor openapi; give one of them")
	case c.Command != "" && (c.URL != "" || c.documented()):
		return fail("it has both command and url or openapi; remove one of them")
	case !c.documented() && len(c.Security) > 0:
		return fail("security is for a server with openapi; use headers")
	case c.documented() && c.Transport != "" && c.Transport != TransportOpenAPI, !c.documented() && c.Transport == TransportOpenAPI:
		return fail("transport openapi and the key openapi go together")
	case c.Timeout < 0 || c.StartupTimeout < 0 || c.InstallTimeout < 0:
		return fail("timeouts cannot be negative")
	case !slices.Contains([]string{"", TransportStdio, TransportHTTP, TransportSSE, TransportOpenAPI}, c.Transport):
		return fail(fmt.Sprintf("unknown transport %q; use stdio, http, sse or openapi", c.Transport))
	case c.Sandbox != nil && c.Command == "":
		return fail("a sandbox is for a server that is started here by a command")
	case c.Credentials != nil && c.Command != "":
		return fail("credentials are for a server at a url; a command gets its own in env")
	case c.Transport == TransportStdio && c.Command == "":
		return fail("transport stdio needs a command")
	case c.Transport != "" && c.Transport != TransportStdio && c.URL == "" && !c.documented():
		return fail("transport " + c.Transport + " needs a url")
	}
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fail(fmt.Sprintf("url %q is not an http or https address", withoutSecrets(c.URL)))
		}
	}
	return nil
}

// documented reports whether an OpenAPI document describes the server.
func (c Config) documented() bool { return c.OpenAPI != "" || c.Document != nil }

// usable reports whether the server may be started.
func (c Config) usable() bool { return !c.Disabled && c.Err == nil }

// offers reports whether a tool passes EnabledTools and DisabledTools.
func (c Config) offers(tool string) bool {
	matches := func(pattern string) bool { return matchName(pattern, tool) }
	if slices.ContainsFunc(c.DisabledTools, matches) {
		return false
	}
	return len(c.EnabledTools) == 0 || slices.ContainsFunc(c.EnabledTools, matches)
}

// matchName compares a name with a pattern in which * stands for any text. For usual patterns, its time is linear in the lengths of name
// and pattern: it searches the parts of the pattern from left to right and expects the last one at the end.
func matchName(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(name, first) || !strings.HasSuffix(name[len(first):], last) {
		return false
	}
	rest := name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}

// hash returns a hash of all settings that can change which tools the server has. The hash does not reveal the settings, so a file name
// may contain it.
func (c Config) hash() string {
	// Marshalling sorts the keys of maps, so equal configurations give equal bytes. It cannot fail for these types.
	var within Info
	if c.Within != nil {
		within, _ = c.Within.Describe()
	}
	data, _ := json.Marshal([]any{c.Name, c.Command, c.Args, c.Env, c.Cwd, c.URL, c.Headers, c.Transport, c.Sandbox, c.OpenAPI, c.Document, c.Security, c.Fetch, c.Inherit, within})
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
