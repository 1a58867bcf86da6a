package runs

import (
	"cmp"
	"context"
	"errors"

	"mcp-code-exec-harness/internal/run"
)

// Shown is the outcome of a run as its owner sees it. A run without a session has tokens of its own.
func (s *Service) Shown(ctx context.Context, user, session string, out *run.Outcome) (*run.Outcome, error) {
	if out == nil {
		return nil, nil
	}
	shown := *out
	var err error
	shown.Output, _, err = s.opt.Privacy.In(cmp.Or(user, DefaultUser), cmp.Or(session, out.RunID)).RestoreJSON(ctx, out.Output)
	return &shown, err
}

// Forget removes the workspace and the tokens of a session.
func (s *Service) Forget(ctx context.Context, user, session string) error {
	work, err := s.opt.Workspace()
	if err != nil {
		return err
	}
	return errors.Join(work.Remove(user, session), s.opt.Privacy.Forget(ctx, user, session))
}
