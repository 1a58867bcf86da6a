// Package cli is the command line, with one file for each command. Only this package reads flags. Other packages get their settings as values.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/remote"
	"mcp-code-exec-harness/internal/secrets"
	"mcp-code-exec-harness/internal/startup"
	"mcp-code-exec-harness/internal/task"
)

// Version is set by the linker. If the linker does not set it, as with go install, it is the version of the module.
var Version = "dev"

func init() {
	info, ok := debug.ReadBuildInfo()
	if ok && Version == "dev" && info.Main.Path == "mcp-code-exec-harness" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		Version = info.Main.Version
	}
}

// World is the environment of a command, passed in so that tests can run commands in their own process.
type World struct {
	Args       []string // arguments without the program's name
	Environ    []string
	Dir        string // working directory
	Executable string // this binary, re-executed for workers and demo servers
	Stdin      io.Reader
	Stdout     io.Writer
	Stderr     io.Writer
	Now        func() time.Time
	Keyring    secrets.Keyring // keyring of the system, or nil
	// Browse opens an address in the user's browser without waiting for it; nil: use the system's browser.
	Browse func(ctx context.Context, address string) error

	served *servedCommand // command that this server executes for another process; nil: the command of this process
}

// globals are the flags that every command has. They stand before or after the command's name.
type globals struct {
	Config   string `help:"Configuration file instead of the one found." placeholder:"FILE"`
	JSON     bool   `name:"json" help:"Machine-readable result on standard output, everything else on standard error."`
	JQ       string `name:"jq" help:"What a jq expression makes of the result of --json, which it implies; texts are printed without quotes." placeholder:"EXPR"`
	Plain    bool   `help:"Lines of words only: no colours, no signs, nothing that is drawn over. For screen readers; what TERM=dumb does too."`
	LogLevel string `help:"Log level: debug, info, warn or error." key:"log.level" placeholder:"LEVEL"`
}

