package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/recording"
	"mcp-code-exec-harness/internal/task"
)

type runCmd struct {
	Task     string    `arg:"" help:"What to do, in your own words; - reads it from standard input."`
	User     string    `help:"Whose skills and files the programs see." default:"local"`
	Input    string    `help:"File that the task is about, or - for standard input: programs find it in /workspace." placeholder:"FILE"`
	Session  string    `help:"Session to continue, with its history and /workspace." placeholder:"ID" names:"sessions"`
	Model    string    `help:"Model to use instead of the configured one." key:"model.name" placeholder:"NAME"`
	MaxTurns int       `help:"Responses of the model, at most (model.maxTurns)." placeholder:"N"`
	MaxCost  float64   `help:"US dollars that the task may cost, at most (model.maxCost)." placeholder:"USD"`
	Record   string    `help:"Write a recording of the task: turns, programs, journals." xor:"recording" placeholder:"FILE"`
	Local    localFlag `help:"${localHelp}"`
	Replay   string    `help:"Work the task from a recording; no model and no server is contacted." xor:"recording" placeholder:"FILE"`
}

func (runCmd) Help() string {
	return `The model writes programs, sees what they return, corrects itself, and answers. The answer goes to standard output,
progress to standard error. Ctrl-C cancels the task; its session stays, and another task in it (--session) goes on from there.

Examples:
  harness run "Which three products sold best last month? Write a summary to /workspace/best.md"
  harness run --session sales "And the month before?"
  harness run - < task.txt
  harness run --input orders.csv "Total sales by region"
  harness run --json --max-turns 5 "How many customers have no e-mail address?"
  harness run "Total sales by region" --record task.json
  harness run "Total sales by region" --replay task.json`
}

func (c *runCmd) check() error {
	switch {
	case strings.TrimSpace(c.Task) == "":
		return errors.New(`the task is empty; say what to do: harness run "Total sales by region"`)
	case c.Task == "-" && c.Input == "-":
		return errors.New("the task and --input cannot both be standard input")
	case c.Input != "" && c.Record+c.Replay != "":
		return errors.New("--input does not go with --record and --replay: a recording has no files; put the file into the session first (harness files put)")
	case c.MaxTurns < 0:
		return fmt.Errorf("--max-turns %d is negative", c.MaxTurns)
	case c.MaxCost < 0:
		return fmt.Errorf("--max-cost %g is negative", c.MaxCost)
	}
	return nil
}

// maxTaskInput is the maximum number of bytes that are read from standard input. The task service limits the length of a task.
const maxTaskInput = 1 << 20

// served implements serving. A server does not execute a replay, which calls no server, or a recording, which is written where the command runs.
func (c *runCmd) served() bool { return !bool(c.Local) && c.Replay == "" && c.Record == "" }

func (c *runCmd) Run(ctx context.Context, a *app) error {
	if c.Task == "-" {
		text, err := readAll(ctx, io.LimitReader(a.Stdin, maxTaskInput))
		if err != nil {
			return usage(fmt.Errorf("read the task from standard input: %w", err))
		}
		if c.Task = strings.TrimSpace(string(text)); c.Task == "" {
			return usage(errors.New("the task on standard input is empty; say what to do: echo \"Total sales by region\" | harness run -"))
		}
	}
	if c.Replay != "" {
		return c.replay(ctx, a)
	}
	if err := a.checkRecord(c.Record); err != nil {
		return err
	}
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	if _, err := h.Models()(c.Model); err != nil {
		return usage(err)
	}
	var opt taskOptions
	if c.Record == "" {
		return c.submit(ctx, a, h, opt)
	}
	recorder, err := h.Record(&opt, c.Task, c.Model)
	if err != nil {
		return usage(err)
	}
	err = c.submit(ctx, a, h, opt)
	if exit, ok := errors.AsType[*exitError](err); ok && exit.code == exitWaiting {
		fmt.Fprintln(a.Stderr, "harness: warning: nothing is recorded of a task that waits for an approval")
		return err
	}
	// Tasks that failed or were interrupted are recorded too.
	recorded, failed := recorder.Recording(context.WithoutCancel(ctx), h.Privacy().Redactor(), h.Runs().Journal)
	return errors.Join(err, a.saveRecording(c.Record, recorded, failed))
}

// replay works the task from a recording. It uses a temporary store, so the task is not listed among the user's tasks.
func (c *runCmd) replay(ctx context.Context, a *app) error {
	recorded, err := openRecording(a, c.Replay, recording.Decode)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "harness-replay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a.settings["store.url"] = "sqlite:" + filepath.Join(dir, "harness.db")
	a.settings["workspace.dir"] = filepath.Join(dir, "workspace")
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer a.close() // runs before the directory is removed
	var opt taskOptions
	h.ReplayTask(&opt, recorded)
	return c.submit(ctx, a, h, opt)
}

