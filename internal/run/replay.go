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

// deliverRecorded sends the next recorded answer to an idle guest. When no recorded answer is left, the held calls go live.
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
	l.timers.step() // the guest is idle, so its step has ended
	if n := l.calls.count[unanswered]; n > 0 && n == len(l.calls.all) && l.phase == running {
		// The run was ending when its process died: these calls were answered, but the guest never got the answers.
		l.end(frame.KindCrash, "the harness stopped while this run was ending; its calls were answered after the program had been stopped")
	}
}

func (l *loop) performHeld(ctx context.Context) {
	for _, c := range l.calls.in(held) {
		l.perform(ctx, c)
	}
}

// offlineEnd stops a replay that has used up its record. It reports the recorded ending if the host decided it.
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

// unrecorded handles a call that the replayed program makes and that the journal does not have. Either the host ended the recorded run before its program
// made this call, or the replay has diverged.
func (l *loop) unrecorded(c *journal.Call) {
	if end := l.recordedEnd(); end != nil && fromOutside(end.Kind) && l.missing() == nil {
		l.stop(end)
		return
	}
	l.diverged(&journal.DivergedError{N: c.N, Got: c})
}

// recordedEnd returns the recorded run's error if the host decided it, otherwise nil.
func (l *loop) recordedEnd() *Error {
	if recorded, _ := endError(l.cursor.End()); recorded != nil && hostDecided(recorded.Kind) {
		return recorded
	}
	return nil
}

// hostDecided reports whether the host, not the program, decides to end a run with an error of this kind.
func hostDecided(kind string) bool {
	switch kind {
	case frame.KindTimeout, frame.KindMemory, frame.KindCrash, frame.KindOutputLimit, frame.KindCancelled, frame.KindCallLimit:
		return true
	}
	return false
}

// fromOutside reports whether an ending of this kind comes at a moment that does not depend on the program, so that a replay cannot
// reproduce it.
func fromOutside(kind string) bool {
	return kind == frame.KindTimeout || kind == frame.KindCancelled || kind == frame.KindCrash
}

// compare compares the outcome of a replay with the recorded one. If they agree, it sets out to the recorded outcome.
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

// report is called if the recorded ending did not depend on the program. It sets the outcome of the replay to the recorded one. The replayed program may have
// got further than the recorded program, or less far.
func (l *loop) report(out *Outcome, end *journal.End, recorded *Error) {
	ended := l.reason == nil // the program ended by itself, so it must have made all recorded calls
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

// missing returns an error that names the first recorded call that the replayed program has not made. An answer that the program did not
// take is not a difference: a program may end while an answer that it does not wait for is under way.
func (l *loop) missing() error {
	err := l.cursor.Finish()
	if diverged, ok := errors.AsType[*journal.DivergedError](err); ok && diverged.N <= l.hostCalls {
		return nil
	}
	return err
}

// difference describes how the outcome of a replay differs from the recorded one. It returns "" if they do not differ. recorded is
// nil for a run that succeeded.
func (l *loop) difference(end *journal.End, out *Outcome, recorded *Error) string {
	if recorded != nil && hostDecided(recorded.Kind) && out.Error != nil && out.Error.Kind == recorded.Kind {
		return ""
	}
	if err := l.missing(); err != nil {
		l.showDivergence(err)
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
