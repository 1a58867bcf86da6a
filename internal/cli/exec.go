package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

type execCmd struct {
	File     string         `arg:"" optional:"" help:"Program to execute (.js or .ts); - reads standard input."`
	Eval     *string        `short:"e" help:"Execute this code instead of a file." placeholder:"CODE"`
	User     string         `help:"Whose skills and files the program sees." default:"local"`
	Session  string         `help:"Session of the run: later runs of it find the same /workspace." placeholder:"ID"`
	Sandbox  string         `help:"Tier of the sandbox, instead of the configured one: wasm, process, docker or auto. A recorded run is replayed in this tier." key:"sandbox.tier" placeholder:"TIER"`
	Timeout  *time.Duration `help:"How long the program may compute (30s, 2m), instead of the configured time." key:"sandbox.timeout" placeholder:"DURATION"`
	Record   string         `help:"Write a recording of the run." xor:"recording" placeholder:"FILE"`
	Replay   string         `help:"Answer every call from a recording; no server is contacted." xor:"recording" placeholder:"FILE"`
	Force    bool           `help:"Replay a recording that another engine made."`
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

// check reports flags that contradict each other.
func (c *execCmd) check() error {
	switch {
	case c.Eval != nil && c.File != "":
		return errors.New("give a file or -e CODE, not both")
	case c.Force && c.Replay == "":
		return errors.New("--force is for --replay")
	case c.Timeout != nil && *c.Timeout <= 0:
		return fmt.Errorf("--timeout %s is not positive; give a duration such as 30s", *c.Timeout)
	}
	return nil
}

func (c *execCmd) Run(ctx context.Context, a *app) error {
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
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	var out *run.Outcome
	progress := a.progress("running")
	if recording != nil {
		out, err = h.Runs().Replay(ctx, recording.Runs[0].Records, runs.Replay{Code: code, Force: c.Force, Tier: c.Sandbox})
	} else {
		observe := func(e run.Event) {
			if e.Log == nil || c.ForModel == 0 { // the text for a model contains the lines
				a.observe(progress, e)
			}
		}
		out, err = h.Runs().Create(ctx, auth.Local(), runs.Request{
			Code: code, File: file, User: c.User, Session: c.Session, Progress: progress.report, Observe: observe,
		})
		if err == nil && out.Status == run.WaitingApproval {
			progress.stop()
			out, err = a.settle(ctx, h, out, observe)
		}
	}
	progress.stop()
	if err != nil {
		return err
	}
	// The outcome is printed in any case.
	return errors.Join(c.record(ctx, a, h, out), c.answer(a, h, out))
}

var errNoProgram = usage(errors.New("no program: give a file, - for standard input, or -e CODE"))

// keyboard reports whether standard input is a terminal, at which somebody would have to type.
func (a *app) keyboard() bool {
	f, ok := a.Stdin.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (c *execCmd) source(ctx context.Context, a *app) (code, file string, err error) {
	switch {
	case c.Eval != nil:
		return *c.Eval, "", nil
	case c.File == "" && c.Replay != "":
		return "", "", nil // the recorded program
	case c.File == "" && a.keyboard():
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
	text, err := os.ReadFile(a.path(c.File))
	if err != nil {
		err = usage(fmt.Errorf("read the program: %w; give the path of a .js or .ts file, or -e CODE", err))
	}
	return string(text), filepath.Base(c.File), err
}

// readAll reads to the end of the input, or until ctx ends: input from a keyboard may never end.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	var text []byte
	var err error
	done := make(chan struct{})
	go func() { // ends with the input, or with the process
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

func (c *execCmd) record(ctx context.Context, a *app, h *wiring.Harness, out *run.Outcome) error {
	if c.Record == "" {
		return nil
	}
	// Interrupted runs are recorded too.
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

// answer prints the outcome, with --for-model as a model gets it.
func (c *execCmd) answer(a *app, h *wiring.Harness, out *run.Outcome) error {
	if c.ForModel == 0 || out.Status == run.WaitingApproval {
		shown, err := h.ShownOutcome(context.Background(), c.User, c.Session, out)
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
