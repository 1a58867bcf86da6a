package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/input"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/startup"
)

type execCmd struct {
	File     string         `arg:"" optional:"" help:"Program to execute (.js or .ts); - reads standard input."`
	Eval     *string        `short:"e" help:"Execute this code instead of a file." placeholder:"CODE"`
	User     string         `help:"Whose skills and files the program sees." default:"local"`
	Session  string         `help:"Session of the run: later runs of it find the same /workspace." placeholder:"ID" xor:"kept" names:"sessions"`
	Sandbox  string         `help:"Tier of the sandbox, instead of the configured one: wasm, process, docker or auto. A recorded run is replayed in this tier." key:"sandbox.tier" aliases:"tier" placeholder:"TIER"`
	Timeout  *time.Duration `help:"How long the program may compute (30s, 2m), instead of the configured time." key:"sandbox.timeout" placeholder:"DURATION"`
	Input    string         `help:"What the program works on, as its global input: a file, or - for standard input." placeholder:"FILE"`
	Format   string         `name:"input-format" help:"How the program gets its input: json (the value), ndjson and csv (rows), lines, text. By default the name or the beginning of the input says." enum:"${inputFormats}" default:"" placeholder:"FORMAT"`
	Keep     bool           `help:"Keep the files that the run writes, as those of a new session." xor:"kept"`
	Watch    bool           `help:"Run again whenever the file changes, or one beside it that it imports, until Ctrl-C."`
	Record   string         `help:"Write a recording of the run." xor:"recording" placeholder:"FILE"`
	Replay   string         `help:"Answer every call from a recording; no server is contacted." xor:"recording" placeholder:"FILE"`
	Force    bool           `help:"Replay a recording that another engine made."`
	Local    localFlag      `help:"${localHelp}"`
	ForModel modelTokens    `help:"Print the run as a model gets it: output, logs and errors, in at most so many model tokens (${forModel})."`
}

func (execCmd) Help() string {
	return `The value goes to standard output, console lines to standard error.
A file whose name begins with - is given as ./-name.

Examples:
  harness exec -e 'return 1 + 1'
  echo 'return 1 + 1' | harness exec -
  harness exec --json analysis.ts
  harness exec analysis.ts --record run.json
  harness exec analysis.ts --replay run.json
  harness exec analysis.ts --session s1 --for-model=2000
  harness exec analysis.ts --watch
  harness exec -e 'return input.customers.length' --input crm.json
  curl -s https://example.com/orders.json | harness exec -e 'return input[0]'
  harness exec -e 'let n = 0; for await (const row of input) n += Number(row.total); return n' --input orders.csv

A program in a file may import files beside it and below: import { total } from './lib/total', import rows from './rows.json'.
The recording has them.

JSON and text are the value of input. CSV, NDJSON and lines are rows: for await (const row of input), or input.toArray().
Rows of CSV are objects whose keys stand in the first line. Only a part of the file is in memory at a time.`
}

// modelTokens is the value of the flag --for-model[=TOKENS]; 0 if the flag is absent.
type modelTokens int

// IsBool implements kong.BoolMapperValue: the value is optional.
func (modelTokens) IsBool() bool { return true }

// Decode implements kong.MapperValue.
func (m *modelTokens) Decode(ctx *kong.DecodeContext) error {
	*m = modelview.DefaultLimit
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	text := ctx.Scan.Pop().String()
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of model tokens", text)
	}
	*m = modelTokens(n)
	return nil
}

// check reports flags that exclude each other.
func (c *execCmd) check() error {
	switch {
	case c.Eval != nil && c.File != "":
		return errors.New("give a file or -e CODE, not both")
	case c.Force && c.Replay == "":
		return errors.New("--force is for --replay")
	case c.Watch && (c.File == "" || c.File == "-"):
		return errors.New("--watch is for a program in a file")
	case c.Watch && c.Input == "-":
		return errors.New("--watch reads its input again each time: give a file with --input")
	case c.Keep && c.Replay != "":
		return errors.New("--keep is for new runs: a replay writes no files")
	case c.Timeout != nil && *c.Timeout <= 0:
		return fmt.Errorf("--timeout %s is not positive; give a duration such as 30s", *c.Timeout)
	}
	return nil
}

