package agent

import (
	"context"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// Abandon ends the run of a task that a dead process left, and returns the run's effects.
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
