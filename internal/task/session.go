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
)

// CreateSession adds a session of a user; an empty id is chosen. The error wraps ErrExists if the id is taken.
func (s *Service) CreateSession(ctx context.Context, user, name string) (Session, error) {
	if name == "" {
		name = id.New("sess")
	}
	if err := checkSession(name); err != nil {
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

// DeleteSession cancels a session's tasks and forgets everything of it: history, runs and workspace.
func (s *Service) DeleteSession(ctx context.Context, id string) error {
	session, err := s.opt.Store.Session(ctx, id, s.opt.Now())
	if err != nil {
		return err
	}
	if err := s.cancelAll(ctx, id); err != nil {
		return fmt.Errorf("cancel the tasks of session %s: %w", id, err)
	}
	return s.forget(ctx, session)
}

// cancelAll ends a session's tasks and waits until they have ended.
func (s *Service) cancelAll(ctx context.Context, session string) error {
	f := Filter{SessionID: session, Limit: 1000}
	for {
		tasks, next, err := s.opt.Store.Tasks(ctx, f)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			if t.Status.Ended() {
				continue
			}
			if _, err := s.Cancel(ctx, t.ID); err != nil && !errors.Is(err, ErrEnded) {
				return err
			}
			if _, err := s.Wait(ctx, t.ID); err != nil {
				return err
			}
		}
		if f.Cursor = next; next == "" {
			return nil
		}
	}
}

func (s *Service) forget(ctx context.Context, session Session) error {
	if err := s.opt.Store.DeleteSession(ctx, session.ID); err != nil {
		return err
	}
	return s.opt.Forget(ctx, session.UserID, session.ID)
}

// expireSessions forgets sessions that nobody has used for long.
func (s *Service) expireSessions(ctx context.Context) {
	expire := func() {
		for {
			sessions, err := s.opt.Store.ExpiredSessions(ctx, s.opt.Now(), expireBatch)
			for _, session := range sessions {
				err = errors.Join(err, s.forget(ctx, session))
			}
			if err != nil && ctx.Err() == nil {
				s.opt.Logger.Error("forget expired sessions", "error", err)
			}
			if err != nil || len(sessions) < expireBatch {
				return
			}
		}
	}
	expire()
	every(ctx, lookForExpired, expire)
}
