package cli

import (
	"context"
	"fmt"

	"mcp-code-exec-harness/internal/bench"
)

type benchCmd struct {
	Only  string `help:"Only figures whose name contains this." placeholder:"TEXT"`
	Quick bool   `help:"Fewer repetitions."`
}

func (benchCmd) Help() string {
	return `Figures are medians on this machine, beside the budget for a 2-core x86-64 Linux VM.

Example:
  harness bench --json`
}

func (c *benchCmd) Run(ctx context.Context, a *app) error {
	progress := a.progress("measuring")
	figures, err := bench.Run(ctx, bench.Options{
		Executable: a.Executable, Only: c.Only, Quick: c.Quick, Progress: progress.say,
	})
	progress.stop()
	if err != nil {
		return err
	}
	if a.flags.JSON {
		return a.json(list(figures))
	}
	rows := [][]string{{"WHAT", "P50", "P95", "BUDGET", "", "NOTE"}}
	for _, f := range figures {
		verdict := "within"
		if f.Over() {
			verdict = "OVER"
		}
		if f.Budget == 0 {
			verdict = ""
		}
		rows = append(rows, []string{f.Name, number(f.P50, f.Unit), number(f.P95, f.Unit), number(f.Budget, f.Unit), verdict, f.Note})
	}
	a.table(rows)
	return nil
}

func number(v float64, unit string) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.4g %s", v, unit)
}
