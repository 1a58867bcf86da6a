package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/DeRuina/timberjack"
	"github.com/alecthomas/kong"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/doctor"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/startup"
	"mcp-code-exec-harness/internal/telemetry"
)

// closeTimeout bounds the wait at the end of a command: for servers to end, and for reports and spans to be sent.
const closeTimeout = 5 * time.Second

// load reads the configuration once, and prints warnings on standard error.
func (a *app) load() (*config.Config, error) {
	cfg, err := a.read()
	for _, problem := range a.problems {
		fmt.Fprintln(a.Stderr, "harness: warning:", problem)
	}
	a.problems = nil
	return cfg, err
}

// read reads the configuration once. It leaves the printing of warnings to load.
func (a *app) read() (*config.Config, error) {
	if a.config != nil {
		return a.config, nil
	}
	source := a.configSource()
	cfg, warnings, err := config.Load(source)
	if u, ok := errors.AsType[*config.UntrustedError](err); ok && slices.Contains(withoutFolder, a.command) {
		a.untrusted = u
		a.problems = append(a.problems, u.Error())
		source.PersonalOnly = true
		cfg, warnings, err = config.Load(source)
	}
	for _, warning := range warnings {
		if foreignKey().MatchString(warning.Error()) && !aboutConfiguration().MatchString(a.command) {
			continue
		}
		a.problems = append(a.problems, warning.Error())
	}
	if err != nil {
		return nil, usage(err)
	}
	a.config = cfg
	return cfg, nil
}

// foreignKey matches the warning about an unknown key of a server, if that key resembles no known key. Such a key probably belongs to another client.
// Users paste entries with such keys, so only the commands that aboutConfiguration matches print the warning.
var (
	foreignKey         = startup.Regexp(`mcpServers\.\S+: this key is not known and is ignored$`)
	aboutConfiguration = startup.Regexp(`^(servers|doctor|config|serve)\b`)
)

func (a *app) configSource() config.Env {
	e := a.environment()
	e.Secret, e.Trust = a.secrets().Get, a.trustStore()
	return e
}

// environment returns the sources of the configuration, except secrets and trust.
func (a *app) environment() config.Env {
	home := a.env("HOME")
	if runtime.GOOS == "windows" {
		home = a.env("USERPROFILE")
	}
	return config.Env{ConfigFile: a.flags.Config, Flags: a.settings, FlagNames: a.settingFlags, Environ: a.Environ, Cwd: a.Dir, HomeDir: home, GOOS: runtime.GOOS}
}

// open loads the configuration and joins the parts of the harness. It does so once for a command, so that all parameters of its Run method belong to
// one harness. app.run closes the harness.
func (a *app) open(ctx context.Context) (harness, error) {
	if a.opened != nil {
		return a.opened, nil
	}
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	if a.served != nil {
		a.opened = a.served.harness()
		return a.opened, nil
	}
	return a.openWith(ctx, cfg, outside{Logger: a.logger(cfg)})
}

// openWith joins the parts of the harness. out has the values that differ between commands.
func (a *app) openWith(ctx context.Context, cfg *config.Config, out outside) (harness, error) {
	out.Environ, out.Executable, out.Now, out.Version = a.Environ, a.Executable, a.Now, Version
	if cache := a.env("HARNESS_CACHE_DIR"); cache != "" {
		out.CacheDir = a.path(cache)
	}
	if out.Audit == nil {
		out.Reviewed = func(ctx context.Context, e telemetry.Event) { a.record(ctx, cfg, e) }
	}
	out.Upgraded = func(from, to int, before string) {
		fmt.Fprintf(a.Stderr, "harness: the store was brought from version %d to %d; its copy from before is %s\n", from, to, before)
	}
	h, err := join(ctx, cfg, out)
	if err != nil {
		return nil, usage(err) // wiring.Open starts nothing, so the error is in the configuration
	}
	a.opened = h
	return h, nil
}

// catalogued is a harness in which every server has listed its tools or has failed to.
type catalogued struct{ harness }

func (a *app) openTools(ctx context.Context) (catalogued, error) {
	h, err := a.open(ctx)
	if err != nil {
		return catalogued{}, err
	}
	a.ensureTools(ctx, h)
	return catalogued{h}, context.Cause(ctx)
}

func (a *app) ensureTools(ctx context.Context, h harness) {
	defer a.sayStarting(h)()
	h.EnsureTools(ctx, "")
}

// provide supplies a part of an opened harness to Run methods.
func provide[T any](a *app, part func(harness) (T, error)) kong.Option {
	return kong.BindToProvider(func(ctx context.Context) (p T, err error) {
		h, err := a.open(ctx)
		if err != nil {
			return p, err
		}
		return part(h)
	})
}

