package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/task"
)

type sessionOutput struct{ Body task.Session }

type sessionPath struct {
	ID string `path:"id" doc:"Session id."`
}

func (a *API) ownSession(ctx context.Context, id string) (task.Session, error) {
	s, err := a.opt.Tasks.Session(ctx, id)
	if err == nil {
		err = own(ctx, s.UserID, "session "+id)
	}
	return s, err
}

func (a *API) addSessions() {
	huma.Register(a.doc, huma.Operation{
		OperationID: "createSession", Method: http.MethodPost, Path: "/v1/sessions", Tags: []string{"sessions"},
		Summary: "Begin a conversation", DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		Body struct {
			_      struct{} `additionalProperties:"true"`
			UserID string   `json:"userId,omitempty" maxLength:"100"`
			ID     string   `json:"id,omitempty" maxLength:"100" doc:"Letters, digits, '-', '_' and '.'; chosen when left out."`
		}
	}) (*struct {
		Location string `header:"Location"`
		Body     task.Session
	}, error,
	) {
		user, err := actFor(ctx, in.Body.UserID)
		if err != nil {
			return nil, a.fail(ctx, err)
		}
		s, err := a.opt.Tasks.CreateSession(ctx, user, in.Body.ID)
		if err != nil {
			return nil, a.fail(ctx, err)
		}
		return &struct {
			Location string `header:"Location"`
			Body     task.Session
		}{"/v1/sessions/" + s.ID, s}, nil
	})

	huma.Register(a.doc, huma.Operation{
		OperationID: "listSessions", Method: http.MethodGet, Path: "/v1/sessions", Tags: []string{"sessions"}, Summary: "List conversations",
	}, func(ctx context.Context, in *struct {
		UserID string `query:"userId"`
		paging
	}) (*struct {
		Body struct {
			Sessions []task.Session `json:"sessions"`
			Next     string         `json:"next,omitempty"`
		}
	}, error,
	) {
		user, err := seeUser(ctx, in.UserID)
		if err != nil {
			return nil, a.fail(ctx, err)
		}
		out := &struct {
			Body struct {
				Sessions []task.Session `json:"sessions"`
				Next     string         `json:"next,omitempty"`
			}
		}{}
		sessions, next, err := a.opt.Tasks.Sessions(ctx, task.SessionFilter{UserID: user, Limit: in.Limit, Cursor: in.Cursor})
		out.Body.Sessions, out.Body.Next = list(sessions), next
		return out, a.fail(ctx, err)
	})

	huma.Register(a.doc, huma.Operation{
		OperationID: "getSession", Method: http.MethodGet, Path: "/v1/sessions/{id}", Tags: []string{"sessions"}, Summary: "A conversation",
	}, func(ctx context.Context, in *sessionPath) (*sessionOutput, error) {
		s, err := a.ownSession(ctx, in.ID)
		return &sessionOutput{s}, a.fail(ctx, err)
	})

	huma.Register(a.doc, huma.Operation{
		OperationID: "deleteSession", Method: http.MethodDelete, Path: "/v1/sessions/{id}", Tags: []string{"sessions"},
		Summary: "Forget a conversation", Description: "Its tasks are cancelled; history, runs and workspace are deleted.",
		DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *sessionPath) (*struct{}, error) {
		if _, err := a.ownSession(ctx, in.ID); err != nil {
			return nil, a.fail(ctx, err)
		}
		return nil, a.fail(ctx, a.opt.Tasks.DeleteSession(ctx, in.ID))
	})
}