type commands struct {
	globals
	ShowVersion versionFlag `name:"version" help:"Print the version." hidden:""`

	Demo   demoCmd   `cmd:"" group:"First steps:" help:"Show the whole path in a minute: no key, no network."`
	Init   initCmd   `cmd:"" group:"First steps:" help:"Write a commented harness.yaml." example:"init && harness doctor"`
	Doctor doctorCmd `cmd:"" group:"First steps:" help:"What works on this machine, and how to fix what does not."`

	Exec     execCmd     `cmd:"" group:"Programs and tasks:" help:"Execute agent code in the sandbox."`
	Run      runCmd      `cmd:"" group:"Programs and tasks:" help:"Work a task with a model, and watch it."`
	Runs     runsCmd     `cmd:"" group:"Programs and tasks:" help:"Recorded runs: list, show, journal, replay, resume." example:"runs list"`
	Eval     evalCmd     `cmd:"" group:"Programs and tasks:" help:"Try models or recordings on a suite of tasks, and compare."`
	Sessions sessionsCmd `cmd:"" group:"Programs and tasks:" help:"Conversations: list, show, delete." example:"sessions list"`
	Files    filesCmd    `cmd:"" group:"Programs and tasks:" help:"Files of sessions and skills: ls, get, put, rm." example:"files ls sales"`
	Tasks    tasksCmd    `cmd:"" group:"Programs and tasks:" help:"Tasks: list, show, cancel, resume." example:"tasks list"`

	Schedules schedulesCmd `cmd:"" group:"Programs and tasks:" help:"Tasks at planned times: list, add, rm." example:"schedules list"`
	Usage     usageCmd     `cmd:"" group:"Programs and tasks:" help:"What was used: runs, calls, tokens, cost, by user, tool, server or model."`

	Servers serversCmd `cmd:"" group:"Tools:" help:"Upstream MCP servers: list, add, import, test, logs, restart and more." example:"servers list"`
	Tools   toolsCmd   `cmd:"" group:"Tools:" help:"The catalog: list, search, show, types, call." example:"tools search send an email"`
	Skills  skillsCmd  `cmd:"" group:"Tools:" help:"Saved skills: list, new, test, versions, diff, promote, add, review and more." example:"skills list"`
	N8N     n8nCmd     `cmd:"" group:"Tools:" name:"n8n" help:"n8n: a run or skill as a workflow; the skill that builds workflows." example:"n8n export sales_summary"`

	Serve serveCmd `cmd:"" group:"Servers of the harness:" help:"Serve the dashboard and the HTTP API, and work tasks."`
	MCP   mcpCmd   `cmd:"" group:"Servers of the harness:" name:"mcp" help:"Serve MCP clients on standard input and output: every tool through three meta-tools."`
	Keys  keysCmd  `cmd:"" group:"Servers of the harness:" help:"API keys: create, list, revoke." example:"keys list"`
	Open  openCmd  `cmd:"" group:"Servers of the harness:" help:"Open the dashboard of a running server in the browser."`
	Token tokenCmd `cmd:"" group:"Servers of the harness:" help:"Print the token of a server that has no API keys."`

	Policy    policyCmd    `cmd:"" group:"Safety:" help:"Which calls of tools are allowed: show, test, simulate." example:"policy test crm__delete"`
	Attack    attackCmd    `cmd:"" group:"Safety:" help:"Try the policy: programs that obey what servers say, against simulated servers."`
	Approvals approvalsCmd `cmd:"" group:"Safety:" help:"Calls that wait for an approval: list, show, approve, deny." example:"approvals list"`
	Trust     trustCmd     `cmd:"" group:"Safety:" help:"Let the configuration in a folder act."`
	Untrust   untrustCmd   `cmd:"" group:"Safety:" help:"Take the trust in a folder back." example:"untrust ~/projects/shop"`
	PII       piiCmd       `cmd:"" group:"Safety:" name:"pii" help:"Personal data: scan." example:"pii scan notes.txt"`
	Audit     auditCmd     `cmd:"" group:"Safety:" help:"The audit log: verify." example:"audit verify"`

	Conf       configCmd     `cmd:"" group:"This installation:" name:"config" help:"The configuration in effect." example:"config show"`
	Sandbox    sandboxCmd    `cmd:"" group:"This installation:" help:"Where programs run: build, list." example:"sandbox build"`
	Backup     backupCmd     `cmd:"" group:"This installation:" help:"Write everything into one archive, also while serving."`
	Restore    restoreCmd    `cmd:"" group:"This installation:" help:"Put an archive of harness backup back."`
	Store      storeCmd      `cmd:"" group:"This installation:" help:"The store: copy it into another database." example:"store copy sqlite:./harness.db postgres://harness@db/harness"`
	Bench      benchCmd      `cmd:"" group:"This installation:" help:"Measure medians on this machine, beside the budgets for a 2-core x86-64 Linux VM." example:"bench --json"`
	Completion completionCmd `cmd:"" all:"" group:"This installation:" help:"Print the completion script of a shell."`
	Man        manCmd        `cmd:"" all:"" group:"This installation:" help:"Print or write manual pages."`
	Version    versionCmd    `cmd:"" group:"This installation:" help:"Print the version." example:"version --json"`
}

// Help implements kong.HelpProvider.
func (commands) Help() string {
	return `Examples:
  harness demo
  harness exec -e 'return 1 + 1'
  harness exec --json analysis.ts

Exit codes: 0 done, 1 the run or task failed, or a threshold of eval is not met, 2 usage or configuration, 3 a dependency
is missing or unreachable, 4 waiting for an approval, 130 interrupted, 143 terminated.`
}

// app is passed to every command. Its Stdout and Stderr write to those of World, safely for terminals.
type app struct {
	World
	flags          *globals
	settings       map[string]string // values that flags give to keys of the configuration, by key
	settingFlags   map[string]string // names of these flags, by key
	stdout, stderr *console
	filter         func(any) gojq.Iter    // evaluates the expression of --jq; nil without --jq
	answered       bool                   // json has printed the result
	config         *config.Config         // configuration that load has read
	problems       []string               // warnings about the configuration; load has not printed them yet
	untrusted      *config.UntrustedError // why the configuration of the folder is not used; nil if it is used or does not exist
	opened         harness                // harness of the command; nil if it opened none
	input          *bufio.Reader          // buffered Stdin for commands that ask their user
	model          *kong.Node             // model of the command line
	command        string                 // path of the command, such as "servers list"
	approves       bool                   // the command approves its calls itself
	recording      sync.Mutex             // held while an event is written into the audit log
}

