package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/input"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

// RunLine is a run in a list.
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
	Duration  run.Millis `json:"durationMs"`
}

func lineOf(r journal.RunInfo) RunLine {
	line := RunLine{
		ID: r.ID, UserID: r.User, SessionID: r.Session, Sandbox: r.Tier, Status: r.Status, Error: r.ErrorKind, Calls: r.Calls,
		Started: r.Started.UTC(), Duration: run.Millis(r.Duration),
	}
	if !r.Ended.IsZero() {
		ended := r.Ended.UTC()
		line.Ended = &ended
	}
	return line
}

// NewRun is the request for a run.
type NewRun struct {
	_         struct{}  `additionalProperties:"true"`
	UserID    string    `json:"userId,omitempty" maxLength:"100" doc:"The user; a key that is bound to a user may leave it out."`
	Code      string    `json:"code" minLength:"1" doc:"JavaScript or TypeScript."`
	SessionID string    `json:"sessionId,omitempty" maxLength:"100" doc:"The session whose /workspace the run uses."`
	Sandbox   string    `json:"sandbox,omitempty" doc:"Tier to run in: wasm, process or docker. A tier that is weaker than the configured one is refused."`
	Timeout   Duration  `json:"timeout,omitempty" doc:"How long the program may compute; at most sandbox.timeout, which is the default."`
	Input     *NewInput `json:"input,omitempty" doc:"What the program works on, as its global input."`
	Wait      *Duration `json:"wait,omitempty" doc:"How long to wait for the end of the run: after it, and once the run is stored, the answer is that of a running run, and the run goes on. By default until it has ended."`
}

// NewInput names the file that a program works on.
type NewInput struct {
	_      struct{} `additionalProperties:"true"`
	Path   string   `json:"path" minLength:"1" maxLength:"4096" doc:"A file in the session's /workspace."`
	Format string   `json:"format,omitempty" enum:"json,ndjson,csv,lines,text" doc:"By default the name or the beginning of the file says."`
}

// RunList is a page of runs.
type RunList struct {
	Runs []RunLine `json:"runs"`
	Next string    `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one."`
}

// RunDetails is a run with its program.
type RunDetails struct {
	run.Outcome
	UserID    string     `json:"userId"`
	SessionID string     `json:"sessionId,omitempty"`
	Code      string     `json:"code"`
	Started   time.Time  `json:"startedAt"`
	Ended     *time.Time `json:"endedAt,omitempty"`
}

// Journal is a page of the records of a run.
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

// keyedID is the id of the thing that a request with an Idempotency-Key creates.
type keyedID struct {
	id  string // id of the thing; it depends on the caller, the key and the request
	key string // beginning of id; it depends on the caller and the key only
}

func newKeyedID(prefix, caller, key string, request any) keyedID {
	text, _ := json.Marshal(request) // cannot fail: the request was decoded from JSON
	of := sha256.Sum256([]byte(caller + "\x00" + key))
	k := keyedID{key: prefix + hex.EncodeToString(of[:7])}
	of = sha256.Sum256(text)
	k.id = k.key + hex.EncodeToString(of[:3])
	return k
}

// made reports whether an earlier request with the same key created id. If the earlier request was different, the error is task.ErrIdempotency.
func (k keyedID) made(id string) (bool, error) {
	if !strings.HasPrefix(id, k.key) || len(id) != len(k.id) {
		return false, nil
	}
	if id != k.id {
		return false, task.ErrIdempotency
	}
	return true, nil
}

// repeated returns the outcome of the run that an earlier request with the same key created, or nil if no such run exists.
func (a *API) repeated(ctx context.Context, k keyedID) (*run.Outcome, error) {
	info, err := a.opt.Harness.Runs().Match(ctx, k.key)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		_, err = k.made(info.ID)
	}
	if err != nil {
		return nil, err
	}
	visitOf(ctx).run = k.id
	if out, err := a.opt.Harness.Runs().Waiting(ctx, k.id); out != nil || err != nil {
		return out, err
	}
	if info.Ended.IsZero() {
		return nil, task.ErrBusy
	}
	out, _, err := a.opt.Harness.Runs().Recorded(ctx, k.id)
	return out, err
}

