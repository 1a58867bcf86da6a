package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/slots"
)

// Leave says when a run gives up its runner because calls keep its program waiting. The calls go on; with the first answer, or when a
// timer is due, the run gets a runner again, and the program is replayed there. It sees no difference. What the program computed in
// all, what replaying takes for each call and byte included, must be at most a tenth of its present wait.
type Leave struct {
	After time.Duration // least time that the program must have waited
	// Places are taken while the run has no runner: one for each call in flight, at least one. Where its owner has none left, the run
	// keeps its runner.
	Places *slots.Slots
	Forget func() // drops what the run can do without meanwhile
	// Recall gets back what Forget dropped and returns all records of the run.
	Recall func(ctx context.Context) ([]journal.Record, error)
}

const (
	replayShare   = 10                     // a program must have waited for so many times what replaying it takes
	replayCall    = 100 * time.Microsecond // estimate for replaying a call
	replayByte    = 100 * time.Nanosecond  // estimate for replaying a byte of arguments and answers
	maxKept       = 64 << 10               // bytes of arguments that calls in flight hold without a runner
	keptCall      = 256                    // bytes that every call counts for besides
	runnerRetried = time.Second            // after a runner could not be started
)

// away is what the loop knows of a run that has given up its runner, or may.
type away struct {
	alarm   *time.Timer // rings when the program has waited for long enough
	since   time.Time   // the program waits
	leaving bool        // the runner was told to end the program, so that it can be used again
	release func()      // gives the places back; nil: none is held
	calls   map[int]*journal.Call
	had     int // answers that the program had had
	made    int // tool calls that it had made

	cancel context.CancelFunc // ends the wait for a runner; nil: none is wanted
	back   chan returned
}

// returned is a runner for a run that wanted one, or why there is none.
type returned struct {
	runner *sandbox.Lease
	err    error
}

func newAway() away {
	alarm := time.NewTimer(maxDelay)
	alarm.Stop()
	return away{alarm: alarm, back: make(chan returned, 1)}
}

// frames are those of the runner; none come while there is no runner.
func (l *loop) frames() <-chan *frame.Frame {
	if l.runner == nil {
		return nil
	}
	return l.runner.Frames()
}

// idle reports whether the program waits for answers that have not come yet.
func (l *loop) idle() bool {
	if l.runner == nil {
		return l.away.cancel == nil
	}
	return !l.computing && !l.waits && !l.away.leaving && len(l.held) == 0 && l.cursor.Next() == nil
}

// idles notes that the program begins to wait.
func (l *loop) idles() {
	if l.spec.Leave != nil {
		l.away.since = time.Now()
		l.away.alarm.Reset(l.spec.Leave.After)
	}
}

// giveUp gives up the runner if the program has waited for long enough.
func (l *loop) giveUp(ctx context.Context) {
	if l.runner == nil || !l.idle() || l.blocked || l.ending != nil || l.done != nil || l.failure != nil || len(l.open) == 0 {
		return // the alarm is set again when the program waits again
	}
	calls, size, flying := make(map[int]*journal.Call, len(l.open)), 0, 0
	for n, c := range l.open {
		switch frame.Kind(c.Kind) {
		case frame.FS, frame.Load:
			return // these calls are quick, and use the runner
		case frame.Timer:
		default:
			flying++
		}
		size += keptCall + len(c.Args)
		calls[n] = &journal.Call{N: n, Kind: c.Kind, Name: c.Name}
	}
	if size > maxKept {
		return
	}
	replay := time.Duration(l.used.Load()) + time.Duration(l.calls)*replayCall + time.Duration(l.crossed)*replayByte
	if left := max(l.spec.Leave.After, replayShare*replay) - time.Since(l.away.since); left > 0 {
		l.away.alarm.Reset(left)
		return
	}
	if l.away.release = l.spec.Leave.Places.TryAcquire(l.spec.Owner, max(flying, 1)); l.away.release == nil {
		l.away.alarm.Reset(l.spec.Leave.After)
		return
	}
	if l.commit(ctx); l.failure != nil {
		return
	}
	l.away.leaving, l.away.calls, l.away.had, l.away.made = true, calls, l.delivered, l.toolCalls
	l.send(&frame.Frame{T: frame.Cancel, Run: l.spec.Start.Run, Reason: frame.KindCancelled})
	l.kill = time.After(grace)
}

