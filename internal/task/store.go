package task

import (
	"context"
	"encoding/json"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
)

// Store keeps tasks. Its methods are safe for concurrent use, and what they write is durable when they return; errors wrap the package's sentinels. A
// store may be shared by several processes: the process that works on a task is its owner, and only a task whose owner is dead is taken over. Every
// claim gives a task a new fencing number, which commits must name, so a process that was taken for dead cannot write any more.
//
// A session's tasks are worked one at a time: first those that have begun, then the others in the order of the times at which they are due.
type Store interface {
	Reader
	// CreateSession adds a session. The error is ErrExists if its user has a session with this id, and ErrQuota if the user has too many sessions.
	CreateSession(ctx context.Context, s Session) error
	// Session returns a user's session that has not expired at now, or ErrNotFound.
	Session(ctx context.Context, user, id string, now time.Time) (Session, error)
	// Sessions lists sessions that have not expired, newest first.
	Sessions(ctx context.Context, f SessionFilter) (sessions []Session, next string, err error)
	// EnterSession notes that a run without a task uses a user's session. The error is ErrNotFound if the session does not exist or has expired at now. The
	// session is neither closed nor expires until leave is called. leave must be called once, and notes the time of use again.
	EnterSession(ctx context.Context, user, id string, now time.Time) (leave func(ctx context.Context, now time.Time) error, err error)
	// CloseSession marks a session for deletion: from then on readers do not see the session, it takes no task and no run, and ExpiredSessions lists
	// it until it is deleted. If a task of the session has not ended or a run in it is under way, nothing changes and the error is ErrBusy. The same
	// holds if expired is not zero and the session is open and does not expire by that time. The error is ErrNotFound if the session does not exist,
	// if another process is deleting it, or if session.CreatedAt is not zero and the session began at another time. A process may call CloseSession
	// again.
	CloseSession(ctx context.Context, session Session, expired time.Time) error
	// AbandonSession lets another process delete a session that this one has closed and cannot delete.
	AbandonSession(ctx context.Context, user, id string) error
	// DeleteSession closes the session, or returns ErrBusy, and deletes it with its tasks and runs and all that belongs to them.
	DeleteSession(ctx context.Context, user, id string) error
	// ExpiredSessions lists sessions that are closed, or that expired before now and have neither an unfinished task nor a run of a live process.
	// Users take turns: the list has one session of each user before a second one of any. Sessions in except are left out before limit applies.
	ExpiredSessions(ctx context.Context, now time.Time, except []Session, limit int) ([]Session, error)

	// CreateTask adds a queued task with its first events, in one transaction with the other parts of New. If the idempotency key names an earlier task, that
	// task is returned and created is false. The error is ErrIdempotency if the earlier request had another body, and ErrQuota if a quota of the user is used
	// up.
	CreateTask(ctx context.Context, n New) (t Task, created bool, err error)
	// History returns the ended tasks that were created before the given task in its session, oldest first. If there are more than limit, or if they
	// are large, it returns only the latest of them.
	History(ctx context.Context, id string, limit int) ([]Past, error)
	// Events returns stored events of a task after an id, in order, at most limit.
	Events(ctx context.Context, id string, after int64, limit int) ([]Event, error)
	// Cached returns the newest succeeded task of a user with this cache key that ended after since, or ErrNotFound.
	Cached(ctx context.Context, user, key string, since time.Time) (Task, error)

	// ClaimNext claims a waiting task that is due at now. Users take turns in the order of their names, beginning with the first name after the given
	// one; the users in except are left out. If no task is due, the returned task has no ID, and next is the time at which one is due, or zero if
	// there is none.
	ClaimNext(ctx context.Context, after string, except []string, now time.Time) (t Task, next time.Time, err error)
	// Claim makes this process the owner of a task and sets the task running. The error is ErrEnded if the task has ended, ErrNotOwner if a live process owns
	// it, and ErrBusy if a live process works another task of its session. A task whose cancellation was requested is claimed too.
	Claim(ctx context.Context, id string, now time.Time) (Task, error)
	// Release gives up a claimed task, which waits to be claimed again at due or later. If due is zero, the task keeps its due time. The error is
	// ErrNotOwner in the same cases as for Commit.
	Release(ctx context.Context, id string, fence int64, due time.Time) error
	// Wait releases a task that waits for an approval request. The task is due when the request is decided, or at the time due if that comes first. The error
	// is ErrNotOwner in the same cases as for Commit.
	Wait(ctx context.Context, id string, fence int64, request string, due time.Time) error
	// Recover makes the tasks of dead processes wait again.
	Recover(ctx context.Context) error
	// Claims returns the fences of this process's claims, by the ids of their tasks.
	Claims(ctx context.Context) (map[string]int64, error)
	// Commit applies a change to a task in one transaction. The error is ErrNotOwner unless this process owns the task by the claim with this fence, and
	// ErrEnded if the task has ended. Commit numbers steps and events, and returns the added events with their ids.
	Commit(ctx context.Context, id string, fence int64, c Change) ([]Event, error)
	// RequestCancel notes that a task is to end. If the task is not in work, RequestCancel cancels it at once with the given change. It returns the task as
	// it is afterwards. The error is ErrEnded if the task had ended.
	RequestCancel(ctx context.Context, id string, c Change) (Task, error)
	// CancelRequests lists the unfinished tasks of this process whose cancellation was requested.
	CancelRequests(ctx context.Context) ([]string, error)

	// TakeWebhooks returns due webhooks, and does not return them again before q.Until. next is the time at which others are due, or zero if there
	// are none. A webhook about a request for an approval is deleted when the request is decided.
	TakeWebhooks(ctx context.Context, q WebhookQuery) (hooks []Webhook, next time.Time, err error)
	// SettleWebhook records the result of a delivery. If next is zero, the webhook is deleted: it was delivered, or given up. If next is not zero, a
	// try failed, and next is the time of the next try.
	SettleWebhook(ctx context.Context, id string, next time.Time) error
	// Approval returns a request for an approval; the error wraps approval.ErrNotFound.
	Approval(ctx context.Context, id string) (approval.Request, error)

	// CreateSchedule adds a schedule. The error is ErrQuota if its user has too many schedules.
	CreateSchedule(ctx context.Context, s Schedule) error
	// DueSchedules lists schedules that are due at now; next is the time at which the first of the others is due, or zero if there is none. Users
	// take turns: the list has one schedule of each user before a second one of any. A schedule whose request cannot be read has only ID, UserID,
	// Next and Damaged.
	DueSchedules(ctx context.Context, now time.Time, limit int) (due []Schedule, next time.Time, err error)
	DeleteSchedule(ctx context.Context, id string) error
	// MoveSchedule replaces the planned instant of a schedule by next, without creating a task.
	MoveSchedule(ctx context.Context, id string, planned, next time.Time) error
	// Fire creates the task of a schedule's planned instant and moves the schedule on, in one transaction; a zero next deletes the
	// schedule. A planned instant fires once: created is false for later callers.
	Fire(ctx context.Context, id string, planned time.Time, n New, next time.Time) (t Task, created bool, err error)

	// LockQueue makes this process one that works the queue. If the store allows only one such process and another one works the queue, the error
	// wraps ErrQueueLocked and names the other process.
	LockQueue(ctx context.Context) (release func() error, err error)
	// QueueWorker names a process that works the queue, which may be this one; "" if there is none.
	QueueWorker(ctx context.Context) (name string, err error)
}

