package runs

import (
	"context"
	"errors"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
)

// ForTasks returns the agent.Runs that executes programs of tasks.
func (s *Service) ForTasks() agent.Runs { return &taskRuns{s} }

// ReplayForTask replays a program of a recorded task.
func (s *Service) ReplayForTask(ctx context.Context, records []journal.Record, code string, observe func(run.Event)) (*run.Outcome, error) {
	return s.Replay(ctx, records, Replay{Code: code, Observe: observe})
}

type taskRuns struct{ s *Service }

// Execute implements agent.Runs.
func (r *taskRuns) Execute(ctx context.Context, p agent.Program) (*run.Outcome, error) {
	execute := r.s.Continue
	if p.New {
		execute = r.s.Execute
	}
	slot, err := r.s.slots.Acquire(ctx, p.User, p.Began)
	if err != nil {
		return nil, err
	}
	defer slot.Release()
	roles, err := r.s.roles(ctx, p.Principal, p.Roles)
	if err != nil {
		return nil, err
	}
	out, err := execute(ctx, Request{
		ID: p.RunID, Code: p.Code, User: p.User, Session: p.Session, Task: p.Task, Principal: p.Principal, Roles: roles, Slot: slot, Said: p.Said, Asked: p.Asked,
		Observe: p.Observe, Progress: p.Progress,
	})
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = errors.Join(err, cause)
	}
	return out, err
}

// Abandon implements agent.Runs.
func (r *taskRuns) Abandon(ctx context.Context, p agent.Program) (*run.Outcome, error) {
	if err := r.s.Abandon(ctx, p.RunID); err != nil {
		return nil, err
	}
	records, err := r.s.Journal(ctx, p.RunID)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	run.Observe(records, p.Observe)
	return run.Recorded(records)
}

// SaveFile implements agent.Runs.
func (r *taskRuns) SaveFile(_ context.Context, user, session, name string, data []byte) (string, error) {
	return r.s.SaveResult(user, session, "", name, data)
}

// Skills implements agent.Runs. It leaves out skills that cannot be imported.
func (r *taskRuns) Skills(ctx context.Context, user, request string) (fit []modelview.Skill, others int, err error) {
	saved, err := r.s.opt.Skills()
	if err != nil {
		return nil, 0, err
	}
	found, all, err := saved.Search(ctx, user, request, modelview.MaxSkills)
	for _, s := range found {
		fit = append(fit, modelview.Skill{Name: s.Path, Description: s.Description})
	}
	return fit, all - len(fit), err
}
