package wiring

import (
	"cmp"
	"path/filepath"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/upstream"
)

// discoveryTimeout is the maximum time that the discovery of tools waits for a slow server.
var discoveryTimeout = 10 * time.Second

// connect adds the servers of the configuration, with their cached tools. It starts no server.
func (h *Harness) connect() (*upstream.Servers, error) {
	redact, err := h.cfg.PII.Redact()
	if err != nil {
		return nil, err
	}
	s := upstream.New(upstream.Options{
		Manager: mcpclient.Options{
			Logger: h.out.Logger, CacheDir: cmp.Or(h.out.ToolCache, filepath.Join(h.out.CacheDir, "tools")), Environ: h.out.Environ,
			LogDir: filepath.Join(h.cfg.StateDir, "logs", "servers"), Redact: redact, ClientVersion: h.out.Version, Supervisor: h.child, Review: h.quarantine.Reviewer(),
		},
		Catalog: h.catalog, Metrics: h.out.Metrics, Audit: h.out.Audit, Discovery: discoveryTimeout, CallTimeout: h.cfg.Sandbox.CallTimeout, Aliases: n8n.Aliases,
		Changed: h.quarantine.Changed,
	})
	if allow := h.cfg.Network.Allow; len(allow) > 0 {
		err := s.Add(mcpclient.Config{
			Name: config.HTTPServer, Fetch: &mcpclient.Fetch{Allow: allow, AllowPrivate: h.cfg.Network.AllowPrivate}, Timeout: h.cfg.Sandbox.CallTimeout,
		})
		if err != nil {
			return nil, err
		}
	}
	if err := h.addN8N(s); err != nil {
		return nil, err
	}
	for _, c := range h.cfg.MCPServers {
		source, perUser := h.credentials(c)
		err := s.Add(mcpclient.Config{
			Credentials: source, PerUser: perUser,
			Name: c.Name, Command: c.Command, Args: c.Args, Env: c.Env, Inherit: c.Inherit, Cwd: c.Cwd, Sandbox: c.Sandbox.Confine(), URL: c.URL, Headers: c.Headers,
			OpenAPI: c.OpenAPI, Security: c.Security,
			Transport: c.Transport(), Timeout: cmp.Or(c.Timeout, h.cfg.Sandbox.CallTimeout), StartupTimeout: c.StartupTimeout, InstallTimeout: c.InstallTimeout,
			EnabledTools: c.EnabledTools, DisabledTools: c.DisabledTools, Disabled: c.Disabled, Stateful: c.Stateful, Secrets: c.Secrets(), Err: c.Err,
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// addN8N adds the built-in servers for n8n if the configuration names an instance.
func (h *Harness) addN8N(s *upstream.Servers) error {
	c := h.cfg.N8N
	if c.URL == "" {
		return nil
	}
	library := c.TemplateLibrary
	if library == "off" {
		library = ""
	}
	instance, err := n8n.New(n8n.Options{
		URL: c.URL, APIKey: c.APIKey, Nodes: c.Nodes, Email: c.Email, Password: c.Password, Templates: c.Templates, TemplateLibrary: library,
		WebhookURL: c.WebhookURL, WebhookSecurity: c.WebhookSecurity, WebhookHeaders: c.WebhookHeaders, CallTimeout: h.cfg.Sandbox.CallTimeout,
		CacheDir: h.out.CacheDir, Version: h.out.Version,
	})
	if err != nil {
		return err
	}
	h.n8n = instance
	for _, server := range instance.Configs() {
		if err := s.Add(server); err != nil {
			return err
		}
	}
	return nil
}

// credentials returns the source of the credentials for requests to a server, and whether each user has different ones. The source is nil if there
// are none.
func (h *Harness) credentials(c *config.MCPServer) (source credentials.Source, perUser bool) {
	h.logins[c.Name] = credentials.Login{Err: c.Err}
	a := c.Auth
	if a == nil || c.Err != nil {
		return nil, false
	}
	switch a.Type {
	case "command":
		return &credentials.Command{
			Server: c.Name, Name: a.Command, Args: a.Args, Environ: h.out.Environ, HeaderIn: a.Header, CacheFor: a.CacheFor, Now: time.Now,
		}, false
	case "keys":
		return &credentials.Keys{Server: c.Name, HeaderIn: a.Header, ByUser: a.Keys}, true
	}
	login := credentials.NewOAuth(credentials.Server{
		Name: c.Name, URL: cmp.Or(c.URL, c.OpenAPI), Headers: c.Headers, ClientID: a.ClientID, ClientSecret: a.ClientSecret, Issuer: a.Issuer, Scopes: a.Scopes,
		RedirectPort: a.RedirectPort, PerUser: a.Per == "user", AllowPrivate: a.AllowPrivate, Machine: a.Machine(),
	}, credentials.Options{
		Store: func() (credentials.Store, error) { return h.store() }, Keys: h.keys, Dir: filepath.Join(h.cfg.StateDir, "logins"), Now: time.Now,
	})
	h.logins[c.Name] = credentials.Login{OAuth: login}
	return login, a.Per == "user"
}

// Logins returns the OAuth login of a server.
func (h *Harness) Logins(server string) (*credentials.OAuth, error) { return h.logins.Of(server) }
