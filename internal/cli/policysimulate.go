package cli

import (
	"context"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/simulation"
	"mcp-code-exec-harness/internal/task"
)

type policySimulateCmd struct {
	File  string `arg:"" help:"A policy: a list of rules, a mapping with preset and rules, or a harness.yaml."`
	User  string `help:"Only runs of this user." placeholder:"NAME"`
	Limit int    `help:"How many runs, the newest first." default:"1000"`
}

func (policySimulateCmd) Help() string {
	return `The calls are printed that the configuration and FILE decide differently. Annotations and destinations are today's. Journals have no
origins of tokens: a token comes from the calls, files and the program of its run that show it, else its origin is unknown, which counts against
the call. A session can know more origins of a token than a run shows, so a call may in truth be decided more strictly. Where values come from is
found again in the tasks and the recorded answers of the session; what programs read of files and inputs is not, so that values that
nobody else said are of unknown origin after that. Limits count the recorded calls in their order, those of a task as if each of its runs were a task.

Example:
  harness policy simulate stricter.yaml`
}

func (c *policySimulateCmd) check() error {
	if c.Limit < 1 {
		return fmt.Errorf("--limit %d reads nothing; give a number from 1", c.Limit)
	}
	return nil
}

func (c *policySimulateCmd) Run(ctx context.Context, a *app, cfg *config.Config, h catalogued, tasks *task.Service) error {
	other, err := a.policyFile(c.File)
	if err != nil {
		return err
	}
	recorded := simulation.Source{
		Runs: h.Runs(), Tasks: tasks, Catalog: h.Catalog(), Who: auth.Local(), Bounds: simulation.Bounds{User: c.User, Runs: c.Limit},
	}
	found, err := recorded.Simulate(ctx, cfg.Compiled(cfg.Policy), cfg.Compiled(other))
	if err != nil {
		return err
	}
	a.warnServers(h.harness)
	if !a.flags.JSON {
		for _, u := range found.Unread {
			fmt.Fprintf(a.Stderr, "not looked at: %s\n", strings.TrimPrefix(u.Run+": "+u.Reason, ": "))
		}
		defer fmt.Fprintf(a.Stderr, "%d of %d calls in %d runs are decided differently\n", found.Changed, found.Calls, found.Runs)
	}
	if found.Changed == 0 && !a.flags.JSON {
		return nil
	}
	return answerList(a, found, found.Changes, "", "RUN\tCALL\tTOOL\tNOW\tTHEN\tBECAUSE", func(ch simulation.Change) string {
		why := ch.Then.Reason
		if !ch.Known {
			why += " (the catalog has no such tool)"
		}
		return fmt.Sprintf("%s\t%d\t%s\t%s\t%s\t%s", ch.Run, ch.Call, ch.Tool, ch.Now.Action, ch.Then.Action, why)
	})
}
