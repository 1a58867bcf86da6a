package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

type tasksCmd struct {
	List   tasksListCmd   `cmd:"" help:"List tasks, newest first." example:"tasks list --status failed"`
	Show   tasksShowCmd   `cmd:"" help:"Show a task and its events." example:"tasks show task_4f2a91c07be2d3a51f66"`
	Cancel tasksCancelCmd `cmd:"" help:"Cancel a task, whichever process works it." example:"tasks cancel task_4f2a91c07be2d3a51f66"`
	Resume tasksResumeCmd `cmd:"" help:"Continue a task whose process died. A running server continues such tasks without this command. Answered requests to the model are not sent again." example:"tasks resume task_4f2a91c07be2d3a51f66"`
}

type tasksListCmd struct {
	User    string `help:"Only of this user." placeholder:"ID"`
	Session string `help:"Only of this session." placeholder:"ID" names:"sessions"`
	Status  string `help:"Only with this status: queued, running, waiting_approval, succeeded, failed, cancelled." enum:"all,queued,running,waiting_approval,succeeded,failed,cancelled" default:"all"`
	Search  string `help:"Only with these words in the text; reg* is what begins so." placeholder:"WORDS"`
	page
}

type page struct {
	Limit  int    `help:"How many, up to 1000." default:"20"`
	Cursor string `help:"Cursor of the next page, from the page before." placeholder:"CURSOR"`
}

func (p *page) check() error {
	if p.Limit < 1 || p.Limit > 1000 {
		return fmt.Errorf("--limit %d is out of range; give a number from 1 to 1000", p.Limit)
	}
	return nil
}

// explain adds the flag --cursor to an error about the cursor.
func (*page) explain(err error) error {
	if errors.Is(err, journal.ErrCursor) {
		return usage(fmt.Errorf("--cursor: %w; give the one that the page before ended with", err))
	}
	return err
}

func (c *tasksListCmd) Run(ctx context.Context, a *app, tasks *task.Service) error {
	f := task.Filter{UserID: c.User, SessionID: c.Session, Search: c.Search, Limit: c.Limit, Cursor: c.Cursor}
	if c.Status != "all" {
		f.Status = task.Status(c.Status)
	}
	all, next, err := tasks.Tasks(ctx, f)
	if err != nil {
		return c.explain(err)
	}
	defer a.more(next)
	const none, header = "no tasks; harness run makes one", "TASK\tCREATED\tSTATUS\tTURNS\tRUNS\tWHAT"
	return answerShort(a, map[string]any{"tasks": list(all), "next": next}, all, none, header, func(t task.Task) string {
		created := t.CreatedAt.Local().Format(time.DateTime)
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%s", t.ID, created, t.Status, t.Usage.Turns, t.Usage.Runs, cut(t.Task, 60))
	})
}

type taskArg struct {
	ID string `arg:"" help:"Task id." names:"tasks"`
}

type tasksShowCmd struct {
	taskArg
	Follow bool `short:"f" help:"Show what happens until the task has ended, whichever process works it; the exit code is that of harness run."`
}

func (c *tasksShowCmd) Run(ctx context.Context, a *app, tasks *task.Service) error {
	t, err := tasks.Task(ctx, c.ID)
	if err != nil {
		return a.unknownTask(ctx, c.ID, err)
	}
	if t, err = task.Shown(ctx, a.opened.Privacy(), t); err != nil {
		return err
	}
	if a.flags.JSON && !c.Follow {
		return a.json(t)
	}
	fmt.Fprintf(a.Stderr, "%s  %s  user %s  session %s  %s\n%s\n\n", t.ID, t.CreatedAt.Local().Format(time.DateTime), t.UserID, t.SessionID, t.Status, t.Task)
	view := newView(a.stderr)
	if c.Follow {
		return c.follow(ctx, a, view, tasks)
	}
	events, err := tasks.Past(ctx, t.ID, 0)
	for err == nil && len(events) > 0 {
		for _, e := range events {
			view.event(e)
		}
		events, err = tasks.Past(ctx, t.ID, events[len(events)-1].ID)
	}
	if err == nil && t.Text != "" {
		fmt.Fprintln(a.Stdout, t.Text)
	}
	return err
}

// follow shows the events of the task until it has ended.
func (c *tasksShowCmd) follow(ctx context.Context, a *app, v *view, tasks *task.Service) error {
	v.follow = true
	v.start(a, "waiting for the task")
	defer v.stop()
	for e, err := range tasks.Events(ctx, c.ID, 0) {
		if err != nil {
			return err
		}
		v.event(e)
	}
	v.stop()
	t, err := tasks.Task(ctx, c.ID)
	if err != nil {
		return a.unknownTask(ctx, c.ID, err)
	}
	return a.taskEnded(t)
}

type tasksCancelCmd struct{ taskArg }

func (c *tasksCancelCmd) Run(ctx context.Context, a *app, tasks *task.Service) error {
	t, err := tasks.Cancel(ctx, c.ID)
	if err != nil {
		return a.unknownTask(ctx, c.ID, err)
	}
	if t, err = task.Shown(ctx, a.opened.Privacy(), t); err != nil {
		return err
	}
	if a.flags.JSON {
		return a.json(t)
	}
	if t.Status.Ended() {
		fmt.Fprintln(a.Stderr, "cancelled", t.ID)
	} else {
		fmt.Fprintln(a.Stderr, "asked the process that works", t.ID, "to cancel it; harness tasks show says when it has")
	}
	return nil
}

type tasksResumeCmd struct{ taskArg }

func (c *tasksResumeCmd) Run(ctx context.Context, a *app, h harness, tasks *task.Service) error {
	t, err := tasks.Task(ctx, c.ID)
	if err != nil {
		return a.unknownTask(ctx, c.ID, err)
	}
	if t.Status.Ended() {
		return usage(fmt.Errorf("task %s has ended (%s), and its conversation stays; go on in it: %s", t.ID, t.Status, goOn(t.SessionID)))
	}
	return a.work(ctx, h, tasks, c.ID)
}

// goOn returns the command that continues a session.
func goOn(session string) string {
	return fmt.Sprintf("harness run --session %s %q", session, "What next?")
}

// unknownTask explains an error about a task that a user named.
func (a *app) unknownTask(ctx context.Context, id string, err error) error {
	if errors.Is(err, task.ErrNotFound) {
		return usage(fmt.Errorf("unknown task %q; %s", id, a.like(ctx, "tasks", id, "harness tasks list shows all")))
	}
	err = fmt.Errorf("task %s: %w", id, err)
	switch {
	case errors.Is(err, task.ErrEnded):
		return usage(fmt.Errorf("task %s has ended; harness tasks show %s says how", id, id))
	case errors.Is(err, task.ErrNotOwner):
		return fmt.Errorf("%w; harness tasks show %s shows its progress, harness tasks cancel %s ends it", err, id, id)
	}
	return err
}
