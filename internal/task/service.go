package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/pii"
)

// Past is an earlier task of a session with its steps.
type Past struct {
	Task  Task
	Steps []Step
}

// Log is where a worker records what it does.
type Log interface {
	// Commit makes a change durable, and tells who watches. It returns an error only when the worker must stop. It is
	// safe for concurrent use; changes are applied in the order of the calls.
	Commit(ctx context.Context, c Change) error
	// Stream tells who watches a piece of an answer. It is not stored.
	Stream(data json.RawMessage)
}

// Worker works a task until it ends, from its beginning or from where its steps stop, and returns it as it ended. An error
// means that this process stops working on it; a *RetryError, that it works on it again after a pause. A context with the
// cause ErrCancelled ends the task as cancelled, one with another cause leaves it.
type Worker func(ctx context.Context, t Task, history []Past, steps []Step, log Log) (Task, error)

// RetryError is a Worker's error for a task that cannot go on at the moment, for example because the provider of its model
// is away. The pause counts for no budget.
type RetryError struct {
	After time.Duration // the pause before the next call; more than 0
	Err   error
}

func (e *RetryError) Error() string { return fmt.Sprintf("try again in %s: %v", e.After, e.Err) }

func (e *RetryError) Unwrap() error { return e.Err }

// ErrCancelled is the cause of the context of a task that somebody cancelled.
var ErrCancelled = errors.New("the task was cancelled")

// Options are the parts that a Service joins.
type Options struct {
	Store  Store
	Worker Worker
	// Park ends the context of a worker whose task is left for another process: its cause.
	Park error
	// Admit refuses requests whose model or budget cannot be granted; its errors are shown to the caller. Nil admits all.
	Admit func(r Request) error
	// Forget removes what is kept of a session outside the store. It may be called again for the same session.
	Forget func(ctx context.Context, user, session string) error
	// Abandon ends a run that a dead process left, and returns what it did to the world; one that has ended, or that a live
	// process executes, stays as it is. Nil where there are no runs.
	Abandon func(ctx context.Context, run string) ([]Effect, error)
	// OnEnd is told of every task that ended in this process; nil for nobody.
	OnEnd func(Task)
	// SessionExpiry is how long a session is kept after its last use.
	SessionExpiry time.Duration
	// Workers is how many tasks are in work at the same time, at most. A user may have in work at most userShare times as many as
	// there are free.
	Workers int
	// Begun is called when Work holds the lock on the store's queue; nil is not called.
	Begun func()
	// Allow says whether a principal's schedule may make a task now, or when to ask again; nil allows all.
	Allow func(principal string) (after time.Duration, ok bool)
	// Grace is how long tasks may go on when Work's context ends, before they are parked.
	Grace    time.Duration
	Webhooks Webhooks
	Privacy  pii.Filter // of the texts of requests; nil is pii.None
	Now      func() time.Time
	Logger   *slog.Logger
}

// Service takes tasks in, has them worked, and tells how they are. It is safe for concurrent use.
type Service struct {
	opt    Options
	hub    hub
	client *http.Client // of webhooks

	ready     chan struct{} // holds a token when there may be a task to claim
	outbox    chan struct{} // when there may be a webhook to deliver
	schedules chan struct{} // when schedules changed

	working atomic.Bool

	mu       sync.Mutex
	running  map[string]context.CancelCauseFunc // what this process works on
	inWork   map[string]int                     // tasks that Work has claimed, by user
	failures map[string]int                     // of waiting tasks, in a row
}

// NewService joins the parts.
func NewService(opt Options) *Service {
	now := opt.Now
	opt.Now = func() time.Time { return now().UTC().Truncate(time.Microsecond) } // as the store has it
	return &Service{
		opt: opt, client: opt.Webhooks.client(),
		ready: make(chan struct{}, 1), outbox: make(chan struct{}, 1), schedules: make(chan struct{}, 1),
		running: map[string]context.CancelCauseFunc{}, inWork: map[string]int{}, failures: map[string]int{},
	}
}

// Submit adds a task. created is false for a request that was made before with the same idempotency key.
func (s *Service) Submit(ctx context.Context, r Request) (t Task, created bool, err error) {
	if err := s.check(&r); err != nil {
		return Task{}, false, err
	}
	if err := ctx.Err(); err != nil {
		return Task{}, false, err
	}
	// A caller who goes away meanwhile gets the whole or nothing, never a task of which nobody knows.
	ctx = context.WithoutCancel(ctx)
	n, err := s.make(ctx, r)
	if err != nil {
		return Task{}, false, err
	}
	if t, created, err = s.opt.Store.CreateTask(ctx, n); err != nil || !created {
		return t, false, err
	}
	if t.CacheKey != "" && (t.RunAt == nil || !t.RunAt.After(s.opt.Now())) {
		if cached, ok := s.answerAgain(ctx, t, r.CacheFor); ok {
			return cached, true, nil
		}
	}
	wake(s.ready)
	return t, true, nil
}

