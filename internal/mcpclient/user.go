package mcpclient

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/credentials"
)

// localUser is the user of the command line, whose credentials are used when a request names no user.
const localUser = "local"

const (
	maxUsers = 1000             // maximum number of users with their own connections to one server
	maxIdle  = 15 * time.Minute // idle time after which the connection of a user is ended
)

// root returns the server that knows the tools: the parent, or s itself if it has none.
func (s *server) root() *server {
	if s.parent != nil {
		return s.parent
	}
	return s
}

// serverOf returns the server with the given name, for the given user.
func (m *Manager) serverOf(user, name string) (*server, error) {
	s, err := m.server(name)
	if err != nil {
		return nil, err
	}
	return s.of(user)
}

// of returns the server for a user: s itself, unless each user has their own. An empty user is the user of the command line.
func (s *server) of(user string) (*server, error) {
	user = cmp.Or(user, localUser)
	if !s.cfg.PerUser || !s.cfg.usable() {
		return s, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u, known := s.users[user]
	if !known {
		s.endIdle()
		if s.life.Err() != nil {
			return nil, s.unavailable("its connection was closed for good")
		}
		if len(s.users) >= maxUsers {
			return nil, s.unavailable(fmt.Sprintf("more than %d users use it at the same time", maxUsers))
		}
		u = &server{cfg: s.cfg, m: s.m, user: user, parent: s, calls: s.calls, state: StateIdle, since: time.Now()}
		u.life, u.end = context.WithCancel(s.life)
		s.users[user] = u
	}
	u.used = time.Now()
	return u, nil
}

// endIdle ends each server of a user that was not used for maxIdle and has nothing in flight. The caller holds s.mu.
func (s *server) endIdle() {
	maps.DeleteFunc(s.users, func(_ string, u *server) bool {
		idle := time.Since(u.used) > maxIdle && u.inFlight.Load() == 0
		if idle && s.life.Err() == nil {
			s.work.Go(func() { _ = u.shutdown(s.life) })
		}
		return idle
	})
}

// start connects the server for a user.
func (s *server) start(ctx context.Context, user string) error {
	u, err := s.of(user)
	if err == nil {
		_, err = u.connect(ctx, false)
	}
	return err
}

// snapshotOf returns the present state and tools of the server for a user.
func (s *server) snapshotOf(user string) Server {
	of := s.snapshot()
	s.mu.Lock()
	u := s.users[cmp.Or(user, localUser)]
	s.mu.Unlock()
	if u == nil {
		return of
	}
	theirs := u.snapshot().Status
	of.State, of.Reason, of.Since, of.Restarts, of.RetryAt = theirs.State, theirs.Reason, theirs.Since, theirs.Restarts, theirs.RetryAt
	of.Transport, of.Conn, of.Scopes, of.Refusal = theirs.Transport, theirs.Conn, theirs.Scopes, theirs.Refusal
	return of
}

// authorized returns an error if there are no credentials. It is called before the first request.
func (s *server) authorized(ctx context.Context) error {
	if s.cfg.Credentials == nil {
		return nil
	}
	if _, _, err := s.cfg.Credentials.Header(ctx, s.user); err != nil {
		return unauthorized(err, nil)
	}
	return nil
}

// awaitLogin records that a person has to log in. The next use looks for the credentials again. The caller holds s.mu.
func (s *server) awaitLogin(needs *credentials.NeedsLogin) {
	reason := needs.Error()
	if needs.Reason != "" {
		reason += "; " + needs.Reason
	}
	if s.state != StateNeedsLogin || s.reason != reason {
		s.m.opts.Logger.Info("server needs login", "server", s.cfg.Name)
	}
	s.setState(StateNeedsLogin, reason)
	s.scopes, s.retryAt, s.failures = slices.Clone(needs.Scopes), time.Time{}, 0
}

// needLogin records that a request on a connection failed because a login is missing. If the server only asks for more scopes, the connection
// stays, because the server still accepts other requests.
func (s *server) needLogin(c *conn, needs *credentials.NeedsLogin, status int) {
	if status == http.StatusForbidden {
		s.mu.Lock()
		s.scopes = slices.Clone(needs.Scopes)
		s.mu.Unlock()
		return
	}
	s.retire(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() == nil && s.conn == nil && s.attempt == nil {
		s.awaitLogin(needs)
	}
}
