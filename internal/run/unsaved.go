package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

const (
	// saveAfter is the maximum time that records wait for a commit. A process that dies loses at most the records of that time. After that time,
	// at the latest, other processes can list a new run.
	saveAfter  = time.Second
	maxUnsaved = 256 << 10 // maximum bytes of answers that wait for a commit
)

// unsaved tracks what waits for a commit. The program gets an answer before the answer is stored, because a crash that loses the answer also
// loses everything that the program did with it: a resumed run makes the call again. What others see of a run must not depend on such an answer.
// So a commit comes before a write is sent, an event is shown, a person is asked, a runner is given up, or the run ends.
type unsaved struct {
	due     <-chan time.Time // receives at the time of the next commit; nil if nothing has to be stored
	answers int
	bytes   int     // bytes of the answers
	events  []Event // events that the observer has not seen
}

func (u *unsaved) add(a *journal.Answer) {
	u.answers++
	u.bytes += len(a.Value) + len(a.Error) + len(a.Beside)
}

// save commits answers, or lets them wait for the next commit. The answer to a write does not wait, because the write would be in doubt after a crash.
// Answers do not wait either if the run has an observer, which sees each answer before the program, or has no runner, because the next leg reads the answers
// from the store.
func (l *loop) save(ctx context.Context, answers []*journal.Answer) {
	wrote := func(a *journal.Answer) bool { return l.effects.wrote(a.N) }
	if l.detachment.state != attached || l.spec.Observe != nil || l.unsaved.bytes >= maxUnsaved || slices.ContainsFunc(answers, wrote) {
		l.commit(ctx)
	} else if l.unsaved.due == nil {
		l.unsaved.due = time.After(saveAfter)
	}
}

// commit stores the records, and shows the events that waited for the commit. It ignores the end of ctx, so that answers are stored
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

// observe shows an event to the observer. It does so at once if every answer that the program has got is stored, and after the next commit if not.
func (l *loop) observe(e Event) {
	switch {
	case l.spec.Observe == nil:
	case l.unsaved.answers > 0:
		l.unsaved.events = append(l.unsaved.events, e)
	default:
		l.spec.Observe(e)
	}
}
