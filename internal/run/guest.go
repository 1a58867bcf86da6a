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
	runner   *sandbox.Lease // nil if the run has no runner
	activity activity
	unsent   []*frame.Frame // frames to send once the program has a processor
	clean    bool           // reports that the runner sent its done frame, so that it can be reset

	since     time.Time
	allowed   time.Duration // time that the program may compute, counted from since
	frozen    time.Duration // total frozen time of the program at the time since
	idleSince time.Duration // processor time of the runner at the last reading since it became idle; -1 before the first
	unmetered int           // number of consecutive readings that failed
}

// activity is what a guest does according to its last frames.
type activity string

const (
	resting   activity = "resting"   // The guest waits for answers, or has not begun.
	queued    activity = "queued"    // The guest will compute as soon as it has a processor.
	computing activity = "computing" // The guest computes, and its clock runs.
	blocked   activity = "blocked"   // The guest waits for the answer to a synchronous call.
)

// activities maps each activity to those that may follow it. Only a hostile guest makes a synchronous call while it rests or is queued.
var activities = map[activity][]activity{
	resting:   {queued, computing, blocked},
	queued:    {computing, blocked},
	computing: {resting, blocked},
	blocked:   {queued, computing},
}

// does changes the activity. A change that is not in the map activities is a bug of the loop and fails the run.
func (l *loop) does(next activity) {
	if !slices.Contains(activities[l.guest.activity], next) {
		l.fail(fmt.Errorf("a guest that is %s cannot be %s next", l.guest.activity, next))
	}
	l.guest.activity = next
}

// compute lets the guest compute. The guest may have to wait for a processor; frames to the guest then wait too.
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

// granted lets a queued guest compute, because it has got a processor.
func (l *loop) granted() {
	if l.guest.activity == queued && l.phase == running {
		l.computes()
	}
}

// computes starts the clock of a guest that has a processor, and sends it the waiting frames.
func (l *loop) computes() {
	l.does(computing)
	l.startClock()
	for _, f := range l.guest.unsent {
		l.guest.send(f)
	}
	l.guest.unsent = nil
}

// rest stops the clock of a guest that has reported that it is idle.
func (l *loop) rest() {
	if l.guest.activity == computing {
		l.does(resting)
		l.stopClock()
	}
}

// block stops the clock of a guest that has made a synchronous call.
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

// send sends a frame to the guest, or keeps it until the guest has a processor.
func (l *loop) send(f *frame.Frame) {
	if l.guest.activity == queued || len(l.guest.unsent) > 0 {
		l.guest.unsent = append(l.guest.unsent, f)
	} else {
		l.guest.send(f)
	}
}

// send sends a frame to the runner without waiting until the runner reads it, because the run's goroutine enforces the run's limits and
// must not wait for the guest.
func (g *guest) send(f *frame.Frame) {
	if g.runner.Send(f) != nil {
		g.runner.Kill() // the loop handles the error when Frames is closed
	}
}
