package api

import (
	"cmp"
	"context"
	"net/http"

	"mcp-code-exec-harness/internal/simulation"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// maxFields is the maximum number of fields in an answer.
const maxFields = 500

// TokenStats counts tokens of personal data.
type TokenStats struct {
	Count int64            `json:"tokenCount"`
	Types map[string]int64 `json:"types" doc:"Tokens by type, such as EMAIL."`
	// Recorded is nil unless the request has by=field.
	Recorded *simulation.Hidden `json:"recorded,omitempty" doc:"With by=field: where recorded answers of tools have tokens."`
}

// OfSession names a session of a user.
type OfSession struct {
	UserID    string `query:"userId" doc:"The user; a key that is bound to a user may leave it out."`
	SessionID string `query:"sessionId" maxLength:"100"`
}

func (a *API) addPII() {
	operation(a, endpoint{
		"countTokens", "GET /v1/pii/stats", "pii", http.StatusOK, "Count tokens of personal data",
		"Of one session, or of all sessions of a user. With by=field also where recorded answers of tools have them: the newest runs are read, within the bounds of POST /v1/policy/simulation.",
	}, func(ctx context.Context, in *struct {
		OfSession
		By   string `query:"by" enum:"type,field" default:"type" doc:"field: also by tool and field of recorded answers."`
		Runs int    `query:"runs" minimum:"1" maximum:"1000" default:"200" doc:"With by=field, the newest so many runs."`
	},
	) (*body[TokenStats], error) {
		user, err := actFor(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		types, err := a.opt.Harness.Privacy().Stats(ctx, user, in.SessionID)
		stats := TokenStats{Types: types}
		for _, n := range types {
			stats.Count += n
		}
		if err != nil || in.By != "field" {
			return &body[TokenStats]{stats}, err
		}
		source, within, leave, err := a.recorded(ctx, RecordedRuns{UserID: user, Runs: in.Runs})
		if err != nil {
			return nil, err
		}
		defer leave()
		source.Bounds.Session = in.SessionID
		if stats.Recorded, err = source.Hidden(within, maxFields); err != nil {
			return nil, cmp.Or(context.Cause(within), err)
		}
		return &body[TokenStats]{stats}, nil
	})

	operation(a, endpoint{
		"forgetTokens", "DELETE /v1/pii", "pii", http.StatusNoContent, "Forget the values of a session's tokens",
		"What was recorded keeps the tokens, which stand for nothing from then on. 409 while a task of the session has not ended.",
	}, func(ctx context.Context, in *OfSession) (*struct{}, error) {
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
