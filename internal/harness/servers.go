package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/mcpclient"
)

// discoveryTimeout bounds how long discovering tools waits for a slow server: it must not hold up the others' tools.
const discoveryTimeout = 10 * time.Second

// servers are the upstream servers as the gate needs them: what they offer is always in the catalog.
type servers struct {
	*mcpclient.Manager
	stateful map[string]bool
}

var _ gate.Servers = (*servers)(nil)

// connect makes the servers of the configuration known, with the tools that were cached. None is started.
func (h *Harness) connect() (*servers, error) {
	s := &servers{stateful: map[string]bool{}}
	s.Manager = mcpclient.NewManager(mcpclient.Options{
		Logger: h.out.Logger, CacheDir: filepath.Join(h.cache, "tools"), Environ: h.out.Environ,
		ClientVersion: h.out.Version, Supervisor: h.out.Executable,
		OnChange: func(server mcpclient.Server) { h.catalog.SetServer(offered(server)) },
	})
	for _, cfg := range h.cfg.MCPServers {
		if err := s.Add(h.connection(cfg)); err != nil {
			return nil, err
		}
		s.stateful[cfg.Name] = cfg.Stateful
	}
	return s, nil
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
			tool.Annotations = catalog.Annotations{
				Title: a.Title, ReadOnly: a.ReadOnly, Destructive: a.Destructive, Idempotent: a.Idempotent, OpenWorld: a.OpenWorld,
			}
		}
		out.Tools = append(out.Tools, tool)
	}
	return out
}

// Stateful implements gate.Servers.
func (s *servers) Stateful(server string) bool { return s.stateful[server] }

// Unavailable implements gate.Servers.
func (s *servers) Unavailable() map[string]string {
	reasons := map[string]string{}
	for _, server := range s.Tools() {
		if !server.Known && server.Reason != "" {
			reasons[server.Name] = server.Reason
		}
	}
	return reasons
}

// EnsureTools implements gate.Servers. A server whose last start failed is not waited for again before its backoff is
// over.
func (s *servers) EnsureTools(ctx context.Context) {
	missing := false
	for _, server := range s.Tools() {
		switch server.State {
		case mcpclient.StateDisabled:
		case mcpclient.StateFailed, mcpclient.StateBackoff:
			missing = missing || !server.Known && time.Now().After(server.RetryAt)
		default:
			missing = missing || !server.Known
		}
	}
	if !missing {
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
