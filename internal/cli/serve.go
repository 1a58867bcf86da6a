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
	"sync"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/telemetry"
)

// requestsPerWork is how many requests of any kind a caller may make for each request for work of server.rateLimit.
const requestsPerWork = 100

type serveCmd struct {
	Listen string `help:"Address and port (server.listen)." placeholder:"HOST:PORT"`
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

func (c *serveCmd) Run(ctx context.Context, a *app) error {
	if c.Listen != "" {
		a.set("server.listen", c.Listen)
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if err := cfg.Server.Check(); err != nil {
		return usage(err)
	}
	log := a.serveLogger(cfg)
	metrics := telemetry.NewMetrics()
	audit := auditor(cfg, log)
	h, err := a.openMeasured(ctx, cfg, "", log, metrics, audit)
	if err != nil {
		return err
	}
	defer a.close(h)
	who, open, err := authenticator(ctx, cfg, h)
	if err != nil {
		return missing(h, err)
	}
	if open && !cfg.Server.Loopback() {
		return usage(fmt.Errorf("server.listen is %s, which others can reach, and there is no authentication: make a key with harness keys create, "+
			"set auth.oidc.issuer, or listen on 127.0.0.1 (unset HOST)", cfg.Server.Listen))
	}
	if open && slices.Contains(cfg.Server.CORS.Origins, "*") {
		return usage(errors.New("server.cors.origins has *, so every web page could have tasks worked, for there is no authentication: " +
			"name the origins, make a key with harness keys create, or set auth.oidc.issuer"))
	}
	tracer, err := telemetry.NewTracer(telemetry.TracingOptions{
		Endpoint: cfg.Telemetry.OTLPEndpoint, Environ: a.Environ, Version: Version, Log: log,
		Redact: pii.Redact(privacy),
	})
	if err != nil {
		return usage(fmt.Errorf("telemetry.otlpEndpoint: %w", err))
	}
	defer endTracing(ctx, tracer, log)
	return c.serve(ctx, a, cfg, h, api.Options{
		Auth: who, Metrics: metrics, Audit: audit, Tracer: tracer, Logger: log, Now: a.Now, Version: Version,
		Origins: cfg.Server.CORS.Origins, Proxies: cfg.Server.Proxies(), BodyLimit: int64(cfg.Server.BodyLimit),
		AllowCommandServers: cfg.Server.AllowCommandServers, Health: cfg.Server.HealthCheck, MetricsPath: true,
		InternalElsewhere: cfg.Server.InternalListen != "",
	}, open)
}

// auditor writes audit events into a log, if they are wanted.
func auditor(cfg *config.Config, log *slog.Logger) *telemetry.Auditor {
	if !cfg.Log.Audit {
		return nil
	}
	return telemetry.NewAuditor(log)
}

// endTracing sends the last spans.
func endTracing(ctx context.Context, tracer *telemetry.Tracer, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := tracer.Shutdown(ctx); err != nil {
		log.Warn("send the last spans", "error", err)
	}
}

// authenticator checks keys and tokens; open says that there are neither so far.
func authenticator(ctx context.Context, cfg *config.Config, h *harness.Harness) (who *auth.Authenticator, open bool, err error) {
	keys, err := h.Keys()
	if err != nil {
		return nil, false, err
	}
	who = &auth.Authenticator{Keys: keys}
	if o := cfg.Auth.OIDC; o.Issuer != "" {
		var audience []string
		if o.Audience != "" {
			audience = []string{o.Audience}
		}
		who.Issuer, err = auth.NewIssuer(auth.IssuerOptions{URL: o.Issuer, Audience: audience, UserClaim: o.UserClaim, RolesClaim: o.RolesClaim})
		if err != nil {
			return nil, false, usage(fmt.Errorf("auth.oidc: %w", err))
		}
	}
	if open, err = who.Open(ctx); open {
		who.Local, _, err = auth.LocalToken(cfg.StateDir)
	}
	return who, open, err
}

// serve joins what a server is made of, and runs it until ctx ends.
func (c *serveCmd) serve(ctx context.Context, a *app, cfg *config.Config, h *harness.Harness, options api.Options, open bool) error {
	ours := make(chan struct{})
	tasks, err := h.Tasks(harness.TaskOptions{
		Begun: sync.OnceFunc(func() { close(ours) }),
		Allow: func(principal string) (time.Duration, bool) {
			if options.Limiter == nil {
				return 0, true
			}
			ok, _, _, after := options.Limiter.Allow(principal)
			return after, ok
		},
	})
	if err != nil {
		return missing(h, err)
	}
	h.Warm(cfg.Sandbox.Warm)
	options.Metrics.Watch(func() telemetry.State {
		state := telemetry.State{TasksRunning: tasks.Running()}
		if n, err := tasks.Queued(context.WithoutCancel(ctx)); err == nil {
			state.TasksQueued = n
		}
		if pool, err := h.Pool(); err == nil {
			state.RunnersStarted, state.RunnersIdle = pool.Stats()
		}
		return state
	})
	secret := []byte(cfg.Server.Secret)
	if len(secret) == 0 {
		secret = make([]byte, 32)
		rand.Read(secret) // never fails
	}
	options.Harness, options.Tasks = h, tasks
	if options.Capabilities, err = auth.NewCapabilities(secret, cfg.Server.TokenExpiration); err != nil {
		return usage(fmt.Errorf("server.secret: %w", err))
	}
	if limit := cfg.Server.RateLimit; limit.Enabled {
		if options.Limiter, err = auth.NewLimiter(limit.Max, limit.Window); err != nil {
			return usage(fmt.Errorf("server.rateLimit: %w", err))
		}
		if options.Requests, err = auth.NewLimiter(limit.Max*requestsPerWork, limit.Window); err != nil {
			return usage(fmt.Errorf("server.rateLimit: %w", err))
		}
	}
	service := api.New(options)
	listeners, err := listen(ctx, cfg, service, options.Metrics)
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
	case <-ours:
		a.announce(cfg, listeners[0], open, options.Logger)
		var wg sync.WaitGroup
		defer func() { fail(); wg.Wait() }()
		wg.Go(func() { h.Runs().WatchOrphans(failed) })
	case <-failed.Done(): // another process works the queue, or the stop came first
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

// announce says where a server listens, and for whom: to people, or in a log for programs.
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
	if open {
		say(slog.LevelWarn, "no API keys yet: POST /task is open to every program of this machine; everything else needs the token "+
			"that harness token prints, until harness keys create makes the first key")
	}
}

// listen opens the addresses of a server.
func listen(ctx context.Context, cfg *config.Config, service *api.API, metrics *telemetry.Metrics) (all []*api.Listener, err error) {
	s := cfg.Server
	var certificate *tls.Config
	if s.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.TLS.Cert, s.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("read server.tls: %w", err)
		}
		certificate = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	type address struct {
		address string
		handler http.Handler
		tls     *tls.Config
	}
	addresses := []address{{s.Listen, service.Handler(), certificate}}
	if s.InternalListen != "" {
		addresses = append(addresses, address{s.InternalListen, service.Internal(), certificate})
	}
	if s.Metrics.Enabled {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", metrics.Handler())
		addresses = append(addresses, address{s.Metrics.Listen, mux, nil})
	}
	for _, at := range addresses {
		l, err := api.Listen(ctx, at.address, at.handler, at.tls)
		if err != nil {
			for _, l := range all {
				l.Close()
			}
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// serveLogger writes the log of a server to standard error.
func (a *app) serveLogger(cfg *config.Config) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		level = slog.LevelInfo
	}
	if cfg.Server.Debug {
		level = slog.LevelDebug
	}
	return telemetry.NewLogger(telemetry.LogOptions{Writer: a.Stderr, Level: level, JSON: cfg.Log.Format == "json", Redact: pii.Redact(privacy)})
}
