package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

const (
	// saveAfter is how long records wait for a commit at most: a process that dies loses no more, and others list the run then.
	saveAfter  = time.Second
	maxUnsaved = 256 << 10 // bytes of answers that wait for a commit
)

// unsaved is what waits for a commit. The program gets an answer before it is stored, because a crash that loses the answer also loses all
// that the program did with it: a resumed run makes the call again. What others see of a run must not depend on such an answer. So a
// commit comes before a write is sent, a person is asked or told, a runner is given up, and the run ends.
type unsaved struct {
	due     <-chan time.Time // time of the commit; nil: nothing has to be stored
	answers int
	bytes   int     // bytes of answers
	events  []Event // events that the observer has not seen
}

func (u *unsaved) add(a *journal.Answer) {
	u.answers++
	u.bytes += len(a.Value) + len(a.Error) + len(a.Beside)
}

// save stores answers, or lets them wait for the next commit. The outcome of a write does not wait: it would be in doubt after a crash. A run that
// is watched shows each answer before the program has it, and one without a runner reads them from the store.
func (l *loop) save(ctx context.Context, answers []*journal.Answer) {
	wrote := func(a *journal.Answer) bool { return l.effects.wrote(a.N) }
	if l.detachment.state != attached || l.spec.Observe != nil || l.unsaved.bytes >= maxUnsaved || slices.ContainsFunc(answers, wrote) {
		l.commit(ctx)
	} else if l.unsaved.due == nil {
		l.unsaved.due = time.After(saveAfter)
	}
}

// commit stores what was recorded, and shows what waited for that. It does not end with the run's context: what was answered is stored
// even when the run has been cancelled.
func (l *loop) commit(ctx context.Context) {
	if err := l.journal.Commit(context.WithoutCancel(ctx)); err != nil {
		l.fail(fmt.Errorf("write the journal: %w", err))
		return
	}
	events := l.unsaved.events
	l.unsaved = unsaved{}
	for _, e := range events {
		l.observe(e)
	}
}

// observe shows an event, at once if every answer that the program has had is stored.
func (l *loop) observe(e Event) {
	switch {
	case l.spec.Observe == nil:
	case l.unsaved.answers > 0:
		l.unsaved.events = append(l.unsaved.events, e)
	default:
		l.spec.Observe(e)
	}
}
