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

// EnterSession notes that a user's session is used by a run of no task; one that is not there is begun. Until leave is called,
// once, it is neither deleted nor forgotten, and it then lasts as if it had been used just now. The error wraps ErrNotFound for
// a session that is another user's or has expired.
func (s *Service) EnterSession(ctx context.Context, user, name string) (leave func(), err error) {
	end, err := s.opt.Store.EnterSession(ctx, user, name, s.opt.Now())
	if errors.Is(err, ErrNotFound) {
		if _, err := s.CreateSession(ctx, user, name); err != nil && !errors.Is(err, ErrExists) {
			return nil, err
		}
		end, err = s.opt.Store.EnterSession(ctx, user, name, s.opt.Now()) // ErrExists: another request may have been faster
	}
	if err != nil {
		return nil, err
	}
	return func() {
		if err := end(context.WithoutCancel(ctx), s.opt.Now()); err != nil {
			s.opt.Logger.Error("note the use of a session", "session", name, "error", err)
		}
	}, nil
}

// Session returns a user's session; the error wraps ErrNotFound.
func (s *Service) Session(ctx context.Context, user, id string) (Session, error) {
	return s.opt.Store.Session(ctx, user, id, s.opt.Now())
}

// Sessions lists sessions, newest first.
func (s *Service) Sessions(ctx context.Context, f SessionFilter) (sessions []Session, next string, err error) {
	f.Now = s.opt.Now()
	return s.opt.Store.Sessions(ctx, f)
}

// DeleteSession cancels a session's tasks and forgets everything of it: history, runs and workspace. The error wraps
// ErrBusy, and nothing is lost, while a run is under way that is no task's, or new tasks come again and again. What a failure
// leaves is gone for its user, and forgotten with the expired sessions.
func (s *Service) DeleteSession(ctx context.Context, user, id string) error {
	session, err := s.opt.Store.Session(ctx, user, id, s.opt.Now())
	if err != nil {
		return err
	}
	for range deleteTries {
		if err := s.cancelAll(ctx, session); err != nil {
			return fmt.Errorf("cancel the tasks of session %s: %w", id, err)
		}
		if err = s.forget(ctx, session); !errors.Is(err, ErrBusy) {
			break
		}
	}
	if err != nil {
		return err
	}
	return s.endSchedules(ctx, session)
}

// endSchedules ends those that would make a session again that its user has deleted.
func (s *Service) endSchedules(ctx context.Context, session Session) error {
	all, err := s.opt.Store.Schedules(ctx, session.UserID)
	for _, sched := range all {
		if sched.SessionID == session.ID && err == nil {
			err = s.opt.Store.DeleteSchedule(ctx, sched.ID)
		}
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("end the schedules of session %s: %w", session.ID, err)
	}
	return nil
}

// cancelAll ends a session's tasks and waits until they have ended; those that wait first, so that none begins.
func (s *Service) cancelAll(ctx context.Context, session Session) error {
	for _, status := range []Status{Queued, WaitingApproval, Running} {
		for {
			tasks, _, err := s.opt.Store.Tasks(ctx, Filter{UserID: session.UserID, SessionID: session.ID, Status: status})
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

// forget lets the store decide first, whether anything uses the session. Then the files go, and what the store has of it last:
// once that is gone, nobody would know of the files.
func (s *Service) forget(ctx context.Context, session Session) error {
	if err := s.opt.Store.CloseSession(ctx, session.UserID, session.ID); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.opt.Forget(ctx, session.UserID, session.ID); err != nil {
		return err
	}
	err := s.opt.Store.DeleteSession(ctx, session.UserID, session.ID)
	if errors.Is(err, ErrNotFound) { // somebody else who found it closed was faster
		return nil
	}
	return err
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
