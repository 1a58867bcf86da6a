package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"mcp-code-exec-harness/internal/doctor"
)

// Findings lists what the doctor has found.
type Findings struct {
	Findings []doctor.Finding `json:"findings"`
}

// doctorTime is the maximum duration of an examination.
const doctorTime = time.Minute

func (a *API) addDoctor() {
	operation(a, endpoint{
		"getDoctor", "GET /v1/doctor", "operations", http.StatusOK, "What works, and how to fix what does not",
		"Takes the role admin. What harness doctor says, as this server sees it: it starts a runner of each tier and waits for servers, one request at a time.",
	}, func(ctx context.Context, _ *struct{}) (*body[Findings], error) {
		if err := admin(ctx); err != nil {
			return nil, err
		}
		if a.opt.Doctor == nil {
			return nil, problem(http.StatusNotFound, "this server does not examine itself: use harness doctor")
		}
		visitOf(ctx).answer.endTurn() // An examination waits more than it computes, so it gives up the turn that takeTurn has taken.
		leave, err := a.examining.enter(ctx, identity(ctx).Caller())
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx, cancel := context.WithTimeoutCause(ctx, doctorTime, problem(http.StatusGatewayTimeout, fmt.Sprintf("the examination has taken %s: use harness doctor", doctorTime)))
		defer cancel()
		out := &body[Findings]{Findings{[]doctor.Finding{}}}
		a.opt.Doctor(ctx, func(f doctor.Finding) { out.Body.Findings = append(out.Body.Findings, f) })
		return out, context.Cause(ctx)
	})
}
