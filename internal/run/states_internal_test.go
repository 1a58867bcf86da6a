package run

import (
	"slices"
	"strings"
	"testing"
)

// A run takes the steps of the table and no others: one that is not there fails it.
func TestAttachments(t *testing.T) {
	t.Parallel()
	states := []attachment{attached, detaching, detached, reattaching}
	steps := map[attachment]attachment{attached: detaching, detaching: detached, detached: reattaching, reattaching: attached}
	for _, from := range states {
		for _, next := range states {
			l := &loop{phase: running, detachment: newDetachment()}
			l.detachment.state = from
			if l.to(next); (l.failure == nil) != (steps[from] == next) || l.detachment.state != next {
				t.Errorf("from %s to %s: %v", from, next, l.failure)
			}
		}
		d := detachment{state: from}
		if d.hasRunner() != (from == attached || from == detaching) {
			t.Errorf("%s: a runner %t", from, d.hasRunner())
		}
	}
}

// A run goes on from each phase as the table says: it ends once, and what fails afterwards fails it.
func TestPhases(t *testing.T) {
	t.Parallel()
	steps := map[phase]string{running: "stopping over failed", stopping: "over failed", over: "failed", failed: "failed"}
	all := []phase{running, stopping, over, failed}
	for _, from := range all {
		for _, next := range all {
			l := &loop{phase: from}
			l.enter(next)
			if allowed := slices.Contains(strings.Fields(steps[from]), string(next)); allowed != (l.failure == nil) || allowed && l.phase != next || !allowed && l.phase != failed {
				t.Errorf("from %s to %s: it is %s, %v", from, next, l.phase, l.failure)
			}
		}
	}
}

// A guest does what the table says next, and nothing else.
func TestActivities(t *testing.T) {
	t.Parallel()
	steps := map[activity]string{resting: "queued computing blocked", queued: "computing blocked", computing: "resting blocked", blocked: "queued computing"}
	all := []activity{resting, queued, computing, blocked}
	for _, from := range all {
		for _, next := range all {
			l := &loop{phase: running, leg: leg{guest: guest{activity: from}}}
			if l.does(next); slices.Contains(strings.Fields(steps[from]), string(next)) != (l.failure == nil) || l.guest.activity != next {
				t.Errorf("from %s to %s: %v", from, next, l.failure)
			}
		}
	}
}
