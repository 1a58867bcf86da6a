package cli

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/doctor"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/remote"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/tiers"
)

// requestsPerWork is the number of requests of any kind that a caller may make for each request that server.rateLimit counts.
const requestsPerWork = 100

type serveCmd struct {
	Listen string `help:"Address and port (server.listen)." key:"server.listen" placeholder:"HOST:PORT"`
}

func (serveCmd) Help() string {
	return `Works tasks and answers over HTTP until it is stopped; tasks that were under way when a server died go on.
Only programs of this machine can reach it unless server.listen says otherwise, which takes authentication.

Examples:
  harness serve
  harness serve --listen 127.0.0.1:8080
  curl -H "Authorization: Bearer $(harness token)" http://127.0.0.1:3000/v1/tools
  curl -X POST http://127.0.0.1:3000/task -H 'Content-Type: application/json' -d '{"userId": "me", "task": "…"}'`
}

func (c *serveCmd) Run(ctx context.Context, a *app, cfg *config.Config) error {
	if err := cfg.Server.Check(); err != nil {
		return usage(err)
	}
	log, closeLog, err := a.serverLog(cfg)
	if err != nil {
		return err
	}
	defer closeLog()
	metrics := telemetry.NewMetrics()
	audit, closeAudit, err := auditor(cfg, log, a.Now)
	if err != nil {
		return err
	}
	defer closeAudit()
	out := outside{Logger: log, Metrics: metrics, Audit: audit}
	if guarded(cfg) {
		if out.Policy, err = policy.New(nil, remotePreset, config.PresetRules(remotePreset), policy.Servers{}); err != nil {
			return err
		}
		if cfg.Quarantine == "" {
			out.Quarantine = approval.HoldChanged
		}
		log.Info("people are asked about destructive calls, because other machines reach this server; set policy.preset to have it otherwise",
			"preset", remotePreset)
	}
	h, err := a.openWith(ctx, cfg, out)
	if err != nil {
		return err
	}
	if err := checkTasks(cfg, h); err != nil {
		return err
	}
	who, open, err := authenticator(ctx, cfg, h)
	switch {
	case err != nil:
		return err
	case open && !cfg.Server.Local():
		return usage(fmt.Errorf("other machines can reach this server (server.listen is %s%s), and there is no authentication: "+
			"make a key with harness keys create, set auth.oidc.issuer, or listen on 127.0.0.1 (unset HOST) without server.trustedProxies", cfg.Server.Listen, behind(cfg.Server)))
	case open && slices.Contains(cfg.Server.CORS.Origins, "*"):
		return usage(errors.New("server.cors.origins has *, so every web page could create tasks, because there is no authentication: " +
			"name the origins, make a key with harness keys create, or set auth.oidc.issuer"))
	}
	tracer, err := telemetry.NewTracer(telemetry.TracingOptions{
		Endpoint: cfg.Telemetry.OTLPEndpoint, Environ: a.Environ, Version: Version, Log: log, Redact: redactor(cfg),
	})
	if err != nil {
		return usage(fmt.Errorf("telemetry.otlpEndpoint: %w", err))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := tracer.Shutdown(ctx); err != nil {
			log.Warn("send the last spans", "error", err)
		}
	}()
	file := api.AuditFile{Path: cfg.Audit.File, Key: cfg.Audit.Key}
	if !cfg.Audit.Enabled {
		file = api.AuditFile{}
	}
	return c.serve(ctx, a, cfg, h, api.Options{
		AuditFile: file, Doctor: func(ctx context.Context, note func(doctor.Finding)) {
			doctor.Examine(ctx, cfg, h, a.about(ctx, cfg, h), func(string) {}, note)
		},
		Auth: who, Keys: who.Keys, Metrics: metrics, Audit: audit, Tracer: tracer, Logger: log, Now: a.Now, Version: Version,
		Origins: cfg.Server.CORS.Origins, Proxies: cfg.Server.Proxies(), BodyLimit: int64(cfg.Server.BodyLimit),
		AllowCommandServers: cfg.Server.AllowCommandServers, Health: cfg.Server.HealthCheck,
		InternalElsewhere: cfg.Server.InternalListen != "", MCPMode: cfg.MCP.Mode, MCPSkills: cfg.MCP.Skills, PublishedSkills: cfg.Skills.Publish, MCPTasks: cfg.MCP.Tasks, Policy: inEffect(cfg), Destinations: cfg.Compiled(cfg.Policy).Destinations, Issuer: cfg.Auth.OIDC.Issuer, Audience: cfg.Auth.OIDC.Audience,
	}, open)
}

