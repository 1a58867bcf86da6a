package run

import "testing"

// A run takes the steps of the table and no others: one that is not there fails it.
func TestAttachments(t *testing.T) {
	t.Parallel()
	states := []attachment{attached, detaching, detached, reattaching}
	steps := map[attachment]attachment{attached: detaching, detaching: detached, detached: reattaching, reattaching: attached}
	for _, from := range states {
		for _, next := range states {
			l := &loop{detachment: newDetachment()}
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