func (a *API) addRuns() {
	operation(a, endpoint{
		"createRun", "POST /v1/runs", "runs", http.StatusOK, "Execute a program",
		"Executes code without a model and answers when it has ended, or waits for an approval: then it goes on by itself once that is decided.",
	}, func(ctx context.Context, in *struct {
		Key  string `header:"Idempotency-Key" maxLength:"200" doc:"A repeated request with the same key returns the first one's outcome. The run goes on if its caller goes away."`
		Body NewRun
	},
	) (*body[*run.Outcome], error) {
		user, err := actFor(ctx, in.Body.UserID)
		if err == nil && in.Body.Input != nil && in.Body.SessionID == "" {
			err = problem(http.StatusBadRequest, "input.path is a file of a session: give its sessionId")
		}
		if err == nil {
			err = a.take(ctx)
		}
		if err != nil {
			return nil, err
		}
		var known keyedID
		if in.Key != "" {
			var stop context.CancelFunc
			ctx, stop = context.WithCancel(context.WithoutCancel(ctx))
			defer stop()
			defer context.AfterFunc(a.closing, stop)()
			in.Body.UserID = user
			known = newKeyedID("run_", identity(ctx).Caller(), in.Key, in.Body)
			if out, err := a.repeated(ctx, known); out != nil || err != nil {
				return a.outcome(ctx, user, in.Body.SessionID, out, err)
			}
		}
		var given *runs.Input
		if in := in.Body.Input; in != nil {
			given = &runs.Input{Path: in.Path, Format: input.Format(in.Format)}
		}
		out, err := a.createRun(ctx, identity(ctx), runs.Request{
			Input: given, ID: known.id, Code: in.Body.Code, User: user, Session: in.Body.SessionID, Sandbox: in.Body.Sandbox, Timeout: time.Duration(in.Body.Timeout),
		}, in.Body.Wait)
		return a.outcome(ctx, user, in.Body.SessionID, out, err)
	})

	operation(a, endpoint{"listRuns", "GET /v1/runs", "runs", http.StatusOK, "List runs, newest first", ""}, func(ctx context.Context, in *struct {
		UserID    string `query:"userId"`
		SessionID string `query:"sessionId"`
		Status    string `query:"status" enum:"running,succeeded,failed,cancelled,waiting_approval"`
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

	operation(a, endpoint{"getRun", "GET /v1/runs/{id}", "runs", http.StatusOK, "A run", ""}, func(ctx context.Context, in *ByID) (*body[RunDetails], error) {
		info, err := a.findRun(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		recorded, start, err := a.opt.Harness.Runs().Recorded(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if recorded == nil {
			recorded, err = a.opt.Harness.Runs().Waiting(ctx, in.ID)
		}
		if err != nil {
			return nil, err
		}
		if recorded == nil {
			logs, err := a.opt.Harness.Runs().Console(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			recorded = &run.Outcome{RunID: in.ID, Status: running, Output: json.RawMessage("null"), Logs: logs, Sandbox: info.Tier, Calls: info.Calls}
		}
		line := lineOf(info)
		if recorded, err = a.shownOutcome(ctx, line.UserID, line.SessionID, recorded); err != nil {
			return nil, err
		}
		return &body[RunDetails]{RunDetails{
			*recorded, line.UserID, line.SessionID, start.Source, line.Started, line.Ended,
		}}, nil
	})

	operation(a, endpoint{
		"getJournal", "GET /v1/runs/{id}/journal", "runs", http.StatusOK, "The journal of a run, by pages",
		"Every host call and its answer, every console line, and the outcome, in order. A page ends early where records are large.",
	}, func(ctx context.Context, in *struct {
		ByID
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

	operation(a, endpoint{
		"replayRun", "POST /v1/runs/{id}/replay", "runs", http.StatusOK, "Execute a recorded run again",
		"Every call is answered from the journal; no server is contacted. A difference is an error of kind diverged.",
	}, func(ctx context.Context, in *struct {
		ByID
		Force bool `query:"force" doc:"Also replays a run of another engine."`
	},
	) (*body[*run.Outcome], error) {
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
		leave, err := a.enterReplay(ctx, identity(ctx).Caller())
		if err != nil {
			return nil, err
		}
		defer leave()
		replaying, cancel := context.WithTimeout(ctx, replayMost)
		defer cancel()
		records, err := a.opt.Harness.Runs().Journal(replaying, in.ID)
		if err != nil {
			return nil, err
		}
		out, err := a.opt.Harness.Runs().Replay(replaying, records, runs.Replay{Force: in.Force, Roles: identity(ctx).Roles})
		if replaying.Err() != nil && ctx.Err() == nil {
			return nil, problem(http.StatusGatewayTimeout, fmt.Sprintf("the replay took longer than %s: replay it with harness runs replay %s", replayMost, info.ID))
		}
		return a.outcome(ctx, info.User, info.Session, out, err)
	})
}

const (
	replayTurn = 3 * time.Second // maximum time for which a replay occupies one of the few slots for reading a journal
	replayMost = time.Minute     // maximum duration of a replay
)

// enterReplay waits for a slot for a replay. A caller can have one replay at a time. leave must be called when the replay has ended.
func (a *API) enterReplay(ctx context.Context, caller string) (leave func(), err error) {
	own, err := a.heavy.enter(ctx, caller)
	if err != nil {
		return nil, err
	}
	slot, err := a.loading.enter(ctx, caller)
	if err != nil {
		own()
		return nil, err
	}
	slot = sync.OnceFunc(slot)
	turn := time.AfterFunc(replayTurn, slot)
	return func() {
		turn.Stop()
		slot()
		own()
	}, nil
}

// outcome returns the answer with the outcome of a run, as the caller may see it. It returns err unchanged.
func (a *API) outcome(ctx context.Context, user, session string, out *run.Outcome, err error) (*body[*run.Outcome], error) {
	if err == nil {
		out, err = a.shownOutcome(ctx, user, session, out)
	}
	return &body[*run.Outcome]{out}, err
}

// createRun executes a program for a caller. It returns when the run ends. If wait is not nil, createRun waits at most that long, and until the store
// has the run; the run then continues without the request, until it ends or the server stops.
func (a *API) createRun(ctx context.Context, who auth.Identity, req runs.Request, wait *Duration) (*run.Outcome, error) {
	req.ID = cmp.Or(req.ID, id.New("run"))
	visitOf(ctx).run = req.ID
	if wait == nil {
		return a.opt.Harness.Runs().Create(logged(ctx), who, req)
	}
	asked := time.Now()
	type ended struct {
		out *run.Outcome
		err error
	}
	end, stored := make(chan ended, 1), make(chan struct{})
	req.Stored = func() { close(stored) }
	own := logged(context.WithoutCancel(ctx))
	a.busy.Add(1)
	go func() {
		defer a.busy.Add(-1)
		own, stop := context.WithCancel(own)
		defer stop()
		defer context.AfterFunc(a.closing, stop)()
		out, err := a.opt.Harness.Runs().Create(own, who, req)
		end <- ended{out, err}
	}()
	select {
	case e := <-end: // a program that cannot run is not stored before its end
		return e.out, e.err
	case <-stored:
	case <-ctx.Done():
	}
	most := time.NewTimer(time.Duration(*wait) - time.Since(asked))
	defer most.Stop()
	select {
	case e := <-end:
		return e.out, e.err
	case <-most.C:
	case <-ctx.Done():
	}
	return &run.Outcome{RunID: req.ID, Status: running, Output: json.RawMessage("null"), Logs: []run.Log{}, Sandbox: req.Sandbox}, nil
}

// running is the status of a run that has not ended.
const running = "running"
