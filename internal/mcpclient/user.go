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
	maxUsers = 1000             // most users with connections of their own to one server
	maxIdle  = 15 * time.Minute // after which the connection of a user is ended
)

// root is the server that knows the tools.
func (s *server) root() *server {
	if s.parent != nil {
		return s.parent
	}
	return s
}

// serverOf finds a server as a user has it.
func (m *Manager) serverOf(user, name string) (*server, error) {
	s, err := m.server(name)
	if err != nil {
		return nil, err
	}
	return s.of(user)
}

// of returns the server as a user has it. An empty user is that of the command line.
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

// endIdle ends what users have not used for long; s.mu is held.
func (s *server) endIdle() {
	maps.DeleteFunc(s.users, func(_ string, u *server) bool {
		idle := time.Since(u.used) > maxIdle && u.inFlight.Load() == 0
		if idle && s.life.Err() == nil {
			s.work.Go(func() { _ = u.shutdown(s.life) })
		}
		return idle
	})
}

// start connects the server as a user has it.
func (s *server) start(ctx context.Context, user string) error {
	u, err := s.of(user)
	if err == nil {
		_, err = u.connect(ctx, false)
	}
	return err
}

// snapshotOf describes the server as a user has it.
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

// authorized finds out whether there are credentials, before anything is sent.
func (s *server) authorized(ctx context.Context) error {
	if s.cfg.Credentials == nil {
		return nil
	}
	if _, _, err := s.cfg.Credentials.Header(ctx, s.user); err != nil {
		return unauthorized(err, nil)
	}
	return nil
}

// awaitLogin notes that a person has to log in; s.mu is held. The next use looks for the credentials again.
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

// needLogin notes that a request on a connection was not made for want of a login. The connection stays if the server asks for more scopes:
// it takes other requests.
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
