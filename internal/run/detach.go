package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/slots"
)

// Detach configures when a run gives up its runner because its program waits for calls. The calls continue. At the first answer, or when a
// timer is due, the run gets a runner again and the program is replayed there; the program sees no difference. The estimated time of the
// replay, which is the time that the program computed plus a time for each call and byte, must be at most a tenth of the present wait.
type Detach struct {
	After time.Duration // minimum time that the program must have waited
	// Places limits the calls in flight of runs without a runner. A run takes one place for each call, and at least one. If its owner has
	// not enough places left, the run keeps its runner.
	Places *slots.Slots
	Forget func() // drops what the run does not need while it has no runner
	// Recall restores what Forget dropped and returns all records of the run.
	Recall func(ctx context.Context) ([]journal.Record, error)
}

const (
	replayShare   = 10                     // minimum ratio of the program's wait to the estimated time of the replay
	replayCall    = 100 * time.Microsecond // estimated time to replay a call
	replayByte    = 100 * time.Nanosecond  // estimated time to replay a byte of arguments and answers
	maxKept       = 64 << 10               // maximum bytes of arguments of the calls in flight of a run without a runner
	keptCall      = 256                    // bytes that are counted for each call in addition to its arguments
	runnerRetried = time.Second            // pause after a failed request for a runner
	runnerFailing = time.Minute            // how long requests for a runner may fail before a run that has had a runner fails
)

// attachment says whether a run has a runner, gives it up, or waits for one.
type attachment string

const (
	attached    attachment = "attached"    // the program is on a runner
	detaching   attachment = "detaching"   // the runner was told to end the program, so that it can be used again
	detached    attachment = "detached"    // the run has no runner and does not wait for one
	reattaching attachment = "reattaching" // the run waits for a runner
)

// attachments maps each state to the states that may follow it. A run may end in any state.
var attachments = map[attachment][]attachment{
	attached:    {detaching},
	detaching:   {detached},
	detached:    {reattaching},
	reattaching: {attached, detached},
}

// detachment is the part of the loop's state that concerns giving up the runner.
type detachment struct {
	state   attachment
	alarm   *time.Timer // fires when the program has waited long enough
	since   time.Time   // beginning of the program's wait
	release func()      // gives back the places; nil if none are held
	had     int         // number of answers delivered before detaching
	made    int         // number of tool calls made before detaching

	cancel context.CancelFunc // ends the wait for a runner; set while reattaching
	back   chan returned
}

// to changes the attachment. A change that is not in the map attachments is a bug of the loop and fails the run.
func (l *loop) to(next attachment) {
	d := &l.detachment
	if !slices.Contains(attachments[d.state], next) {
		l.fail(fmt.Errorf("a run that is %s cannot be %s next", d.state, next))
	}
	d.state = next
}

// hasRunner reports whether the run has a runner, which may have been told to end the program.
func (d *detachment) hasRunner() bool { return d.state == attached || d.state == detaching }

// returned is the result of the wait for a runner: the runner, or an error.
type returned struct {
	runner *sandbox.Lease
	err    error
}

func newDetachment() detachment {
	alarm := time.NewTimer(maxDelay)
	alarm.Stop()
	return detachment{state: attached, alarm: alarm, back: make(chan returned, 1)}
}

// frames returns the channel of the runner's frames, or nil while the run has no runner.
func (l *loop) frames() <-chan *frame.Frame {
	if !l.detachment.hasRunner() {
		return nil
	}
	return l.guest.runner.Frames()
}

// idle reports whether the program waits for answers that have not come yet.
func (l *loop) idle() bool {
	if l.detachment.state != attached {
		return l.detachment.state == detached
	}
	return (l.guest.activity == resting || l.guest.activity == blocked) && l.calls.count[held] == 0 && l.cursor.Next() == nil
}

// idles records that the program begins to wait.
func (l *loop) idles() {
	if l.spec.Detach != nil {
		l.detachment.since = time.Now()
		l.detachment.alarm.Reset(l.spec.Detach.After)
	}
}

// detach gives up the runner if the program has waited for long enough.
func (l *loop) detach(ctx context.Context) {
	if l.detachment.state != attached || !l.idle() || l.guest.activity == blocked || l.phase != running || len(l.calls.all) == 0 {
		return // the alarm is set again when the program waits again
	}
	size, flying := 0, 0
	for _, c := range l.calls.all {
		switch frame.Kind(c.call.Kind) {
		case frame.FS, frame.Load:
			return // calls of files and modules are quick, so the run keeps its runner
		case frame.Timer:
		default:
			flying++
		}
		size += keptCall + len(c.call.Args)
	}
	if size > maxKept {
		return
	}
	replay := time.Duration(l.used.Load()) + time.Duration(l.hostCalls)*replayCall + time.Duration(l.crossed)*replayByte
	if left := max(l.spec.Detach.After, replayShare*replay) - time.Since(l.detachment.since); left > 0 {
		l.detachment.alarm.Reset(left)
		return
	}
	if l.detachment.release = l.spec.Detach.Places.TryAcquire(l.spec.Owner, max(flying, 1)); l.detachment.release == nil {
		l.detachment.alarm.Reset(l.spec.Detach.After)
		return
	}
	if l.commit(ctx); l.phase != running {
		return
	}
	l.to(detaching)
	l.detachment.had, l.detachment.made = l.delivered, l.toolCalls
	l.guest.send(&frame.Frame{T: frame.Cancel, Run: l.spec.Start.Run, Reason: frame.KindCancelled})
	l.kill = time.After(grace)
}