// warnServers prints which servers cannot be used, and why.
func (a *app) warnServers(h harness) {
	for _, s := range h.Servers().Servers() {
		if unavailable(s) {
			fmt.Fprintf(a.Stderr, "harness: warning: server %s is not available: %s\n", s.Name, firstLine(s.Reason))
		}
		if s.Held > 0 {
			fmt.Fprintf(a.Stderr, "harness: warning: %s held for review; harness servers review %s\n", doctor.HeldOf(s), s.Name)
		}
		if s.State == mcpclient.StateInstalling && s.Tools == 0 {
			fmt.Fprintf(a.Stderr, "harness: warning: server %s is being installed, its tools are missing; harness servers test %s waits for it\n", s.Name, s.Name)
		}
		if s.State == mcpclient.StateStarting && s.Tools == 0 {
			fmt.Fprintf(a.Stderr, "harness: warning: server %s has not answered yet, its tools are missing; harness servers test %s\n", s.Name, s.Name)
		}
	}
}

func unavailable(s mcpclient.Status) bool {
	return s.Reason != "" && s.Tools == 0 && (s.State == mcpclient.StateFailed || s.State == mcpclient.StateBackoff || s.State == mcpclient.StateNeedsLogin)
}

// close closes what the command opened, also after an interrupt. It is idempotent.
func (a *app) close() {
	if a.opened == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := a.opened.Close(ctx); err != nil {
		fmt.Fprintln(a.Stderr, "harness: warning:", err)
	}
	a.opened = nil
}

// logger returns the harness's own log on standard error. Commands log only errors, unless the configuration sets a level,
// because their own messages say what went wrong.
func (a *app) logger(cfg *config.Config) *slog.Logger {
	level := cfg.Log.Level
	if !slices.ContainsFunc(cfg.Effective(), func(e config.Entry) bool { return e.Key == "log.level" && e.Origin != "default" }) {
		level = "error"
	}
	return a.loggerAt(cfg, level)
}

func (a *app) loggerAt(cfg *config.Config, name string) *slog.Logger {
	return telemetry.NewLogger(a.logOptions(cfg, name))
}

func (a *app) logOptions(cfg *config.Config, name string) telemetry.LogOptions {
	var level slog.Level
	_ = level.UnmarshalText([]byte(name)) // the configuration has been checked
	return telemetry.LogOptions{Writer: unwrapped{a.stderr}, Level: level, JSON: cfg.Log.Format == "json", Redact: redactor(cfg)}
}

// serverLog returns the log of harness serve, which goes to standard error or to a file. If telemetry.sentryDsn is set, the log also reports errors.
// closer closes the file and the reporter.
func (a *app) serverLog(cfg *config.Config) (log *slog.Logger, closer func(), err error) {
	level := cfg.Log.Level
	if cfg.Server.Debug {
		level = "debug"
	}
	o := a.logOptions(cfg, level)
	if o.Report, err = telemetry.NewReporter(telemetry.ReportOptions{DSN: cfg.Telemetry.SentryDSN, Version: Version, Redact: o.Redact}); err != nil {
		return nil, nil, usage(fmt.Errorf("telemetry.sentryDsn: %w", err))
	}
	var file io.Closer = io.NopCloser(nil)
	if cfg.Log.File != "" {
		rotated, err := openLog(cfg.Log)
		if err != nil {
			return nil, nil, &exitError{exitUnavailable, fmt.Errorf("open the log: %w; make log.file writable, or set it to another file", err)}
		}
		o.Writer, file = rotated, rotated
	}
	return telemetry.NewLogger(o), func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		o.Report.Close(ctx)
		if err := file.Close(); err != nil {
			fmt.Fprintln(a.Stderr, "harness: warning: close the log:", err)
		}
	}, nil
}

// openLog opens the log file, which only its owner can read.
func openLog(c config.Log) (io.WriteCloser, error) {
	if err := os.MkdirAll(filepath.Dir(c.File), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(c.File, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) // reports an error now, and not at the first line
	if err != nil {
		return nil, err
	}
	return &timberjack.Logger{
		Filename: c.File, MaxSize: int(c.MaxSize >> 20), MaxBackups: c.MaxFiles - 1, Compression: "gzip", AppendTimeAfterExt: true, FileMode: 0o600,
	}, f.Close()
}

// redactor returns a function that removes personal data from log lines and traces. It returns nil if privacy is disabled.
func redactor(cfg *config.Config) func(string) string {
	redact, _ := cfg.PII.Redact() // the configuration has been checked
	return redact
}
