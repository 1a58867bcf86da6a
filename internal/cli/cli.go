// Package cli is the command line: one file for each command. It is the only place that knows flags; everything else
// takes values.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/harness"
)

// Version is set by the linker.
var Version = "dev"

// World is everything outside the program that a command uses, so that commands are tested in-process.
type World struct {
	Args       []string // without the program's name
	Environ    []string
	Dir        string // working directory
	Executable string // this binary, re-executed for workers and demo servers
	Stdin      io.Reader
	Stdout     io.Writer
	Stderr     io.Writer
	Now        func() time.Time
}

// commands is the whole command line.
type commands struct {
	Config   string `help:"Configuration file instead of the one found." placeholder:"FILE"`
	JSON     bool   `name:"json" help:"Machine-readable result on standard output, everything else on standard error."`
	LogLevel string `help:"Log level: debug, info, warn or error." placeholder:"LEVEL"`

	Init    initCmd    `cmd:"" help:"Write a commented harness.yaml."`
	Exec    execCmd    `cmd:"" help:"Run agent code in the sandbox."`
	Demo    demoCmd    `cmd:"" help:"Show the whole path in a minute: no key, no network."`
	Tools   toolsCmd   `cmd:"" help:"The catalog: list, search, show, types, call."`
	Servers serversCmd `cmd:"" help:"Upstream MCP servers: list, add, remove, test."`
	Skills  skillsCmd  `cmd:"" help:"Saved skills: list, show."`
	Runs    runsCmd    `cmd:"" help:"Recorded runs: list, show, journal, replay, resume."`
	Conf    configCmd  `cmd:"" name:"config" help:"The configuration in effect."`
	Doctor  doctorCmd  `cmd:"" help:"What works on this machine, and how to mend what does not."`
	Bench   benchCmd   `cmd:"" help:"Measure the performance budgets on this machine."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

// app is what every command is given.
type app struct {
	World
	flags *commands
}

// Main runs one command and returns its exit code. Cancelling ctx interrupts it; the cause says by what.
func Main(ctx context.Context, w World) int {
	var flags commands
	exited := -1
	parser, err := kong.New(
		&flags,
		kong.Name("harness"),
		kong.Description("Code execution with MCP: programs written by agents run in a sandbox, find and call MCP tools, "+
			"and only what they return reaches the model."),
		kong.Writers(w.Stdout, w.Stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		fmt.Fprintln(w.Stderr, "harness:", err)
		return exitFailed
	}
	args := w.Args
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	a := &app{World: w, flags: &flags}
	if err == nil {
		err = parsed.Run(a)
	} else {
		err = usage(err)
	}
	return a.report(ctx, err)
}

// usage marks an error of the command line.
func usage(err error) error {
	hint := "see harness --help"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		hint = "see harness " + parse.Context.Selected().Path() + " --help"
		hint = strings.ReplaceAll(hint, "harness harness", "harness")
	}
	return &exitError{code: exitUsage, err: fmt.Errorf("%w; %s", err, hint)}
}

// report prints an error where its reader looks for it, and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	code := exitCode(ctx, err)
	if err == nil || errors.Is(err, errReported) {
		return code
	}
	if a.flags.JSON {
		a.json(map[string]string{"error": err.Error()})
	}
	fmt.Fprintln(a.Stderr, "harness:", err)
	return code
}

// json prints a command's machine-readable result.
func (a *app) json(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// terminal says whether w is one: only there are colours and progress shown.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// load reads the configuration; warnings go to standard error.
func (a *app) load() (*config.Config, error) {
	cfg, warnings, err := config.Load(a.configSource())
	for _, warning := range warnings {
		fmt.Fprintln(a.Stderr, "harness: warning:", warning)
	}
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	return cfg, nil
}

// configSource is where the configuration comes from.
func (a *app) configSource() config.Env {
	flags := map[string]string{}
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

// env is a variable of the environment.
func (a *app) env(name string) string {
	for _, entry := range a.Environ {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value
		}
	}
	return ""
}

// open loads the configuration and joins the parts.
func (a *app) open(ctx context.Context) (*harness.Harness, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	return a.openWith(ctx, cfg)
}

func (a *app) openWith(ctx context.Context, cfg *config.Config) (*harness.Harness, error) {
	h, err := harness.Open(ctx, cfg, harness.Outside{
		Environ: a.Environ, Executable: a.Executable, CacheDir: a.env("HARNESS_CACHE_DIR"), Logger: a.logger(cfg), Now: a.Now, Version: Version,
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// logger writes the harness's own log to standard error.
func (a *app) logger(cfg *config.Config) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		level = slog.LevelInfo
	}
	// A command line tool is quiet: what went right is the command's output.
	if a.flags.LogLevel == "" && level == slog.LevelInfo {
		level = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: level}))
}
