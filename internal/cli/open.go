package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/telemetry"
)

// closeTimeout is how long servers have to end after a command.
const closeTimeout = 5 * time.Second

// load reads the configuration; warnings go to standard error.
func (a *app) load() (*config.Config, error) {
	cfg, warnings, err := config.Load(a.configSource())
	for _, warning := range warnings {
		fmt.Fprintln(a.Stderr, "harness: warning:", warning)
	}
	if err != nil {
		return nil, usage(err)
	}
	return cfg, nil
}

// configSource is where the configuration comes from.
func (a *app) configSource() config.Env {
	flags := map[string]string{}
	maps.Copy(flags, a.settings)
	if a.flags.LogLevel != "" {
		flags["log.level"] = a.flags.LogLevel
	}
	file := a.flags.Config
	if file != "" {
		file = a.path(file)
	}
	home := a.env("HOME")
	if runtime.GOOS == "windows" {
		home = a.env("USERPROFILE")
	}
	return config.Env{ConfigFile: file, Flags: flags, Environ: a.Environ, Cwd: a.Dir, HomeDir: home, GOOS: runtime.GOOS}
}

// set gives a key a value from the command line.
func (a *app) set(key, value string) {
	if a.settings == nil {
		a.settings = map[string]string{}
	}
	a.settings[key] = value
}

// open loads the configuration and joins the parts.
func (a *app) open(ctx context.Context) (*harness.Harness, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	return a.openWith(ctx, cfg, "")
}

// privacy is what every text passes on its way to a model, a log, an event or the disk. There are no detectors yet.
var privacy pii.Filter = pii.None{}

// toolCache is where tool lists are kept; empty is the usual place.
func (a *app) openWith(ctx context.Context, cfg *config.Config, toolCache string) (*harness.Harness, error) {
	return a.openMeasured(ctx, cfg, toolCache, a.logger(cfg), nil, nil)
}

func (a *app) openMeasured(
	ctx context.Context, cfg *config.Config, toolCache string, log *slog.Logger, metrics *telemetry.Metrics, audit *telemetry.Auditor,
) (*harness.Harness, error) {
	cache := a.env("HARNESS_CACHE_DIR")
	if cache != "" {
		cache = a.path(cache)
	}
	h, err := harness.Open(ctx, cfg, harness.Outside{
		Environ: a.Environ, Executable: a.Executable, CacheDir: cache, ToolCache: toolCache, Logger: log, Now: a.Now, Version: Version,
		Metrics: metrics, Audit: audit, Privacy: privacy,
	})
	if err != nil && !errors.Is(err, harness.ErrUnavailable) {
		// Nothing is started here, so only what was configured can be wrong.
		return nil, usage(err)
	}
	return h, err
}

// openTools opens the harness and waits until servers have listed their tools.
func (a *app) openTools(ctx context.Context) (*harness.Harness, error) {
	h, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	progress := a.progress("starting servers")
	h.EnsureTools(ctx)
	progress.stop()
	if err := context.Cause(ctx); err != nil {
		a.close(h)
		return nil, err
	}
	return h, nil
}

// warnServers says which servers cannot be used, and why.
func (a *app) warnServers(h *harness.Harness) {
	for _, s := range h.Servers().Servers() {
		if unavailable(s) {
			fmt.Fprintf(a.Stderr, "harness: warning: server %s is not available: %s\n", s.Name, firstLine(s.Reason))
		}
		if s.State == mcpclient.StateStarting && s.Tools == 0 {
			fmt.Fprintf(a.Stderr, "harness: warning: server %s has not answered yet, its tools are missing; harness servers test %s\n", s.Name, s.Name)
		}
	}
}

// unavailable says that a server was started and offers nothing.
func unavailable(s mcpclient.Status) bool {
	return s.Reason != "" && s.Tools == 0 && (s.State == mcpclient.StateFailed || s.State == mcpclient.StateBackoff)
}

// close ends what a command opened, also when the command was interrupted.
func (a *app) close(h *harness.Harness) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		fmt.Fprintln(a.Stderr, "harness: warning:", err)
	}
}

// part is something that commands need and that may not open.
type part struct {
	name string
	open func() error // once: afterwards it says again what came of it
	key  string       // the setting that decides
	fix  string
}

func parts(h *harness.Harness) []part {
	return []part{
		{
			"store", func() error { _, err := h.Store(); return err },
			"store.url", "set store.url to a file in a directory that you may write to",
		},
		{
			"skills", func() error { _, err := h.Skills(); return err },
			"skills.dir", "set skills.dir to a directory that you may write to",
		},
		{
			"sandbox wasm", func() error { _, err := h.Pool(); return err },
			"HARNESS_CACHE_DIR", "set HARNESS_CACHE_DIR to a directory that only you can write to",
		},
	}
}

// missing gives an error the exit code of a missing dependency, and the remedy, where a part that does not open is
// behind it.
func missing(h *harness.Harness, err error) error {
	if err == nil {
		return nil
	}
	for _, p := range parts(h) {
		failure := p.open()
		if failure == nil || !errors.Is(err, failure) {
			continue
		}
		if !strings.Contains(err.Error(), p.key) {
			err = fmt.Errorf("%w; %s", err, p.fix)
		}
		return &exitError{exitUnavailable, err}
	}
	return err
}

// logger writes the harness's own log to standard error. A command is quiet unless a level is asked for: what went
// wrong is in its own messages.
func (a *app) logger(cfg *config.Config) *slog.Logger {
	var level slog.Level
	asked := slices.ContainsFunc(cfg.Effective(), func(e config.Entry) bool { return e.Key == "log.level" && e.Origin != "default" })
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil || !asked {
		level = slog.LevelError
	}
	return telemetry.NewLogger(telemetry.LogOptions{Writer: a.Stderr, Level: level, JSON: cfg.Log.Format == "json", Redact: pii.Redact(privacy)})
}
