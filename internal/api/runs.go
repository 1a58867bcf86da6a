package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

// RunLine is what a list shows of a run.
type RunLine struct {
	ID        string     `json:"runId"`
	UserID    string     `json:"userId"`
	SessionID string     `json:"sessionId,omitempty"`
	Sandbox   string     `json:"sandbox"`
	Status    string     `json:"status"`
	Error     string     `json:"error,omitempty" doc:"Its kind."`
	Calls     int        `json:"calls"`
	Started   time.Time  `json:"startedAt"`
	Ended     *time.Time `json:"endedAt,omitempty"`
	Duration  float64    `json:"durationMs"`
}

func lineOf(r journal.RunInfo) RunLine {
	line := RunLine{
		ID: r.ID, UserID: r.User, SessionID: r.Session, Sandbox: r.Tier, Status: r.Status, Error: r.ErrorKind, Calls: r.Calls,
		Started: r.Started, Duration: float64(r.Duration.Microseconds()) / 1000,
	}
	if !r.Ended.IsZero() {
		line.Ended = &r.Ended
	}
	return line
}

// RunOutcome is how a run ended: what harness exec --json prints.
type RunOutcome struct {
	RunID    string          `json:"runId"`
	Status   string          `json:"status" enum:"running,succeeded,failed,cancelled,waiting_approval"`
	Output   json.RawMessage `json:"output"`
	Logs     []run.Log       `json:"logs"`
	Error    *run.Error      `json:"error,omitempty"`
	Effects  []run.Effect    `json:"effects,omitempty" doc:"What a run that did not succeed changed, or may have changed."`
	Calls    int             `json:"calls" doc:"Tool calls."`
	Duration float64         `json:"durationMs"`
	Sandbox  string          `json:"sandbox"`
}

func outcomeOf(o *run.Outcome) RunOutcome {
	return RunOutcome{
		RunID: o.RunID, Status: o.Status, Output: o.Output, Logs: list(o.Logs), Error: o.Error, Effects: o.Effects, Calls: o.Calls,
		Duration: float64(time.Duration(o.Duration).Microseconds()) / 1000, Sandbox: o.Sandbox,
	}
}

// RunPath names a run.
type RunPath struct {
	ID string `path:"id" doc:"Run id."`
}

// NewRun asks for a run.
type NewRun struct {
	_         struct{} `additionalProperties:"true"`
	UserID    string   `json:"userId,omitempty" maxLength:"100" doc:"Whose; a key that is bound to a user may leave it out."`
	Code      string   `json:"code" minLength:"1" doc:"JavaScript or TypeScript."`
	SessionID string   `json:"sessionId,omitempty" maxLength:"100" doc:"Keeps /workspace for later runs and tasks."`
	Sandbox   string   `json:"sandbox,omitempty" enum:"wasm"`
	Timeout   Duration `json:"timeout,omitempty" doc:"How long the program may compute: at most sandbox.timeout, which it is when left out."`
}

// RunList is a page of runs.
type RunList struct {
	Runs []RunLine `json:"runs"`
	Next string    `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one."`
}

// RunDetails is a run with its program.
type RunDetails struct {
	RunOutcome
	UserID    string     `json:"userId"`
	SessionID string     `json:"sessionId,omitempty"`
	Code      string     `json:"code"`
	Started   time.Time  `json:"startedAt"`
	Ended     *time.Time `json:"endedAt,omitempty"`
}

// Journal is what a run recorded.
type Journal struct {
	Records []journal.Record `json:"records"`
}

// findRun returns a run that the caller may see.
func (a *API) findRun(ctx context.Context, id string) (journal.RunInfo, error) {
	info, err := a.opt.Harness.Runs().Find(ctx, identity(ctx), id)
	if errors.Is(err, journal.ErrNotFound) {
		return info, absent("run")
	}
	visitOf(ctx).run = info.ID
	return info, err
}

// ownRun returns a run that the caller may see, and its journal.
func (a *API) ownRun(ctx context.Context, id string) (journal.RunInfo, []journal.Record, error) {
	info, err := a.findRun(ctx, id)
	if err != nil {
		return info, nil, err
	}
	records, err := a.opt.Harness.Runs().Journal(ctx, id)
	return info, records, err
}

