package cli

import (
	"context"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/bench"
)

type benchCmd struct {
	Only  string `help:"Only figures whose name contains this." placeholder:"TEXT"`
	Quick bool   `help:"Fewer repetitions."`
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
	return answerList(a, list(figures), figures, "no figure has this name", "WHAT\tP50\tP95\tBUDGET\t\tNOTE", func(f bench.Figure) string {
		verdict := ""
		if f.Over() {
			verdict = "OVER"
		} else if f.Budget != 0 {
			verdict = "within"
		}
		cells := []string{f.Name, number(f.P50, f.Unit), number(f.P95, f.Unit), number(f.Budget, f.Unit), verdict, f.Note}
		return strings.Join(cells, "\t")
	})
}

func number(v float64, unit string) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.4g %s", v, unit)
}