// inEffect returns the configuration with the policy that harness serve applies: remotePreset if guarded reports true.
func inEffect(cfg *config.Config) *config.Config {
	is := *cfg
	if guarded(cfg) {
		is.Policy.Preset = remotePreset
	}
	return &is
}

// remotePreset is the policy preset of a server whose configuration has no policy, if other machines can reach the server.
const remotePreset = "guarded"

// authenticator returns the authenticator of API keys and tokens. open is true as long as neither a key nor an issuer is configured.
func authenticator(ctx context.Context, cfg *config.Config, h harness) (who *auth.Authenticator, open bool, err error) {
	keys, err := h.Keys()
	if err != nil {
		return nil, false, err
	}
	who = &auth.Authenticator{Keys: keys}
	if o := cfg.Auth.OIDC; o.Issuer != "" {
		if who.Issuer, err = auth.NewIssuer(auth.IssuerOptions{
			URL: o.Issuer, Audience: audiences(o), UserClaim: o.UserClaim, RolesClaim: o.RolesClaim,
		}); err != nil {
			return nil, false, usage(fmt.Errorf("auth.oidc: %w", err))
		}
	}
	if open, err = who.Open(ctx); open {
		who.Local, _, err = auth.LocalToken(cfg.StateDir)
	}
	return who, open, err
}

// audiences returns the audiences whose tokens are accepted.
func audiences(o config.OIDC) []string {
	if o.ClientID == "" || o.ClientID == o.Audience {
		return []string{o.Audience}
	}
	return []string{o.Audience, o.ClientID}
}

// serve joins the parts of a server and runs it until ctx ends.
func (c *serveCmd) serve(ctx context.Context, a *app, cfg *config.Config, h harness, options api.Options, open bool) error {
	begun := make(chan struct{})
	tasks, err := h.Tasks(taskOptions{
		Begun: sync.OnceFunc(func() { close(begun) }),
		Allow: func(principal string) (time.Duration, bool) {
			if options.Limiter == nil {
				return 0, true
			}
			ok, _, _, after := options.Limiter.Allow(principal)
			return after, ok
		},
	})
	if err != nil {
		return err
	}
	store, err := h.Store()
	if err != nil {
		return err
	}
	h.Warm(cfg.Sandbox.Warm)
	options.Metrics.Watch(telemetry.State{
		TasksRunning: tasks.Running,
		Load:         func(ctx context.Context) (task.Load, error) { return store.Load(ctx, a.Now()) },
		Probes:       h.Probes(), Tiers: tiers.Names, Runners: h.Tiers().Runners, Now: a.Now,
	})
	options.Harness, options.Tasks, options.KeysRevoked = h, tasks, store.KeysRevoked
	secret := []byte(cfg.Server.Secret)
	if store.Remote() { // This also refuses a server whose key of personal data is not that of the others.
		made, err := h.Common().Key(ctx, "server.secret", func() ([]byte, error) { return []byte(rand.Text() + rand.Text()), nil })
		if err != nil {
			return &exitError{exitUnavailable, err}
		}
		if len(secret) == 0 {
			secret = made
		}
	}
	if options.Capabilities, err = auth.NewCapabilities(secret, cfg.Server.TokenExpiration); err != nil {
		return usage(fmt.Errorf("server.secret: %w", err))
	}
	if limit := cfg.Server.RateLimit; limit.Enabled {
		options.Limiter, err = auth.NewLimiter(limit.Max, limit.Window)
		if err == nil {
			options.Requests, err = auth.NewLimiter(limit.Max*requestsPerWork, limit.Window)
		}
		if err != nil {
			return usage(fmt.Errorf("server.rateLimit: %w", err))
		}
		if store.Remote() {
			options.Limiter.Share(store, "of work", options.Logger)
			options.Requests.Share(store, "of requests", options.Logger)
		}
	}
	service := api.New(options)
	dashboard, err := newDashboard(cfg, secret, service, login(cfg, options.Auth), store, options.Logger)
	if err != nil {
		return &exitError{exitUnavailable, err}
	}
	listeners, err := listen(ctx, cfg, service, dashboard, options.Metrics)
	if err != nil {
		return &exitError{exitUnavailable, err}
	}
	work, stop := context.WithCancel(options.Tracer.With(context.WithoutCancel(ctx)))
	defer stop()
	worked := make(chan error, 1)
	failed, fail := context.WithCancel(ctx)
	defer fail()
	go func() {
		err := tasks.Work(work)
		if err != nil {
			fail()
		}
		worked <- err
	}()
	select {
	case <-begun:
		commands := c.takeCommands(a, cfg, h, tasks, listeners[0], options.Logger)
		a.announce(cfg, listeners[0], open, options.Logger)
		var wg sync.WaitGroup
		defer func() { fail(); wg.Wait() }()
		wg.Go(func() { h.Runs().WatchOrphans(failed) })
		if commands != nil {
			wg.Go(func() { commands.Serve(failed, cfg.Server.ShutdownTimeout) })
		}
		wg.Go(func() { h.Runs().ResumeDecided(failed, func() { tasks.Decided("") }) })
	case <-failed.Done(): // another process works the queue, or the server is being stopped
	}
	var workErr error
	err = service.Serve(failed, listeners, api.ServeOptions{
		ReadTimeout: cfg.Server.ReadTimeout, HeaderLimit: int(cfg.Server.HeaderLimit), Grace: cfg.Server.ShutdownTimeout, Logger: options.Logger,
	}, func() {
		stop()
		workErr = <-worked
	})
	if err = errors.Join(err, workErr); err != nil {
		return &exitError{exitUnavailable, err}
	}
	return errStopped
}

