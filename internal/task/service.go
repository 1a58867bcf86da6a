package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/queue"
)

// Bounds of what a request may hold.
const (
	maxUser    = 100    // characters
	maxText    = 10_000 // characters of a task
	maxSession = 100    // bytes
	maxContext = 1 << 20
)

// Past is an earlier task of a session.
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
// means that this process stops working on it. A context with the cause ErrCancelled ends the task as cancelled, one with
// another cause leaves it.
type Worker func(ctx context.Context, t Task, history []Past, steps []Step, log Log) (Task, error)

// ErrCancelled is the cause of the context of a task that somebody cancelled.
var ErrCancelled = errors.New("the task was cancelled")

// Options are the parts that a Service joins.
type Options struct {
	Store  Store
	Worker Worker
	Queue  queue.Queue // nil where this process works only what it is told to by Do
	// Park ends the context of a worker whose task is left for another process: its cause.
	Park error
	// Forget removes what is kept of a session outside the store.
	Forget func(ctx context.Context, user, session string) error
	// OnEnd is told of every task that ended in this process; nil for nobody.
	OnEnd func(Task)
	// SessionExpiry is how long a session is kept after its last use.
	SessionExpiry time.Duration
	// Workers is how many tasks are worked at the same time.
	Workers int
	// Grace is how long tasks may go on when Work's context ends, before they are parked.
	Grace    time.Duration
	Webhooks Webhooks
	Now      func() time.Time
	Logger   *slog.Logger
}

// Service takes tasks in, has them worked, and tells how they are. It is safe for concurrent use.
type Service struct {
	opt    Options
	hub    hub
	client *http.Client // of webhooks

	outbox    chan struct{} // holds a token when there may be a webhook to deliver
	schedules chan struct{} // and when schedules changed

	working atomic.Bool

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc
	failed  map[string]int // tries in which the worker failed
}

// NewService joins the parts.
func NewService(opt Options) *Service {
	return &Service{
		opt: opt, client: opt.Webhooks.client(), outbox: make(chan struct{}, 1), schedules: make(chan struct{}, 1),
		running: map[string]context.CancelCauseFunc{}, failed: map[string]int{},
	}
}

// Request asks for a task.
type Request struct {
	UserID    string
	Principal string
	Task      string
	SessionID string // empty: a new one
	Context   json.RawMessage
	Model     string
	Callback  string     // URL that is told of the end
	RunAt     *time.Time // not before
	Budget    Budget
	// IdempotencyKey makes a repeated request return the first one's task; BodyHash tells whether it is the same request.
	IdempotencyKey string
	BodyHash       string
	// CacheFor allows the answer of an equal task of the same user that is not older.
	CacheFor time.Duration
	schedule string
}

// check names what is wrong with a request; the error wraps ErrInvalidInput.
func (s *Service) check(r *Request) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalidInput, fmt.Sprintf(format, args...))
	}
	switch {
	case r.UserID == "" || r.Task == "":
		return wrong("userId and task are required")
	case utf8.RuneCountInString(r.UserID) > maxUser:
		return wrong("userId has more than %d characters", maxUser)
	case utf8.RuneCountInString(r.Task) > maxText:
		return wrong("task has more than %d characters", maxText)
	case len(r.Context) > maxContext:
		return wrong("context has more than %d bytes", maxContext)
	case len(r.Context) > 0 && !json.Valid(r.Context):
		return wrong("context is not JSON")
	}
	for _, c := range r.UserID {
		if unicode.IsControl(c) || c == utf8.RuneError {
			return wrong("userId has control characters")
		}
	}
	if err := checkSession(r.SessionID); r.SessionID != "" && err != nil {
		return err
	}
	if r.Callback != "" {
		if err := s.opt.Webhooks.check(r.Callback); err != nil {
			return wrong("callbackUrl: %v", err)
		}
	}
	b := r.Budget
	if b.Turns < 0 || b.Runs < 0 || b.Tokens < 0 || b.Cost < 0 || b.Wall < 0 {
		return wrong("budget has negative bounds")
	}
	return nil
}

// checkSession says what is wrong with the id of a session; the error wraps ErrInvalidInput.
func checkSession(id string) error {
	if id == "" || len(id) > maxSession {
		return fmt.Errorf("%w: a session id has 1 to %d characters", ErrInvalidInput, maxSession)
	}
	for _, c := range id {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return fmt.Errorf("%w: a session id has letters, digits, '-', '_' and '.' only", ErrInvalidInput)
		}
	}
	return nil
}

// Submit adds a task. created is false for a request that was made before with the same idempotency key.
func (s *Service) Submit(ctx context.Context, r Request) (t Task, created bool, err error) {
	if err := s.check(&r); err != nil {
		return Task{}, false, err
	}
	n := s.make(r)
	if t, created, err = s.opt.Store.CreateTask(ctx, n); err != nil || !created {
		return t, false, err
	}
	s.hub.publish(t.ID, nil)
	if r.CacheFor > 0 {
		if cached, ok := s.answerAgain(ctx, t, r.CacheFor); ok {
			return cached, true, nil
		}
	}
	return t, true, s.push(ctx, t)
}

