package run

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/sandbox"
)

// The states in which a run ends.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
	Cancelled = "cancelled"
)

// WaitingApproval is the state of a run that has given up its runner until people have decided about its calls.
const WaitingApproval = "waiting_approval"

// grace is how long an interrupted program has to stop before its process is killed.
const grace = 200 * time.Millisecond

// ErrHandedOver is the cause of a context that ends to stop this process's work on a run, not the run.
var ErrHandedOver = errors.New("the run is left to be resumed")

// Log is one console line.
type Log = journal.Log

// Error is why a run failed. Line and Column count from 1 in the code as written; 0 means unknown.
type Error struct {
	Kind    string          `json:"kind"`
	Name    string          `json:"name,omitempty"` // JavaScript class of the error
	Message string          `json:"message"`
	File    string          `json:"file,omitempty"` // file of the place, if it is not the program itself
	Line    int             `json:"line,omitempty"`
	Column  int             `json:"column,omitempty"`
	Source  string          `json:"source,omitempty"` // the offending line
	Stack   string          `json:"stack,omitempty"`
	Hint    string          `json:"hint,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Outcome is how a run ended. Its JSON is the object that `harness exec --json` prints.
type Outcome struct {
	RunID    string            `json:"runId"`
	Status   string            `json:"status" enum:"running,succeeded,failed,cancelled,waiting_approval"`
	Output   json.RawMessage   `json:"output"`
	Logs     []Log             `json:"logs"`
	Warnings []string          `json:"warnings,omitempty" doc:"What in the program does not exist: tools, arguments and fields of answers, found before it ran."`
	Error    *Error            `json:"error,omitempty"`
	Effects  []Effect          `json:"effects,omitempty" doc:"What a run that did not succeed changed, or may have changed."`
	Approval *approval.Request `json:"approval,omitempty" doc:"What a run that waits asks people."`
	Calls    int               `json:"calls" doc:"Tool calls."`
	Duration Millis            `json:"durationMs"`
	Sandbox  string            `json:"sandbox"`
}

// Millis is a duration that prints as milliseconds.
type Millis time.Duration

// MarshalJSON implements json.Marshaler.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(m).Microseconds()) / 1000)
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Millis) UnmarshalJSON(text []byte) error {
	var ms float64
	if err := json.Unmarshal(text, &ms); err != nil {
		return err
	}
	*m = Millis(ms * float64(time.Millisecond))
	return nil
}

// Runners lend the processes that programs run in.
type Runners interface {
	// Acquire waits for a runner that is ready and has served no other owner.
	Acquire(ctx context.Context, owner string) (*sandbox.Lease, error)
	// Reacquire is Acquire for a run that gave up its runner: it is not refused where many wait.
	Reacquire(ctx context.Context, owner string) (*sandbox.Lease, error)
}

// Gate answers the host calls of one run.
type Gate interface {
	// Prepare counts a call that has no recorded answer, without waiting for anything. intent is what a dead process
	// recorded before it sent the write, nil for a call that never went out. The run's goroutine calls it, in call
	// order.
	Prepare(c *journal.Call, intent *journal.Intent) Pending
	// Serial says that a call must be answered before the next serial call begins.
	Serial(c *journal.Call) bool
}

// Pending performs a prepared call; the run calls it in a goroutine of its own. It returns soon after ctx ends; a write
// whose outcome is then unknown is an in-doubt error. Before anything of a write is sent it calls Intend.
type Pending func(ctx context.Context, call InFlight) (json.RawMessage, *frame.Error)

// InFlight is what a Pending can tell the run of its call. Only its goroutine calls Ask and Tell.
type InFlight interface {
	// Intend makes the intent of a write and everything recorded before it durable. After an error the write must not be sent.
	Intend(ctx context.Context, intent journal.Intent) error
	// Ask says that the call waits for an approval. It returns what Pending is to return then, which is no answer.
	Ask(c approval.Call) *frame.Error
	// Charge counts what the host computed for the call as computing of its program. After an error the run has used up its time: the
	// call has to return, and the run ends.
	Charge(used time.Duration) error
	// Tell sets what the program gets of the answer beside its value.
	Tell(told Told)
}

// Event is what an observer of a run sees, once every answer that it comes from is stored. What was recorded before is seen again, an
// answer with its call.
type Event struct {
	Call   *journal.Call   // a host call was made
	Answer *journal.Answer // answer to a host call
	Log    *Log
}

// Spec is one run to execute.
type Spec struct {
	Start  journal.Start
	Limits Limits
	Owner  string // whom a runner may be shared with: principal and user
	// Computed is what the host has computed for the run before it began; it counts as the program's computing.
	Computed time.Duration
	// Records continue a recorded run; empty for a new one.
	Records []journal.Record
	// Resume is the state of a run that has waited for an approval.
	Resume approval.Resume
	// Suspend has the run wait for an approval, and returns the request. Its record is durable then, and another process may
	// resume it. The error may be a *RefusedError. Nil if no person can be asked.
	Suspend func(ctx context.Context, p Suspension) (*approval.Request, error)
	// Input returns what the guest gets for the answer to a call of kind input, which has ranges and tokens. Nil for a run without an input.
	Input func(recorded json.RawMessage) (json.RawMessage, error)
	// Only is what the program does if it makes one call and nothing else; nil: that is not known.
	Only *Only
	// Detach has the run give up its runner while calls keep it waiting; nil: it keeps it.
	Detach *Detach
	// Offline replays: a call without a record is a divergence, nothing reaches the gate.
	Offline bool
	// Journal receives the run's records; nil when Offline.
	Journal journal.Writer
	Gate    Gate
	Runners Runners
	Slot    *Slot // slot that the run holds while it computes; nil: it needs none
	Turn    *Turn // the run's part of the processors; nil: it may compute at any time
	// Privacy hides personal data in what the guest sends, before anything else sees it.
	Privacy pii.Session
	Args    *Args // memory for arguments of calls in flight; nil: it has no bound
	// Locate explains an error by the code as written.
	Locate func(*frame.Error) *Error
	// Observe is called from the run's goroutine, and must not block. It may be nil.
	Observe func(Event)
	// Now is the clock.
	Now func() time.Time
}
