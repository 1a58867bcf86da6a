package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
		Started: r.Started.UTC(), Duration: float64(r.Duration.Microseconds()) / 1000,
	}
	if !r.Ended.IsZero() {
		ended := r.Ended.UTC()
		line.Ended = &ended
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
	Sandbox   string   `json:"sandbox,omitempty" doc:"The tier that the server is configured with; another one is refused."`
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
	Next    int64            `json:"next,omitempty" doc:"The cursor of the next page; absent behind the last record of a run that has ended."`
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

// keyLength is how much of the id that keyedID makes stands for the key; the rest stands for the request.
const keyLength = 14

// keyedID is the id of what a request with an Idempotency-Key makes: the same for the same caller, key and request.
func keyedID(prefix, caller, key string, request any) string {
	text, _ := json.Marshal(request) // what was decoded from JSON
	of := func(parts ...string) string {
		sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
		return hex.EncodeToString(sum[:])
	}
	return prefix + of(caller, key)[:keyLength] + of(string(text))[:20-keyLength]
}

// sameKey says whether ids that keyedID made are of the same key; the error wraps task.ErrIdempotency if the requests differ.
func sameKey(prefix, id, other string) (bool, error) {
	switch end := len(prefix) + keyLength; {
	case len(other) != len(id) || other[:end] != id[:end]:
		return false, nil
	case other != id:
		return false, task.ErrIdempotency
	}
	return true, nil
}

// repeated returns the outcome of the run that an earlier request with the same key made; nil if there is none.
func (a *API) repeated(ctx context.Context, id string) (*run.Outcome, error) {
	info, err := a.opt.Harness.Runs().Match(ctx, id[:len("run_")+keyLength])
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		_, err = sameKey("run_", id, info.ID)
	}
	if err == nil && info.Ended.IsZero() {
		err = task.ErrBusy
	}
	if err != nil {
		return nil, err
	}
	visitOf(ctx).run = id
	out, _, err := a.opt.Harness.Runs().Recorded(ctx, id)
	return out, err
}

func (a *API) addRuns() {
	operation(a, huma.Operation{
		OperationID: "createRun", Method: http.MethodPost, Path: "/v1/runs", Tags: []string{"runs"},
		Summary: "Run a program", Description: "Runs code without a model and answers when it has ended.",
	}, func(ctx context.Context, in *struct {
		Key  string `header:"Idempotency-Key" maxLength:"200" doc:"A repeated request with the same key returns the first one's outcome. The run goes on if its caller goes away."`
		Body NewRun
	},
	) (*body[RunOutcome], error) {
		user, err := actFor(ctx, in.Body.UserID)
		if err == nil {
			err = invalid(a.opt.Harness.Runs().CheckTier(in.Body.Sandbox))
		}
		if err == nil {
			err = a.take(ctx)
		}
		if err != nil {
			return nil, err
		}
		var known string
		if in.Key != "" {
			var stop context.CancelFunc
			ctx, stop = context.WithCancel(context.WithoutCancel(ctx))
			defer stop()
			defer context.AfterFunc(a.closing, stop)()
			in.Body.UserID = user
			known = keyedID("run_", identity(ctx).Caller(), in.Key, in.Body)
			out, err := a.repeated(ctx, known)
			if err != nil {
				return nil, err
			}
			if out != nil {
				return &body[RunOutcome]{outcomeOf(out)}, nil
			}
		}
		out, err := a.createRun(ctx, identity(ctx), runs.Request{
			ID: known, Code: in.Body.Code, User: user, Session: in.Body.SessionID, Timeout: time.Duration(in.Body.Timeout),
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
		info, err := a.findRun(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		recorded, start, err := a.opt.Harness.Runs().Recorded(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if recorded == nil {
			recorded = &run.Outcome{RunID: in.ID, Status: "running", Output: json.RawMessage("null"), Sandbox: info.Tier, Calls: info.Calls}
		}
		line := lineOf(info)
		return &body[RunDetails]{RunDetails{
			outcomeOf(recorded), line.UserID, line.SessionID, start.Source, line.Started, line.Ended,
		}}, nil
	})

	operation(a, huma.Operation{
		OperationID: "getJournal", Method: http.MethodGet, Path: "/v1/runs/{id}/journal", Tags: []string{"runs"},
		Summary:     "The journal of a run, by pages",
		Description: "Every host call and its answer, every console line, and the outcome, in order. A page ends early where records are large.",
	}, func(ctx context.Context, in *struct {
		RunPath
		Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
		Cursor int64 `query:"cursor" minimum:"0" doc:"next of the page before."`
	},
	) (*body[Journal], error) {
		if _, err := a.findRun(ctx, in.ID); err != nil {
			return nil, err
		}
		records, err := a.opt.Harness.Runs().JournalPage(ctx, in.ID, in.Cursor, in.Limit)
		out := Journal{Records: list(records)}
		if n := len(records); n > 0 && records[n-1].End == nil {
			out.Next = records[n-1].Seq
		}
		return &body[Journal]{out}, err
	})

	operation(a, huma.Operation{
		OperationID: "replayRun", Method: http.MethodPost, Path: "/v1/runs/{id}/replay", Tags: []string{"runs"}, Summary: "Run a recorded program again",
		Description: "Every call is answered from the journal; no server is contacted. A difference is an error of kind diverged.",
	}, func(ctx context.Context, in *struct {
		RunPath
		Force bool `query:"force" doc:"Also what another engine recorded."`
	},
	) (*body[RunOutcome], error) {
		info, err := a.findRun(ctx, in.ID)
		if err == nil && info.Ended.IsZero() {
			err = task.ErrBusy
		}
		if err == nil {
			err = a.take(ctx)
		}
		if err != nil {
			return nil, err
		}
		leave, err := a.heavy.enter(ctx, identity(ctx).Caller())
		if err != nil {
			return nil, err
		}
		defer leave()
		records, err := a.opt.Harness.Runs().Journal(ctx, in.ID)
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
	req.ID = cmp.Or(req.ID, id.New("run"))
	visitOf(ctx).run = req.ID
	out, err := a.opt.Harness.Runs().Create(logged(ctx), who, req)
	if errors.Is(err, runs.ErrSession) {
		return nil, absent("session")
	}
	return out, invalid(err)
}

// invalid makes a problem of an error that wraps runs.ErrInvalid.
func invalid(err error) error {
	if errors.Is(err, runs.ErrInvalid) {
		return problem(http.StatusBadRequest, strings.TrimPrefix(err.Error(), runs.ErrInvalid.Error()+": "))
	}
	return err
}
