package runs

import (
	"context"
	"errors"
	"fmt"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/usage"
)

// Create executes a program for a caller, who must be allowed to act for req.User. If the request names a session that is absent, Create creates
// the session. Errors wrap auth.ErrForbidden or ErrSession, or are an InvalidError.
func (s *Service) Create(ctx context.Context, who auth.Identity, req Request) (out *run.Outcome, err error) {
	if err := who.ActFor(req.User); err != nil {
		return nil, err
	}
	req.Principal, req.Roles = who.Principal, who.Roles
	if err := checkEnv(req.Env); err != nil {
		return nil, err
	}
	asked := req
	asked.Timeout = 0
	switch most := s.limits(asked).Timeout; {
	case req.Timeout <= most:
	case most < s.opt.Limits.Timeout:
		return nil, InvalidError(fmt.Sprintf("timeout is longer than policy.runs allows, which is %s", most))
	default:
		return nil, InvalidError(fmt.Sprintf("timeout is longer than sandbox.timeout, which is %s", most))
	}
	if req.Sandbox, err = s.tierFor(req.User, req.Roles, req.Sandbox); err != nil {
		return nil, err
	}
	leave, err := s.enter(ctx, req.User, req.Session)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.Execute(ctx, req)
}

// enter begins the use of a session; the caller calls leave to end it.
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

// Find returns a run of a user whom the caller may act for. For any other run, the error wraps journal.ErrNotFound.
func (s *Service) Find(ctx context.Context, who auth.Identity, id string) (journal.RunInfo, error) {
	info, err := stored(s, func(store Store) (journal.RunInfo, error) { return store.Run(ctx, id) })
	if err == nil && who.ActFor(info.User) != nil {
		return journal.RunInfo{}, fmt.Errorf("run %q: %w", id, journal.ErrNotFound)
	}
	return info, err
}

// Match returns the run that Store.MatchRun finds, whatever its user.
func (s *Service) Match(ctx context.Context, prefix string) (journal.RunInfo, error) {
	return stored(s, func(store Store) (journal.RunInfo, error) { return store.MatchRun(ctx, prefix) })
}

// List lists runs as Store.Runs does. An empty f.User means the caller's user; it means every user if the caller may act for all users.
func (s *Service) List(ctx context.Context, who auth.Identity, f journal.Filter) (runs []journal.RunInfo, next string, err error) {
	if f.User == "" {
		f.User = who.User
	} else if err := who.ActFor(f.User); err != nil {
		return nil, "", err
	}
	store, err := s.opt.Store()
	if err != nil {
		return nil, "", err
	}
	return store.Runs(ctx, f)
}

// Usage returns the report of Store.Usage. An empty q.User means the caller's user; it means all users if the caller may act for all users.
func (s *Service) Usage(ctx context.Context, who auth.Identity, q usage.Query) (*usage.Report, error) {
	if q.User == "" {
		q.User = who.User
	} else if err := who.ActFor(q.User); err != nil {
		return nil, err
	}
	store, err := s.opt.Store()
	if err != nil {
		return nil, err
	}
	return store.Usage(ctx, q)
}
