package api

import (
	"context"
	"net/http"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// TokenStats counts tokens of personal data.
type TokenStats struct {
	Count int64            `json:"tokenCount"`
	Types map[string]int64 `json:"types" doc:"Tokens by type, such as EMAIL."`
}

// ofSession names a session of a user.
type ofSession struct {
	UserID    string `query:"userId" doc:"The user; a key that is bound to a user may leave it out."`
	SessionID string `query:"sessionId" maxLength:"100"`
}

func (a *API) addPII() {
	operation(a, endpoint{
		"countTokens", "GET /v1/pii/stats", "pii", http.StatusOK, "Count tokens of personal data", "Of one session, or of all sessions of a user.",
	}, func(ctx context.Context, in *ofSession) (*body[TokenStats], error) {
		user, err := actFor(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		types, err := a.opt.Harness.Privacy().Stats(ctx, user, in.SessionID)
		stats := TokenStats{Types: types}
		for _, n := range types {
			stats.Count += n
		}
		return &body[TokenStats]{stats}, err
	})

	operation(a, endpoint{
		"forgetTokens", "DELETE /v1/pii", "pii", http.StatusNoContent, "Forget the values of a session's tokens",
		"What was recorded keeps the tokens, which stand for nothing from then on. 409 while a task of the session has not ended.",
	}, func(ctx context.Context, in *ofSession) (*struct{}, error) {
		user, err := actFor(ctx, in.UserID)
		if err == nil && in.SessionID == "" {
			err = problem(http.StatusBadRequest, "sessionId is required")
		}
		for _, status := range []task.Status{task.Queued, task.Running, task.WaitingApproval} {
			if err != nil {
				return nil, err
			}
			var open []task.Task
			open, _, err = a.opt.Tasks.Tasks(ctx, task.Filter{UserID: user, SessionID: in.SessionID, Status: status, Limit: 1})
			if err == nil && len(open) > 0 {
				err = problem(http.StatusConflict, "task "+open[0].ID+" of this session has not ended")
			}
		}
		if err != nil {
			return nil, err
		}
		a.audit(ctx, telemetry.Event{UserID: user, SessionID: in.SessionID, Type: telemetry.DataDeletion, Severity: telemetry.Low})
		defer a.layouts.forget(user, in.SessionID)
		return nil, a.opt.Harness.Privacy().Clear(ctx, user, in.SessionID)
	})
}