// showExample adds the example in a command's tag to the help of the command, and lists subcommands under their own heading.
func showExample(v kong.Visitable, next kong.Next) error {
	if command, ok := v.(*kong.Node); ok && command.Tag != nil && command.Tag.Has("example") {
		command.Detail = "Example:\n  harness " + command.Tag.Get("example")
	}
	if command, ok := v.(*kong.Node); ok && command.Depth() > 0 {
		command.Group = &kong.Group{Key: "Commands:", Title: "Commands:"}
	}
	return next(nil)
}

// printHelp prints the help of a command with its own flags. The flags that every command has take one line.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	var names []string
	for _, flag := range ctx.Model.Flags {
		if !flag.Hidden {
			names = append(names, "--"+flag.Name)
		}
		flag.Hidden = true
	}
	err := kong.DefaultHelpPrinter(options, ctx)
	fmt.Fprintf(ctx.Stdout, "\nGlobal flags: %s.\nSee harness --help.\n", strings.Join(names, ", "))
	return err
}

// notNamed returns a regular expression for fields of the struct commands that the parser ignores. If the first word of the command line names a command, the
// expression matches the fields of all other commands, because building all fields takes a fifth of the start time. If the tag of the named command has the key
// "all", the expression matches no field.
func notNamed(args []string) string {
	var others []string
	narrow := false
	for field := range reflect.TypeFor[commands]().Fields() {
		if _, ok := field.Tag.Lookup("cmd"); !ok {
			continue
		}
		if len(args) > 0 && args[0] == cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name)) {
			_, all := field.Tag.Lookup("all")
			narrow = !all
		} else {
			others = append(others, field.Name)
		}
	}
	if !narrow {
		return "^$"
	}
	return `^commands\.(` + strings.Join(others, "|") + `)$`
}

// Main runs one command and returns its exit code. Cancelling ctx, with a Signal as the cause, interrupts the command.
func Main(ctx context.Context, w World) int {
	a := &app{World: w, flags: &globals{}, settings: map[string]string{}, settingFlags: map[string]string{}}
	shared := &screen{}
	a.stdout, a.stderr = newConsole(w.Stdout, shared, a.env), newConsole(w.Stderr, shared, a.env)
	shared.to, a.stderr.wraps = a.stderr, true
	a.Stdout, a.Stderr = a.stdout, a.stderr
	var flags commands
	exited := -1
	var help strings.Builder
	parser, err := kong.New(&flags,
		kong.Name("harness"),
		kong.Description("Code execution with MCP: programs written by agents run in a sandbox, find and call MCP tools, "+
			"and only what they return reaches the model."),
		kong.Writers(&help, a.Stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100, NoExpandSubcommands: true}),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
		kong.Vars{"localHelp": localHelp, "forModel": strconv.Itoa(modelview.DefaultLimit), "inputFormats": ",json,ndjson,csv,lines,text"},
		kong.IgnoreFields(notNamed(w.Args)),
		kong.PostBuild(func(k *kong.Kong) error { return kong.Visit(k.Model, showExample) }),
		// The parameters of the commands' Run methods:
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(a),
		kong.BindToProvider(a.load),
		kong.BindToProvider(a.open),
		kong.BindToProvider(a.openTools),
		provide(a, func(h harness) (*task.Service, error) { return h.Tasks(taskOptions{}) }),
		provide(a, harness.Skills),
		provide(a, harness.Keys),
	)
	if err != nil {
		return a.report(ctx, fmt.Errorf("read the command line: %w", err))
	}
	a.model = parser.Model.Node
	args := w.Args
	switch {
	case w.served != nil: // The client has already parsed the arguments.
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	case args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd:
		return a.complete(ctx)
	}
	command, err := parser.Parse(args)
	if exited >= 0 || err != nil {
		a.flags.JSON = wantsJSON(args)
	} else {
		a.flags = &flags.globals
	}
	switch {
	case errors.Is(err, errVersion):
		return a.report(ctx, versionCmd{}.Run(a))
	case exited >= 0: // after --help
		_ = a.answer(map[string]string{"help": help.String()}, "%s", help.String())
		return exited
	case err != nil:
		return a.report(ctx, misread(err))
	}
	if a.flags.JQ != "" {
		code, err := compileFilter(a.flags.JQ)
		if err != nil {
			return a.report(ctx, usage(err))
		}
		a.filter = func(v any) gojq.Iter { return code.RunWithContext(ctx, v) }
		a.flags.JSON = true
	}
	return a.report(ctx, a.run(ctx, command))
}

