package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// finish waits for calls still in flight (their context has ended), records their answers and the outcome, and returns it.
func (l *loop) finish() (*Outcome, error) {
	for l.inFlight > 0 {
		if r := <-l.results; l.failure == nil {
			l.record(r)
		} else {
			l.inFlight-- // as if this process had been killed: whoever resumes asks again, or is in doubt
		}
	}
	if l.failure != nil {
		return nil, l.failure
	}
	out := l.outcome()
	if l.spec.Offline {
		l.compare(out)
		return out, nil
	}
	end := &journal.End{
		Status: out.Status, Output: out.Output, Calls: out.Calls,
		DurationUS: time.Duration(out.Duration).Microseconds(), Time: l.spec.Now().UnixMicro(),
	}
	if out.Error != nil {
		end.Error, _ = json.Marshal(out.Error)
	}
	l.journal.Append(journal.Record{End: end})
	if err := l.journal.Commit(context.Background()); err != nil {
		return nil, fmt.Errorf("write the journal: %w", err)
	}
	return out, nil
}

// outcome says how the run ended: what the host decided comes before what the guest says.
func (l *loop) outcome() *Outcome {
	out := &Outcome{
		RunID: l.spec.Start.Run, Status: Succeeded, Output: json.RawMessage("null"), Logs: l.logs, Calls: l.toolCalls,
		Duration: Millis(l.spec.Now().Sub(l.began).Truncate(time.Microsecond)), Sandbox: l.spec.Start.Tier,
	}
	if out.Logs == nil {
		out.Logs = []Log{}
	}
	switch {
	case l.ending != nil:
		out.Error = l.ending
	case l.done.Error != nil:
		out.Error = l.programError(l.done)
	case len(l.done.Value)+l.logBytes > l.spec.Limits.MaxOutput:
		out.Error = &Error{Kind: KindOutputLimit, Message: fmt.Sprintf(
			"the program returned %d bytes; with its logs that is more than %d (sandbox.maxOutput): return a summary and "+
				"write the rest to /workspace", len(l.done.Value), l.spec.Limits.MaxOutput)}
	case len(l.done.Value) > 0:
		out.Output = l.done.Value
	}
	if out.Error == nil {
		return out
	}
	out.Status = Failed
	if out.Error.Kind == KindCancelled {
		out.Status = Cancelled
	}
	out.Effects = l.effects.list()
	return out
}

// programError explains the error that a program ended with.
func (l *loop) programError(f *frame.Frame) *Error {
	e := *f.Error
	e.Name, e.Tool = clip(e.Name, maxClass), clip(e.Tool, maxName)
	e.Message, e.Stack = clip(e.Message, maxMessage), clip(e.Stack, maxStack)
	if len(e.Data) > maxStack {
		e.Data = nil
	}
	if f.Refused && outOfMemory(e) {
		e.Kind, e.Message = KindMemory, fmt.Sprintf("the program wanted more than %d MiB of memory (sandbox.memory)", l.spec.Limits.Memory>>20)
	}
	switch e.Kind {
	case KindSyntax, KindRuntime, KindTool, KindNeverSettles, KindInDoubt, KindDenied, KindCallLimit, KindMemory, KindCrash:
	default:
		e.Kind = KindRuntime
	}
	if l.spec.Locate != nil {
		return l.spec.Locate(&e)
	}
	return &Error{Kind: e.Kind, Name: e.Name, Message: e.Message, Stack: e.Stack, Tool: e.Tool, Data: e.Data}
}

// outOfMemory recognises the engine's ways to say that an allocation failed; it can be as little as a thrown null.
func outOfMemory(e frame.Error) bool {
	return e.Kind == KindMemory || e.Name == "InternalError" || e.Name == "RangeError" || e.Kind == KindCrash ||
		e.Message == "null was thrown" || bytes.Contains([]byte(e.Message), []byte("out of memory"))
}
