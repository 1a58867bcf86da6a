package run

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/frame"
)

// Suspension is the state of a run that waits for an approval: the questions to people, and what the run needs, besides its journal, to be
// resumed.
type Suspension struct {
	Calls  []approval.Call // calls that need an approval, in order
	Made   int             // number of tool calls made
	Done   []Effect
	Resume approval.Resume
}

// RefusedError is the error that Spec.Suspend returns if the run must not wait for an approval. The program gets Answer as the answer to
// each call that needs one.
type RefusedError struct{ Answer *frame.Error }

func (e *RefusedError) Error() string { return e.Answer.Message }

// suspend gives up the runner if the guest is idle and every unanswered call is a timer or waits for an approval.
func (l *loop) suspend(ctx context.Context) {
	if l.calls.count[asking] == 0 || l.calls.count[inFlight] > 0 || !l.idle() || l.phase != running {
		return
	}
	if l.spec.Suspend == nil {
		l.refuse(ctx, &frame.Error{Kind: frame.KindDenied, Name: "DeniedError", Message: "the call needs an approval, and nobody can be asked here"})
		return
	}
	if l.commit(ctx); l.phase != running {
		return
	}
	p := Suspension{
		Made: l.toolCallsMade(), Done: l.effects.list(), Resume: approval.Resume{
			Elapsed: l.elapsed(), Computed: time.Duration(l.used.Load()), Timers: l.timers.left(time.Now()),
		},
	}
	for _, c := range l.calls.in(asking) {
		p.Calls = append(p.Calls, *c.asks)
	}
	request, err := l.spec.Suspend(context.WithoutCancel(ctx), p)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		l.refuse(ctx, refused.Answer)
	case err != nil:
		l.fail(err)
	default:
		l.suspended = request
		l.end(frame.KindCancelled, "the run waits for an approval")
	}
}

// refuse answers the calls that wait for an approval with an error.
func (l *loop) refuse(ctx context.Context, why *frame.Error) {
	var answers []result
	for _, c := range l.calls.in(asking) {
		e := *why
		e.Tool = c.asks.Tool
		answers = append(answers, result{n: c.call.N, err: &e})
	}
	l.answered(ctx, answers...)
}

// elapsed returns the duration of the run so far, without the time in which it waited for approvals.
func (l *loop) elapsed() time.Duration {
	return l.spec.Resume.Elapsed + l.spec.Now().Sub(l.began).Truncate(time.Microsecond)
}

// waiting returns the outcome of a run that waits for an approval.
func (l *loop) waiting() *Outcome {
	return &Outcome{
		RunID: l.spec.Start.Run, Status: WaitingApproval, Approval: l.suspended, Output: json.RawMessage("null"), Logs: l.printed(),
		Calls: l.toolCallsMade(), Duration: Millis(l.elapsed()), Sandbox: l.spec.Start.Tier, Warnings: l.spec.Start.Warnings,
	}
}

// left returns the remaining times of the pending timers by call number, nil if there are none.
func (t *timers) left(now time.Time) map[int]time.Duration {
	if len(t.pending) == 0 {
		return nil
	}
	left := map[int]time.Duration{}
	for _, p := range t.pending {
		left[p.call] = max(p.due.Sub(now), 0)
	}
	return left
}
