package run

import (
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/journal"
)

// A run makes only the changes of attachment in the table. Any other change fails the run.
func TestAttachments(t *testing.T) {
	t.Parallel()
	states := []attachment{attached, detaching, detached, reattaching}
	steps := map[attachment]string{attached: "detaching", detaching: "detached", detached: "reattaching", reattaching: "attached detached"}
	for _, from := range states {
		for _, next := range states {
			l := &loop{phase: running, detachment: newDetachment()}
			l.detachment.state = from
			if l.to(next); (l.failure == nil) != slices.Contains(strings.Fields(steps[from]), string(next)) || l.detachment.state != next {
				t.Errorf("from %s to %s: %v", from, next, l.failure)
			}
		}
		d := detachment{state: from}
		if d.hasRunner() != (from == attached || from == detaching) {
			t.Errorf("%s: a runner %t", from, d.hasRunner())
		}
	}
}

// A run makes only the changes of phase in the table. It ends once, and a later failure fails it.
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

// A guest makes only the changes of activity in the table.
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

// A call makes only the changes of state in the table. The run counts its calls by state.
func TestCallStates(t *testing.T) {
	t.Parallel()
	steps := map[callState]string{
		undecided: "held serial in_flight timed answered unanswered", held: "serial in_flight timed", serial: "in_flight",
		inFlight: "asking answered", asking: "answered", timed: "answered",
	}
	all := []callState{undecided, held, serial, inFlight, asking, timed, answered, unanswered}
	for _, from := range all {
		for _, next := range all {
			l := &loop{phase: running, calls: newCalls()}
			c := l.calls.make(l, &journal.Call{N: 1})
			l.calls.count[undecided]--
			l.calls.count[from]++
			c.state = from
			allowed := slices.Contains(strings.Fields(steps[from]), strings.ReplaceAll(string(next), " ", "_"))
			if c.to(next); allowed != (l.failure == nil) || c.state != next || len(l.calls.in(next)) != 1 || from != next && l.calls.count[from] != 0 {
				t.Errorf("from %s to %s: it is %s, %v, %v", from, next, c.state, l.calls.count, l.failure)
			}
			if l.calls.remove(c); len(l.calls.all) != 0 || l.calls.count[next] != 0 {
				t.Errorf("removed from %s: %v", next, l.calls.count)
			}
		}
	}
}
