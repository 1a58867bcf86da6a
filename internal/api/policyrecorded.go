package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"mcp-code-exec-harness/internal/simulation"
)

// RecordedQuery selects recorded runs by query parameters, as RecordedRuns does in a body.
type RecordedQuery struct {
	UserID string    `query:"userId" maxLength:"100" doc:"Only runs of this user; by default those of the caller's user, or of all users for a caller who may act for all."`
	Since  time.Time `query:"since" doc:"Only runs that began since then."`
	Runs   int       `query:"runs" minimum:"1" maximum:"1000" default:"200" doc:"The newest so many runs."`
}

// Maximum number of rows in an answer.
const (
	maxTools = 1000
	maxFlows = 2000
)

// addRecordedPolicy adds the endpoints that show how the policy in effect and the presets decide recorded calls.
func (a *API) addRecordedPolicy() {
	operation(a, endpoint{
		"comparePresets", "GET /v1/policy/presets", "policy", http.StatusOK, "What each preset decides of recorded calls, and of each tool",
		"Takes the role approver. The rules of the configuration itself come before those of each preset. The same bounds hold as for POST /v1/policy/simulation; the answer has 1,000 tools.",
	}, func(ctx context.Context, in *RecordedQuery) (*body[*simulation.Comparison], error) {
		cfg, err := a.policyFor(ctx)
		if err != nil {
			return nil, err
		}
		source, within, leave, err := a.recorded(ctx, RecordedRuns(*in))
		if err != nil {
			return nil, err
		}
		defer leave()
		found, err := source.Compare(within, &cfg, maxTools)
		if err != nil {
			return nil, cmp.Or(context.Cause(within), err)
		}
		return &body[*simulation.Comparison]{found}, nil
	})

	operation(a, endpoint{
		"listFlows", "GET /v1/policy/flows", "policy", http.StatusOK, "Between which tools values went in recorded calls",
		"Takes the role approver. Counts the calls of each tool by who said the values in their arguments, and by what the policy in effect decides of them. Origins are not stored: they are found again in " +
			"the recorded answers and tasks of each session, as POST /v1/policy/simulation finds them, within the same bounds. The first 200 values of a call are looked at; the answer has 2,000 flows, and no values.",
	}, func(ctx context.Context, in *struct {
		RecordedQuery
		By string `query:"by" enum:"tool,server" default:"tool" doc:"What sources and destinations are."`
	},
	) (*body[*simulation.Flows], error) {
		cfg, err := a.policyFor(ctx)
		if err != nil {
			return nil, err
		}
		source, within, leave, err := a.recorded(ctx, RecordedRuns(in.RecordedQuery))
		if err != nil {
			return nil, err
		}
		defer leave()
		found, err := source.Flows(within, cfg.Compiled(cfg.Policy), in.By == "server", maxFlows)
		if err != nil {
			return nil, cmp.Or(context.Cause(within), err)
		}
		return &body[*simulation.Flows]{found}, nil
	})
}