// takeCommands starts to accept commands of other processes. If this server cannot accept any, takeCommands logs the reason and returns nil. It logs
// nothing if remote.Supported is false.
func (c *serveCmd) takeCommands(a *app, cfg *config.Config, h harness, tasks *task.Service, at *api.Listener, log *slog.Logger) *remote.Listener {
	if !remote.Supported {
		return nil
	}
	if guarded(cfg) {
		log.Info("commands of this machine are not executed by this server, because they have another policy; set policy.preset to have it otherwise")
		return nil
	}
	dashboard := cfg.Server
	dashboard.Listen = at.Addr().String()
	l, err := newCommandServer(a, cfg, h, tasks, address(dashboard), log)
	switch {
	case errors.Is(err, remote.ErrTaken):
		log.Info("commands of this machine are executed by another server of this state directory", "directory", cfg.StateDir)
	case err != nil:
		log.Warn("commands of this machine are not executed by this server", "error", err)
	default:
		return l
	}
	return nil
}

// behind says that there is a proxy before a server, or nothing if there is none.
func behind(s config.Server) string {
	if len(s.TrustedProxies) == 0 {
		return ""
	}
	return ", server.trustedProxies " + strings.Join(s.TrustedProxies, ", ")
}

// guarded reports whether a server applies remotePreset: other machines can reach the server, and the configuration has no policy.
func guarded(cfg *config.Config) bool {
	return !cfg.Server.Local() && cfg.Policy.Preset == "" && len(cfg.Policy.Rules) == 0
}

// announce prints the address of a server and who may use it: for people, or as log entries for programs.
func (a *app) announce(cfg *config.Config, l *api.Listener, open bool, log *slog.Logger) {
	scheme := "http"
	if cfg.Server.TLS.Cert != "" {
		scheme = "https"
	}
	say := func(level slog.Level, text string) {
		if cfg.Log.Format == "json" {
			log.Log(context.Background(), level, text)
			return
		}
		fmt.Fprintln(a.Stderr, "harness:", text)
	}
	say(slog.LevelInfo, fmt.Sprintf("listening on %s://%s", scheme, l.Addr()))
	say(slog.LevelInfo, "the dashboard is there too: harness open")
	if open {
		say(slog.LevelWarn, "no API keys yet: POST /task is open to every program of this machine; everything else needs the token "+
			"that harness token prints, until harness keys create makes the first key")
	}
}

func listen(ctx context.Context, cfg *config.Config, service *api.API, dashboard http.Handler, metrics *telemetry.Metrics) (all []*api.Listener, err error) {
	s := cfg.Server
	var certificate *tls.Config
	if s.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.TLS.Cert, s.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("read server.tls: %w", err)
		}
		certificate = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	open := func(address string, handler http.Handler, certificate *tls.Config) {
		if l, failed := api.Listen(ctx, address, handler, certificate, s.Proxies()); failed == nil {
			all = append(all, l)
		} else {
			err = errors.Join(err, failed)
		}
	}
	open(s.Listen, dashboard, certificate)
	if s.InternalListen != "" {
		open(s.InternalListen, service.Internal(), certificate)
	}
	if s.Metrics.Enabled {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", metrics.Handler())
		open(s.Metrics.Listen, mux, nil)
	}
	if err != nil {
		for _, l := range all {
			l.Close()
		}
	}
	return all, err
}