// make prepares a new task.
func (s *Service) make(ctx context.Context, r Request) (New, error) {
	now := s.opt.Now()
	t := Task{
		ID: id.New("task"), SessionID: r.SessionID, UserID: r.UserID, Model: r.Model,
		Status: Queued, Logs: []string{}, Runs: []string{}, Budget: r.Budget, CreatedAt: now, RunAt: r.RunAt,
		Principal: r.Principal, CallbackURL: r.Callback, Schedule: r.schedule, CacheKey: r.cacheKey(), Trace: r.Trace,
	}
	if t.SessionID == "" {
		t.SessionID = id.New("sess")
	}
	privacy := pii.In(s.opt.Privacy, t.UserID, t.SessionID)
	var err error
	if t.Task, err = privacy.Hide(ctx, r.Task); err != nil {
		return New{}, err
	}
	if t.Context, err = privacy.HideJSON(ctx, r.Context); err != nil {
		return New{}, err
	}
	return New{
		Task: t, Own: r.Own, IdempotencyKey: r.IdempotencyKey, BodyHash: r.BodyHash,
		Events: []Event{s.event(EventQueued, map[string]any{"id": t.ID, "sessionId": t.SessionID, "runAt": t.RunAt})},
		Session: Session{
			ID: t.SessionID, UserID: t.UserID, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(s.opt.SessionExpiry),
		},
	}, nil
}

func (s *Service) event(kind string, data any) Event {
	encoded, err := json.Marshal(data)
	if err != nil {
		encoded, _ = json.Marshal(map[string]string{"problem": err.Error()})
	}
	return Event{Type: kind, Time: s.opt.Now(), Data: encoded}
}

// answerAgain ends a task with the answer of an equal one.
func (s *Service) answerAgain(ctx context.Context, t Task, within time.Duration) (Task, bool) {
	now := s.opt.Now()
	earlier, err := s.opt.Store.Cached(ctx, t.UserID, t.CacheKey, now.Add(-within))
	if err != nil {
		return t, false
	}
	claimed, err := s.opt.Store.Claim(ctx, t.ID, now)
	if err != nil {
		return t, false
	}
	release := func() (Task, bool) {
		if err := s.opt.Store.Release(ctx, claimed.ID, claimed.Fence, now); err != nil {
			s.opt.Logger.Error("give up a task that no earlier answer fits", "task", t.ID, "error", err)
		}
		return t, false
	}
	claimed.Status, claimed.Cached, claimed.EndedAt = Succeeded, true, &now
	was, is := pii.In(s.opt.Privacy, earlier.UserID, earlier.SessionID), pii.In(s.opt.Privacy, t.UserID, t.SessionID)
	if claimed.Text, err = moved(ctx, earlier.Text, was.Restore, is.Hide); err != nil {
		return release()
	}
	if claimed.Output, err = moved(ctx, earlier.Output, was.RestoreJSON, is.HideJSON); err != nil {
		return release()
	}
	claimed.Message = fmt.Sprintf("Answered as task %s was at %s.", earlier.ID, earlier.EndedAt.UTC().Format(time.RFC3339))
	if err := s.end(ctx, claimed); err != nil {
		return release()
	}
	return claimed, true
}

// moved is a text of one session in another: with tokens of that one.
func moved[T any](ctx context.Context, text T, restore, hide func(context.Context, T) (T, error)) (T, error) {
	value, err := restore(ctx, text)
	if err != nil {
		return text, err
	}
	return hide(ctx, value)
}

// Task returns a task; the error wraps ErrNotFound.
func (s *Service) Task(ctx context.Context, id string) (Task, error) {
	return s.opt.Store.Task(ctx, id)
}

// Tasks lists tasks, newest first.
func (s *Service) Tasks(ctx context.Context, f Filter) (tasks []Task, next string, err error) {
	return s.opt.Store.Tasks(ctx, f)
}

// Steps returns the steps of a task.
func (s *Service) Steps(ctx context.Context, id string) ([]Step, error) {
	return s.opt.Store.Steps(ctx, id)
}

// Queued is how many tasks wait to be worked.
func (s *Service) Queued(ctx context.Context) (int, error) { return s.opt.Store.Queued(ctx) }

// Wait returns a task when it has ended.
func (s *Service) Wait(ctx context.Context, id string) (Task, error) {
	sub, leave := s.hub.subscribe(id)
	defer leave()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		t, err := s.opt.Store.Task(ctx, id)
		if err != nil || t.Status.Ended() {
			return t, err
		}
		for ended := false; !ended; {
			select {
			case <-sub.some:
				events, behind := sub.take()
				ended = behind || slices.ContainsFunc(events, func(e Event) bool { return e.Type == EventEnded })
			case <-again.C:
				ended = !s.worksOn(id) // another process may have ended it
			case <-ctx.Done():
				return Task{}, context.Cause(ctx)
			}
		}
	}
}
