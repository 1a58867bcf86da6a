package cli

import (
	"context"
	"errors"
	"fmt"
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
	h, tasks, err := a.openTasks(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	if _, err := h.Models()(c.Model); err != nil {
		return usage(err)
	}
	t, _, err := tasks.Submit(ctx, task.Request{
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
