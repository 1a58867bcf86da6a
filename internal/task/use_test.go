package task_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// enters counts the uses of sessions that have begun and those that have ended.
type enters struct {
	mu           sync.Mutex
	begun, ended int
	last         time.Time
	refuse       error
}

func (e *enters) enter(context.Context, string, string, time.Time) (func(context.Context, time.Time) error, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuse != nil {
		return nil, e.refuse
	}
	e.begun++
	return func(_ context.Context, now time.Time) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ended++
		e.last = now
		return nil
	}, nil
}

func (e *enters) want(t *testing.T, begun, ended int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.begun != begun || e.ended != ended {
		t.Errorf("the store has noted %d uses, and the end of %d; want %d, %d", e.begun, e.ended, begun, ended)
	}
}

// Successive runs share a use for a limited time. A session is in use as long as one of its runs is under way.
func TestUses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e enters
		uses := task.NewUses(task.UseOptions{Enter: e.enter, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		enter := func(user, session string) func() {
			t.Helper()
			leave, err := uses.Enter(t.Context(), user, session)
			if err != nil {
				t.Fatal(err)
			}
			return leave
		}
		for range 100 {
			enter("ann", "s")()
		}
		e.want(t, 1, 0)
		left := time.Now()
		time.Sleep(time.Second)
		synctest.Wait()
		e.want(t, 1, 1)
		if !e.last.Equal(left) {
			t.Errorf("its end was noted as %s, not as %s", e.last, left)
		}

		first, second := enter("ann", "s"), enter("ann", "s")
		e.want(t, 2, 1)
		other := enter("bob", "s")
		e.want(t, 3, 1)
		other()
		first()
		time.Sleep(time.Minute)
		e.want(t, 3, 2)            // only the use of bob's session has ended
		third := enter("ann", "s") // A new use begins although earlier runs are under way.
		e.want(t, 4, 2)
		second()
		e.want(t, 4, 3)
		uses.End("ann", "s") // does nothing, because a run uses the session
		e.want(t, 4, 3)
		third()
		uses.End("ann", "s")
		e.want(t, 4, 4)
		uses.End("ann", "s")

		enter("ann", "a")()
		enter("ann", "b")()
		uses.Close()
		e.want(t, 6, 6)
		time.Sleep(time.Minute)
		e.want(t, 6, 6)

		e.refuse = errors.New("no")
		if _, err := uses.Enter(t.Context(), "ann", "s"); !errors.Is(err, e.refuse) {
			t.Errorf("it is entered: %v", err)
		}
	})
}
