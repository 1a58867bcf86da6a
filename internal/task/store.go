package task

import (
	"context"
	"encoding/json"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
)

// Store keeps tasks. Its methods are safe for concurrent use and durable when they return; errors wrap the package's
// sentinels. A store may be shared by several processes: a task has the process that works on it as its owner, and only
// a task whose owner is dead is taken over. Every claim gives a task a new fencing number, which commits must name: a process
// that was taken for dead cannot write any more.
//
// A session's tasks are worked one at a time: those that were begun first, then in the order of the times at which they are due.
type Store interface {
	Reader
	// CreateSession adds a session; ErrExists if its user has one of that id, ErrQuota if the user has too many.
	CreateSession(ctx context.Context, s Session) error
	// Session returns a user's session that has not expired at now, or ErrNotFound.
	Session(ctx context.Context, user, id string, now time.Time) (Session, error)
	// Sessions lists sessions that have not expired, newest first.
	Sessions(ctx context.Context, f SessionFilter) (sessions []Session, next string, err error)
	// EnterSession notes that a run of no task uses a user's session; ErrNotFound if that is not there or has expired
	// at now. Until leave is called, once, which notes its use again, the session is neither closed nor expired.
	EnterSession(ctx context.Context, user, id string, now time.Time) (leave func(ctx context.Context, now time.Time) error, err error)
	// CloseSession decides that a session is to be deleted: from then on readers do not see it, it takes no task and no run,
	// and ExpiredSessions lists it until it is deleted. ErrBusy, and nothing has changed, while a task of it has not ended or a
	// run in it is under way; ErrNotFound if it is not there. It is idempotent.
	CloseSession(ctx context.Context, user, id string) error
	// DeleteSession closes the session (ErrBusy), and deletes it with its tasks and runs and all that belongs to them.
	DeleteSession(ctx context.Context, user, id string) error
	// ExpiredSessions lists sessions that are closed, or expired before now without an unfinished task or a run of a live process.
	// Users take turns: the list has one of each before it has another. Those of except are left out before limit counts.
	ExpiredSessions(ctx context.Context, now time.Time, except []Session, limit int) ([]Session, error)

	// CreateTask adds a queued task with its first events, in one transaction with what New asks for. created is false
	// where an idempotency key names an earlier task, which is returned; ErrIdempotency if that had another body, ErrQuota if
	// the user has too much.
	CreateTask(ctx context.Context, n New) (t Task, created bool, err error)
	// History returns the ended tasks of a task's session that were created before it, oldest first: the last ones, at most
	// limit, and fewer where they are large.
	History(ctx context.Context, id string, limit int) ([]Past, error)
	// Events returns stored events of a task after an id, in order, at most limit.
	Events(ctx context.Context, id string, after int64, limit int) ([]Event, error)
	// Cached returns the newest succeeded task of a user with this cache key that ended after since, or ErrNotFound.
	Cached(ctx context.Context, user, key string, since time.Time) (Task, error)

	// ClaimNext claims a waiting task that is due at now: of the user after the given one in the order of names, those in except
	// left out, so that users take turns. Where there is none, the task has no ID, and next is when one is due, zero for never.
	ClaimNext(ctx context.Context, after string, except []string, now time.Time) (t Task, next time.Time, err error)
	// Claim makes this process the owner of a task and the task running. ErrEnded if it has ended, ErrNotOwner if a live
	// process owns it, ErrBusy if another task of its session is in work in a live process. A task whose cancellation was
	// requested is claimed too.
	Claim(ctx context.Context, id string, now time.Time) (Task, error)
	// Release gives a claimed task up: it waits, until due at least, to be claimed again. ErrNotOwner as of Commit.
	Release(ctx context.Context, id string, fence int64, due time.Time) error
	// Wait is Release of a task that waits for an approval request: it is due when that is decided, or at due. ErrNotOwner as of Commit.
	Wait(ctx context.Context, id string, fence int64, request string, due time.Time) error
	// Recover has the tasks of dead processes wait again.
	Recover(ctx context.Context) error
	// Commit applies a change to a task that this process owns by the claim of that fence (ErrNotOwner), in one transaction. It
	// numbers steps and events, and returns the events that were added with their ids. A task that has ended takes no change:
	// ErrEnded.
	Commit(ctx context.Context, id string, fence int64, c Change) ([]Event, error)
	// RequestCancel notes that a task is to end; one that is not in work is cancelled at once with the given change.
	// It returns the task as it is then. ErrEnded if it has ended.
	RequestCancel(ctx context.Context, id string, c Change) (Task, error)
	// CancelRequests lists the unfinished tasks of this process whose cancellation was requested.
	CancelRequests(ctx context.Context) ([]string, error)

	// TakeWebhooks returns due webhooks, and not again before q.Until. next is when others are due; zero for never. Those of
	// requests for approvals are deleted when the request is decided.
	TakeWebhooks(ctx context.Context, q WebhookQuery) (hooks []Webhook, next time.Time, err error)
	// SettleWebhook deletes a webhook that was delivered or given up, or notes a failed try with the time of the next.
	SettleWebhook(ctx context.Context, id string, next time.Time) error
	// Approval returns a request for an approval; the error wraps approval.ErrNotFound.
	Approval(ctx context.Context, id string) (approval.Request, error)

	// CreateSchedule adds a schedule; ErrQuota if its user has too many.
	CreateSchedule(ctx context.Context, s Schedule) error
	// DueSchedules lists schedules that are due at now, and says when the first of the others is; zero for never. Users take turns: the
	// list has one schedule of each before it has another. One whose request cannot be read has ID, UserID, Next and Damaged alone.
	DueSchedules(ctx context.Context, now time.Time, limit int) (due []Schedule, next time.Time, err error)
	DeleteSchedule(ctx context.Context, id string) error
	// MoveSchedule replaces a planned instant of a schedule, and creates no task.
	MoveSchedule(ctx context.Context, id string, planned, next time.Time) error
	// Fire creates the task of a schedule's planned instant and moves the schedule on, in one transaction; a zero next deletes the
	// schedule. A planned instant fires once: created is false for later callers.
	Fire(ctx context.Context, id string, planned time.Time, n New, next time.Time) (t Task, created bool, err error)

	// LockQueue makes this process the one that works the queue; ErrQueueLocked names the process that holds the lock.
	LockQueue(ctx context.Context) (release func() error, err error)
}

