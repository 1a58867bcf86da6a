package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// maxFinish is the maximum time that an ended run waits for calls that do not return although their context has ended. A write
// among them stays in doubt.
const maxFinish = 5 * time.Second

// finish waits for the calls still in flight, records their answers and the outcome of the run, and returns the outcome.
func (l *loop) finish() (*Outcome, error) {
	l.awaitCalls()
	if l.suspended != nil {
		return l.waiting(), nil
	}
	if l.phase == failed {
		return nil, l.failure // the resumed run makes the unanswered calls again, as after the death of the process
	}
	out := l.outcome()
	switch {
	case l.spec.Offline && l.cursor.End() != nil:
		l.compare(out)
	case l.reason == nil:
		if err := l.redactOutcome(out); err != nil {
			return nil, err
		}
	}
	if l.spec.Offline {
		return out, nil
	}
	for _, a := range l.late {
		l.journal.Append(journal.Record{Answer: a})
	}
	end := &journal.End{
		Status: out.Status, Output: out.Output, Calls: out.Calls,
		DurationUS: time.Duration(out.Duration).Microseconds(), Time: l.spec.Now().UnixMicro(),
	}
	if out.Error != nil {
		end.Error, _ = json.Marshal(out.Error)
	}
	l.journal.Append(journal.Record{End: end})
	if l.commit(context.Background()); l.phase == failed {
		return nil, l.failure
	}
	return out, nil
}

// awaitCalls records the answers of the calls still in flight. It waits for at most maxFinish.
func (l *loop) awaitCalls() {
	defer close(l.over)
	bound := time.After(maxFinish)
	for l.calls.count[inFlight] > 0 {
		select {
		case r := <-l.results:
			if l.phase == failed {
				l.calls.all[r.n].to(answered)
				continue
			}
			l.tick()
			l.record(r)
		case <-bound:
			return
		}
	}
}

// outcome returns the outcome of the run. An ending that the host decided overrides the one that the guest reported.
func (l *loop) outcome() *Outcome {
	out := &Outcome{
		RunID: l.spec.Start.Run, Status: Succeeded, Output: json.RawMessage("null"), Logs: l.printed(), Calls: l.toolCallsMade(),
		Duration: Millis(l.elapsed()), Sandbox: l.spec.Start.Tier, Warnings: l.spec.Start.Warnings,
	}
	switch {
	case l.reason != nil:
		out.fail(l.interrupted())
	case l.done.Error != nil:
		out.fail(l.programError(l.done))
	case len(l.done.Value)+l.logBytes > l.spec.Limits.MaxOutput:
		out.fail(&Error{Kind: frame.KindOutputLimit, Message: fmt.Sprintf(
			"the program returned %d bytes; with its logs that is more than %d (sandbox.maxOutput): return a summary and "+
				"write the rest to /workspace", len(l.done.Value), l.spec.Limits.MaxOutput)})
	case len(l.done.Value) > 0:
		out.Output = l.done.Value
	}
	if out.Error != nil {
		out.Effects = l.effects.list()
	}
	return out
}

// fail changes the outcome to that of a run that failed or was cancelled.
func (o *Outcome) fail(reason *Error) {
	o.Status, o.Output, o.Error = Failed, json.RawMessage("null"), reason
	if reason.Kind == frame.KindCancelled {
		o.Status = Cancelled
	}
}

// interrupted returns the error with which the host ended the program, with the program's position if the runner reported one.
func (l *loop) interrupted() *Error {
	e := l.reason
	if e.Kind != frame.KindTimeout || l.done.Error == nil || l.done.Error.Stack == "" || l.spec.Locate == nil {
		return e
	}
	return l.spec.Locate(&frame.Error{Kind: e.Kind, Message: e.Message, Stack: clip.Counted(l.done.Error.Stack, maxStack)})
}

// programError returns the error that a program ended with, clipped and with its position in the code.
func (l *loop) programError(f *frame.Frame) *Error {
	e := *f.Error
	e.Name, e.Tool = clip.Counted(e.Name, maxClass), clip.Counted(e.Tool, maxName)
	e.Message, e.Stack = clip.Counted(e.Message, maxMessage), clip.Counted(e.Stack, maxStack)
	if len(e.Data) > maxStack {
		e.Data = nil
	}
	if f.Refused && outOfMemory(e) {
		e.Kind, e.Message = frame.KindMemory, fmt.Sprintf("the program wanted more than %d MiB of memory (sandbox.memory)", l.spec.Limits.Memory>>20)
	}
	if !l.claimable(f, e.Kind) {
		e.Kind = frame.KindRuntime
	}
	if l.spec.Locate != nil {
		return l.spec.Locate(&e)
	}
	return &Error{Kind: e.Kind, Name: e.Name, Message: e.Message, Stack: e.Stack, Tool: e.Tool, Data: e.Data}
}

// claimable reports whether the guest can have failed with an error of this kind. Some kinds occur only as errors of calls: the guest
// can have failed with such an error only if an answer that it got was an error of the same kind.
func (l *loop) claimable(f *frame.Frame, kind string) bool {
	switch kind {
	case frame.KindSyntax, frame.KindRuntime, frame.KindNeverSettles, frame.KindOutputLimit, frame.KindCrash:
		return true
	case frame.KindMemory:
		return f.Refused
	}
	return l.raised[kind]
}

// raisedKind returns the kind of the error that an answer raises in the guest.
func raisedKind(e *frame.Error) string {
	switch {
	case e.Kind != "":
		return e.Kind
	case e.Name == "InDoubtError":
		return frame.KindInDoubt
	case e.Name == "DeniedError":
		return frame.KindDenied
	case e.Name == "LimitError":
		return frame.KindCallLimit
	}
	return frame.KindTool
}

// outOfMemory reports whether an error can mean that an allocation of the engine failed. In that case, the engine may throw null
// instead of an error.
func outOfMemory(e frame.Error) bool {
	return e.Kind == frame.KindMemory || e.Name == "InternalError" || e.Name == "RangeError" || e.Kind == frame.KindCrash ||
		e.Message == "null was thrown" || bytes.Contains([]byte(e.Message), []byte("out of memory"))
}
