package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// deliverRecorded gives an idle guest the next answer of the record. When none is left, held calls go live.
func (l *loop) deliverRecorded(ctx context.Context) {
	if a := l.cursor.Next(); a != nil {
		if l.calls.made(a.N) == nil {
			l.diverged(&journal.DivergedError{N: a.N, Want: l.cursor.Call(a.N)})
			return
		}
		l.cursor.Advance()
		l.deliver(a)
		return
	}
	if l.spec.Offline {
		l.offlineEnd()
		return
	}
	l.performHeld(ctx)
	l.timers.step() // the guest is idle
	if n := l.calls.count[unanswered]; n > 0 && n == len(l.calls.all) && l.phase == running {
		// The run was ending when its process died: these calls were answered, but not to the guest.
		l.end(frame.KindCrash, "the harness stopped while this run was ending; its calls were answered after the program had been stopped")
	}
}

// performHeld makes held calls go live.
func (l *loop) performHeld(ctx context.Context) {
	for _, c := range l.calls.in(held) {
		l.perform(ctx, c)
	}
}

// offlineEnd stops a replay that has used up its record: what the host decided then is reported, not reproduced.
func (l *loop) offlineEnd() {
	end, missing := l.recordedEnd(), l.missing()
	switch {
	case missing != nil:
		l.diverged(missing)
	case end != nil:
		l.stop(end)
	default:
		l.end(frame.KindDiverged, "the program waits where the recorded run went on")
	}
}

// unrecorded judges a replayed program's call that the record does not have: the program got further than the recorded
// one did before the host ended it, or goes another way.
func (l *loop) unrecorded(c *journal.Call) {
	if end := l.recordedEnd(); end != nil && fromOutside(end.Kind) && l.missing() == nil {
		l.stop(end)
		return
	}
	l.diverged(&journal.DivergedError{N: c.N, Got: c})
}

// recordedEnd is the recorded run's error if the host decided it.
func (l *loop) recordedEnd() *Error {
	if recorded, _ := endError(l.cursor.End()); recorded != nil && hostDecided(recorded.Kind) {
		return recorded
	}
	return nil
}

// hostDecided says whether the host, not the program, ends a run with this kind.
func hostDecided(kind string) bool {
	switch kind {
	case frame.KindTimeout, frame.KindMemory, frame.KindCrash, frame.KindOutputLimit, frame.KindCancelled, frame.KindCallLimit:
		return true
	}
	return false
}

// fromOutside says whether an ending comes at a moment that the program has no part in: it cannot be expected again.
func fromOutside(kind string) bool {
	return kind == frame.KindTimeout || kind == frame.KindCancelled || kind == frame.KindCrash
}

// compare holds a replay's outcome against the recorded one, and makes it that where they agree.
func (l *loop) compare(out *Outcome) {
	end := l.cursor.End()
	if out.Error != nil && out.Error.Kind == frame.KindDiverged {
		return
	}
	out.Duration = Millis(time.Duration(end.DurationUS) * time.Microsecond)
	if recorded := l.recordedEnd(); recorded != nil && fromOutside(recorded.Kind) {
		l.report(out, end, recorded)
		return
	}
	recorded, err := endError(end)
	if err != nil {
		out.fail(l.divergence(err.Error()))
		return
	}
	if differs := l.difference(end, out, recorded); differs != "" {
		out.fail(l.divergence(differs))
		return
	}
	out.Error, out.Calls, out.Logs = recorded, end.Calls, append([]Log{}, l.cursor.Logs()...)
	if recorded == nil && len(end.Output) > 0 {
		out.Output = end.Output
	}
}

// report makes the recorded outcome the replay's, where the program had no part in how the run ended. It may have come
// further now than then, or not as far.
func (l *loop) report(out *Outcome, end *journal.End, recorded *Error) {
	ended := l.reason == nil // the program ended by itself: everything recorded must have come before
	logs := l.cursor.Logs()
	both := min(len(logs), len(out.Logs))
	out.Status, out.Output, out.Error, out.Calls = end.Status, json.RawMessage("null"), recorded, end.Calls
	if err := l.missing(); ended && err != nil {
		out.fail(l.divergence(err.Error()))
	} else if !slices.Equal(logs[:both], out.Logs[:both]) {
		out.fail(l.divergence("its console lines differ from the recorded ones"))
	}
	out.Logs = append([]Log{}, logs...)
	out.Effects = l.effects.list()
}

// missing names the first recorded call that a replayed program has not made. That the program did not take a recorded
// answer is no difference: an answer may be on its way when a program ends that does not wait for it.
func (l *loop) missing() error {
	err := l.cursor.Finish()
	if diverged, ok := errors.AsType[*journal.DivergedError](err); ok && diverged.N <= l.hostCalls {
		return nil
	}
	return err
}

// difference says how a replay's outcome differs from the recorded one, if it does. recorded is nil for a run that
// succeeded.
func (l *loop) difference(end *journal.End, out *Outcome, recorded *Error) string {
	if recorded != nil && hostDecided(recorded.Kind) && out.Error != nil && out.Error.Kind == recorded.Kind {
		return ""
	}
	if err := l.missing(); err != nil {
		return err.Error()
	}
	const same = "every call was answered as recorded, but "
	switch {
	case end.Status != out.Status:
		return fmt.Sprintf(same+"the run %s where the recorded one %s", out.Status, end.Status)
	case out.Error != nil && recorded != nil && (out.Error.Kind != recorded.Kind || !journal.Covers(recorded.Message, out.Error.Message)):
		return fmt.Sprintf(same+"it failed as %s (%s) where the recorded run failed as %s (%s)",
			out.Error.Kind, out.Error.Message, recorded.Kind, recorded.Message)
	case out.Error == nil && !journal.CoversJSON(end.Output, out.Output):
		return same + "the output differs from the recorded one: " + journal.Diff(end.Output, out.Output)
	case !slices.Equal(l.cursor.Logs(), out.Logs):
		return same + "its console lines differ from the recorded ones"
	}
	return ""
}
