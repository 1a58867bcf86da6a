package task

import (
	"encoding/json"
	"errors"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/pii"
)

// Status is the state of a task.
type Status string

// The states of a task.
const (
	Queued          Status = "queued"
	Running         Status = "running"
	WaitingApproval Status = "waiting_approval"
	Succeeded       Status = "succeeded"
	Failed          Status = "failed"
	Cancelled       Status = "cancelled"
)

// Ended reports whether a task with this status has ended and will not change any more.
func (s Status) Ended() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Task is a request in natural language, and its outcome.
type Task struct {
	ID        string          `json:"id"` // task_…
	SessionID string          `json:"sessionId"`
	UserID    string          `json:"userId"`
	Task      string          `json:"task"`
	Context   json.RawMessage `json:"context,omitempty"` // any JSON that the caller adds to the text
	Model     string          `json:"model,omitempty"`   // requested model; empty for the configured one
	Status    Status          `json:"status" enum:"queued,running,waiting_approval,succeeded,failed,cancelled"`
	Message   string          `json:"message,omitempty"` // a sentence about how the task ended
	Text      string          `json:"text,omitempty"`    // the model's answer
	Output    json.RawMessage `json:"output,omitempty"`  // return value of the last run
	Error     *Error          `json:"error,omitempty"`
	Logs      []string        `json:"logs"` // last console lines of all runs, within the limits of package agent
	Runs      []string        `json:"runs"` // run ids, in order
	Usage     Usage           `json:"usage"`
	Budget    Budget          `json:"budget,omitzero"`
	Cached    bool            `json:"cached,omitempty"` // whether the answer was copied from an equal task (cacheSeconds)
	Repeats   *Repeat         `json:"repeats,omitempty" doc:"The earlier task whose program this one has repeated."`
	CreatedAt time.Time       `json:"createdAt"`
	RunAt     *time.Time      `json:"runAt,omitempty"` // earliest start
	StartedAt *time.Time      `json:"startedAt,omitempty"`
	EndedAt   *time.Time      `json:"endedAt,omitempty"`

	// Fields that callers are not shown.
	From            pii.Origin  `json:"-"` // same as in Request
	Principal       string      `json:"-"` // principal that asked for the task: id of an API key, subject of a JWT, or "local"
	Roles           []auth.Role `json:"-"` // roles of the principal at the request; nil if unknown
	CallbackURL     string      `json:"-"`
	Reveal          bool        `json:"-"` // same as in Request
	Schedule        string      `json:"-"` // id of the schedule that created the task
	Trace           string      `json:"-"` // parent span of the work, as a traceparent; may be empty
	CacheKey        string      `json:"-"` // if not empty, the answer may be reused for tasks with the same key
	CancelRequested bool        `json:"-"`
	Owner           string      `json:"-"` // process that works on the task, or worked on it last
	Fence           int64       `json:"-"` // fencing number of the claim under which the task is worked
}

// Repeat says that a task has run nearly the same program as an earlier task of its user.
type Repeat struct {
	Task string `json:"task"` // earlier task
	Run  string `json:"run"`  // run of the later task
}

// Error is the reason why a task did not succeed.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// The kinds of errors of tasks.
const (
	KindModel       = "model"       // requests to the model failed, or the model refused or gave no usable answer
	KindUnreachable = "unreachable" // the model gave no answer before the first turn, for a reason that may pass
	KindBudget      = "budget"      // turns, runs, tokens, money or time were used up
	KindCancelled   = "cancelled"   // a caller cancelled the task
	KindRun         = "run"         // the model ended after a run that failed, without an answer
	KindInternal    = "internal"    // an internal error
)

// Budget limits a task. A zero field stands for the configured limit; a request can only lower it.
type Budget struct {
	Turns  int      `json:"turns,omitempty"`   // responses of the model, cut-off ones included
	Runs   int      `json:"runs,omitempty"`    // programs
	Tokens int      `json:"tokens,omitempty"`  // the model's tokens, input and output together
	Cost   float64  `json:"costUsd,omitempty"` // a budget of money is refused if the model's price is not known
	Wall   Duration `json:"wall,omitzero"`     // working time; time in which the task could not be worked does not count
}

// Duration is a time span that is written as a text, such as "1m30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	span, err := time.ParseDuration(string(text))
	*d = Duration(span)
	return err
}

// Usage is what a task used, and an estimate of what it would have used without code.
type Usage struct {
	Model   string      `json:"model,omitempty"` // last model that answered
	Turns   int         `json:"turns"`
	Runs    int         `json:"runs"`
	Calls   int         `json:"calls"`             // tool calls of the runs
	Tokens  model.Usage `json:"tokens"`            // tokens as the provider reports them, with interrupted attempts; missing figures are estimates
	CostUSD *float64    `json:"costUsd,omitempty"` // cost of Tokens at known prices; absent if a price is unknown
	Direct  *Direct     `json:"direct,omitempty"`
}

// Direct is the estimated cost in model tokens of calling the same tools one by one through a model's context. A token is
// taken to be 3.5 bytes.
type Direct struct {
	Definitions  int  `json:"definitions"`  // every tool's definition, once in the context
	Intermediate int  `json:"intermediate"` // every call's arguments and answer, once in the context
	Context      int  `json:"context"`      // the context at its largest
	Input        int  `json:"input"`        // input tokens if each call were a turn of its own
	Output       int  `json:"output"`       // output tokens: the arguments and the answer that the model writes
	Estimated    bool `json:"estimated"`    // always true: nothing of this was sent
}

