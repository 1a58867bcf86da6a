// Package upstream gives the gate access to the upstream servers: it puts their tools into the catalog, and counts, traces and
// audits each call. Package mcpclient makes the connections.
package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/telemetry"
)

// Options configures Servers.
type Options struct {
	// Manager configures the connections. New sets its OnChange.
	Manager mcpclient.Options
	Catalog *catalog.Catalog
	Metrics *telemetry.Metrics
	Audit   *telemetry.Auditor
	// Discovery is the maximum time that EnsureTools waits for slow servers.
	Discovery time.Duration
	// CallTimeout is the timeout of calls of servers that AddLater adds.
	CallTimeout time.Duration
	// Aliases returns further names under which a server's tools are found; it may be nil.
	Aliases func(mcpclient.Server) []string
	// Changed is called after a server's new list of tools is in the catalog; it must not block.
	Changed func(mcpclient.Server)
}

// Servers manages the upstream servers. Its methods are safe for concurrent use.
type Servers struct {
	*mcpclient.Manager
	opt Options

	changed  atomic.Bool
	changing sync.Mutex // held while a server is added or removed, so that its tools leave the catalog before its name is used again

	mu       sync.Mutex
	stateful map[string]bool // servers that keep state for each connection; guarded by mu
}

var _ gate.Servers = (*Servers)(nil)

// New returns Servers without any server. The caller must call Close of the Manager.
func New(opt Options) *Servers {
	s := &Servers{opt: opt, stateful: map[string]bool{}}
	opt.Manager.OnChange = func(server mcpclient.Server) {
		opt.Catalog.SetServer(s.offered(server))
		if opt.Changed != nil {
			opt.Changed(server)
		}
	}
	s.Manager = mcpclient.NewManager(opt.Manager)
	return s
}

// Add adds a server. The server starts when it is needed.
func (s *Servers) Add(c mcpclient.Config) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.Manager.Add(c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stateful[c.Name] = c.Stateful
	return nil
}

// AddLater adds a server that the configuration does not name.
func (s *Servers) AddLater(c mcpclient.Config) error {
	c.Timeout, c.StartupTimeout = s.opt.CallTimeout, time.Minute
	err := s.Add(c)
	if err == nil {
		s.changed.Store(true)
	}
	return err
}

// Changed reports whether the servers differ from those of the configuration because some were added later or removed.
func (s *Servers) Changed() bool { return s.changed.Load() }

// Remove ends a server and removes its tools. When ctx ends first, Remove kills the server's process.
func (s *Servers) Remove(ctx context.Context, name string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.Manager.Remove(ctx, name); err != nil {
		return err
	}
	s.changed.Store(true)
	s.opt.Catalog.RemoveServer(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stateful, name)
	return nil
}

// Stateful implements gate.Servers.
func (s *Servers) Stateful(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stateful[server]
}

// Call implements gate.Servers. It calls Call of the Manager, and counts, traces and audits the call.
func (s *Servers) Call(
	ctx context.Context, server, tool string, args json.RawMessage, opts mcpclient.CallOptions,
) (*mcpclient.Result, error) {
	var result *mcpclient.Result
	err := s.record(ctx, server, tool, opts.Call, func(ctx context.Context) (outcome string, err error) {
		if result, err = s.Manager.Call(ctx, server, tool, args, opts); result != nil && result.IsError {
			return "tool_error", err
		}
		return "ok", err
	})
	return result, err
}

// Request implements gate.Servers. It calls send, and counts, traces and audits it as a tool call.
func (s *Servers) Request(ctx context.Context, server, name string, call int, send func(context.Context) error) error {
	return s.record(ctx, server, name, call, func(ctx context.Context) (string, error) { return "ok", send(ctx) })
}

// record makes a call, and counts, traces and audits it. call returns the outcome to record if there is no error.
func (s *Servers) record(ctx context.Context, server, tool string, number int, call func(context.Context) (outcome string, err error)) error {
	if err := s.opt.Audit.Ready(); err != nil {
		return &mcpclient.CallError{
			Server: server, Tool: tool, Kind: mcpclient.KindRefused, Err: err,
			Message: "not called, because audit.required is set and the audit log cannot be written; the harness's log has the reason",
		}
	}
	ctx, end := telemetry.StartTool(ctx, server+"__"+tool, number)
	began := time.Now()
	outcome, err := call(ctx)
	if failed, ok := errors.AsType[*mcpclient.CallError](err); ok {
		outcome = string(failed.Kind)
	}
	if outcome == "ok" {
		end(nil)
	} else {
		end(&frame.Error{Kind: outcome})
	}
	s.opt.Metrics.ToolCall(server, outcome, time.Since(began))
	s.opt.Audit.Audit(ctx, telemetry.Event{
		Type: telemetry.ToolCall, Severity: telemetry.Low, Details: map[string]any{"server": server, "tool": tool, "outcome": outcome},
	})
	return err
}

// offered converts a server to the form of the catalog.
func (s *Servers) offered(server mcpclient.Server) catalog.Server {
	out := catalog.Server{Name: server.Name, Description: server.ServerInfo.Title, Instructions: server.Instructions, Held: server.Held}
	if s.opt.Aliases != nil {
		out.Aliases = s.opt.Aliases(server)
	}
	for _, t := range server.Tools {
		out.Tools = append(out.Tools, catalog.Tool{
			Server: server.Name, Name: t.Name, Title: t.Title, Description: t.Description,
			InputSchema: t.InputSchema, OutputSchema: t.OutputSchema, Annotations: catalog.Annotations(t.Annotations),
		})
	}
	return out
}

// Unavailable implements gate.Servers.
func (s *Servers) Unavailable(user string) (all []*mcpclient.CallError) {
	for _, server := range s.ServersOf(user) {
		reason, _, _ := strings.Cut(server.Reason, "\n") // programs must not see the server's own text, which follows the first line
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

// Unlisted returns the names of the servers whose tools are not known.
func (s *Servers) Unlisted() (names []string) {
	for _, server := range s.Tools() {
		if !server.Known {
			names = append(names, server.Name)
		}
	}
	return names
}

// EnsureTools implements gate.Servers. It waits for at most Options.Discovery, or until ctx ends. It does not wait for a server whose
// last start failed and whose backoff is not over.
func (s *Servers) EnsureTools(ctx context.Context, user string) {
	missing := func(server mcpclient.Server) bool {
		failed := server.State == mcpclient.StateFailed || server.State == mcpclient.StateBackoff
		if server.State == mcpclient.StateDisabled || failed && !time.Now().After(server.RetryAt) {
			return false
		}
		name, err := s.opt.Catalog.ResolveServer(server.Name)
		return err != nil || name != server.Name
	}
	if !slices.ContainsFunc(s.Tools(), missing) {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.opt.Discovery, fmt.Errorf("servers did not list their tools within %s", s.opt.Discovery))
	defer cancel()
	s.Manager.EnsureTools(ctx, user)
}
