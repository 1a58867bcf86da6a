package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/task"
)

type schedulesCmd struct {
	List schedulesListCmd `cmd:"" help:"List schedules." example:"schedules list"`
	Add  schedulesAddCmd  `cmd:"" help:"Plan a task." example:"schedules add --cron '0 7 * * 1' \"Last week's sales by region\""`
	Rm   schedulesRmCmd   `cmd:"" help:"End a schedule; tasks that it has made stay." example:"schedules rm sched_4f2a91c07be2d3a51f66"`
}

type schedulesListCmd struct {
	User string `help:"Only of this user." placeholder:"ID"`
}

func (c *schedulesListCmd) Run(ctx context.Context, a *app, tasks *task.Service) error {
	all, err := tasks.Schedules(ctx, c.User)
	if err != nil {
		return err
	}
	const none, header = "no schedules; harness schedules add makes one", "SCHEDULE\tUSER\tNEXT\tWHEN\tWHAT"
	return answerShort(a, map[string]any{"schedules": list(all)}, all, none, header, func(s task.Schedule) string {
		when := s.Cron
		if s.Zone != "" {
			when += " " + s.Zone
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", s.ID, s.UserID, instantOf(s.Next), cmp.Or(when, "once"), cut(s.Task, shownText))
	})
}

// instantOf returns a planned time as text, in the reader's local time.
func instantOf(at *time.Time) string {
	if at == nil {
		return "never"
	}
	return at.Local().Format(time.DateTime)
}

type schedulesAddCmd struct {
	Task     string  `arg:"" help:"What to do, in your own words."`
	Cron     string  `help:"When: minute, hour, day, month, weekday; or @hourly, @daily and so on." placeholder:"FIELDS"`
	Zone     string  `help:"Time zone of --cron, such as Europe/Berlin; without it UTC." placeholder:"NAME"`
	At       string  `help:"When, once: an instant such as 2026-12-01T07:00:00Z." placeholder:"TIME"`
	User     string  `help:"Whose skills and files the programs see." default:"local"`
	Session  string  `help:"Session of all its tasks; without it each has one of its own." placeholder:"ID" names:"sessions"`
	Model    string  `help:"Model to use instead of the configured one." placeholder:"NAME"`
	MaxTurns int     `help:"Responses of the model to each task, at most (model.maxTurns)." placeholder:"N"`
	MaxCost  float64 `help:"US dollars that each task may cost, at most (model.maxCost)." placeholder:"USD"`
}

func (schedulesAddCmd) Help() string {
	return `harness serve works the tasks; instants that pass while none runs fire once when one starts.

Examples:
  harness schedules add --cron "0 7 * * 1" --zone Europe/Berlin "Last week's sales by region, to /workspace/sales.md" --session sales
  harness schedules add --at 2026-12-01T07:00:00Z "Remind me of the offer to Acme"`
}

func (c *schedulesAddCmd) Run(ctx context.Context, a *app, tasks *task.Service) error {
	n := task.NewSchedule{Cron: c.Cron, Zone: c.Zone, Request: task.Request{
		UserID: c.User, Principal: auth.Local().Principal, Roles: auth.Local().Roles, Task: c.Task, SessionID: c.Session, Model: c.Model,
		Budget: task.Budget{Turns: c.MaxTurns, Cost: c.MaxCost},
	}}
	if c.At != "" {
		at, err := time.Parse(time.RFC3339, c.At)
		if err != nil {
			return usage(fmt.Errorf("--at: %q is no instant such as 2026-12-01T07:00:00Z", c.At))
		}
		n.RunAt = &at
	}
	if (c.Cron == "") == (c.At == "") {
		return usage(errors.New("give --cron or --at, and not both"))
	}
	s, err := tasks.CreateSchedule(ctx, n)
	if errors.Is(err, task.ErrInvalidInput) {
		return usage(err)
	}
	if err != nil {
		return err
	}
	return a.answer(s, "%s: next at %s\n", s.ID, instantOf(s.Next))
}

type schedulesRmCmd struct {
	ID string `arg:"" help:"Schedule id." names:"schedules"`
}

func (c *schedulesRmCmd) Run(ctx context.Context, a *app, tasks *task.Service) error {
	_, err := tasks.Schedule(ctx, c.ID)
	if errors.Is(err, task.ErrNotFound) {
		return usage(fmt.Errorf("unknown schedule %q; %s", c.ID, a.like(ctx, "schedules", c.ID, "harness schedules list shows all")))
	}
	if err == nil {
		err = tasks.DeleteSchedule(ctx, c.ID)
	}
	if err != nil {
		return err
	}
	return a.answer(map[string]string{"deleted": c.ID}, "deleted schedule %s\n", c.ID)
}
