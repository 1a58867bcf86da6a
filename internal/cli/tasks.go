package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

type tasksCmd struct {
	List   tasksListCmd   `cmd:"" help:"List tasks, newest first."`
	Show   tasksShowCmd   `cmd:"" help:"Show a task and how it went."`
	Cancel tasksCancelCmd `cmd:"" help:"Cancel a task, in whatever process it runs."`
	Resume tasksResumeCmd `cmd:"" help:"Go on with a task whose process died."`
}

func (tasksCmd) Help() string { return "Example:\n  harness tasks list" }

// openTasks opens the harness with its tasks.
func (a *app) openTasks(ctx context.Context) (*harness.Harness, *task.Service, error) {
	h, err := a.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	tasks, err := h.Tasks(harness.TaskOptions{})
	if err != nil {
		a.close(h)
		return nil, nil, missing(h, err)
	}
	return h, tasks, nil
}

type tasksListCmd struct {
	User    string `help:"Only of this user." placeholder:"ID"`
	Session string `help:"Only of this session." placeholder:"ID"`
	Status  string `help:"Only with this status: queued, running, succeeded, failed, cancelled." enum:"all,queued,running,waiting_approval,succeeded,failed,cancelled" default:"all"`
	Limit   int    `help:"How many." default:"20"`
	Cursor  string `help:"Go on where the list before ended." placeholder:"CURSOR"`
}

func (tasksListCmd) Help() string { return "Example:\n  harness tasks list --status failed" }

func (c *tasksListCmd) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usage(fmt.Errorf("--limit %d is out of range; give a number from 1 to 1000", c.Limit))
	}
	h, tasks, err := a.openTasks(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	f := task.Filter{UserID: c.User, SessionID: c.Session, Limit: c.Limit, Cursor: c.Cursor}
	if c.Status != "all" {
		f.Status = task.Status(c.Status)
	}
	all, next, err := tasks.Tasks(ctx, f)
	if errors.Is(err, journal.ErrCursor) {
		return usage(fmt.Errorf("--cursor: %w; give the one that the list before ended with", err))
	}
	if err != nil {
		return err
	}
	if a.flags.JSON {
		return a.json(map[string]any{"tasks": list(all), "next": next})
	}
	if len(all) == 0 {
		fmt.Fprintln(a.Stderr, "no tasks; harness run makes one")
		return nil
	}
	rows := [][]string{{"TASK", "CREATED", "STATUS", "TURNS", "RUNS", "WHAT"}}
	for _, t := range all {
		rows = append(rows, []string{
			t.ID, t.CreatedAt.Local().Format(time.DateTime), string(t.Status), strconv.Itoa(t.Usage.Turns), strconv.Itoa(t.Usage.Runs), cut(t.Task, 60),
		})
	}
	a.table(rows)
	if next != "" {
		fmt.Fprintf(a.Stderr, "more: harness tasks list --cursor %s\n", next)
	}
	return nil
}

type tasksShowCmd struct {
	ID string `arg:"" help:"Task id."`
}

func (tasksShowCmd) Help() string { return "Example:\n  harness tasks show task_4f2a91c07be2d3a51f66" }

func (c *tasksShowCmd) Run(ctx context.Context, a *app) error {
	h, tasks, err := a.openTasks(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	t, err := tasks.Task(ctx, c.ID)
	if err != nil {
		return unknownTask(c.ID, err)
	}
	if a.flags.JSON {
		return a.json(t)
	}
	fmt.Fprintf(a.Stderr, "%s  %s  user %s  session %s  %s\n%s\n\n", t.ID, t.CreatedAt.Local().Format(time.DateTime), t.UserID, t.SessionID, t.Status, t.Task)
	if err := a.past(ctx, tasks, t); err != nil {
		return err
	}
	if t.Text != "" {
		fmt.Fprintln(a.Stdout, t.Text)
	}
	return nil
}

// past shows what has happened to a task so far.
func (a *app) past(ctx context.Context, tasks *task.Service, t task.Task) error {
	after := int64(0)
	for {
		events, err := tasks.Past(ctx, t.ID, after)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		for _, e := range events {
			a.showEvent(e)
			after = e.ID
		}
	}
}

type tasksCancelCmd struct {
	ID string `arg:"" help:"Task id."`
}

func (tasksCancelCmd) Help() string {
	return "Example:\n  harness tasks cancel task_4f2a91c07be2d3a51f66"
}

func (c *tasksCancelCmd) Run(ctx context.Context, a *app) error {
	h, tasks, err := a.openTasks(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	t, err := tasks.Cancel(ctx, c.ID)
	if err != nil {
		return unknownTask(c.ID, err)
	}
	if a.flags.JSON {
		return a.json(t)
	}
	if t.Status.Ended() {
		fmt.Fprintln(a.Stderr, "cancelled", t.ID)
	} else {
		fmt.Fprintln(a.Stderr, "asked the process that works on", t.ID, "to cancel it; harness tasks show tells when it has")
	}
	return nil
}

type tasksResumeCmd struct {
	ID string `arg:"" help:"Task id."`
}

func (tasksResumeCmd) Help() string {
	return `What was answered before is not asked again. harness serve does this by itself when it starts.

Example:
  harness tasks resume task_4f2a91c07be2d3a51f66`
}

func (c *tasksResumeCmd) Run(ctx context.Context, a *app) error {
	h, tasks, err := a.openTasks(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	if _, err := tasks.Task(ctx, c.ID); err != nil {
		return unknownTask(c.ID, err)
	}
	return a.work(ctx, h, tasks, c.ID)
}

// unknownTask explains an error about a task that a user named.
func unknownTask(id string, err error) error {
	err = fmt.Errorf("task %s: %w", id, err)
	if errors.Is(err, task.ErrNotFound) {
		return usage(fmt.Errorf("%w; harness tasks list shows all", err))
	}
	switch {
	case errors.Is(err, task.ErrEnded):
		return usage(fmt.Errorf("task %s has ended; harness tasks show %s says how", id, id))
	case errors.Is(err, task.ErrNotOwner):
		return fmt.Errorf("%w; harness tasks show %s tells how far it is, harness tasks cancel %s ends it", err, id, id)
	}
	return err
}
