package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// finish waits for calls still in flight (their context has ended), records their answers and the outcome, and returns it.
func (l *loop) finish() (*Outcome, error) {
	for l.inFlight > 0 {
		l.record(<-l.results)
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

// compare holds a replay's outcome against the recorded one.
func (l *loop) compare(out *Outcome) {
	end := l.cursor.End()
	if end == nil || (out.Error != nil && out.Error.Kind == KindDiverged) {
		return
	}
	out.Duration = Millis(time.Duration(end.DurationUS) * time.Microsecond)
	if recorded := l.recordedEnd(); recorded != nil && fromOutside(recorded.Kind) {
		l.report(out, end, recorded)
		return
	}
	if differs := l.difference(end, out); differs != "" {
		out.Status, out.Output = Failed, json.RawMessage("null")
		out.Error = &Error{Kind: KindDiverged, Message: differs}
	}
}

// report makes the recorded outcome the replay's, where the program had no part in how the run ended. It may have come
// further now than then, or not as far.
func (l *loop) report(out *Outcome, end *journal.End, recorded *Error) {
	ended := l.ending == nil // by itself: whatever was recorded must have come before
	logs := l.cursor.Logs()
	both := min(len(logs), len(out.Logs))
	out.Status, out.Output, out.Error, out.Calls = end.Status, json.RawMessage("null"), recorded, end.Calls
	if err := l.missing(); ended && err != nil {
		out.Status, out.Error = Failed, &Error{Kind: KindDiverged, Message: err.Error()}
	} else if !slices.Equal(logs[:both], out.Logs[:both]) {
		out.Status, out.Error = Failed, &Error{Kind: KindDiverged, Message: "its console lines differ from the recorded ones"}
	}
	out.Logs = append([]Log{}, logs...)
	out.Effects = l.effects.list()
}

// missing names the first recorded call that a replayed program has not made. That the program did not take a recorded
// answer is no difference: an answer may be on its way when a program ends that does not wait for it.
func (l *loop) missing() error {
	err := l.cursor.Finish()
	var diverged *journal.DivergedError
	if errors.As(err, &diverged) && diverged.N <= l.calls {
		return nil
	}
	return err
}

// difference says how a replay's outcome differs from the recorded one, if it does.
func (l *loop) difference(end *journal.End, out *Outcome) string {
	var recorded Error
	if end.Error != nil {
		if err := json.Unmarshal(end.Error, &recorded); err != nil {
			return fmt.Sprintf("the recorded error cannot be read: %v", err)
		}
	}
	if hostDecided(recorded.Kind) && out.Error != nil && out.Error.Kind == recorded.Kind {
		return ""
	}
	if err := l.missing(); err != nil {
		return err.Error()
	}
	const same = "every call was answered as recorded, but "
	switch {
	case end.Status != out.Status:
		return fmt.Sprintf(same+"the run %s where the recorded one %s", out.Status, end.Status)
	case out.Error != nil && (out.Error.Kind != recorded.Kind || out.Error.Message != recorded.Message):
		return fmt.Sprintf(same+"it failed as %s (%s) where the recorded run failed as %s (%s)",
			out.Error.Kind, out.Error.Message, recorded.Kind, recorded.Message)
	case !bytes.Equal(journal.Canonical(end.Output), journal.Canonical(out.Output)):
		return same + "the output differs from the recorded one: " + journal.Diff(end.Output, out.Output)
	case !slices.Equal(l.cursor.Logs(), out.Logs):
		return same + "its console lines differ from the recorded ones"
	}
	return ""
}
