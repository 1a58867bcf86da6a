package wiring

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/upstream"
)

// discoveryTimeout bounds how long discovering tools waits for a slow server.
var discoveryTimeout = 10 * time.Second

// connect makes the servers of the configuration known, with the tools that were cached. None is started.
func (h *Harness) connect() (*upstream.Servers, error) {
	var redact func(string) string
	if detector, err := h.cfg.PII.Detector(); err != nil {
		return nil, err
	} else if detector != nil {
		redact = pii.Redact(detector)
	}
	review := h.quarantine.Review
	if h.quarantine.Off() {
		review = nil
	}
	s := upstream.New(upstream.Options{
		Manager: mcpclient.Options{
			Logger: h.out.Logger, CacheDir: cmp.Or(h.out.ToolCache, filepath.Join(h.out.CacheDir, "tools")), Environ: h.out.Environ,
			LogDir: h.serverLogs(), Redact: redact, ClientVersion: h.out.Version, Supervisor: h.out.Executable, Review: review,
		},
		Catalog: h.catalog, Metrics: h.out.Metrics, Audit: h.out.Audit, Discovery: discoveryTimeout, Aliases: n8n.Aliases,
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
		transport := c.Type
		if c.Guessed {
			transport = ""
		}
		err := s.Add(mcpclient.Config{
			Credentials: source, PerUser: perUser,
			Name: c.Name, Command: c.Command, Args: c.Args, Env: c.Env, Inherit: c.Inherit, Cwd: c.Cwd, Sandbox: c.Sandbox.Confine(), URL: c.URL, Headers: c.Headers,
			OpenAPI: c.OpenAPI, Security: c.Security,
			Transport: transport, Timeout: cmp.Or(c.Timeout, h.cfg.Sandbox.CallTimeout), StartupTimeout: c.StartupTimeout, InstallTimeout: c.InstallTimeout,
			EnabledTools: c.EnabledTools, DisabledTools: c.DisabledTools, Disabled: c.Disabled, Stateful: c.Stateful, Secrets: c.Secrets(), Err: c.Err,
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (h *Harness) serverLogs() string { return filepath.Join(h.cfg.StateDir, "logs", "servers") }

// ServerLog is the file with what a server that is started here printed; the one before it has the suffix ".1".
func (h *Harness) ServerLog(server string) string { return mcpclient.LogFile(h.serverLogs(), server) }

// addN8N adds the built-in servers for n8n, where the configuration names an instance.
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
	secrets := instance.Secrets()
	all := instance.Servers()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := s.Add(mcpclient.Config{Name: name, Within: all[name], Secrets: secrets, Timeout: h.cfg.Sandbox.CallTimeout}); err != nil {
			return err
		}
	}
	return nil
}

// AddServer adds a server until the harness is closed. It starts when it is needed.
func (h *Harness) AddServer(c mcpclient.Config) error {
	c.Timeout, c.StartupTimeout = h.cfg.Sandbox.CallTimeout, time.Minute
	return h.servers.Add(c)
}

// RemoveServer ends a server and removes its tools.
func (h *Harness) RemoveServer(ctx context.Context, name string) error {
	return h.servers.Remove(ctx, name)
}