// detachedNow is called when the program has ended on the runner, or the runner's process has ended. If the run is detaching, detachedNow
// releases the runner, ends the leg and returns true. Otherwise it does nothing and returns false.
func (l *loop) detachedNow() bool {
	if l.detachment.state != detaching || l.phase != running {
		return false
	}
	l.to(detached)
	l.kill = nil
	l.deadline.Stop()
	l.spec.Turn.Rest()
	l.spec.Turn.Bind(nil)
	l.guest.runner.Release(l.guest.clean)
	l.leg = leg{guest: guest{activity: resting}, cursor: journal.NewCursor(nil), again: true}
	l.spec.Records, l.spec.Start = nil, journal.Start{Run: l.spec.Start.Run, Tier: l.spec.Start.Tier}
	l.spec.Detach.Forget()
	select {
	case l.jobs <- nil:
	default:
	}
	if l.answers > l.detachment.had {
		l.reattach()
	}
	return true
}

// reattach waits for a runner in the background if the run is detached. For a run that is still detaching, detachedNow calls it later. If no runner can
// start, a run that has never had a runner fails at once. A run that has had one fails after runnerFailing.
func (l *loop) reattach() {
	if l.detachment.state != detached || l.phase != running {
		return
	}
	l.to(reattaching)
	var ctx context.Context
	ctx, l.detachment.cancel = context.WithCancel(context.Background())
	runners, owner, back := l.spec.Runners, l.spec.Owner, l.detachment.back
	var patience time.Duration
	if l.again {
		patience = runnerFailing
	}
	go func() {
		var failed time.Time // time of the first failure
		for {
			runner, err := runners.Reacquire(ctx, owner)
			if err != nil && failed.IsZero() {
				failed = time.Now()
			}
			if err == nil || ctx.Err() != nil || errors.Is(err, sandbox.ErrPoolClosed) || time.Since(failed) >= patience {
				back <- returned{runner, err}
				return
			}
			select {
			case <-time.After(runnerRetried):
			case <-ctx.Done():
			}
		}
	}()
}

// reattached replays the program on the runner that the run has waited for.
func (l *loop) reattached(ctx context.Context, r returned) {
	l.detachment.cancel()
	if r.err != nil {
		l.to(detached) // release must not wait for another value of back
		l.fail(fmt.Errorf("get a runner: %w", r.err))
		return
	}
	records, err := l.recall(ctx)
	if err != nil {
		r.runner.Release(false)
		l.to(detached)
		l.fail(err)
		return
	}
	l.to(attached)
	l.detachment.release()
	l.detachment.release = nil
	l.use(r.runner, records)
	l.again, l.replayed = true, l.detachment.had+1 // computing counts again after the first answer that was not delivered before detaching
	l.fail(l.start())
}

// recall restores what was dropped with the runner, and returns all records of the run.
func (l *loop) recall(ctx context.Context) ([]journal.Record, error) {
	records, err := l.spec.Detach.Recall(context.WithoutCancel(ctx))
	if err == nil {
		err = journal.Check(records)
	}
	if err != nil {
		return nil, fmt.Errorf("go on with the run: %w", err)
	}
	l.spec.Start = *records[0].Start
	return records, nil
}

// readEnd reads the journal of a run that has no runner and is about to end.
func (l *loop) readEnd() {
	if l.detachment.hasRunner() || !l.again || l.phase != running {
		return
	}
	records, err := l.recall(context.Background())
	if err != nil {
		l.fail(err)
		return
	}
	l.cursor = journal.NewCursor(records)
}

// release gives back the places and the runner request of a run that has ended without a runner.
func (l *loop) release() {
	if l.detachment.state == reattaching {
		l.detachment.cancel()
		if r := <-l.detachment.back; r.runner != nil {
			r.runner.Release(false)
		}
	}
	if l.detachment.release != nil {
		l.detachment.release()
	}
}

// printed returns all lines that the program has printed, including those that a replay has not reached yet.
func (l *loop) printed() []Log {
	if recorded := l.cursor.Logs(); l.again && len(recorded) > len(l.logs) {
		return append([]Log{}, recorded...)
	}
	return append([]Log{}, l.logs...)
}

// toolCallsMade returns the number of tool calls that the program has made, including those that a replay has not reached yet.
func (l *loop) toolCallsMade() int { return max(l.toolCalls, l.detachment.made) }
