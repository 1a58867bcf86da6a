package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	used "mcp-code-exec-harness/internal/usage" // usage is a function here
)

type usageCmd struct {
	Since time.Duration `help:"How far back (1h, 7d)." default:"24h" placeholder:"DURATION"`
	By    used.By       `help:"What the rows are about: ${enum}." enum:"user,tool,server,model" default:"tool"`
	User  string        `help:"Only of this user." placeholder:"ID"`
}

func (usageCmd) Help() string {
	return `Counts what has ended: runs, calls of tools, tasks with their tokens and cost, and the tokens that they saved against calling the
tools directly, by estimate. The window begins with ten minutes of the clock, or, where it is longer than two days, with a day in UTC.

Examples:
  harness usage
  harness usage --since 7d --by model
  harness usage --by user --json`
}

func (c *usageCmd) Run(ctx context.Context, a *app, h harness) error {
	if c.Since <= 0 {
		return usage(fmt.Errorf("--since %s is in the future", c.Since))
	}
	r, err := h.Runs().Usage(ctx, auth.Local(), used.Query{User: c.User, Since: a.Now().Add(-c.Since), By: c.By})
	if err != nil {
		return err
	}
	if !a.flags.JSON {
		t := r.Total
		a.stdout.line(fmt.Sprintf("since %s: %d runs (%d failed), %d calls (%d failed), %d tasks, %d tokens in, %d out, %d saved, %s",
			r.Since.Local().Format(time.DateTime), t.Runs, t.RunsFailed, t.Calls, t.CallsFailed, t.Tasks, t.Input, t.Output, t.Saved, t.Price()), "")
	}
	header := map[used.By]string{
		used.ByUser: "USER\tRUNS\tFAILED\tCALLS\tTASKS\tTOKENS\tSAVED\tCOST", used.ByModel: "MODEL\tTASKS\tFAILED\tTOKENS\tSAVED\tCOST\tP50\tP99",
	}[c.By]
	return answerList(a, r, r.Rows, "nothing has ended", cmp.Or(header, strings.ToUpper(string(c.By))+"\tCALLS\tFAILED\tP50\tP99"), func(l used.Line) string {
		name, tokens := cmp.Or(l.Name, "others"), l.Input+l.Output
		switch c.By {
		case used.ByUser:
			return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s", name, l.Runs, l.RunsFailed, l.Calls, l.Tasks, tokens, l.Saved, l.Price())
		case used.ByModel:
			return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%s\t%s", name, l.Tasks, l.TasksFailed, tokens, l.Saved, l.Price(), timesOf(l.TaskTimes))
		default:
			return fmt.Sprintf("%s\t%d\t%d\t%s", name, l.Calls, l.CallsFailed, timesOf(l.CallTimes))
		}
	})
}

// timesOf returns times as two cells of a table.
func timesOf(t *used.Times) string {
	if t == nil {
		return "-\t-"
	}
	return fmt.Sprintf("%.3g ms\t%.3g ms", t.P50, t.P99)
}
