// Package queue says which job is worked when, and works it. What a job is to do, and that it is not forgotten, is the
// business of whoever pushes it: after a restart the jobs that have not ended are pushed again.
package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Job names a task to be worked. Jobs with the same Key are worked one at a time, in the order in which they became due:
// those pushed to be worked at once in the order of their pushes, a later one as if it were pushed at its time. A job
// without a Key waits for no other.
type Job struct {
	ID  string
	Key string
	At  time.Time // not before; zero: now
}

// Queue is a queue of jobs. Its methods are safe for concurrent use.
type Queue interface {
	// Push adds a job. It changes nothing where a job of that ID waits already or is being worked.
	Push(ctx context.Context, j Job) error
	// Work calls handle for jobs, at most workers at once, until ctx ends; it then waits until the handlers have returned,
	// and returns nil. Jobs that still wait go on waiting. An error says why it cannot work.
	//
	// A handler's context ends with the cause ErrCancelled when Cancel names its job, or with ctx and its cause. A handler
	// that returns Retry is called again later, and until then its job keeps its place within its key; any other return
	// settles the job, and so does a panic, which harms no other job.
	Work(ctx context.Context, workers int, handle func(ctx context.Context, id string) error) error
	// Cancel removes a waiting job, or ends the context of a handler. It reports whether the job was there.
	Cancel(id string) bool
	// Len is the number of waiting jobs, those included that are not due.
	Len() int
}

// ErrCancelled is the cause of a handler's context that Cancel ended.
var ErrCancelled = errors.New("the job was cancelled")

// RetryError is what Retry returns.
type RetryError struct {
	After time.Duration // not positive: as soon as a worker is free
}

func (e *RetryError) Error() string { return fmt.Sprintf("to be tried again in %v", e.After) }

// Retry is the error by which a handler asks to be called again.
func Retry(after time.Duration) error { return &RetryError{After: after} }
