package api

import (
	"context"
	"errors"
	"net/http"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// CallList is a page of the calls of a run.
type CallList struct {
	Calls []runs.CallLine `json:"calls"`
	Next  string          `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one."`
}

// DoubtList is a page of writes in doubt.
type DoubtList struct {
	Doubts []runs.Doubt `json:"doubts"`
	Next   string       `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one."`
}

// NewSettlement is the verdict that settles a write in doubt.
type NewSettlement struct {
	_       struct{} `additionalProperties:"true"`
	Verdict string   `json:"verdict" enum:"done,not_done" doc:"Whether the write was done."`
	Note    string   `json:"note,omitempty" maxLength:"1000" doc:"How that was found out. Personal data in it become tokens."`
}

// RunComparison is a page of the comparison of two runs, call by call.
type RunComparison struct {
	Pairs    []runs.CallPair `json:"pairs" doc:"In the order of the calls."`
	Next     int             `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one."`
	Diverges *runs.CallPair  `json:"diverges,omitempty" doc:"The first pair that differs; absent: none does."`
	Counts   map[string]int  `json:"counts" doc:"How many pairs there are by what differs, on all pages."`
}

// EventList is a page of the events of a task.
type EventList struct {
	Events []task.Event `json:"events"`
	Next   int64        `json:"next,omitempty" doc:"The cursor of the next page; absent behind task.ended."`
}

func (a *API) addCalls() {
	operation(a, endpoint{
		"listCalls", "GET /v1/runs/{id}/calls", "runs", http.StatusOK, "The calls of a run, without their values",
		"In the order in which the program made them, with times, errors, and what is in doubt.",
	}, func(ctx context.Context, in *struct {
		ByID
		Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
		Cursor string `query:"cursor" doc:"next of the page before."`
	},
	) (*body[CallList], error) {
		if _, err := a.findRun(ctx, in.ID); err != nil {
			return nil, err
		}
		lines, next, err := a.opt.Harness.Runs().Calls(ctx, in.ID, in.Cursor, in.Limit)
		return &body[CallList]{CallList{list(lines), next}}, err
	})

	operation(a, endpoint{
		"getCall", "GET /v1/runs/{id}/calls/{n}", "runs", http.StatusOK, "A call of a run, with its arguments and its answer",
		"Personal data are tokens. With values, who acts for the user of the run gets the values in their place, and the audit log says so.",
	}, func(ctx context.Context, in *struct {
		ByID
		N      int    `path:"n" minimum:"1" doc:"The number of the call."`
		At     string `query:"at" maxLength:"50" doc:"at of the call in the list, so that it is found at once."`
		Values bool   `query:"values" doc:"Values in place of tokens."`
	},
	) (*body[runs.Call], error) {
		info, err := a.findRun(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if in.Values && !owns(ctx, info.User) {
			return nil, problem(http.StatusForbidden, "values are shown to the user of the run")
		}
		call, err := a.opt.Harness.Runs().Call(ctx, in.ID, in.N, in.At)
		if errors.Is(err, journal.ErrNotFound) {
			err = absent("call")
		}
		if err == nil && in.Values {
			call, err = a.reveal(ctx, info, call)
		}
		return &body[runs.Call]{call}, err
	})

	operation(a, endpoint{
		"listDoubts", "GET /v1/doubts", "runs", http.StatusOK, "List writes in doubt, the latest first",
		"Writes that were sent and whose outcome is unknown, until a person has settled them. A write without an answer is among them once its run has ended.",
	}, func(ctx context.Context, in *struct {
		UserID string `query:"userId"`
		Paging
	},
	) (*body[DoubtList], error) {
		all, next, err := a.opt.Harness.Runs().Doubts(ctx, identity(ctx), journal.DoubtFilter{User: in.UserID, Limit: in.Limit, Cursor: in.Cursor})
		return &body[DoubtList]{DoubtList{list(all), next}}, err
	})

	operation(a, endpoint{
		"settleCall", "POST /v1/runs/{id}/calls/{n}/settle", "runs", http.StatusOK, "Settle a write in doubt",
		"Says whether it was done, after a look at the server. Takes the role approver. Nothing is sent or repeated. A doubt is settled once: the same verdict again changes nothing, another one is refused (409), as is a call that is not in doubt.",
	}, func(ctx context.Context, in *struct {
		ByID
		N    int `path:"n" minimum:"1" doc:"The number of the call."`
		Body NewSettlement
	},
	) (*body[journal.Settlement], error) {
		settled, err := a.opt.Harness.Runs().Settle(ctx, identity(ctx), in.ID, in.N, journal.Verdict(in.Body.Verdict), in.Body.Note)
		switch {
		case err == nil:
			visitOf(ctx).run = in.ID
		case errors.Is(err, journal.ErrNotFound):
			err = absent("run")
		case errors.Is(err, journal.ErrNoDoubt):
			err = problem(http.StatusConflict, "the call is not in doubt: it has an answer, may still get one, or is no write")
		case errors.Is(err, journal.ErrSettled):
			err = problem(http.StatusConflict, "it was settled with another verdict before")
		}
		return &body[journal.Settlement]{settled}, err
	})

	operation(a, endpoint{
		"compareRuns", "GET /v1/runs/{id}/compare", "runs", http.StatusOK, "How the calls of another run differ, without their values",
		"Calls are aligned in their order: those of the same name and arguments, and between them those of the same name. For runs of up to 20,000 calls.",
	}, func(ctx context.Context, in *struct {
		ByID
		With   string `query:"with" required:"true" doc:"The other run."`
		Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
		Cursor int    `query:"cursor" minimum:"0" doc:"next of the page before."`
	},
	) (*body[RunComparison], error) {
		for _, id := range []string{in.With, in.ID} {
			if _, err := a.findRun(ctx, id); err != nil {
				return nil, err
			}
		}
		all, err := a.opt.Harness.Runs().Pairs(ctx, in.ID, in.With)
		if err != nil {
			return nil, err
		}
		out := RunComparison{Counts: map[string]int{}}
		for i, p := range all {
			if out.Counts[p.Differs]++; p.Differs != runs.SameCall && out.Diverges == nil {
				out.Diverges = &all[i]
			}
		}
		from := min(in.Cursor, len(all))
		until := min(from+in.Limit, len(all))
		if out.Pairs = list(all[from:until]); until < len(all) {
			out.Next = until
		}
		return &body[RunComparison]{out}, nil
	})

	operation(a, endpoint{
		"taskHistory", "GET /v1/tasks/{id}/history", "tasks", http.StatusOK, "The stored events of a task so far, by pages",
		"The same as of " + eventsPath + ", without waiting for more.",
	}, func(ctx context.Context, in *struct {
		ByID
		Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"200"`
		Cursor int64 `query:"cursor" minimum:"0" doc:"next of the page before, or the id of the last event that is known."`
	},
	) (*body[EventList], error) {
		t, err := a.ownTask(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		past, err := a.opt.Tasks.Past(ctx, t.ID, in.Cursor)
		if err != nil {
			return nil, err
		}
		out := EventList{Events: []task.Event{}}
		shown := a.shownEvents(ctx, t)
		for _, e := range past[:min(len(past), in.Limit)] {
			if e, err = shown(e); err != nil {
				return nil, err
			}
			out.Events = append(out.Events, e)
			if out.Next = e.ID; e.Type == task.EventEnded {
				out.Next = 0
			}
		}
		return &body[EventList]{out}, nil
	})
}

// reveal replaces the tokens in a call by their values, and writes an audit event about it.
func (a *API) reveal(ctx context.Context, info journal.RunInfo, call runs.Call) (runs.Call, error) {
	a.audit(ctx, telemetry.Event{
		UserID: info.User, SessionID: info.Session, Type: telemetry.PIIAccess, Severity: telemetry.Medium, Details: map[string]any{"call": call.N, "run": info.ID, "shown": true},
	})
	return a.opt.Harness.Runs().ShownCall(ctx, info, call)
}
