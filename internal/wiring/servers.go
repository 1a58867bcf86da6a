package wiring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/telemetry"
)

// discoveryTimeout bounds how long discovering tools waits for a slow server.
var discoveryTimeout = 10 * time.Second

// servers are the upstream servers as the gate needs them. The Manager reports their tools to the catalog.
type servers struct {
	*mcpclient.Manager
	stateful map[string]bool
	catalog  *catalog.Catalog
	metrics  *telemetry.Metrics
	audit    *telemetry.Auditor

	changing sync.Mutex // held while a server is added or removed: its tools leave the catalog before its name is used again
}

var _ gate.Servers = (*servers)(nil)

// connect makes the servers of the configuration known, with the tools that were cached. None is started.
func (h *Harness) connect() (*servers, error) {
	var redact func(string) string
	if detector, err := Detector(h.cfg.PII); err != nil {
		return nil, err
	} else if detector != nil {
		redact = pii.Redact(detector)
	}
	s := &servers{stateful: map[string]bool{}, catalog: h.catalog, metrics: h.out.Metrics, audit: h.out.Audit}
	s.Manager = mcpclient.NewManager(mcpclient.Options{
		Logger: h.out.Logger, CacheDir: cmp.Or(h.out.ToolCache, filepath.Join(h.out.CacheDir, "tools")), Environ: h.out.Environ,
		LogDir: h.serverLogs(), Redact: redact, ClientVersion: h.out.Version, Supervisor: h.out.Executable,
		OnChange: func(server mcpclient.Server) {
			h.catalog.SetServer(offered(server))
			h.reviews.changed(server)
		}, Review: h.quarantine(),
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
		s.stateful[c.Name] = c.Stateful
	}
	return s, nil
}

func (h *Harness) serverLogs() string { return filepath.Join(h.cfg.StateDir, "logs", "servers") }

// ServerLog is the file with what a server that is started here printed; the one before it has the suffix ".1".
func (h *Harness) ServerLog(server string) string { return mcpclient.LogFile(h.serverLogs(), server) }

// addN8N adds the built-in servers for n8n, where the configuration names an instance.
func (h *Harness) addN8N(s *servers) error {
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
	secrets := []string{c.APIKey, c.Password}
	for _, value := range c.WebhookHeaders {
		secrets = append(secrets, value, value[strings.LastIndexByte(value, ' ')+1:]) // the value without Bearer
	}
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
	h.servers.changing.Lock()
	defer h.servers.changing.Unlock()
	return h.servers.Add(c)
}

// RemoveServer ends a server and removes its tools.
func (h *Harness) RemoveServer(ctx context.Context, name string) error {
	h.servers.changing.Lock()
	defer h.servers.changing.Unlock()
	if err := h.servers.Remove(ctx, name); err != nil {
		return err
	}
	h.catalog.RemoveServer(name)
	return nil
}

// Call implements gate.Servers: the Manager's Call, counted, traced and audited.
func (s *servers) Call(
	ctx context.Context, server, tool string, args json.RawMessage, opts mcpclient.CallOptions,
) (*mcpclient.Result, error) {
	if err := s.audit.Ready(); err != nil {
		return nil, &mcpclient.CallError{
			Server: server, Tool: tool, Kind: mcpclient.KindRefused, Err: err,
			Message: "not called, because audit.required is set and the audit log cannot be written; the harness's log has the reason",
		}
	}
	ctx, end := telemetry.StartTool(ctx, server+"__"+tool, opts.Call)
	began := time.Now()
	result, err := s.Manager.Call(ctx, server, tool, args, opts)
	outcome := "ok"
	var failed *mcpclient.CallError
	switch {
	case errors.As(err, &failed):
		outcome = string(failed.Kind)
	case result != nil && result.IsError:
		outcome = "tool_error"
	}
	if outcome == "ok" {
		end(nil)
	} else {
		end(&frame.Error{Kind: outcome})
	}
	s.metrics.ToolCall(server, outcome, time.Since(began))
	s.audit.Audit(ctx, telemetry.Event{
		Type: telemetry.ToolCall, Severity: telemetry.Low, Details: map[string]any{"server": server, "tool": tool, "outcome": outcome},
	})
	return result, err
}

// offered is a server as the catalog has it.
func offered(s mcpclient.Server) catalog.Server {
	out := catalog.Server{Name: s.Name, Description: s.ServerInfo.Title, Instructions: s.Instructions, Held: s.Held}
	if s.Transport == mcpclient.TransportBuiltIn && strings.HasPrefix(s.Name, "n8n-") && s.Name != n8n.BridgeServer {
		out.Aliases = []string{"n8n"} // n8n_create_workflow
	}
	for _, t := range s.Tools {
		out.Tools = append(out.Tools, catalog.Tool{
			Server: s.Name, Name: t.Name, Title: t.Title, Description: t.Description,
			InputSchema: t.InputSchema, OutputSchema: t.OutputSchema, Annotations: catalog.Annotations(t.Annotations),
		})
	}
	return out
}

// Stateful implements gate.Servers.
func (s *servers) Stateful(server string) bool { return s.stateful[server] }

// Unavailable implements gate.Servers.
func (s *servers) Unavailable(ctx context.Context) (all []*mcpclient.CallError) {
	for _, server := range s.ServersOf(ctx) {
		reason, _, _ := strings.Cut(server.Reason, "\n") // programs do not see what the server wrote
		switch {
		case server.Known:
		case server.State == mcpclient.StateNeedsLogin:
			needs := &credentials.NeedsLogin{Server: server.Name, Scopes: server.Scopes}
			all = append(all, &mcpclient.CallError{Server: server.Name, Kind: mcpclient.KindNeedsLogin, Message: needs.Error(), Err: needs})
		case reason != "" || server.State == mcpclient.StateStarting || server.State == mcpclient.StateInstalling:
			all = append(all, &mcpclient.CallError{Server: server.Name, Kind: mcpclient.KindUnavailable, Message: reason, Refusal: server.Refusal})
		}
	}
	return all
}

// EnsureTools implements gate.Servers: it waits for at most discoveryTimeout, or until ctx ends, and not for a server whose last
// start failed before its backoff is over.
func (s *servers) EnsureTools(ctx context.Context) {
	missing := func(server mcpclient.Server) bool {
		failed := server.State == mcpclient.StateFailed || server.State == mcpclient.StateBackoff
		if server.State == mcpclient.StateDisabled || failed && !time.Now().After(server.RetryAt) {
			return false
		}
		name, err := s.catalog.ResolveServer(server.Name)
		return err != nil || name != server.Name
	}
	if !slices.ContainsFunc(s.Tools(), missing) {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, discoveryTimeout, fmt.Errorf("servers did not list their tools within %s", discoveryTimeout))
	defer cancel()
	s.Manager.EnsureTools(ctx)
}

// zone describes a time zone: the value of the intl call.
func zone(name string) (json.RawMessage, error) {
	canonical, transitions, err := guest.Zone(name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"zone": canonical, "transitions": transitions})
}

// unknownServers are the names of the servers whose tools are not known.
func (h *Harness) unknownServers() (names []string) {
	for _, s := range h.Servers().Tools() {
		if !s.Known {
			names = append(names, s.Name)
		}
	}
	return names
}
