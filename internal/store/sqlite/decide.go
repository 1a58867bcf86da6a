package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// refusal is what a change answers that finds that it must not be made. It fails nobody else's change, for nothing was
// written.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// refuse is for the functions that decide applies, before they write anything.
func refuse(err error) error { return refusal{err} }

// decide has the writer apply a change that looks before it writes, and may refuse. A name that is taken is
// task.ErrExists.
func (s *Store) decide(ctx context.Context, bytes int, apply func(*conn) error) error {
	var refused error
	err := s.doLarge(ctx, bytes, func(c *conn) error {
		refused = nil
		err := apply(c)
		var r refusal
		if errors.As(err, &r) {
			refused = r.error
			return nil
		}
		return err
	})
	switch {
	case isUnique(err):
		return task.ErrExists
	case err != nil: // refused may still be the writer's
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return refused
}

// micros is a time as it is stored: microseconds since the Unix epoch, nil for none.
func micros(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	n := t.UnixMicro()
	return &n
}

// someMicros is micros for times whose zero is none.
func someMicros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return micros(&t)
}

// instant is a stored time.
func instant(n int64) time.Time { return time.UnixMicro(n).UTC() }

func instantOrNil(n *int64) *time.Time {
	if n == nil {
		return nil
	}
	t := instant(*n)
	return &t
}

func instantOrZero(n *int64) time.Time {
	if n == nil {
		return time.Time{}
	}
	return instant(*n)
}