// Session is a conversation: tasks in order that share history and workspace.
type Session struct {
	ID        string    `json:"id"`
	UserID    string    `json:"userId"`
	CreatedAt time.Time `json:"createdAt"`
	UsedAt    time.Time `json:"usedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	Tasks     int       `json:"tasks"`
}

// Step is one entry of a task's record. Exactly one pointer is set. The state of a task's loop is a function of the
// task and its steps.
type Step struct {
	Seq  int       `json:"seq"` // 1, 2, ... without gaps
	Time time.Time `json:"time"`
	// Took is the working time that led to the step; time budgets count it.
	Took Duration `json:"took,omitzero"`

	Ask     *Ask     `json:"ask,omitempty"`
	Turn    *Turn    `json:"turn,omitempty"`
	Run     *Run     `json:"run,omitempty"`
	Result  *Result  `json:"result,omitempty"`
	Note    *Note    `json:"note,omitempty"`
	Compact *Compact `json:"compact,omitempty"`

	Unanswered *Unanswered `json:"unanswered,omitempty"`
}

// Ask records that a request to the model is about to be sent. If no Turn or Unanswered follows, the request was interrupted when its process died.
type Ask struct {
	Turn  int `json:"turn"`            // number of the turn, from 1; turns that were cut off count too
	Input int `json:"input,omitempty"` // estimated tokens of the request; they count as used if the request is interrupted
	// CostUSD is the cost of Input; nil if the price is not known.
	CostUSD *float64 `json:"costUsd,omitempty"`
}

// Turn is the model's answer.
type Turn struct {
	model.Turn
	CostUSD *float64    `json:"costUsd,omitempty"`
	Lost    model.Usage `json:"lost,omitzero"` // usage of interrupted attempts before this answer; providers bill these attempts too
	// LostUSD is the cost of Lost; nil if the price is not known.
	LostUSD *float64 `json:"lostUsd,omitempty"`
}

// Unanswered records that a request to the model got no answer. It does not count as a turn.
type Unanswered struct {
	Kind    string      `json:"kind"` // a model.Kind
	Message string      `json:"message"`
	Lost    model.Usage `json:"lost,omitzero"` // same as in Turn
	LostUSD *float64    `json:"lostUsd,omitempty"`
}

// Run records that a program is about to run. It is resumed under this id, never started a second time.
type Run struct {
	CallID string `json:"callId"` // id of the turn's tool call
	RunID  string `json:"runId"`
}

// Result is the answer to one tool call of the model.
type Result struct {
	model.ToolResult
	RunID     string          `json:"runId,omitempty"`
	RunStatus string          `json:"runStatus,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"` // return value of the run
	Logs      []string        `json:"logs,omitempty"`
	Calls     int             `json:"calls,omitempty"`
	Effects   []Effect        `json:"effects,omitempty"` // effects of a run that did not succeed
	Direct    Direct          `json:"direct,omitzero"`   // estimate for this run
}

// Effect is a write of a run that did not succeed; see run.Effect.
type Effect struct {
	Call  int    `json:"call"`  // call number
	Kind  string `json:"kind"`  // tool, fs
	Name  string `json:"name"`  // name of the call, as in journal.Call
	State string `json:"state"` // done, failed, in_doubt
}

// Note is a message that the harness adds for the model.
type Note struct {
	Text string `json:"text"`
}

// Compact records that the context is cut from here on. Only the last Compact step of a task counts, except that the entries of Kept accumulate.
type Compact struct {
	Before  int `json:"before"`            // programs and results of steps before this Seq are shown only in short form
	History int `json:"history,omitempty"` // number of earlier tasks of the session, from the oldest, that are reduced to request and answer
	Dropped int `json:"dropped,omitempty"` // number of tasks at the beginning of History that are left out
	// Of is the number of earlier tasks to which History and Dropped refer: those that the task had when the cut was made.
	Of int `json:"of,omitempty"`
	// Kept maps the Seq of a step whose result or code is shortened to the path of the file with the whole text, which programs can read.
	Kept map[int]string `json:"kept,omitempty"`
}

// Event is a change of a task. Events with an ID are stored and numbered without gaps; streamed pieces of an answer have no ID and are not repeated.
type Event struct {
	ID   int64           `json:"id,omitempty"` // 1, 2, ... within its task
	Type string          `json:"type"`
	Time time.Time       `json:"time"`
	Data json.RawMessage `json:"data"`
	// Key makes an event unique in its task, because a resumed run adds the same events again.
	Key string `json:"-"`
	// After is the ID of the last event that was stored when an event without an ID was published; 0 if unknown.
	After int64 `json:"-"`
}

// Errors of the service and its store.
var (
	ErrNotFound     = errors.New("not found")
	ErrExists       = errors.New("it exists already")
	ErrEnded        = errors.New("it has ended")
	ErrBusy         = errors.New("another task of the session is running")
	ErrNotOwner     = errors.New("another process works on it")
	ErrIdempotency  = errors.New("the idempotency key was used with another request")
	ErrInvalidInput = errors.New("invalid input")
	// ErrQuota is wrapped by an error that names the quota.
	ErrQuota = errors.New("quota is used up")
	// ErrLasting marks errors that another try would not avoid.
	ErrLasting     = errors.New("it cannot be worked")
	ErrQueueLocked = errors.New("the queue of this store is worked by another process")
)
