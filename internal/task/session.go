package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/id"
)

const (
	lookForExpired = 10 * time.Minute
	expireBatch    = 100
	deleteTries    = 3
)

// CreateSession adds a session of a user; an empty id is chosen. The error wraps ErrExists if the id is taken.
func (s *Service) CreateSession(ctx context.Context, user, name string) (Session, error) {
	if name == "" {
		name = id.New("sess")
	}
	if err := errors.Join(checkUser(user), checkSession(name)); err != nil {
		return Session{}, err
	}
	now := s.opt.Now()
	session := Session{ID: name, UserID: user, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(s.opt.SessionExpiry)}
	return session, s.opt.Store.CreateSession(ctx, session)
}

// Session returns a session; the error wraps ErrNotFound.
func (s *Service) Session(ctx context.Context, id string) (Session, error) {
	return s.opt.Store.Session(ctx, id, s.opt.Now())
}

// Sessions lists sessions, newest first.
func (s *Service) Sessions(ctx context.Context, f SessionFilter) (sessions []Session, next string, err error) {
	f.Now = s.opt.Now()
	return s.opt.Store.Sessions(ctx, f)
}

// DeleteSession cancels a session's tasks and forgets everything of it: history, runs and workspace. The error wraps
// ErrBusy while a run is under way that is no task's, or new tasks come again and again.
func (s *Service) DeleteSession(ctx context.Context, id string) error {
	session, err := s.opt.Store.Session(ctx, id, s.opt.Now())
	if err != nil {
		return err
	}
	for range deleteTries {
		if err := s.cancelAll(ctx, id); err != nil {
			return fmt.Errorf("cancel the tasks of session %s: %w", id, err)
		}
		if err = s.forget(ctx, session); !errors.Is(err, ErrBusy) {
			break
		}
	}
	return err
}

// cancelAll ends a session's tasks and waits until they have ended; those that wait first, so that none begins.
func (s *Service) cancelAll(ctx context.Context, session string) error {
	for _, status := range []Status{Queued, WaitingApproval, Running} {
		for {
			tasks, _, err := s.opt.Store.Tasks(ctx, Filter{SessionID: session, Status: status})
			if err != nil {
				return err
			}
			if len(tasks) == 0 {
				break
			}
			for _, t := range tasks {
				if _, err := s.Cancel(ctx, t.ID); err != nil && !errors.Is(err, ErrEnded) {
					return err
				}
				if _, err := s.Wait(ctx, t.ID); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// forget removes the files first: once the store has forgotten the session, nobody would know of them.
func (s *Service) forget(ctx context.Context, session Session) error {
	if err := s.opt.Forget(ctx, session.UserID, session.ID); err != nil {
		return err
	}
	return s.opt.Store.DeleteSession(ctx, session.ID)
}

// expireSessions forgets sessions that nobody has used for long.
func (s *Service) expireSessions(ctx context.Context) {
	s.expire(ctx)
	every(ctx, lookForExpired, func() { s.expire(ctx) })
}

func (s *Service) expire(ctx context.Context) {
	for more := true; more && ctx.Err() == nil; {
		sessions, err := s.opt.Store.ExpiredSessions(ctx, s.opt.Now(), expireBatch)
		forgotten := 0
		for _, session := range sessions {
			switch failed := s.forget(ctx, session); {
			case failed == nil:
				forgotten++
			case errors.Is(failed, ErrBusy), errors.Is(failed, ErrNotFound): // used again just now, or deleted by its user
			default:
				err = errors.Join(err, failed)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("forget expired sessions", "error", err)
		}
		more = forgotten == expireBatch
	}
}
