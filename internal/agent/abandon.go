package agent

import (
	"context"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// Abandon ends a run whose process has died. The run ends as cancelled. Abandon returns the effects of the run.
func (a *Agent) Abandon(ctx context.Context, id string) ([]task.Effect, error) {
	out, err := a.opt.Runs.Abandon(ctx, Program{RunID: id, Observe: func(run.Event) {}})
	if out == nil || err != nil {
		return nil, err
	}
	var effects []task.Effect
	for _, e := range out.Effects {
		effects = append(effects, task.Effect(e))
	}
	return effects, nil
}