// submit adds the task and works it.
func (c *runCmd) submit(ctx context.Context, a *app, h harness, opt taskOptions) error {
	tasks, err := h.Tasks(opt)
	if err != nil {
		return err
	}
	if err := c.putInput(ctx, a, h, tasks); err != nil {
		return err
	}
	t, _, err := tasks.Submit(ctx, task.Request{
		Own:    true,
		UserID: c.User, Principal: auth.Local().Principal, Roles: auth.Local().Roles, Task: c.Task, SessionID: c.Session, Model: c.Model,
		Budget: task.Budget{Turns: c.MaxTurns, Cost: c.MaxCost},
	})
	if err != nil {
		return err
	}
	a.tellPage("/tasks/" + t.ID)
	return a.work(ctx, h, tasks, t.ID)
}

// putInput copies --input into the workspace of the session and tells the model the path. Without a session it creates one.
func (c *runCmd) putInput(ctx context.Context, a *app, h harness, tasks *task.Service) error {
	if c.Input == "" {
		return nil
	}
	var from io.Reader = interrupted{ctx, a.Stdin}
	name := "input.txt"
	if c.Input != "-" {
		f, err := a.openFile(a.path(c.Input))
		if err != nil {
			return usage(fmt.Errorf("read the input: %w", err))
		}
		defer f.Close()
		from, name = f, filepath.Base(c.Input)
	}
	c.Session = cmp.Or(c.Session, id.New("sess"))
	area, err := (&filesArg{ID: c.Session, User: c.User}).open(ctx, a, h, tasks, true)
	if err != nil {
		return err
	}
	defer area.close()
	to := area.path(name)
	if _, _, err := area.dir.WriteFrom(ctx, to, from); err != nil {
		return usage(fmt.Errorf("copy the input to the workspace: %w", err))
	}
	c.Task += fmt.Sprintf("\n\nThe input is the file %s/%s.", area.root, to)
	return nil
}

// work works a task in this process, shows its progress and prints its result. If a person is at the terminal, work asks about calls that need an
// approval. An interrupt cancels the task.
func (a *app) work(ctx context.Context, h harness, tasks *task.Service, id string) error {
	after := int64(0) // number of the last event that was shown
	view := newView(a.stderr)
	view.servers = h.Servers().Servers
	for {
		t, err := a.workOn(ctx, view, tasks, id, &after)
		if err != nil {
			return err
		}
		if t.Status != task.WaitingApproval {
			return a.taskEnded(t)
		}
		all, _, err := h.Runs().Approvals(ctx, auth.Local(), approval.Filter{Task: id, Status: approval.Waiting})
		if err != nil {
			return err
		}
		if len(all) == 0 { // the request was decided in the meantime
			continue
		}
		again := false
		if a.asks() {
			if again, err = a.ask(ctx, h, all[0], func() {}); err != nil {
				return err
			}
		}
		if again {
			continue
		}
		err = a.waits(all[0])
		if a.flags.JSON {
			return errors.Join(a.json(t), err)
		}
		return err
	}
}

// workOn works a task until it ends or waits, and shows its events.
func (a *app) workOn(ctx context.Context, v *view, tasks *task.Service, id string, after *int64) (task.Task, error) {
	v.start(a, "starting the task")
	defer v.stop()
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	watching := make(chan struct{})
	wg.Go(func() { a.watch(watch, v, tasks, id, after, sync.OnceFunc(func() { close(watching) })) })
	<-watching
	t, err := do(ctx, tasks, id)
	if err != nil || t.Status == task.WaitingApproval {
		stop()
	}
	wg.Wait() // every event has been shown
	if err != nil {
		return t, a.unknownTask(ctx, id, err)
	}
	return t, nil
}

// taskEnded prints how a task ended, and returns the error of the command.
func (a *app) taskEnded(t task.Task) error {
	t, err := task.Shown(context.Background(), a.opened.Privacy(), t)
	if err != nil {
		return err
	}
	if t.Repeats, err = a.opened.Runs().Repeats(context.Background(), t); err != nil {
		return err
	}
	defer func() {
		if t.Repeats != nil && !a.flags.JSON {
			fmt.Fprintf(a.Stderr, "This task ran the same program as %s; `harness skills new NAME --from %s` keeps it.\n", t.Repeats.Task, t.Repeats.Run)
		}
	}()
	text := t.Text
	if text != "" {
		text += "\n"
		if a.stdout.terminal != nil && a.stderr.terminal != nil && !a.flags.JSON {
			a.stderr.line("", "")
		}
	}
	err = a.answer(t, "%s", text)
	if err == nil && t.Error != nil && t.Error.Kind == task.KindUnreachable {
		return failed(exitUnavailable)
	}
	return ended(err, t.Status == task.Succeeded)
}

// do executes a task in this process and returns the task when it has ended. If ctx ends first, the task is cancelled.
func do(ctx context.Context, tasks *task.Service, id string) (task.Task, error) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(task.ErrCancelled) })()
	return tasks.Do(work, id)
}