// Bus carries the events of a task from the process that works the task to the processes that follow it. It also wakes the processes that work the
// queue. Its methods are safe for concurrent use.
type Bus interface {
	// Wake tells the other processes that work the queue that a task may be due. It does not wait for them.
	Wake()
	// Woken calls f after each Wake of another process, until ctx ends. It may miss some. If only one process can work the queue, Woken never calls
	// f.
	Woken(ctx context.Context, f func()) error
	// Publish passes events of a task to other processes. It passes an event without an ID as a whole, and only the ID of a stored event. An empty
	// list means that the store has new events. Publish does not wait for followers, and a follower may miss pieces of answers.
	Publish(task string, events []Event)
	// Follow calls pass with the events of a task that other processes publish, in their order, until ctx ends. An event without a type means that
	// the store has new events, up to its ID if that is above 0.
	Follow(ctx context.Context, task string, pass func([]Event)) error
}

// Reader is the part of a Store that reads what every caller may see; errors wrap ErrNotFound.
type Reader interface {
	// Task returns a task with its runs and logs.
	Task(ctx context.Context, id string) (Task, error)
	// Tasks lists tasks without their context, newest first; next continues the list and is empty at its end. A page may be shorter than its limit if
	// tasks are large.
	Tasks(ctx context.Context, f Filter) (tasks []Task, next string, err error)
	// Steps returns a task's steps in order.
	Steps(ctx context.Context, id string) ([]Step, error)
	// Queued returns the number of unfinished tasks that wait for a process.
	Queued(ctx context.Context) (int, error)
	Schedule(ctx context.Context, id string) (Schedule, error)
	Schedules(ctx context.Context, user string) ([]Schedule, error) // all users if user is ""
}

