package task

import (
	"cmp"
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

// Log records what a worker does.
type Log interface {
	// Commit stores a change and publishes its events. It returns an error only when the worker must stop. It is
	// safe for concurrent use; changes are applied in the order of the calls.
	Commit(ctx context.Context, c Change) error
	// Stream publishes a piece of an answer. It is not stored.
	Stream(data json.RawMessage)
	// Report publishes the progress of a call of a run. It is not stored.
	Report(data json.RawMessage)
}

// Worker works a task from its beginning, or from its last step, until it ends, and returns the ended task. An error means that this process stops
// working on the task; after a *RetryError it works on the task again after a pause. If the context ends with the cause ErrCancelled, the Worker ends
// the task as cancelled; with another cause it leaves the task unfinished.
type Worker func(ctx context.Context, t Task, history []Past, steps []Step, log Log) (Task, error)

// RetryError is a Worker's error for a task that cannot continue now, for instance because its provider is unavailable. The pause counts towards no
// budget.
type RetryError struct {
	After time.Duration // pause before the Worker is called again; more than 0
	Err   error
}

func (e *RetryError) Error() string { return fmt.Sprintf("try again in %s: %v", e.After, e.Err) }

func (e *RetryError) Unwrap() error { return e.Err }

// WaitError is a Worker's error for a task whose run waits for an approval. The waiting time counts towards no budget.
type WaitError struct {
	Request string    // id of the approval request
	Until   time.Time // expiry of the request
}

func (e *WaitError) Error() string { return "it waits for approval " + e.Request }

// ErrCancelled is the cause of a cancelled task's context.
var ErrCancelled = errors.New("the task was cancelled")

// Options are the parts and settings of a Service.
type Options struct {
	Store  Store
	Bus    Bus // if nil, watchers see only stored events of tasks of other processes
	Worker Worker
	// HandOver is the cause with which a worker's context ends when its task is left for another process.
	HandOver error
	// Admit refuses requests whose model or budget cannot be granted; its errors are shown to the caller. Nil admits all.
	Admit func(r Request) error
	// Forget removes those data of a session that are not in the store. It may be called several times for the same session.
	Forget func(ctx context.Context, user, session string) error
	// Abandon ends a run that a dead process left, and returns the effects of the run. A run that has ended, or that a live process executes, stays
	// as it is. Abandon is nil if there are no runs.
	Abandon func(ctx context.Context, run string) ([]Effect, error)
	// OnEnd, if not nil, is called with every task that ended in this process.
	OnEnd func(Task)
	// Uses tracks the uses of sessions; if nil, the service makes its own.
	Uses *Uses
	// SessionExpiry is the time for which a session is kept after its last use.
	SessionExpiry time.Duration
	// Workers is the maximum number of tasks in work. A user may have at most userShare times as many tasks in work as there are free workers.
	Workers int
	// Begun, if not nil, is called when Work holds the lock on the store's queue.
	Begun func()
	// Allow reports whether a principal's schedule may make a task now. If not, after is the time to wait before the next try. Nil allows all.
	Allow func(principal string) (after time.Duration, ok bool)
	// Grace is the time for which tasks may continue after Work's context has ended, before they are handed over.
	Grace    time.Duration
	Webhooks Webhooks
	Privacy  *pii.Filter // filter for the texts of requests; nil changes nothing
	Now      func() time.Time
	Logger   *slog.Logger
}

// Service creates tasks, works them, and reports on them. It is safe for concurrent use.
type Service struct {
	Reader // read methods of the store
	opt    Options
	hub    hub
	client *http.Client // client for webhooks

	ready     chan struct{} // holds a token if there may be a task to claim
	outbox    chan struct{} // signalled when a webhook may be due
	schedules chan struct{} // signalled when schedules changed

	working   atomic.Bool
	following atomic.Int32 // number of watchers that follow tasks of other processes
	doing     sync.Map     // ids of tasks in calls of Do; a second call for a task is refused, because its claim would end the first call's claim

	mu       sync.Mutex
	running  map[string]context.CancelCauseFunc // the tasks that this process works, by id
	inWork   tally                              // tasks that Work has claimed, by user
	failures tally                              // consecutive failures of tasks and schedules, by id
}

// NewService creates a service from its parts.
func NewService(opt Options) *Service {
	opt.Now = asStored(opt.Now)
	if opt.Uses == nil {
		opt.Uses = NewUses(UseOptions{Enter: opt.Store.EnterSession, Now: opt.Now, Logger: opt.Logger})
	}
	return &Service{
		Reader: opt.Store, opt: opt, client: opt.Webhooks.client(),
		ready: make(chan struct{}, 1), outbox: make(chan struct{}, 1), schedules: make(chan struct{}, 1),
		running: map[string]context.CancelCauseFunc{}, inWork: tally{}, failures: tally{},
	}
}

// asStored returns a clock with the precision of the store.
func asStored(now func() time.Time) func() time.Time {
	return func() time.Time { return now().UTC().Truncate(time.Microsecond) }
}

// Submit adds a task. created is false if the same idempotency key was used in an earlier request, whose task is returned.
func (s *Service) Submit(ctx context.Context, r Request) (t Task, created bool, err error) {
	if err := s.check(&r); err != nil {
		return Task{}, false, err
	}
	if err := ctx.Err(); err != nil {
		return Task{}, false, err
	}
	// If the caller goes away, the task is created as a whole or not at all.
	ctx = context.WithoutCancel(ctx)
	n, err := s.make(ctx, r)
	if err != nil {
		return Task{}, false, err
	}
	if t, created, err = s.opt.Store.CreateTask(ctx, n); err != nil || !created {
		return t, false, err
	}
	if t.Status.Ended() {
		s.ended(t, nil)
	} else {
		s.announce(t.UserID)
	}
	return t, true, nil
}

// make prepares a new task.
func (s *Service) make(ctx context.Context, r Request) (New, error) {
	now := s.opt.Now()
	t := Task{
		ID: id.New("task"), SessionID: r.SessionID, UserID: r.UserID, Model: r.Model,
		Status: Queued, Logs: []string{}, Runs: []string{}, Budget: r.Budget, CreatedAt: now, RunAt: r.RunAt,
		From: r.From, Principal: r.Principal, Roles: r.Roles, CallbackURL: r.Callback, Reveal: r.Reveal, Schedule: r.schedule, CacheKey: r.cacheKey(), Trace: r.Trace,
	}
	if t.SessionID == "" {
		t.SessionID = id.New("sess")
	}
	privacy := s.opt.Privacy.In(t.UserID, t.SessionID)
	from := cmp.Or(r.From, pii.FromTask)
	var err error
	if t.Task, err = privacy.Hide(ctx, from, r.Task); err != nil {
		return New{}, err
	}
	if t.Context, err = privacy.HideJSON(ctx, from, r.Context); err != nil {
		return New{}, err
	}
	if r.RunAt != nil {
		if err := privacy.Keep(ctx, *r.RunAt); err != nil {
			return New{}, err
		}
	}
	n := New{
		Task: t, Own: r.Own, IdempotencyKey: r.IdempotencyKey, BodyHash: r.BodyHash,
		Events:  []Event{s.event(EventQueued, QueuedData{ID: t.ID, SessionID: t.SessionID, RunAt: t.RunAt})},
		Session: s.newSession(t.UserID, t.SessionID),
	}
	if t.CacheKey != "" && (t.RunAt == nil || !t.RunAt.After(now)) {
		s.answerAgain(ctx, &n, now.Add(-r.CacheFor))
	}
	return n, nil
}

func (s *Service) event(kind string, data any) Event {
	encoded, err := json.Marshal(data)
	if err != nil {
		encoded, _ = json.Marshal(map[string]string{"problem": err.Error()})
	}
	return Event{Type: kind, Time: s.opt.Now(), Data: encoded}
}

// answerAgain looks for an equal task that has succeeded after since. If there is one, answerAgain copies its answer into the new task n.
func (s *Service) answerAgain(ctx context.Context, n *New, since time.Time) {
	t := n.Task
	earlier, err := s.opt.Store.Cached(ctx, t.UserID, t.CacheKey, since)
	if err != nil {
		return
	}
	was, is := s.opt.Privacy.In(earlier.UserID, earlier.SessionID), s.opt.Privacy.In(t.UserID, t.SessionID)
	if t.Text, err = was.Translate(ctx, is, earlier.Text); err != nil {
		return
	}
	output, err := was.Translate(ctx, is, string(earlier.Output))
	if err != nil {
		return
	}
	t.Output = json.RawMessage(output)
	t.Status, t.Cached, t.StartedAt, t.EndedAt = Succeeded, true, &t.CreatedAt, &t.CreatedAt
	t.Message = fmt.Sprintf("Answered as task %s was at %s.", earlier.ID, earlier.EndedAt.UTC().Format(time.RFC3339))
	end := s.ending(t)
	n.Task, n.Own, n.Events, n.Webhook = t, false, append(n.Events, end.Events...), end.Webhook
}

// Wait waits until a task has ended or waits for an approval, and returns it.
func (s *Service) Wait(ctx context.Context, id string) (Task, error) {
	sub, leave := s.hub.subscribe(id)
	defer leave()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		t, err := s.opt.Store.Task(ctx, id)
		if err != nil || t.Status.Ended() || t.Status == WaitingApproval {
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
