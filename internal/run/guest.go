package run

import (
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/sandbox"
)

// guest is the program on one runner.
type guest struct {
	runner   *sandbox.Lease // nil: the run has given it up
	activity activity
	unsent   []*frame.Frame // frames for the program once it has a processor
	clean    bool           // the runner sent its done frame: it can be reset

	since     time.Time
	allowed   time.Duration // time that the program may compute from since on
	frozen    time.Duration // frozen time at since
	idleSince time.Duration // processor time of the runner at the last look since it became idle; -1 before the first
	unmetered int           // looks in a row that did not find it
}

// activity is what a guest does, as far as the host has heard.
type activity string

const (
	resting   activity = "resting"   // The guest waits for answers, or has not begun.
	queued    activity = "queued"    // The guest is to compute as soon as it has a processor.
	computing activity = "computing" // The guest computes: its time counts.
	blocked   activity = "blocked"   // The guest waits for the answer to a synchronous call.
)

// activities are the steps from each activity. Only a hostile guest makes a synchronous call while it rests or is queued.
var activities = map[activity][]activity{
	resting:   {queued, computing, blocked},
	queued:    {computing, blocked},
	computing: {resting, blocked},
	blocked:   {queued, computing},
}

// does makes a step. One that is not in the table is a fault of the loop, and fails the run.
func (l *loop) does(next activity) {
	if !slices.Contains(activities[l.guest.activity], next) {
		l.fail(fmt.Errorf("a guest that is %s cannot be %s next", l.guest.activity, next))
	}
	l.guest.activity = next
}

// compute lets the guest compute, which may have to wait for a processor: what is sent to it waits as well.
func (l *loop) compute() {
	switch l.guest.activity {
	case computing, queued:
	case resting, blocked:
		if l.spec.Turn.Compute() {
			l.computes()
		} else {
			l.does(queued)
		}
	}
}

// granted ends the wait for a processor.
func (l *loop) granted() {
	if l.guest.activity == queued && l.phase == running {
		l.computes()
	}
}

// computes begins the computing of a guest that has a processor.
func (l *loop) computes() {
	l.does(computing)
	l.startClock()
	for _, f := range l.guest.unsent {
		l.guest.send(f)
	}
	l.guest.unsent = nil
}

// rest ends the computing of a guest that says it is idle.
func (l *loop) rest() {
	if l.guest.activity == computing {
		l.does(resting)
		l.stopClock()
	}
}

// block ends the computing of a guest that has made a synchronous call.
func (l *loop) block() {
	switch l.guest.activity {
	case blocked: // A hostile guest has made a second call.
	case computing:
		l.does(blocked)
		l.stopClock()
	case resting, queued:
		l.does(blocked)
		l.spec.Turn.Rest()
	}
}

// send gives a frame to the guest, or keeps it until the guest has a processor.
func (l *loop) send(f *frame.Frame) {
	if l.guest.activity == queued || len(l.guest.unsent) > 0 {
		l.guest.unsent = append(l.guest.unsent, f)
	} else {
		l.guest.send(f)
	}
}

// send gives a frame to the runner, which reads it when it likes: the run's goroutine keeps the run's limits, and does not wait for the
// guest.
func (g *guest) send(f *frame.Frame) {
	if g.runner.Send(f) != nil {
		g.runner.Kill() // Frames says why
	}
}
