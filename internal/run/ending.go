package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/sandbox"
)

type phase string

const (
	running  phase = "running"
	stopping phase = "stopping" // the host has decided how the run ends, and waits until the runner has stopped the program
	over     phase = "over"     // the program has ended
	failed   phase = "failed"   // the harness has failed or hands the run over; the journal has no end record
)

// phases maps each phase to the phases that may follow it.
var phases = map[phase][]phase{
	running:  {stopping, over, failed},
	stopping: {over, failed},
	over:     {failed},
	failed:   {failed},
}

// enter changes the phase. A change that is not in the map phases is a bug of the loop and fails the run.
func (l *loop) enter(next phase) {
	if !slices.Contains(phases[l.phase], next) {
		l.failure, next = fmt.Errorf("a run that is %s cannot be %s next", l.phase, next), failed
	}
	l.phase = next
}

// fail ends the run with a failure of the harness itself. It does nothing if err is nil.
func (l *loop) fail(err error) {
	if err != nil {
		l.failure = err
		l.enter(failed)
	}
}

// finished ends the run with the last frame of its program.
func (l *loop) finished(last *frame.Frame) {
	l.done = last
	l.enter(over)
}

// end stops the program with an error that the host has decided.
func (l *loop) end(kind, message string) {
	l.readEnd()
	l.stop(l.explain(kind, message))
}

// explain returns the error of an ending that the host decides, with advice if a change of the program may avoid the error.
func (l *loop) explain(kind, message string) *Error {
	message = clip.Counted(message, maxMessage)
	if l.spec.Locate != nil && (kind == frame.KindTimeout || kind == frame.KindOutputLimit || kind == frame.KindCallLimit) {
		return l.spec.Locate(&frame.Error{Kind: kind, Message: message})
	}
	return &Error{Kind: kind, Message: message}
}

func (l *loop) stop(reason *Error) {
	if l.phase != running {
		return
	}
	l.reason = reason
	l.enter(stopping)
	l.spec.Turn.Rest() // thaws the process, which could not end while frozen
	l.endCalls()
	switch {
	case !l.detachment.hasRunner():
		l.finished(&frame.Frame{T: frame.Done})
		return
	case l.detachment.state == detaching:
		return // detach has already sent the cancel frame to the runner
	}
	if unsent := l.guest.unsent; len(unsent) > 0 && unsent[0].T == frame.Start { // a runner without a program ignores a cancel frame
		l.guest.send(unsent[0])
	}
	l.guest.send(&frame.Frame{T: frame.Cancel, Run: l.spec.Start.Run, Reason: reason.Kind})
	l.kill = time.After(grace)
}

// lost handles the end of the runner's process. Without a done frame the run has failed, whatever the exit code.
func (l *loop) lost() {
	if l.detachedNow() {
		return
	}
	l.finished(&frame.Frame{T: frame.Done})
	if l.reason != nil {
		return
	}
	kind, message := frame.KindCrash, strings.TrimSpace(l.guest.runner.Err().Error())
	switch err := l.guest.runner.Err(); {
	case errors.Is(err, sandbox.ErrFrameSize):
		kind = frame.KindOutputLimit
	case errors.Is(err, sandbox.ErrMemory):
		kind, message = frame.KindMemory, fmt.Sprintf("sandbox.memory is %d MiB: %s", l.spec.Limits.Memory>>20, message)
	}
	l.reason = l.explain(kind, message)
}