// Bus carries events to the processes that follow a task which another process works. Its methods are safe for concurrent use.
type Bus interface {
	// Publish passes events of a task on: pieces of answers as they are, of stored events only that they are stored. None means that the
	// store has new ones. It waits for no follower, and a follower may miss pieces.
	Publish(task string, events []Event)
	// Follow calls pass with the events that other processes publish of a task, in their order, until ctx ends. An event without a type says
	// that the store has new ones, up to its ID if that is above 0.
	Follow(ctx context.Context, task string, pass func([]Event)) error
}

// Reader is the part of a Store that reads what every caller may see; errors wrap ErrNotFound.
type Reader interface {
	// Task returns a task with its runs and logs.
	Task(ctx context.Context, id string) (Task, error)
	// Tasks lists tasks without their context, newest first; next continues the list and is empty at its end. A page may be
	// shorter than its limit where tasks are large.
	Tasks(ctx context.Context, f Filter) (tasks []Task, next string, err error)
	// Steps returns a task's steps in order.
	Steps(ctx context.Context, id string) ([]Step, error)
	// Queued is how many unfinished tasks wait for a process.
	Queued(ctx context.Context) (int, error)
	Schedule(ctx context.Context, id string) (Schedule, error)
	Schedules(ctx context.Context, user string) ([]Schedule, error) // "" is all users
}

// New is a task to create; it may have ended already.
type New struct {
	Task    Task
	Events  []Event
	Webhook *Webhook // webhook about the end, or nil
	// Session is created with the task if it does not exist; if it does, its user must be the same (ErrNotFound
	// otherwise, as for a session that is not there) and its use is noted. Expiry is set from it.
	Session Session
	// Own reserves the task for this process, which claims it by its id: ClaimNext does not return it while the process lives.
	Own bool
	// IdempotencyKey, if not empty, is kept for the user with BodyHash.
	IdempotencyKey string
	BodyHash       string
}

// Change is what happens to a task at once.
type Change struct {
	Steps  []Step
	Events []Event // new events; one whose key exists is left out
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
	Search    string // words of the text, all of which a task has; one that ends with * is the beginning of words
	Limit     int    // default 50, at most 1000
	Cursor    string
}

// SessionFilter chooses sessions.
type SessionFilter struct {
	UserID string
	ID     string
	Now    time.Time
	Limit  int
	Cursor string
}

// Webhook is the message of a task's end to its callbackUrl, or that of a request for an approval. It is delivered at least once, each
// time with the same id. Its body is made when it is sent.
type Webhook struct {
	ID       string
	TaskID   string // empty for a request for an approval
	Approval string // id of the request
	UserID   string // user of the task
	URL      string
	Attempts int
	Due      time.Time // time of the next attempt
}

// Notification is the body of a webhook.
type Notification struct {
	Type     string            `json:"type" enum:"task.ended,approval_requested"`
	Task     *Task             `json:"task,omitempty" doc:"That has ended, as GET /v1/tasks/{id} shows it. Personal data are tokens, unless server.webhooks.values is set and the caller that asked for the task acts for its user."`
	Approval *approval.Request `json:"approval,omitempty" doc:"That waits, as GET /v1/approvals/{id} shows it."`
	Decide   string            `json:"decide,omitempty" doc:"Path of the operation that decides, such as /v1/approvals/apr_5e77."`
}

// WebhookQuery chooses webhooks.
type WebhookQuery struct {
	Now, Until time.Time
	Limit      int            // most tasks to claim
	Each       int            // most tasks of one user, including those in flight
	InFlight   map[string]int // tasks in flight, by user
	After      string         // users behind this one by name come first
}

// Schedule makes tasks at planned instants.
type Schedule struct {
	ID        string          `json:"id"` // sched_…
	UserID    string          `json:"userId"`
	SessionID string          `json:"sessionId,omitempty"` // session of every task; empty gives each task one of its own
	Task      string          `json:"task"`
	Context   json.RawMessage `json:"context,omitempty"`
	Model     string          `json:"model,omitempty"`
	Cron      string          `json:"cron,omitempty"` // five fields, UTC unless it names a zone
	Zone      string          `json:"timeZone,omitempty"`
	Next      *time.Time      `json:"next,omitempty"`
	Last      *time.Time      `json:"last,omitempty"`
	CreatedAt time.Time       `json:"createdAt"`
	Principal string          `json:"-"`
	Roles     []auth.Role     `json:"-"` // roles of the principal when the schedule was made
	Callback  string          `json:"callbackUrl,omitempty"`
	Reveal    bool            `json:"-"` // same as in Request
	Budget    Budget          `json:"budget,omitzero"`
	Damaged   error           `json:"-"` // why DueSchedules could not read its request; nil of all others
}
