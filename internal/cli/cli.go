// Package cli is the command line: one file for each command. It is the only place that knows flags; everything else
// takes values.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"mcp-code-exec-harness/internal/modelview"
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

// globals are the flags that every command has, before or behind its name.
type globals struct {
	Config   string `help:"Configuration file instead of the one found." placeholder:"FILE"`
	JSON     bool   `name:"json" help:"Machine-readable result on standard output, everything else on standard error."`
	LogLevel string `help:"Log level: debug, info, warn or error." placeholder:"LEVEL"`
}

// commands is the whole command line.
type commands struct {
	globals

	Init    initCmd    `cmd:"" help:"Write a commented harness.yaml."`
	Exec    execCmd    `cmd:"" help:"Run agent code in the sandbox."`
	Run     runCmd     `cmd:"" help:"Run a task with a model, and watch it."`
	Serve   serveCmd   `cmd:"" help:"Serve the HTTP API, and work tasks."`
	Tasks   tasksCmd   `cmd:"" help:"Tasks: list, show, cancel, resume."`
	Keys    keysCmd    `cmd:"" help:"API keys: create, list, revoke."`
	Token   tokenCmd   `cmd:"" help:"Print the token of a server that has no API keys."`
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

// Help implements kong.HelpProvider.
func (commands) Help() string {
	return `Examples:
  harness demo
  harness exec -e 'return 1 + 1'
  harness exec --json analysis.ts

Exit codes: 0 done, 1 the run failed, 2 usage or configuration, 3 something needed is missing or cannot be reached,
130 interrupted, 143 terminated.`
}

// app is what every command is given. Its Stdout and Stderr are the World's, made safe for terminals.
type app struct {
	World
	flags          *globals
	settings       map[string]string // keys of the configuration that flags set
	stdout, stderr *console
	answered       bool // with --json: the one value was printed
}

func newApp(w World) *app {
	a := &app{World: w, flags: &globals{}}
	a.stdout, a.stderr = newConsole(w.Stdout, a.env), newConsole(w.Stderr, a.env)
	a.Stdout, a.Stderr = a.stdout, a.stderr
	return a
}

// newParser reads command lines into flags. Help goes to stdout; exit is called after it.
func newParser(ctx context.Context, flags *commands, stdout, stderr io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(
		flags,
		kong.Name("harness"),
		kong.Description("Code execution with MCP: programs written by agents run in a sandbox, find and call MCP tools, "+
			"and only what they return reaches the model."),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Vars{"forModel": strconv.Itoa(modelview.DefaultLimit)},
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
}

// Main runs one command and returns its exit code. Cancelling ctx interrupts it; the cause says by what.
func Main(ctx context.Context, w World) int {
	a := newApp(w)
	var flags commands
	exited := -1
	var help bytes.Buffer
	parser, err := newParser(ctx, &flags, &help, a.Stderr, func(code int) { exited = code })
	if err != nil {
		return a.report(ctx, fmt.Errorf("read the command line: %w", err))
	}
	args := w.Args
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	switch {
	case exited >= 0:
		return a.help(help.String(), exited)
	case err != nil:
		a.flags.JSON = wantsJSON(args)
		return a.report(ctx, misread(err))
	}
	a.flags = &flags.globals
	return a.report(ctx, a.printed(parsed.Run(a)))
}

// printed is how a command ended: one whose output was lost has failed.
func (a *app) printed(err error) error {
	if lost := a.stdout.failed.Load(); err == nil && lost != nil {
		return fmt.Errorf("write the result: %w", *lost)
	}
	return err
}

// help prints what was asked for with --help.
func (a *app) help(text string, code int) int {
	if a.flags.JSON = wantsJSON(a.Args); a.flags.JSON {
		a.json(map[string]string{"help": text})
	} else {
		fmt.Fprint(a.Stdout, text)
	}
	return code
}

// wantsJSON looks for --json in a command line that was not parsed to its end.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

// usage marks an error of the command line.
func usage(err error) error { return &exitError{exitUsage, err} }

// misread explains a command line that cannot be parsed.
func misread(err error) error {
	command := "harness"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		command = parse.Context.Selected().FullPath()
	}
	return usage(fmt.Errorf("%w; see %s --help", err, command))
}

// report prints an error where its reader looks for it, and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	code := exitCode(ctx, err)
	if err == nil || errors.Is(err, errReported) || errors.Is(err, errStopped) {
		return code
	}
	if code == exitInterrupted || code == exitTerminated {
		err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	if a.flags.JSON && !a.answered {
		a.json(map[string]any{"error": map[string]string{"message": err.Error()}})
	}
	fmt.Fprintln(a.Stderr, "harness:", err)
	return code
}

// json prints a command's machine-readable result: one value, whatever happens afterwards.
func (a *app) json(v any) error {
	a.answered = true
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// list makes an empty list of one that is nil, which would be null in JSON.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// env is a variable of the environment.
func (a *app) env(name string) string {
	for _, entry := range a.Environ {
		key, value, _ := strings.Cut(entry, "=")
		if key == name || runtime.GOOS == "windows" && strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}
