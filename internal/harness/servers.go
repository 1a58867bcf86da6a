package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/telemetry"
)

// discoveryTimeout bounds how long discovering tools waits for a slow server: it must not hold up the others' tools.
const discoveryTimeout = 10 * time.Second

// servers are the upstream servers as the gate needs them: what they offer is always in the catalog.
type servers struct {
	*mcpclient.Manager
	stateful map[string]bool
	catalog  *catalog.Catalog
	metrics  *telemetry.Metrics
	audit    *telemetry.Auditor

	changing sync.Mutex // held while a server is added or removed, so that the catalog loses the tools of the removed one only

	mu        sync.Mutex
	published map[string]bool // servers that the catalog has
	changed   chan struct{}   // closed when there is one more
}

var _ gate.Servers = (*servers)(nil)

// connect makes the servers of the configuration known, with the tools that were cached. None is started.
func (h *Harness) connect() (*servers, error) {
	s := &servers{
		stateful: map[string]bool{}, catalog: h.catalog, metrics: h.out.Metrics, audit: h.out.Audit,
		published: map[string]bool{}, changed: make(chan struct{}),
	}
	s.Manager = mcpclient.NewManager(mcpclient.Options{
		Logger: h.out.Logger, CacheDir: cmp.Or(h.out.ToolCache, filepath.Join(h.cache, "tools")), Environ: h.out.Environ,
		ClientVersion: h.out.Version, Supervisor: h.out.Executable,
		OnChange: s.publish,
	})
	for _, cfg := range h.cfg.MCPServers {
		if err := s.Add(h.connection(cfg)); err != nil {
			return nil, err
		}
		s.stateful[cfg.Name] = cfg.Stateful
	}
	return s, nil
}

// Call implements gate.Servers: the Manager's Call, counted, traced and audited.
func (s *servers) Call(
	ctx context.Context, server, tool string, args json.RawMessage, opts mcpclient.CallOptions,
) (*mcpclient.Result, error) {
	ctx, end := telemetry.StartTool(ctx, server+"__"+tool, run.CallNumber(ctx))
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

// publish puts what a server offers into the catalog.
func (s *servers) publish(server mcpclient.Server) {
	s.catalog.SetServer(offered(server))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published[server.Name] = true
	close(s.changed)
	s.changed = make(chan struct{})
}

// forget removes a server from the catalog.
func (s *servers) forget(name string) {
	s.catalog.RemoveServer(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.published, name)
}

// unpublished lists the servers that the catalog does not have, and a channel that is closed when that changes.
func (s *servers) unpublished() (missing []mcpclient.Server, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.Tools() {
		if !s.published[server.Name] && server.State != mcpclient.StateDisabled {
			missing = append(missing, server)
		}
	}
	return missing, s.changed
}

// connection is a configured server as the client knows it.
func (h *Harness) connection(s *config.MCPServer) mcpclient.Config {
	timeout := s.Timeout
	if timeout == 0 {
		timeout = h.cfg.Sandbox.CallTimeout
	}
	return mcpclient.Config{
		Name: s.Name, Command: s.Command, Args: s.Args, Env: s.Env, Cwd: s.Cwd, URL: s.URL, Headers: s.Headers,
		Transport: s.Type, Timeout: timeout, StartupTimeout: s.StartupTimeout, EnabledTools: s.EnabledTools,
		DisabledTools: s.DisabledTools, Disabled: s.Disabled, Stateful: s.Stateful, Err: s.Err,
	}
}

// offered is a server as the catalog knows it.
func offered(s mcpclient.Server) catalog.Server {
	out := catalog.Server{Name: s.Name, Description: s.ServerInfo.Title, Instructions: s.Instructions}
	for _, t := range s.Tools {
		tool := catalog.Tool{
			Server: s.Name, Name: t.Name, Title: t.Title, Description: t.Description,
			InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
		}
		if a := t.Annotations; a != nil {
			tool.Annotations = catalog.Annotations(*a)
		}
		out.Tools = append(out.Tools, tool)
	}
	return out
}

// Stateful implements gate.Servers.
func (s *servers) Stateful(server string) bool { return s.stateful[server] }

// Unavailable implements gate.Servers.
func (s *servers) Unavailable() []string {
	var names []string
	for _, server := range s.Tools() {
		if !server.Known && (server.Reason != "" || server.State == mcpclient.StateStarting) {
			names = append(names, server.Name)
		}
	}
	return names
}

// EnsureTools implements gate.Servers: it waits for at most discoveryTimeout, or until ctx ends. A server whose last start failed is not waited for again before its backoff is
// over.
func (s *servers) EnsureTools(ctx context.Context) {
	missing, _ := s.unpublished()
	if !slices.ContainsFunc(missing, func(server mcpclient.Server) bool {
		failed := server.State == mcpclient.StateFailed || server.State == mcpclient.StateBackoff
		return !failed || time.Now().After(server.RetryAt)
	}) {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, discoveryTimeout, fmt.Errorf("servers did not list their tools within %s", discoveryTimeout))
	defer cancel()
	s.Manager.EnsureTools(ctx)
	// A server is connected a moment before its tools are in the catalog.
	for {
		missing, changed := s.unpublished()
		if !slices.ContainsFunc(missing, func(server mcpclient.Server) bool { return server.State == mcpclient.StateReady }) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// zone describes a time zone: the value of the intl call.
func zone(name string) (json.RawMessage, error) {
	canonical, transitions, err := guest.Zone(name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"zone": canonical, "transitions": transitions})
}