// served implements serving. A server does not execute three kinds of commands: --watch, which keeps the harness open between executions, a replay,
// which calls no server, and a recording, which is written where the command runs.
func (c *execCmd) served() bool {
	return !bool(c.Local) && !c.Watch && c.Replay == "" && c.Record == ""
}

func (c *execCmd) Run(ctx context.Context, a *app) error {
	if c.Keep {
		c.Session = id.New("sess")
	}
	if c.Watch {
		return c.watch(ctx, a)
	}
	local := c.local(a)
	defer local.close()
	return c.execute(ctx, a, nil, local)
}

// execute executes the program once. h is nil if the harness is not open yet.
func (c *execCmd) execute(ctx context.Context, a *app, h harness, local *localFiles) error {
	code, file, err := c.source(ctx, a)
	if err != nil {
		return err
	}
	var recording *journal.Recording
	if c.Replay != "" {
		if recording, err = openRecording(a, c.Replay, journal.DecodeRecording); err != nil {
			return err
		}
	}
	if err := a.checkRecord(c.Record); err != nil {
		return err
	}
	given, closeInput, err := c.input(ctx, a, code)
	if err != nil {
		return err
	}
	defer closeInput()
	if c.Format != "" && given == nil {
		return usage(errors.New("--input-format is for --input FILE, or for what is piped to a program that uses input"))
	}
	if h == nil {
		if h, err = a.open(ctx); err != nil {
			return err
		}
	}
	var out *run.Outcome
	var written []files.Entry
	var searched atomic.Bool
	view := a.runView(h, "the program runs")
	if given != nil {
		view.progress.say("reading the input")
		given.Text = view.progress.reading(given.Text, sizeOf(given.Text), "the program runs")
	}
	if recording != nil {
		out, err = h.Runs().Replay(ctx, recording.Runs[0].Records, runs.Replay{Code: code, Local: local.files(), Force: c.Force, Tier: c.Sandbox, Input: given})
	} else {
		observe := func(e run.Event) {
			if e.Call != nil && e.Call.Kind == string(frame.Catalog) {
				searched.Store(true)
			}
			if e.Log == nil || c.ForModel == 0 { // the text for a model contains the console lines
				view.observe(e)
			}
		}
		out, err = h.Runs().Create(ctx, auth.Local(), runs.Request{
			Code: code, File: file, Local: local.files(), User: c.User, Session: c.Session, Input: given, Progress: view.report, Observe: observe,
			Written: func(all []files.Entry) { written = all },
		})
		if err == nil && out.Status == run.WaitingApproval {
			view.stop()
			out, err = a.settle(ctx, h, out, observe)
		}
	}
	view.stop()
	if errors.Is(context.Cause(ctx), errChanged) {
		return nil
	}
	if err != nil {
		return err
	}
	if searched.Load() { // the search of the program did not cover tools of unavailable servers
		a.warnServers(h)
	}
	a.tellPage("/runs/" + out.RunID)
	// The outcome is printed even if it cannot be recorded.
	err = errors.Join(c.record(ctx, a, h, out), c.answer(a, h, out))
	a.tellWritten(written, c.Session, c.User)
	return err
}

// input returns the input of the program: the file of --input, or else the piped standard input. Standard input is the input only if the program
// comes from elsewhere and reads its input.
func (c *execCmd) input(ctx context.Context, a *app, code string) (_ *runs.Input, done func(), err error) {
	fromElsewhere := c.Eval != nil || c.File != "" && c.File != "-"
	if c.Watch && a.piped() && readsInput().MatchString(code) && c.Input == "" {
		return nil, nil, usage(errors.New("--watch reads its input again each time: give a file with --input"))
	}
	if c.Input != "" || c.Replay != "" || !fromElsewhere || !a.piped() || !readsInput().MatchString(code) {
		return openInput(ctx, a, c.Input, c.Format)
	}
	given, done, err := openInput(ctx, a, "-", c.Format)
	if err != nil {
		return nil, nil, err
	}
	text := bufio.NewReader(given.Text)
	if _, err := text.Peek(1); errors.Is(err, io.EOF) {
		return nil, done, nil
	}
	given.Text = text
	return given, done, nil
}

var readsInput = startup.Regexp(`\binput\b`)

