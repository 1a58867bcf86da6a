package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// Create executes a program for a caller, in the name of req.User. The caller must be allowed to act for that user, may
// not exceed the configured timeout, and uses the session of the request, which is created if it is absent. Errors wrap
// auth.ErrForbidden, ErrInvalid or ErrSession.
func (s *Service) Create(ctx context.Context, who auth.Identity, req Request) (*run.Outcome, error) {
	if err := who.ActFor(req.User); err != nil {
		return nil, err
	}
	if most := s.opt.Limits.Timeout; req.Timeout > most {
		return nil, fmt.Errorf("%w: timeout is longer than sandbox.timeout, which is %s", ErrInvalid, most)
	}
	leave, err := s.enter(ctx, req.User, req.Session)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.Execute(ctx, req)
}

// enter begins the use of a session; leave ends it.
func (s *Service) enter(ctx context.Context, user, session string) (leave func(), err error) {
	if session == "" {
		return func() {}, nil
	}
	sessions, err := s.opt.Sessions()
	if err != nil {
		return nil, err
	}
	leave, err = sessions.EnterSession(ctx, user, session)
	if errors.Is(err, task.ErrNotFound) {
		return nil, fmt.Errorf("session %q: %w", session, ErrSession)
	}
	return leave, err
}

// Find returns a run of a user for whom the caller may act. The error wraps journal.ErrNotFound also for a run of
// another user.
func (s *Service) Find(ctx context.Context, who auth.Identity, id string) (journal.RunInfo, error) {
	keep, err := s.opt.Store()
	if err != nil {
		return journal.RunInfo{}, err
	}
	info, err := keep.Run(ctx, id)
	if err == nil && who.ActFor(info.User) != nil {
		return journal.RunInfo{}, fmt.Errorf("run %q: %w", id, journal.ErrNotFound)
	}
	return info, err
}

// Match returns the run of an id or of the beginning of one that no other run shares, of any user. The error wraps
// journal.ErrNotFound, or names the candidates.
func (s *Service) Match(ctx context.Context, prefix string) (journal.RunInfo, error) {
	keep, err := s.opt.Store()
	if err != nil {
		return journal.RunInfo{}, err
	}
	return keep.MatchRun(ctx, prefix)
}

// List returns runs, newest first. An empty f.User is the user of the caller, or every user for a caller that may act
// for every user. next continues the list and is empty at its end.
func (s *Service) List(ctx context.Context, who auth.Identity, f journal.Filter) (runs []journal.RunInfo, next string, err error) {
	if f.User == "" {
		f.User = who.User
	} else if err := who.ActFor(f.User); err != nil {
		return nil, "", err
	}
	keep, err := s.opt.Store()
	if err != nil {
		return nil, "", err
	}
	return keep.Runs(ctx, f)
}

// Timeout is the configured bound of the time that a program may compute.
func (s *Service) Timeout() time.Duration { return s.opt.Limits.Timeout }

// CheckTier returns an error that wraps ErrInvalid for a tier of the sandbox that is not the configured one; "" is that.
func (s *Service) CheckTier(tier string) error {
	if tier == "" {
		return nil
	}
	pool, err := s.opt.Pool()
	if err != nil {
		return err
	}
	if has := pool.Info().Tier; tier != has {
		return fmt.Errorf("%w: sandbox: this server has %s", ErrInvalid, has)
	}
	return nil
}