func (a *API) addRuns() {
	operation(a, huma.Operation{
		OperationID: "createRun", Method: http.MethodPost, Path: "/v1/runs", Tags: []string{"runs"},
		Summary: "Run a program", Description: "Runs code without a model and answers when it has ended.",
	}, func(ctx context.Context, in *body[NewRun]) (*body[RunOutcome], error) {
		user, err := actFor(ctx, in.Body.UserID)
		if err == nil {
			err = a.take(ctx)
		}
		if err != nil {
			return nil, err
		}
		out, err := a.createRun(ctx, identity(ctx), runs.Request{
			Code: in.Body.Code, User: user, Session: in.Body.SessionID, Timeout: time.Duration(in.Body.Timeout),
		})
		if err != nil {
			return nil, err
		}
		return &body[RunOutcome]{outcomeOf(out)}, nil
	})

	operation(a, huma.Operation{
		OperationID: "listRuns", Method: http.MethodGet, Path: "/v1/runs", Tags: []string{"runs"}, Summary: "List runs, newest first",
	}, func(ctx context.Context, in *struct {
		UserID    string `query:"userId"`
		SessionID string `query:"sessionId"`
		Status    string `query:"status" enum:"running,succeeded,failed,cancelled"`
		Paging
	},
	) (*body[RunList], error) {
		infos, next, err := a.opt.Harness.Runs().List(ctx, identity(ctx), journal.Filter{
			User: in.UserID, Session: in.SessionID, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor,
		})
		out := &body[RunList]{RunList{[]RunLine{}, next}}
		for _, info := range infos {
			out.Body.Runs = append(out.Body.Runs, lineOf(info))
		}
		return out, err
	})

	operation(a, huma.Operation{
		OperationID: "getRun", Method: http.MethodGet, Path: "/v1/runs/{id}", Tags: []string{"runs"}, Summary: "A run",
	}, func(ctx context.Context, in *RunPath) (*body[RunDetails], error) {
		info, records, err := a.ownRun(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		recorded, err := run.Recorded(records)
		if err != nil {
			return nil, err
		}
		if recorded == nil {
			recorded = &run.Outcome{RunID: in.ID, Status: "running", Output: json.RawMessage("null"), Sandbox: info.Tier, Calls: info.Calls}
		}
		line := lineOf(info)
		return &body[RunDetails]{RunDetails{
			outcomeOf(recorded), line.UserID, line.SessionID, records[0].Start.Source, line.Started, line.Ended,
		}}, nil
	})

	operation(a, huma.Operation{
		OperationID: "getJournal", Method: http.MethodGet, Path: "/v1/runs/{id}/journal", Tags: []string{"runs"},
		Summary: "The journal of a run", Description: "Every host call and its answer, every console line, and the outcome, in order.",
	}, func(ctx context.Context, in *RunPath) (*body[Journal], error) {
		_, records, err := a.ownRun(ctx, in.ID)
		return &body[Journal]{Journal{records}}, err
	})

	operation(a, huma.Operation{
		OperationID: "replayRun", Method: http.MethodPost, Path: "/v1/runs/{id}/replay", Tags: []string{"runs"}, Summary: "Run a recorded program again",
		Description: "Every call is answered from the journal; no server is contacted. A difference is an error of kind diverged.",
	}, func(ctx context.Context, in *struct {
		RunPath
		Force bool `query:"force" doc:"Also what another engine recorded."`
	},
	) (*body[RunOutcome], error) {
		info, records, err := a.ownRun(ctx, in.ID)
		if err == nil && info.Ended.IsZero() {
			err = task.ErrBusy
		}
		if err == nil {
			err = a.take(ctx)
		}
		if err != nil {
			return nil, err
		}
		out, err := a.opt.Harness.Runs().Replay(ctx, records, "", in.Force, nil)
		if err != nil {
			return nil, err
		}
		return &body[RunOutcome]{outcomeOf(out)}, nil
	})
}

// createRun executes a program for a caller.
func (a *API) createRun(ctx context.Context, who auth.Identity, req runs.Request) (*run.Outcome, error) {
	req.ID = id.New("run")
	visitOf(ctx).run = req.ID
	out, err := a.opt.Harness.Runs().Create(logged(ctx), who, req)
	switch {
	case errors.Is(err, runs.ErrSession):
		return nil, absent("session")
	case errors.Is(err, runs.ErrInvalid):
		return nil, problem(http.StatusBadRequest, strings.TrimPrefix(err.Error(), runs.ErrInvalid.Error()+": "))
	}
	return out, err
}