// make prepares a new task.
func (s *Service) make(r Request) New {
	now := s.opt.Now()
	t := Task{
		ID: id.New("task"), SessionID: r.SessionID, UserID: r.UserID, Task: r.Task, Context: r.Context, Model: r.Model,
		Status: Queued, Logs: []string{}, Runs: []string{}, Budget: r.Budget, CreatedAt: now, RunAt: r.RunAt,
		Principal: r.Principal, CallbackURL: r.Callback, Schedule: r.schedule,
	}
	if t.SessionID == "" {
		t.SessionID = id.New("sess")
	}
	if r.CacheFor > 0 {
		t.CacheKey = cacheKey(r)
	}
	return New{
		Task: t, IdempotencyKey: r.IdempotencyKey, BodyHash: r.BodyHash,
		Events: []Event{s.event(EventQueued, map[string]any{"id": t.ID, "sessionId": t.SessionID, "runAt": t.RunAt})},
		Session: Session{
			ID: t.SessionID, UserID: t.UserID, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(s.opt.SessionExpiry),
		},
	}
}

func (s *Service) push(ctx context.Context, t Task) error {
	if s.opt.Queue == nil {
		return nil
	}
	job := queue.Job{ID: t.ID, Key: t.SessionID}
	if t.RunAt != nil {
		job.At = *t.RunAt
	}
	return s.opt.Queue.Push(ctx, job)
}

func (s *Service) event(kind string, data any) Event {
	encoded, err := json.Marshal(data)
	if err != nil {
		encoded, _ = json.Marshal(map[string]string{"problem": err.Error()})
	}
	return Event{Type: kind, Time: s.opt.Now(), Data: encoded}
}

// cacheKey is equal for requests that may share an answer.
func cacheKey(r Request) string {
	text, _ := json.Marshal([]any{r.Task, r.Context, r.Model}) // strings and valid JSON
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// answerAgain ends a task with the answer of an equal one.
func (s *Service) answerAgain(ctx context.Context, t Task, within time.Duration) (Task, bool) {
	now := s.opt.Now()
	earlier, err := s.opt.Store.Cached(ctx, t.UserID, t.CacheKey, now.Add(-within))
	if err != nil || earlier.ID == t.ID {
		return t, false
	}
	claimed, err := s.opt.Store.Claim(ctx, t.ID, now)
	if err != nil {
		return t, false
	}
	claimed.Status, claimed.Cached, claimed.EndedAt = Succeeded, true, &now
	claimed.Text, claimed.Output = earlier.Text, earlier.Output
	claimed.Message = fmt.Sprintf("Answered as task %s was at %s.", earlier.ID, earlier.EndedAt.UTC().Format(time.RFC3339))
	if err := s.end(ctx, claimed); err != nil {
		return t, false
	}
	return claimed, true
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

// Cancel ends a task: one that waits at once, one that is being worked soon after. It returns the task as it is then.
// The error wraps ErrEnded or ErrNotFound.
func (s *Service) Cancel(ctx context.Context, id string) (Task, error) {
	t, err := s.opt.Store.Task(ctx, id)
	if err != nil {
		return t, err
	}
	now := s.opt.Now()
	waiting := t
	waiting.Status, waiting.EndedAt = Cancelled, &now
	waiting.Message, waiting.Error = "Cancelled before it began.", &Error{KindCancelled, ErrCancelled.Error()}
	t, err = s.opt.Store.RequestCancel(ctx, id, s.ending(waiting))
	if err != nil {
		return t, err
	}
	if t.Status.Ended() {
		if s.opt.Queue != nil {
			s.opt.Queue.Cancel(id)
		}
		s.ended(t, nil)
		return t, nil
	}
	s.cancelRunning(id)
	return t, nil
}

func (s *Service) cancelRunning(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.running[id]; cancel != nil {
		cancel(ErrCancelled)
	}
}

// Wait returns a task when it has ended.
func (s *Service) Wait(ctx context.Context, id string) (Task, error) {
	for e, err := range s.Events(ctx, id, 0) {
		if err != nil {
			return Task{}, err
		}
		if e.Type == EventEnded {
			break
		}
	}
	return s.opt.Store.Task(ctx, id)
}

// ending is the change by which a task ends.
func (s *Service) ending(t Task) Change {
	c := Change{Task: &t, Events: []Event{s.event(EventEnded, t)}}
	if t.CallbackURL != "" {
		body, err := json.Marshal(map[string]any{"type": EventEnded, "task": t})
		if err == nil {
			c.Webhook = &Webhook{ID: id.New("evt"), TaskID: t.ID, URL: t.CallbackURL, Body: body, Created: s.opt.Now()}
		}
	}
	return c
}

// end commits a task's end.
func (s *Service) end(ctx context.Context, t Task) error {
	events, err := s.opt.Store.Commit(ctx, t.ID, s.ending(t))
	if err != nil {
		return err
	}
	s.ended(t, events)
	return nil
}

// ended tells of a task that has ended.
func (s *Service) ended(t Task, events []Event) {
	s.hub.publish(t.ID, events)
	if t.CallbackURL != "" {
		wake(s.outbox)
	}
	if s.opt.OnEnd != nil {
		s.opt.OnEnd(t)
	}
}

func wake(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
