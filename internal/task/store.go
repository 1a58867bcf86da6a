package task

import (
	"context"
	"encoding/json"
	"time"
)

// Store keeps tasks. Its methods are safe for concurrent use and durable when they return; errors wrap the package's
// sentinels. A store may be shared by several processes: a task has the process that works on it as its owner, and only
// a task whose owner is dead is taken over.
type Store interface {
	// CreateSession adds a session; ErrExists if the id is taken.
	CreateSession(ctx context.Context, s Session) error
	// Session returns a session that has not expired at now, or ErrNotFound.
	Session(ctx context.Context, id string, now time.Time) (Session, error)
	// Sessions lists sessions that have not expired, newest first.
	Sessions(ctx context.Context, f SessionFilter) (sessions []Session, next string, err error)
	// EnterSession notes that something that is no task uses a user's session; ErrNotFound if that is not there or has expired
	// at now. Until leave is called, once, which notes its use again, the session is neither closed nor expired.
	EnterSession(ctx context.Context, user, id string, now time.Time) (leave func(ctx context.Context, now time.Time) error, err error)
	// CloseSession decides that a session is to be forgotten: from then on readers do not see it, it takes no task and no run,
	// and ExpiredSessions lists it until it is deleted. ErrBusy, and nothing has changed, while a task of it has not ended or a
	// run in it is under way; ErrNotFound if it is not there. It is idempotent.
	CloseSession(ctx context.Context, id string) error
	// DeleteSession forgets the session, its tasks with their steps, events and webhooks, and its runs with their
	// journals. ErrBusy as of CloseSession, which it does first.
	DeleteSession(ctx context.Context, id string) error
	// ExpiredSessions lists the ids and users of sessions that expired before now and have no unfinished task, and no run
	// that a live process executes.
	ExpiredSessions(ctx context.Context, now time.Time, limit int) ([]Session, error)

	// CreateTask adds a queued task with its first events, in one transaction with what New asks for. created is false
	// where an idempotency key names an earlier task, which is returned; ErrIdempotency if that had another body.
	CreateTask(ctx context.Context, n New) (t Task, created bool, err error)
	// Task returns a task with its runs and logs.
	Task(ctx context.Context, id string) (Task, error)
	// Tasks lists tasks, newest first; next continues the list and is empty at its end.
	Tasks(ctx context.Context, f Filter) (tasks []Task, next string, err error)
	// SessionTasks lists the ended tasks of a session that were created before the given one, oldest first.
	SessionTasks(ctx context.Context, session, before string) ([]Task, error)
	// Steps returns a task's steps in order.
	Steps(ctx context.Context, id string) ([]Step, error)
	// Events returns stored events of a task after an id, in order, at most limit.
	Events(ctx context.Context, id string, after int64, limit int) ([]Event, error)
	// Cached returns the newest succeeded task of a user with this cache key that ended after since, or ErrNotFound.
	Cached(ctx context.Context, user, key string, since time.Time) (Task, error)

	// Claim makes this process the owner of a task and the task running. ErrEnded if it has ended, ErrNotOwner if a live
	// process owns it, ErrBusy if another task of its session runs in a live process. A task whose cancellation was
	// requested is claimed all the same.
	Claim(ctx context.Context, id string, now time.Time) (Task, error)
	// Commit applies a change to a task that this process owns (ErrNotOwner), in one transaction. It numbers steps and
	// events, and returns the events that were added with their ids. A task that has ended takes no change: ErrEnded.
	Commit(ctx context.Context, id string, c Change) ([]Event, error)
	// RequestCancel notes that a task is to end; one that nobody works on is cancelled at once with the given change.
	// It returns the task as it is then. ErrEnded if it has ended.
	RequestCancel(ctx context.Context, id string, c Change) (Task, error)
	// CancelRequests lists the running tasks of this process whose cancellation was requested.
	CancelRequests(ctx context.Context) ([]string, error)
	// Unfinished lists the tasks that can be claimed by this process: queued without an owner, or of dead owners, oldest
	// first. Those that are not to run yet are among them.
	Unfinished(ctx context.Context) ([]Task, error)

	// Webhooks lists what is due to be delivered at now, oldest first.
	Webhooks(ctx context.Context, now time.Time, limit int) ([]Webhook, error)
	// SettleWebhook notes a delivery, or a failed try with the time of the next; a zero next gives up.
	SettleWebhook(ctx context.Context, id string, delivered bool, next time.Time, reason string) error
	// NextWebhook is when the next one is due; ok is false if there is none.
	NextWebhook(ctx context.Context) (due time.Time, ok bool, err error)

	CreateSchedule(ctx context.Context, s Schedule) error
	Schedule(ctx context.Context, id string) (Schedule, error)
	Schedules(ctx context.Context, user string) ([]Schedule, error) // "" is all users
	DeleteSchedule(ctx context.Context, id string) error
	// Fire creates the task of a schedule's planned instant and moves the schedule on, in one transaction. A planned
	// instant fires once, whoever asks: created is false for those who come later. A zero next ends the schedule.
	Fire(ctx context.Context, id string, planned time.Time, n New, next time.Time) (t Task, created bool, err error)

	// LockQueue makes this process the one that works the queue. The error names the process that holds the lock.
	LockQueue(ctx context.Context) (release func() error, err error)
}

// New is a task to create.
type New struct {
	Task   Task
	Events []Event
	// Session is created with the task if it does not exist; if it does, its user must be the same (ErrNotFound
	// otherwise, as for a session that is not there) and its use is noted. Expiry is set from it.
	Session Session
	// IdempotencyKey, if not empty, is kept for the user with BodyHash.
	IdempotencyKey string
	BodyHash       string
}

// Change is what happens to a task at once.
type Change struct {
	Steps  []Step
	Events []Event // those whose key is there already are left out
	// Task replaces the task's own fields where it is not nil: status, message, text, output, error, logs, runs, usage,
	// cached, startedAt, endedAt.
	Task *Task
	// Webhook, if not nil, is put into the outbox.
	Webhook *Webhook
}

// Filter chooses tasks; empty fields choose all.
type Filter struct {
	UserID    string
	SessionID string
	Status    Status
	Limit     int // default 50, at most 1000
	Cursor    string
}

// SessionFilter chooses sessions.
type SessionFilter struct {
	UserID string
	Now    time.Time
	Limit  int
	Cursor string
}

// Webhook is a message to a task's callbackUrl. It is delivered at least once; its id is the same each time.
type Webhook struct {
	ID       string
	TaskID   string
	URL      string
	Body     []byte
	Created  time.Time
	Attempts int
}

// Schedule makes tasks at planned instants.
type Schedule struct {
	ID        string          `json:"id"` // sched_…
	UserID    string          `json:"userId"`
	SessionID string          `json:"sessionId,omitempty"` // of all its tasks; empty: one for each
	Task      string          `json:"task"`
	Context   json.RawMessage `json:"context,omitempty"`
	Model     string          `json:"model,omitempty"`
	Cron      string          `json:"cron,omitempty"` // five fields, UTC unless it names a zone
	Zone      string          `json:"timeZone,omitempty"`
	Next      *time.Time      `json:"next,omitempty"` // nil: it has ended
	Last      *time.Time      `json:"last,omitempty"`
	CreatedAt time.Time       `json:"createdAt"`
	Principal string          `json:"-"`
	Callback  string          `json:"callbackUrl,omitempty"`
	Budget    Budget          `json:"budget,omitzero"`
}
