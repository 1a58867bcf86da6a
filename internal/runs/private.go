package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
)

// Shown returns the outcome of a run as its owner sees it, with values in place of tokens. A run without a session has tokens of its own.
func (s *Service) Shown(ctx context.Context, user, session string, out *run.Outcome) (*run.Outcome, error) {
	if out == nil {
		return nil, nil
	}
	shown := *out
	var err error
	shown.Output, _, err = s.tokens(user, session, out.RunID).RestoreJSON(ctx, out.Output)
	return &shown, err
}

// ShownCall returns a call of a run as the owner of the run sees it, with values in place of tokens.
func (s *Service) ShownCall(ctx context.Context, of journal.RunInfo, c Call) (Call, error) {
	tokens := s.tokens(of.User, of.Session, of.ID)
	for _, text := range []*json.RawMessage{&c.Arguments, &c.Result} {
		if len(*text) == 0 {
			continue
		}
		var err error
		if *text, _, err = tokens.RestoreJSON(ctx, *text); err != nil {
			return c, err
		}
	}
	var err error
	if c.Message, err = tokens.Restore(ctx, c.Message); err == nil && c.Settlement != nil {
		settled := *c.Settlement
		settled.Note, err = tokens.Restore(ctx, settled.Note)
		c.Settlement = &settled
	}
	return c, err
}

// tokens returns the privacy session with the tokens of a run.
func (s *Service) tokens(user, session, runID string) pii.Session {
	return s.opt.Privacy.In(cmp.Or(user, DefaultUser), cmp.Or(session, runID))
}

// Forget removes the workspace and the tokens of a session.
func (s *Service) Forget(ctx context.Context, user, session string) error {
	work, err := s.opt.Workspace()
	if err != nil {
		return err
	}
	return errors.Join(work.Remove(user, session), s.opt.Privacy.Forget(ctx, user, session))
}