// left ends the leg of a runner that was given up, and reports whether it was.
func (l *loop) left() bool {
	if !l.away.leaving || l.ending != nil {
		return false
	}
	l.away.leaving, l.kill = false, nil
	l.deadline.Stop()
	l.spec.Turn.Rest()
	l.spec.Turn.Bind(nil)
	l.runner.Release(l.clean)
	l.leg = leg{cursor: journal.NewCursor(nil), again: true}
	l.spec.Records, l.spec.Start = nil, journal.Start{Run: l.spec.Start.Run, Tier: l.spec.Start.Tier}
	l.spec.Leave.Forget()
	select {
	case l.jobs <- nil:
	default:
	}
	if l.answers > l.away.had {
		l.wantRunner()
	}
	return true
}

// wantRunner waits for a runner in the background, if the run has none and does not wait already.
func (l *loop) wantRunner() {
	if l.runner != nil || l.away.cancel != nil || l.ending != nil {
		return
	}
	var ctx context.Context
	ctx, l.away.cancel = context.WithCancel(context.Background())
	runners, owner, back := l.spec.Runners, l.spec.Owner, l.away.back
	go func() {
		for {
			runner, err := runners.Reacquire(ctx, owner)
			if err == nil || ctx.Err() != nil || errors.Is(err, sandbox.ErrPoolClosed) {
				back <- returned{runner, err}
				return
			}
			select { // the other calls may end first; the run's own limits end the wait
			case <-time.After(runnerRetried):
			case <-ctx.Done():
			}
		}
	}()
}

// comeBack replays the program on a runner that was wanted.
func (l *loop) comeBack(ctx context.Context, r returned) {
	l.away.cancel()
	l.away.cancel = nil
	if r.err != nil {
		l.failure = fmt.Errorf("get a runner again: %w", r.err)
		return
	}
	records, err := l.recall(ctx)
	if err != nil {
		r.runner.Release(false)
		l.failure = err
		return
	}
	l.away.release()
	l.away.release = nil
	l.use(r.runner, records)
	l.again, l.replayed = true, l.away.had+1 // computing after the last answer counts
	l.failure = l.start()
}

// recall gets back what was dropped with the runner.
func (l *loop) recall(ctx context.Context) ([]journal.Record, error) {
	records, err := l.spec.Leave.Recall(context.WithoutCancel(ctx))
	if err == nil {
		err = journal.Check(records)
	}
	if err != nil {
		return nil, fmt.Errorf("go on with the run: %w", err)
	}
	l.spec.Start = *records[0].Start
	return records, nil
}

// readEnd prepares a run without a runner for its end.
func (l *loop) readEnd() {
	if l.runner != nil || !l.again || l.ending != nil || l.done != nil {
		return
	}
	records, err := l.recall(context.Background())
	if err != nil {
		l.failure = err
		return
	}
	l.cursor = journal.NewCursor(records)
}

// unpark gives back what a run holds that has ended without a runner.
func (l *loop) unpark() {
	if l.away.cancel != nil {
		l.away.cancel()
		if r := <-l.away.back; r.runner != nil {
			r.runner.Release(false)
		}
	}
	if l.away.release != nil {
		l.away.release()
	}
}

// printed are the lines that the program has printed, also those that a replay has not come to.
func (l *loop) printed() []Log {
	if recorded := l.cursor.Logs(); l.again && len(recorded) > len(l.logs) {
		return append([]Log{}, recorded...)
	}
	return append([]Log{}, l.logs...)
}

// toolCallsMade is how many tool calls the program has made, also those that a replay has not come to.
func (l *loop) toolCallsMade() int { return max(l.toolCalls, l.away.made) }
