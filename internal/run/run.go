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

// States in which a run ends.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
	Cancelled = "cancelled"
)

// WaitingApproval is the status of a run that has given up its runner until people have decided about its calls.
const WaitingApproval = "waiting_approval"

// grace is the time that an interrupted program has to stop before its process is killed.
const grace = 200 * time.Millisecond

// ErrHandedOver is the cause with which a context is cancelled to stop this process's work on a run without ending the run.
var ErrHandedOver = errors.New("the run is left to be resumed")

// Log is one console line.
type Log = journal.Log

// Error is the reason why a run failed. Line and Column count from 1 in the code as written; 0 means unknown.
type Error struct {
	Kind    string          `json:"kind"`
	Name    string          `json:"name,omitempty"` // JavaScript class of the error
	Message string          `json:"message"`
	File    string          `json:"file,omitempty"` // file that Line and Column refer to; empty for the program itself
	Line    int             `json:"line,omitempty"`
	Column  int             `json:"column,omitempty"`
	Source  string          `json:"source,omitempty"` // text of the line
	Stack   string          `json:"stack,omitempty"`
	Hint    string          `json:"hint,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Outcome is the result of a run. Its JSON is the object that `harness exec --json` prints.
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

// Runners lends the processes that programs run in.
type Runners interface {
	// Acquire waits for a runner that is ready and has served no other owner.
	Acquire(ctx context.Context, owner string) (*sandbox.Lease, error)
	// Reacquire does the same as Acquire for a run that gave up its runner. It does not fail when too many runs wait.
	Reacquire(ctx context.Context, owner string) (*sandbox.Lease, error)
}

// Gate answers the host calls of one run.
type Gate interface {
	// Prepare counts a call that has no recorded answer, and returns the Pending that performs it. Prepare does not block. intent is the
	// intent that a dead process recorded before it sent the write; it is nil for a call that was never sent. The run's goroutine calls
	// Prepare, in call order.
	Prepare(c *journal.Call, intent *journal.Intent) Pending
	// Serial reports whether a call must be answered before the next serial call begins.
	Serial(c *journal.Call) bool
}

// Pending performs a prepared call. The run calls it in a separate goroutine. After ctx ends, Pending returns soon; if the outcome of a write is
// unknown then, it returns an in-doubt error. Pending calls Intend before it sends any part of a write.
type Pending func(ctx context.Context, call InFlight) (json.RawMessage, *frame.Error)

// InFlight lets a Pending report to the run about its call. Only the goroutine of the Pending calls Ask and Tell.
type InFlight interface {
	// Intend stores the intent of a write durably, and with it everything that was recorded before. After an error the write must not be sent.
	Intend(ctx context.Context, intent journal.Intent) error
	// Ask reports that the call waits for an approval. The Pending must return the error that Ask returns; the run does not use it as an
	// answer.
	Ask(c approval.Call) *frame.Error
	// Charge counts time that the host spent on computing for the call. This time counts as computing time of the program. An error means that the
	// run has used up its time: the call must return, and the run ends.
	Charge(used time.Duration) error
	// Tell sets what the program gets in addition to the value of the answer.
	Tell(told Told)
	// Kept reports that the value is the answer of an earlier call, made at the given time.
	Kept(at time.Time)
}

// Event is what an observer of a run sees. The observer sees an event once every answer that led to it is stored. After a resume the
// observer sees the recorded events again, an answer together with its call.
type Event struct {
	Call   *journal.Call   // host call that was made
	Answer *journal.Answer // answer to a host call
	Log    *Log
}

// Spec is one run to execute.
type Spec struct {
	Start  journal.Start
	Limits Limits
	Owner  string // user of the run; runs of one owner may share a runner
	// Computed is the time that the host spent on computing for the run before the run began. It counts as computing time of the program.
	Computed time.Duration
	// Records are the records of the run to continue; empty for a new run.
	Records []journal.Record
	// Resume is the state of a run that has waited for an approval.
	Resume approval.Resume
	// Suspend makes the run wait for an approval, and returns the request. When Suspend returns without an error, the request is durable, and
	// another process may resume the run. The error may be a *RefusedError. Suspend is nil if no person can be asked.
	Suspend func(ctx context.Context, p Suspension) (*approval.Request, error)
	// Input converts the recorded answer to a call of kind input to the value that the guest gets. The recorded answer holds ranges and tokens.
	// Input is nil for a run without an input.
	Input func(recorded json.RawMessage) (json.RawMessage, error)
	// Only is the call of a program that is known to make this call and to do nothing else; nil for any other program.
	Only *Only
	// Detach lets the run give up its runner while its program waits for calls; nil if the run keeps its runner.
	Detach *Detach
	// Offline replays the records only: a call without a record is a divergence, and no call reaches the gate.
	Offline bool
	// Journal receives the run's records; nil when Offline.
	Journal journal.Writer
	Gate    Gate
	Runners Runners
	Slot    *Slot // slot that the run holds while it computes; nil if the run needs no slot
	Turn    *Turn // the run's turn on the processors; nil if the run may compute at any time
	// Privacy hides personal data in what the guest sends, before anything else sees it.
	Privacy pii.Session
	Args    *Args // limits of the memory for arguments of calls in flight; nil for no limit
	// Locate converts an error of the guest to an Error with its position in the code as written.
	Locate func(*frame.Error) *Error
	// Observe is called from the run's goroutine, and must not block. It may be nil.
	Observe func(Event)
	// Stored is called from the run's goroutine when the start of the run is in the journal's store, which then happens before the program begins. If it is
	// nil, the start is stored with the first records that have to be.
	Stored func()
	// Diverged is called from the run's goroutine when a replay diverges at a call, with the recorded call and the call of the program, in which personal
	// data is hidden. It may be nil.
	Diverged func(*journal.DivergedError)
	// Now returns the present time.
	Now func() time.Time
}
