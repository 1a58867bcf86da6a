package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

type execCmd struct {
	File     string         `arg:"" optional:"" help:"Program to run (.js or .ts); - reads standard input."`
	Eval     *string        `short:"e" help:"Run this code instead of a file." placeholder:"CODE"`
	User     string         `help:"Whose skills and files the program sees." default:"local"`
	Session  string         `help:"Keep /workspace under this name for later runs." placeholder:"ID"`
	Sandbox  string         `help:"Sandbox tier: wasm." placeholder:"TIER"`
	Timeout  *time.Duration `help:"How long the program may compute (30s, 2m), instead of the configured time." placeholder:"DURATION"`
	Record   string         `help:"Write a recording of the run." placeholder:"FILE"`
	Replay   string         `help:"Answer every call from a recording; no server is contacted." placeholder:"FILE"`
	Force    bool           `help:"Replay a recording that another engine made."`
	ForModel modelTokens    `help:"Print what a model would be given of the run: output, logs and errors within so many model tokens (${forModel})."`
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
  harness exec analysis.ts --session s1 --for-model=2000`
}

// modelTokens is the flag --for-model[=TOKENS]; 0 if it is absent.
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

// check finds what the flags have wrong with each other.
func (c *execCmd) check() error {
	switch {
	case c.Eval != nil && c.File != "":
		return errors.New("give a file or -e CODE, not both")
	case c.Eval == nil && c.File == "" && c.Replay == "":
		return errors.New("no program: give a file, - for standard input, or -e CODE")
	case c.Record != "" && c.Replay != "":
		return errors.New("--record and --replay exclude each other: a replay makes nothing new to record")
	case c.Force && c.Replay == "":
		return errors.New("--force is for --replay")
	case c.Sandbox != "" && c.Sandbox != "wasm":
		return fmt.Errorf("there is no sandbox tier %q; this version has wasm", c.Sandbox)
	case c.Timeout != nil && *c.Timeout <= 0:
		return fmt.Errorf("--timeout %s is not longer than nothing; give a duration such as 30s", *c.Timeout)
	}
	return nil
}

func (c *execCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return usage(err)
	}
	code, file, err := c.source(ctx, a)
	if err != nil {
		return err
	}
	var recording *journal.Recording
	if c.Replay != "" {
		if recording, err = readRecording(a.path(c.Replay)); err != nil {
			return err
		}
	}
	var keep *output
	if c.Record != "" {
		// Before anything is done: a run whose recording cannot be written should not begin.
		if keep, err = createOutput(a.path(c.Record)); err != nil {
			return usage(fmt.Errorf("write the recording: %w", err))
		}
		defer keep.abandon()
	}
	if c.Timeout != nil {
		a.set("sandbox.timeout", c.Timeout.String())
	}
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	var out *run.Outcome
	if recording != nil {
		out, err = h.Runs().Replay(ctx, recording.Runs[0].Records, code, c.Force, nil)
	} else {
		out, err = c.execute(ctx, a, h, code, file)
	}
	if err != nil {
		return missing(h, err)
	}
	// What the run came to is told in any case.
	return errors.Join(c.record(ctx, a, h, keep, out), c.answer(a, h, out))
}

// source reads the program.
func (c *execCmd) source(ctx context.Context, a *app) (code, file string, err error) {
	switch {
	case c.Eval != nil:
		return *c.Eval, "", nil
	case c.File == "-":
		text, err := readAll(ctx, a.Stdin)
		if err != nil {
			return "", "", fmt.Errorf("read the program from standard input: %w", err)
		}
		return string(text), "", nil
	case c.File == "":
		return "", "", nil // the recorded program
	}
	text, err := os.ReadFile(a.path(c.File))
	if err != nil {
		return "", "", usage(fmt.Errorf("read the program: %w; give the path of a .js or .ts file, or -e CODE", err))
	}
	return string(text), filepath.Base(c.File), nil
}

// readAll reads to the end, unless ctx ends first: a person at the keyboard may never end the input.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // ends with the input, or with the process
		text, err := io.ReadAll(r)
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *execCmd) execute(ctx context.Context, a *app, h *harness.Harness, code, file string) (*run.Outcome, error) {
	progress := a.progress("running")
	defer progress.stop()
	return h.Runs().Create(ctx, auth.Local(), runs.Request{
		Code: code, File: file, User: c.User, Session: c.Session,
		Progress: progress.report,
		Observe: func(e run.Event) {
			if e.Log == nil || c.ForModel == 0 { // the text for a model has the lines itself
				a.observe(progress, e)
			}
		},
	})
}

func readRecording(file string) (*journal.Recording, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, usage(fmt.Errorf("open the recording: %w; --record makes one", err))
	}
	defer f.Close()
	recording, err := journal.DecodeRecording(f)
	if err != nil {
		return nil, usage(fmt.Errorf("%s: %w", file, err))
	}
	if len(recording.Runs) == 0 {
		return nil, usage(fmt.Errorf("%s: the recording has no run; --record makes one", file))
	}
	return recording, nil
}

// record writes the recording, if one is wanted.
func (c *execCmd) record(ctx context.Context, a *app, h *harness.Harness, keep *output, out *run.Outcome) error {
	if keep == nil {
		return nil
	}
	// Also of a run that was interrupted.
	records, err := h.Runs().Journal(context.WithoutCancel(ctx), out.RunID)
	if err == nil && len(records[0].Start.Program) == 0 {
		fmt.Fprintln(a.Stderr, "harness: warning: nothing is recorded of a program that was not run")
		return nil
	}
	if err == nil {
		if err = journal.NewRecording(records).Encode(keep); err == nil {
			err = keep.commit()
		}
	}
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}

// answer prints the outcome in the form that was asked for.
func (c *execCmd) answer(a *app, h *harness.Harness, out *run.Outcome) error {
	if c.ForModel == 0 {
		return a.outcome(out)
	}
	var save modelview.Save
	if c.Session != "" && c.Replay == "" {
		save = func(name string, data []byte) (string, error) {
			return h.Runs().SaveResult(c.User, c.Session, out.RunID, name, data)
		}
	}
	text, err := modelview.View(out, int(c.ForModel), save)
	if err != nil {
		return err
	}
	if a.flags.JSON {
		err = a.json(map[string]string{"runId": out.RunID, "status": out.Status, "text": text})
	} else {
		_, err = fmt.Fprint(a.Stdout, text)
	}
	if err == nil && out.Error != nil {
		err = failed(exitFailed)
	}
	return err
}
