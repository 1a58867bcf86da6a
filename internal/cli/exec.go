package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
)

type execCmd struct {
	File    string        `arg:"" optional:"" help:"Program to run (.js or .ts); - reads standard input."`
	Eval    string        `short:"e" help:"Run this code instead of a file." placeholder:"CODE"`
	User    string        `help:"Whose skills and files the program sees." default:"local"`
	Session string        `help:"Keep /workspace under this name for later runs." placeholder:"ID"`
	Sandbox string        `help:"Sandbox tier." enum:"wasm," default:""`
	Timeout time.Duration `help:"How long the program may compute, instead of the configured time." placeholder:"DURATION"`
	Record  string        `help:"Write a recording of the run." placeholder:"FILE"`
	Replay  string        `help:"Answer every call from a recording; no server is contacted." placeholder:"FILE"`
	Force   bool          `help:"Replay a recording that another engine made."`
}

func (execCmd) Help() string {
	return `The value goes to standard output, console lines to standard error.

Example:
  harness exec -e 'return 1 + 1'
  harness exec --json analysis.ts
  harness exec analysis.ts --record run.json && harness exec analysis.ts --replay run.json`
}

func (c *execCmd) Run(ctx context.Context, a *app) error {
	code, file, err := c.source(a)
	if err != nil {
		return err
	}
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	var out *run.Outcome
	if c.Replay != "" {
		out, err = c.replay(ctx, a, h, code)
	} else {
		out, err = c.execute(ctx, a, h, code, file)
	}
	if err != nil {
		return err
	}
	if c.Record != "" {
		if err := c.record(ctx, a, h, out.RunID); err != nil {
			return err
		}
	}
	return a.outcome(out)
}

// source reads the program.
func (c *execCmd) source(a *app) (code, file string, err error) {
	given := 0
	for _, set := range []bool{c.Eval != "", c.File != ""} {
		if set {
			given++
		}
	}
	switch {
	case given == 2:
		return "", "", &exitError{exitUsage, errors.New("give a file or -e CODE, not both")}
	case c.Eval != "":
		return c.Eval, "", nil
	case c.File == "-":
		text, err := io.ReadAll(a.Stdin)
		if err != nil {
			return "", "", fmt.Errorf("read standard input: %w", err)
		}
		return string(text), "", nil
	case c.File == "" && c.Replay != "":
		return "", "", nil
	case c.File == "":
		return "", "", &exitError{exitUsage, errors.New("no program: give a file, - for standard input, or -e CODE")}
	}
	text, err := os.ReadFile(a.path(c.File))
	if err != nil {
		return "", "", &exitError{exitUsage, fmt.Errorf("read the program: %w", err)}
	}
	return string(text), filepath.Base(c.File), nil
}

func (c *execCmd) execute(ctx context.Context, a *app, h *harness.Harness, code, file string) (*run.Outcome, error) {
	progress := a.progress("running")
	defer progress.stop()
	return h.Exec(ctx, harness.Request{
		Code: code, File: file, User: c.User, Session: c.Session, Timeout: c.Timeout,
		Observe: func(e run.Event) { a.observe(progress, e) },
	})
}

func (c *execCmd) replay(ctx context.Context, a *app, h *harness.Harness, code string) (*run.Outcome, error) {
	f, err := os.Open(a.path(c.Replay))
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("open the recording: %w", err)}
	}
	defer f.Close()
	recording, err := journal.DecodeRecording(f)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("%s: %w", c.Replay, err)}
	}
	return h.Replay(ctx, recording.Runs[0].Records, code, c.Force)
}

func (c *execCmd) record(ctx context.Context, a *app, h *harness.Harness, id string) error {
	records, err := h.Journal(ctx, id)
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	f, err := os.OpenFile(a.path(c.Record), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	err = journal.NewRecording(records).Encode(f)
	return errors.Join(err, f.Close())
}