// New is a task to create; the task may already have ended.
type New struct {
	Task    Task
	Events  []Event
	Webhook *Webhook // webhook about the task's end; may be nil
	// Session is created with the task if the user has no session with this id. If there is one, its time of use and its expiry are set from this field.
	// CreateTask returns ErrNotFound if the session is being deleted.
	Session Session
	// Own reserves the task for this process, which claims it by its id: ClaimNext does not return it while the process lives.
	Own bool
	// IdempotencyKey, if not empty, is kept for the user with BodyHash.
	IdempotencyKey string
	BodyHash       string
}

// Change is a set of changes to a task that are applied together.
type Change struct {
	Steps  []Step
	Events []Event // new events; an event whose key exists is left out
	// Task, if not nil, replaces the task's own fields: status, message, text, output, error, logs, runs, usage, cached, startedAt, endedAt.
	Task *Task
	// Webhook, if not nil, is put into the outbox.
	Webhook *Webhook
}

// Filter chooses tasks; empty fields choose all.
type Filter struct {
	UserID    string
	SessionID string
	Status    Status
	Search    string // words that a task must contain, all of them; a word that ends with * is a prefix
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

// Webhook is the message about a task's end to its callbackUrl, or about a request for an approval. It is delivered at least once, each time with the
// same id. Its body is made when it is sent.
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
	Limit      int            // maximum number of webhooks to return
	Each       int            // maximum number of webhooks of one user, including those in flight
	InFlight   map[string]int // webhooks in flight, by user
	After      string         // users after this one by name come first
}

// Schedule makes tasks at planned instants.
type Schedule struct {
	ID        string          `json:"id"` // sched_…
	UserID    string          `json:"userId"`
	SessionID string          `json:"sessionId,omitempty"` // session of every task; if empty, each task gets one of its own
	Task      string          `json:"task"`
	Context   json.RawMessage `json:"context,omitempty"`
	Model     string          `json:"model,omitempty"`
	Cron      string          `json:"cron,omitempty"` // five fields, in UTC unless Zone is set
	Zone      string          `json:"timeZone,omitempty"`
	Next      *time.Time      `json:"next,omitempty"`
	Last      *time.Time      `json:"last,omitempty"`
	CreatedAt time.Time       `json:"createdAt"`
	Principal string          `json:"-"`
	Roles     []auth.Role     `json:"-"` // roles of the principal when the schedule was made
	Callback  string          `json:"callbackUrl,omitempty"`
	Reveal    bool            `json:"-"` // same as in Request
	Budget    Budget          `json:"budget,omitzero"`
	Damaged   error           `json:"-"` // error with which DueSchedules could not read the request; else nil
}

// Load is how much work a store has for the processes that work its queue.
type Load struct {
	Queued    int       // tasks that wait, also those that are not due yet
	Due       int       // sessions with a task that could be worked now
	OldestDue time.Time // due time of the first of these tasks; zero if there is none
	Approvals int       // requests for approvals that wait
	Workers   int       // processes that work the queue
}
