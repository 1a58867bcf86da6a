package run

import (
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/frame"
)

// replayTail is the maximum time that a replay computes after its last recorded answer, if the host decided the recorded ending.
// The replay then reports that ending.
const replayTail = time.Second

// startClock starts the clock that measures how long the guest computes; stopClock stops it. The time in which the guest is frozen
// does not count, and neither does the time of a replay.
func (l *loop) startClock() {
	l.guest.since, l.guest.frozen = time.Now(), l.spec.Turn.Frozen()
	l.spec.Slot.Compute(true)
	left := l.spec.Limits.Timeout - time.Duration(l.used.Load())
	switch {
	case l.replaying():
		left = l.spec.Limits.Timeout
		if end := l.recordedEnd(); l.spec.Offline && end != nil && fromOutside(end.Kind) {
			// The host may have ended the recorded run before its guest got this far.
			left = min(left, time.Duration(l.cursor.End().DurationUS)*time.Microsecond+replayTail)
		}
	case l.spec.Offline && l.recordedEnd() != nil:
		left = min(left, replayTail)
	}
	l.guest.allowed = max(left, 0)
	l.deadline.Reset(l.guest.allowed)
}

// computed returns the time since startClock, without the time in which the guest was frozen.
func (l *loop) computed() time.Duration {
	return time.Since(l.guest.since) - (l.spec.Turn.Frozen() - l.guest.frozen)
}

func (l *loop) stopClock() {
	l.spec.Turn.Rest()
	l.spec.Slot.Compute(false)
	if !l.replaying() {
		l.used.Add(int64(l.computed()))
	}
	l.guest.idleSince = -1
	l.deadline.Reset(l.spec.Limits.Timeout)
	l.idles()
}

// replaying reports whether the program still has to get answers that it got before, on another runner or in a process that died.
func (l *loop) replaying() bool { return l.delivered < l.replayed }

func (l *loop) expired() {
	if l.guest.activity != computing {
		l.watchIdle()
		return
	}
	if left := l.guest.allowed - l.computed(); left > 0 {
		l.deadline.Reset(max(left, maxTurn)) // The guest was frozen meanwhile, and may still be frozen.
		return
	}
	if end := l.recordedEnd(); l.spec.Offline && end != nil {
		l.stop(end)
	} else {
		l.endTimeout()
	}
}

// maxUnmetered is the maximum number of times in a row that the processor time of a runner may be unknown.
const maxUnmetered = 3

// watchIdle ends a run whose runner computes although it reported that it was idle. It is called each time that the runner
// has been idle for the duration of the run's timeout.
func (l *loop) watchIdle() {
	meter, ok := l.guest.runner.Runner.(interface{ CPU() (time.Duration, error) })
	if !ok {
		return
	}
	used, err := meter.CPU()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return
	case err != nil && l.guest.unmetered < maxUnmetered: // the next successful reading includes this time
		l.guest.unmetered++
		l.deadline.Reset(l.spec.Limits.Timeout)
		return
	case err != nil:
		l.end(frame.KindCrash, fmt.Sprintf("the runner was ended: nobody can say how long it computed: %v", err))
		return
	}
	l.guest.unmetered = 0
	if l.guest.idleSince >= 0 && used-l.guest.idleSince > l.spec.Limits.Timeout/2 {
		l.endTimeout()
		return
	}
	l.guest.idleSince = used
	l.deadline.Reset(l.spec.Limits.Timeout)
}

func (l *loop) endTimeout() {
	l.end(frame.KindTimeout, fmt.Sprintf("the program computed for more than %s (sandbox.timeout)", l.spec.Limits.Timeout))
}

// spent reports whether the run has used up its time to compute.
func (l *loop) spent() bool { return time.Duration(l.used.Load()) > l.spec.Limits.Timeout }

// errSpent is the error that ends work of the host for a run that has used up its time.
var errSpent = errors.New("the program's time is used up (sandbox.timeout)")
