package run

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// replayTail is how long a replay computes after its last recorded answer before the recorded ending is reported, where
// the host decided that ending.
const replayTail = time.Second

// compute starts the guest's clock, rest stops it. Time in replay counts for nothing.
func (l *loop) compute() {
	if l.computing {
		return
	}
	l.computing, l.since = true, time.Now()
	l.runner.Computes(true)
	left := l.spec.Limits.Timeout - time.Duration(l.used.Load())
	switch {
	case l.cursor.Next() != nil:
		left = l.spec.Limits.Timeout
		if end := l.recordedEnd(); l.spec.Offline && end != nil && fromOutside(end.Kind) {
			// The recorded guest may never have come to this answer.
			left = min(left, time.Duration(l.cursor.End().DurationUS)*time.Microsecond+replayTail)
		}
	case l.spec.Offline && l.recordedEnd() != nil:
		left = min(left, replayTail)
	}
	l.deadline.Reset(max(left, 0))
}

func (l *loop) rest() {
	if !l.computing {
		return
	}
	l.computing = false
	l.runner.Computes(false)
	if l.cursor.Next() == nil {
		l.used.Add(int64(time.Since(l.since)))
	}
	l.idleSince = -1
	l.deadline.Reset(l.spec.Limits.Timeout)
}

func (l *loop) expired() {
	if !l.computing {
		l.watchIdle()
		return
	}
	if end := l.recordedEnd(); l.spec.Offline && end != nil {
		l.stop(end)
	} else {
		l.endTimeout()
	}
}

// watchIdle ends a run whose runner computes although it said that it was idle. It is called each time that the runner
// has been idle for the run's timeout.
func (l *loop) watchIdle() {
	meter, ok := l.runner.Runner.(interface{ CPU() time.Duration })
	if !ok {
		return
	}
	used := meter.CPU()
	if l.idleSince >= 0 && used-l.idleSince > l.spec.Limits.Timeout/2 {
		l.endTimeout()
		return
	}
	l.idleSince = used
	l.deadline.Reset(l.spec.Limits.Timeout)
}

func (l *loop) endTimeout() {
	l.end(KindTimeout, fmt.Sprintf("the program computed for more than %s (sandbox.timeout)", l.spec.Limits.Timeout))
}

// spent reports whether the run has used up its time to compute.
func (l *loop) spent() bool { return time.Duration(l.used.Load()) > l.spec.Limits.Timeout }

// errSpent ends work of the host for a run that has used up its time.
var errSpent = errors.New("the program's time is used up (sandbox.timeout)")

// Charge counts what the host computed for a call as computing of its program. ctx is that of Pending. After an error the
// run has used up its time: the call has to return, and the run ends. Charge is safe for concurrent use.
func Charge(ctx context.Context, used time.Duration) error {
	call, ok := ctx.Value(callKey{}).(callContext)
	if !ok {
		return nil
	}
	if call.loop.used.Add(int64(used)); call.loop.spent() {
		return errSpent
	}
	return nil
}
