package api

import (
	"context"
	"errors"
	"net/http"

	"mcp-code-exec-harness/internal/runs"
)

// Program is a program to check.
type Program struct {
	_         struct{} `additionalProperties:"true"`
	UserID    string   `json:"userId,omitempty" maxLength:"100" doc:"The user; a key that is bound to a user may leave it out."`
	Code      string   `json:"code" minLength:"1" doc:"JavaScript or TypeScript."`
	SessionID string   `json:"sessionId,omitempty" maxLength:"100" doc:"The session whose /workspace a run of it would use. One that does not exist is not created."`
}

// Checked holds the problems that a check has found in a program.
type Checked struct {
	Problems []runs.Finding `json:"problems"`
}

func (a *API) addCheck() {
	operation(a, endpoint{
		"checkProgram", "POST /v1/programs/check", "runs", http.StatusOK, "Check a program without running it",
		"What a run of the program would end with before it begins, and what it would warn of: syntax, imports, and tools, arguments and fields that do not exist. " +
			"Nothing is executed or recorded. A caller has one check at a time; it is counted as a request, not as one for work, and ends with its connection.",
	}, func(ctx context.Context, in *body[Program]) (*body[Checked], error) {
		user, err := actFor(ctx, in.Body.UserID)
		if err != nil {
			return nil, err
		}
		req := runs.Request{Code: in.Body.Code, User: user, Session: in.Body.SessionID}
		if req.Session != "" {
			_, err := a.ownSession(ctx, &SessionPath{ID: req.Session, UserID: user})
			var none *Problem
			switch {
			case errors.As(err, &none) && none.Status == http.StatusNotFound:
				req.Session = ""
			case err != nil:
				return nil, err
			}
		}
		leave, err := a.checks.enter(ctx, identity(ctx).Caller())
		if err != nil {
			return nil, err
		}
		defer leave()
		found, err := a.opt.Harness.Runs().Check(ctx, identity(ctx), req)
		return &body[Checked]{Checked{list(found)}}, err
	})
}
