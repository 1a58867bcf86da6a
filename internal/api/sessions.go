package api

import (
	"context"
	"net/http"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// SessionPath names a session.
type SessionPath struct {
	ID     string `path:"id" doc:"Session id."`
	UserID string `query:"userId" doc:"The session's user; needed if several users of the caller have a session of this id."`
}

// NewSession is the request for a session.
type NewSession struct {
	_      struct{} `additionalProperties:"true"`
	UserID string   `json:"userId,omitempty" maxLength:"100" doc:"The user; a key that is bound to a user may leave it out."`
	ID     string   `json:"id,omitempty" maxLength:"100" doc:"Letters, digits, '-', '_' and '.'; chosen when left out."`
}

// SessionList is a page of sessions.
type SessionList struct {
	Sessions []task.Session `json:"sessions"`
	Next     string         `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one."`
}

// ownSession returns a session of a user whom the caller may act for.
func (a *API) ownSession(ctx context.Context, in *SessionPath) (task.Session, error) {
	user, err := seeUser(ctx, in.UserID)
	if err != nil {
		return task.Session{}, err
	}
	found, _, err := a.opt.Tasks.Sessions(ctx, task.SessionFilter{UserID: user, ID: in.ID, Limit: 2})
	switch {
	case err != nil:
		return task.Session{}, err
	case len(found) == 0:
		return task.Session{}, absent("session")
	case len(found) > 1:
		return task.Session{}, problem(http.StatusBadRequest, "several users have a session of this id: give userId")
	}
	return found[0], nil
}

func (a *API) addSessions() {
	operation(a, endpoint{
		"createSession", "POST /v1/sessions", "sessions", http.StatusCreated, "Begin a conversation", "",
	}, func(ctx context.Context, in *body[NewSession]) (*created[task.Session], error) {
		user, err := actFor(ctx, in.Body.UserID)
		if err != nil {
			return nil, err
		}
		s, err := a.opt.Tasks.CreateSession(ctx, user, in.Body.ID)
		return &created[task.Session]{"/v1/sessions/" + s.ID, s}, err
	})

	operation(a, endpoint{"listSessions", "GET /v1/sessions", "sessions", http.StatusOK, "List conversations", ""}, func(ctx context.Context, in *struct {
		UserID string `query:"userId"`
		Paging
	},
	) (*body[SessionList], error) {
		user, err := seeUser(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		sessions, next, err := a.opt.Tasks.Sessions(ctx, task.SessionFilter{UserID: user, Limit: in.Limit, Cursor: in.Cursor})
		return &body[SessionList]{SessionList{list(sessions), next}}, err
	})

	operation(a, endpoint{"getSession", "GET /v1/sessions/{id}", "sessions", http.StatusOK, "A conversation", ""}, func(ctx context.Context, in *SessionPath) (*body[task.Session], error) {
		s, err := a.ownSession(ctx, in)
		return &body[task.Session]{s}, err
	})

	operation(a, endpoint{
		"deleteSession", "DELETE /v1/sessions/{id}", "sessions", http.StatusNoContent, "Forget a conversation",
		"Its tasks are cancelled; history, runs and workspace are deleted.",
	}, func(ctx context.Context, in *SessionPath) (*struct{}, error) {
		s, err := a.ownSession(ctx, in)
		if err != nil {
			return nil, err
		}
		a.audit(ctx, telemetry.Event{UserID: s.UserID, SessionID: s.ID, Type: telemetry.DataDeletion, Severity: telemetry.Low})
		defer a.layouts.forget(s.UserID, s.ID)
		return nil, a.opt.Tasks.DeleteSession(ctx, s.UserID, s.ID)
	})
}
