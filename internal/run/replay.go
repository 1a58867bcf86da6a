package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// deliverRecorded gives an idle guest the next answer of the record. When none is left, held calls go live.
func (l *loop) deliverRecorded(ctx context.Context) {
	if a := l.cursor.Next(); a != nil {
		if l.open[a.N] == nil {
			l.end(KindDiverged, (&journal.DivergedError{N: a.N, Want: l.cursor.Call(a.N)}).Error())
			return
		}
		l.cursor.Advance()
		l.delivered++
		l.deliver(a)
		return
	}
	if l.spec.Offline {
		l.offlineEnd()
		return
	}
	held := l.held
	l.held = nil
	for _, c := range held {
		l.perform(ctx, c)
	}
}

// offlineEnd stops a replay that has used up its record: what the host decided then is reported, not reproduced.
func (l *loop) offlineEnd() {
	end, missing := l.recordedEnd(), l.missing()
	switch {
	case missing != nil:
		l.end(KindDiverged, missing.Error())
	case end != nil:
		l.stop(end)
	default:
		l.end(KindDiverged, "the program waits where the recorded run went on")
	}
}

// unrecorded judges a replayed program's call that the record does not have: the program got further than the recorded
// one did before the host ended it, or goes another way.
func (l *loop) unrecorded(c *journal.Call) {
	if end := l.recordedEnd(); end != nil && fromOutside(end.Kind) && l.missing() == nil {
		l.stop(end)
		return
	}
	l.end(KindDiverged, (&journal.DivergedError{N: c.N, Got: c}).Error())
}

// recordedEnd is the recorded run's error if the host decided it.
func (l *loop) recordedEnd() *Error {
	end := l.cursor.End()
	if end == nil || end.Error == nil {
		return nil
	}
	recorded := new(Error)
	if json.Unmarshal(end.Error, recorded) != nil || !hostDecided(recorded.Kind) {
		return nil
	}
	return recorded
}

// hostDecided says whether the host, not the program, ends a run with this kind.
func hostDecided(kind string) bool {
	switch kind {
	case KindTimeout, KindMemory, KindCrash, KindOutputLimit, KindCancelled, KindCallLimit:
		return true
	}
	return false
}

// fromOutside says whether an ending comes at a moment that the program has no part in: it cannot be expected again.
func fromOutside(kind string) bool {
	return kind == KindTimeout || kind == KindCancelled || kind == KindCrash
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