// run checks the flags of a command, runs the command, and closes what it opened. A flag whose tag has key:"NAME" sets the key NAME of the
// configuration.
func (a *app) run(ctx context.Context, command *kong.Context) error {
	a.command = command.Command()
	if c, ok := command.Selected().Target.Addr().Interface().(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return usage(err)
		}
	}
	if a.flags.Plain {
		a.stdout.plain()
		a.stderr.plain()
	}
	for _, flag := range command.Flags() {
		if key := flag.Tag.Get("key"); key != "" && flag.Set {
			a.settings[key] = fmt.Sprint(reflect.Indirect(flag.Target).Interface())
			a.settingFlags[key] = "--" + flag.Name
		}
	}
	target, ok := command.Selected().Target.Addr().Interface().(serving)
	if a.served != nil {
		if !ok || !target.served() || !a.served.admit(a) {
			return errStopped
		}
	} else {
		if err := a.askTrust(ctx); err != nil {
			return err
		}
		if ok && target.served() {
			if code, err := a.remote(ctx); !errors.Is(err, remote.ErrNone) {
				return cmp.Or(err, exited(code))
			}
		}
	}
	startup.Done() // not before a.remote: a process whose command a server executes ends before its first garbage collection
	defer a.close()
	err := command.Run()
	if lost := a.stdout.failed.Load(); err == nil && lost != nil { // the reader of the output is gone
		return fmt.Errorf("write the result: %w", *lost)
	}
	return err
}

// decodeDuration reads a duration in the format of the configuration: 30s, 2h or 30d.
func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := config.ParseDuration(text)
	target.Set(reflect.ValueOf(d))
	return err
}

// wantsJSON reports whether a command line that could not be parsed has the flag --json.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

func usage(err error) error { return &exitError{exitUsage, err} }

// misread explains why a command line could not be parsed.
func misread(err error) error {
	command := "harness"
	if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil && parse.Context.Selected() != nil {
		command = parse.Context.Selected().FullPath()
	}
	return usage(fmt.Errorf("%w; see %s --help", err, command))
}

// report prints an error, also as JSON with --json, and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	code := exitCode(ctx, err)
	if err == nil || errors.Is(err, errReported) || errors.Is(err, errStopped) {
		return code
	}
	if code == exitInterrupted || code == exitTerminated {
		err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	if a.flags.JSON && !a.answered && a.flags.JQ == "" { // expressions of --jq apply to results only
		a.json(map[string]any{"error": map[string]string{"message": err.Error()}})
	}
	fmt.Fprintln(a.Stderr, "harness:", err)
	if held, is := errors.AsType[*catalog.HeldError](err); is && a.stderr.terminal != nil { // not for an agent, which has no terminal
		fmt.Fprintln(a.Stderr, "review it:", a.commandLine("servers review "+held.Server))
	}
	return code
}

// json prints a command's machine-readable result. With --jq, it prints the values that the expression makes of the result. A command prints at most
// one result.
func (a *app) json(v any) error {
	a.answered = true
	if a.filter != nil {
		return a.filtered(v)
	}
	return a.encode(v)
}

func (a *app) encode(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// answer prints a command's result: v with --json, otherwise the text.
func (a *app) answer(v any, format string, args ...any) error {
	if a.flags.JSON {
		return a.json(v)
	}
	fmt.Fprintf(a.Stdout, format, args...)
	return nil
}

// more prints the command that shows the next page of a list: the same command with the cursor of the next page.
func (a *app) more(cursor string) {
	if cursor == "" || a.flags.JSON {
		return
	}
	words := []string{"harness"}
	for i := 0; i < len(a.Args); i++ {
		switch arg := a.Args[i]; {
		case arg == "--cursor":
			i++ // skips the value
		case !strings.HasPrefix(arg, "--cursor="):
			words = append(words, config.ShellWord(arg))
		}
	}
	fmt.Fprintf(a.Stderr, "more: %s --cursor %s\n", strings.Join(words, " "), cursor)
}

// list returns an empty list for nil, which JSON would show as null.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

func (a *app) env(name string) string {
	for _, entry := range a.Environ {
		key, value, _ := strings.Cut(entry, "=")
		if key == name || runtime.GOOS == "windows" && strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}