// openInput opens a file, or standard input for "-", as the input of a run. An empty from means no input. The caller calls done.
func openInput(ctx context.Context, a *app, from, format string) (_ *runs.Input, done func(), err error) {
	in := &runs.Input{Format: input.Format(format)}
	switch from {
	case "":
		return nil, func() {}, nil
	case "-":
		if a.keyboard() != nil {
			fmt.Fprintln(a.Stderr, "harness: reading the input from the terminal; end it with Ctrl-D")
		}
		in.Text = interrupted{ctx, a.Stdin}
		return in, func() {}, nil
	}
	f, err := a.openFile(a.path(from))
	if err != nil {
		return nil, nil, usage(fmt.Errorf("read the input: %w", err))
	}
	in.Name, in.Text = filepath.Base(from), f
	return in, func() { f.Close() }, nil
}

// interrupted reads until ctx ends, because input from a keyboard may never end.
type interrupted struct {
	ctx context.Context //nolint:containedctx // Read of io.Reader takes no context
	r   io.Reader
}

func (i interrupted) Read(p []byte) (int, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // ends when the input arrives, or with the process
		text := make([]byte, len(p))
		n, err := i.r.Read(text)
		done <- result{text[:n], err}
	}()
	select {
	case r := <-done:
		return copy(p, r.text), r.err
	case <-i.ctx.Done():
		return 0, context.Cause(i.ctx)
	}
}

var errNoProgram = usage(errors.New("no program: give a file, - for standard input, or -e CODE"))

func (c *execCmd) source(ctx context.Context, a *app) (code, file string, err error) {
	switch {
	case c.Eval != nil:
		return *c.Eval, "", nil
	case c.File == "" && c.Replay != "":
		return "", "", nil // replay the recorded program
	case c.File == "" && a.keyboard() != nil:
		return "", "", errNoProgram
	case c.File == "-" || c.File == "":
		text, err := readAll(ctx, a.Stdin)
		if err != nil {
			err = fmt.Errorf("read the program from standard input: %w", err)
		} else if c.File == "" && len(bytes.TrimSpace(text)) == 0 {
			err = errNoProgram
		}
		return string(text), "", err
	}
	text, err := a.readFile(a.path(c.File))
	if err != nil {
		err = usage(fmt.Errorf("read the program: %w; give the path of a .js or .ts file, or -e CODE", err))
	}
	return string(text), filepath.Base(c.File), err
}

// readAll reads to the end of the input, or until ctx ends, because input from a keyboard may never end.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	var text []byte
	var err error
	done := make(chan struct{})
	go func() { // ends when the input ends, or with the process
		defer close(done)
		text, err = io.ReadAll(r)
	}()
	select {
	case <-done:
		return text, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *execCmd) record(ctx context.Context, a *app, h harness, out *run.Outcome) error {
	if c.Record == "" {
		return nil
	}
	// An interrupted run is recorded too, but not a run that waits for an approval.
	if out.Status == run.WaitingApproval {
		fmt.Fprintln(a.Stderr, "harness: warning: nothing is recorded of a run that waits for an approval")
		return nil
	}
	records, err := h.Runs().Journal(context.WithoutCancel(ctx), out.RunID)
	if err == nil && len(records[0].Start.Program) == 0 {
		fmt.Fprintln(a.Stderr, "harness: warning: nothing is recorded of a program that was not executed")
		return nil
	}
	return a.saveRecording(c.Record, journal.NewRecording(records), err)
}

// answer prints the outcome. With --for-model, it prints the outcome in the form that a model gets.
func (c *execCmd) answer(a *app, h harness, out *run.Outcome) error {
	if c.ForModel == 0 || out.Status == run.WaitingApproval {
		shown, err := h.Runs().Shown(context.Background(), c.User, c.Session, out)
		if err != nil {
			return err
		}
		return a.outcome(shown)
	}
	var save modelview.Save
	if c.Session != "" && c.Replay == "" {
		save = func(name string, data []byte) (string, error) {
			return h.Runs().SaveResult(c.User, c.Session, out.RunID, name, data)
		}
	}
	text := modelview.View(out, int(c.ForModel), save)
	return ended(a.answer(map[string]string{"runId": out.RunID, "status": out.Status, "text": text}, "%s", text), out.Error == nil)
}
