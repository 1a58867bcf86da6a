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

// CreateSession adds a session of a user; if its id is empty, a random one is used. The error wraps ErrExists if the id is taken.
func (s *Service) CreateSession(ctx context.Context, user, name string) (Session, error) {
	if name == "" {
		name = id.New("sess")
	}
	if err := errors.Join(checkUser(user), checkSession(name)); err != nil {
		return Session{}, err
	}
	session := s.newSession(user, name)
	return session, s.opt.Store.CreateSession(ctx, session)
}

func (s *Service) newSession(user, name string) Session {
	now := s.opt.Now()
	return Session{ID: name, UserID: user, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(s.opt.SessionExpiry)}
}

// EnterSession records that a run without a task uses a user's session, see Store.EnterSession. It creates the session if it is absent.
func (s *Service) EnterSession(ctx context.Context, user, name string) (leave func(), err error) {
	leave, err = s.opt.Uses.Enter(ctx, user, name)
	if errors.Is(err, ErrNotFound) {
		if _, err := s.CreateSession(ctx, user, name); err != nil && !errors.Is(err, ErrExists) {
			return nil, err
		}
		leave, err = s.opt.Uses.Enter(ctx, user, name) // after ErrExists too: another request has created it
	}
	return leave, err
}

// Sessions lists sessions, newest first.
func (s *Service) Sessions(ctx context.Context, f SessionFilter) (sessions []Session, next string, err error) {
	f.Now = s.opt.Now()
	return s.opt.Store.Sessions(ctx, f)
}

// DeleteSession cancels a session's tasks and deletes its history, runs and workspace. If a run without a task uses the session, or new tasks are
// added again and again, nothing is deleted and the error wraps ErrBusy. What remains after a failure is invisible, and is deleted with the expired
// sessions.
func (s *Service) DeleteSession(ctx context.Context, user, id string) error {
	session, err := s.opt.Store.Session(ctx, user, id, s.opt.Now())
	if err != nil {
		return err
	}
	for try := range deleteTries {
		if err := s.cancelAll(ctx, session); err != nil {
			return fmt.Errorf("cancel the tasks of session %s: %w", id, err)
		}
		s.opt.Uses.End(user, id)
		if err = s.forget(ctx, session, time.Time{}); !errors.Is(err, ErrBusy) {
			break
		}
		if try == 0 { // another process may keep the session in use for maxUse after its last run there has ended
			select {
			case <-time.After(maxUse):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	if err != nil {
		return err
	}
	return s.endSchedules(ctx, session)
}

// endSchedules deletes the schedules that would create a deleted session again.
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

// cancelAll cancels a session's tasks and waits until they have ended. It cancels the waiting tasks first, so that none of them begins.
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

// forget closes and deletes the session. If the session is in use, or if expired is not zero and the session expires later, nothing changes and the
// error wraps ErrBusy. The files are deleted first and the session in the store last, because no process would find the files without the session.
func (s *Service) forget(ctx context.Context, session Session, expired time.Time) error {
	if err := s.opt.Store.CloseSession(ctx, session, expired); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.opt.Forget(ctx, session.UserID, session.ID); err != nil {
		return errors.Join(err, s.opt.Store.AbandonSession(ctx, session.UserID, session.ID))
	}
	err := s.opt.Store.DeleteSession(ctx, session.UserID, session.ID)
	if errors.Is(err, ErrNotFound) { // another process found the session closed and has deleted it
		return nil
	}
	return err
}

// expire deletes expired sessions.
func (s *Service) expire(ctx context.Context) {
	var left []Session // sessions that could not be deleted; the next list leaves them out, so that other sessions get their turn
	for more := true; more && ctx.Err() == nil; {
		now := s.opt.Now()
		sessions, err := s.opt.Store.ExpiredSessions(ctx, now, left, expireBatch)
		more = len(sessions) == expireBatch
		for _, session := range sessions {
			failed := s.forget(ctx, session, now)
			if failed == nil {
				continue
			}
			left = append(left, session)
			if !errors.Is(failed, ErrBusy) && !errors.Is(failed, ErrNotFound) { // ErrBusy: used again; ErrNotFound: deleted meanwhile
				err = errors.Join(err, failed)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("forget expired sessions", "error", err)
		}
	}
}
