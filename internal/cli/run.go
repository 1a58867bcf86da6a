package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/task"
)

type runCmd struct {
	Task     string  `arg:"" help:"What is to be done, in your words."`
	User     string  `help:"Whose skills and files the programs see." default:"local"`
	Session  string  `help:"Go on with this conversation: its history and /workspace." placeholder:"ID"`
	Model    string  `help:"Another model than the configured one." placeholder:"NAME"`
	MaxTurns int     `help:"Responses of the model, at most (model.maxTurns)." placeholder:"N"`
	MaxCost  float64 `help:"US dollars that the model may cost, at most (model.maxCost)." placeholder:"USD"`
	Record   string  `help:"Write a recording of the task: turns, programs, journals." placeholder:"FILE"`
	Replay   string  `help:"Work the task from a recording; no model and no server is contacted." placeholder:"FILE"`
}

func (runCmd) Help() string {
	return `The model writes programs, sees what they return, corrects itself, and answers. The answer goes to standard output,
everything on the way to it to standard error. Ctrl-C cancels the task.

Examples:
  harness run "Which three products sold best last month? Write a summary to /workspace/best.md"
  harness run --session sales "And the month before?"
  harness run --json --max-turns 5 "How many customers have no e-mail address?"
  harness run "Total sales by region" --record task.json
  harness run "Total sales by region" --replay task.json`
}

func (c *runCmd) check() error {
	switch {
	case c.Record != "" && c.Replay != "":
		return errors.New("--record and --replay exclude each other: a replay makes nothing new to record")
	case c.MaxTurns < 0:
		return fmt.Errorf("--max-turns %d is negative", c.MaxTurns)
	case c.MaxCost < 0:
		return fmt.Errorf("--max-cost %g is negative", c.MaxCost)
	}
	return nil
}

func (c *runCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return usage(err)
	}
	if c.Replay != "" {
		return c.replay(ctx, a)
	}
	var keep *output
	if c.Record != "" {
		// Before anything is done: a task whose recording cannot be written should not begin.
		var err error
		if keep, err = createOutput(a.path(c.Record)); err != nil {
			return usage(fmt.Errorf("write the recording: %w", err))
		}
		defer keep.abandon()
	}
	if c.Model != "" {
		a.set("model.name", c.Model)
	}
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	if _, err := h.Models()(c.Model); err != nil {
		return usage(err)
	}
	var opt harness.TaskOptions
	var recorder *harness.TaskRecorder
	if keep != nil {
		if recorder, err = h.Record(&opt, c.Task, c.Model); err != nil {
			return usage(err)
		}
	}
	err = c.submit(ctx, a, h, opt)
	if recorder != nil {
		// Also of a task that failed or was interrupted.
		recording, failed := recorder.Recording(context.WithoutCancel(ctx))
		if failed == nil {
			if failed = recording.Encode(keep); failed == nil {
				failed = keep.commit()
			}
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("write the recording: %w", failed))
		}
	}
	return err
}

// replay works the task from a recording, in a store of its own: it is nothing that happened.
func (c *runCmd) replay(ctx context.Context, a *app) error {
	f, err := os.Open(a.path(c.Replay))
	if err != nil {
		return usage(fmt.Errorf("open the recording: %w; --record makes one", err))
	}
	recording, err := harness.DecodeTaskRecording(f)
	f.Close()
	if err != nil {
		return usage(fmt.Errorf("%s: %w", c.Replay, err))
	}
	dir, err := os.MkdirTemp("", "harness-replay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a.set("store.url", "sqlite:"+filepath.Join(dir, "harness.db"))
	a.set("workspace.dir", filepath.Join(dir, "workspace"))
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	var opt harness.TaskOptions
	h.ReplayTask(&opt, recording)
	return c.submit(ctx, a, h, opt)
}

// submit adds the task and works it.
func (c *runCmd) submit(ctx context.Context, a *app, h *harness.Harness, opt harness.TaskOptions) error {
	tasks, err := h.Tasks(opt)
	if err != nil {
		return missing(h, err)
	}
	t, _, err := tasks.Submit(ctx, task.Request{
		Own:    true,
		UserID: c.User, Principal: "local", Task: c.Task, SessionID: c.Session, Model: c.Model,
		Budget: task.Budget{Turns: c.MaxTurns, Cost: c.MaxCost},
	})
	if err != nil {
		return taskError(err)
	}
	return a.work(ctx, h, tasks, t.ID)
}

// work works a task in this process, shows how it goes, and prints how it ended. An interrupt cancels it.
func (a *app) work(ctx context.Context, h *harness.Harness, tasks *task.Service, id string) error {
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { a.watch(watch, tasks, id) })
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(task.ErrCancelled) })()
	t, err := tasks.Do(work, id)
	if err != nil {
		stop()
	}
	wg.Wait() // until the end was shown
	if err != nil {
		return missing(h, unknownTask(id, err))
	}
	return a.taskAnswer(t)
}

// taskError gives a refused request the exit code of bad usage.
func taskError(err error) error {
	if errors.Is(err, task.ErrInvalidInput) || errors.Is(err, task.ErrNotFound) {
		return usage(err)
	}
	return err
}

// taskAnswer prints how a task ended.
func (a *app) taskAnswer(t task.Task) error {
	if a.flags.JSON {
		if err := a.json(t); err != nil {
			return err
		}
	} else if t.Text != "" {
		fmt.Fprintln(a.Stdout, t.Text)
	}
	if t.Status != task.Succeeded {
		return failed(exitFailed)
	}
	return nil
}
