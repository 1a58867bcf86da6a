package task

import (
	"encoding/json"
	"time"

	"mcp-code-exec-harness/internal/model"
)

// The types of events.
const (
	EventQueued     = "task.queued"
	EventStarted    = "task.started"
	EventTurn       = "turn"
	EventDelta      = "delta" // the model wrote a piece of an answer; the event is not stored
	EventRunStarted = "run.started"
	EventCall       = "run.call"
	EventAnswer     = "run.answer"
	EventLog        = "run.log"
	EventProgress   = "run.progress" // a server reported how far a call is; the event is not stored
	EventRunEnded   = "run.ended"
	EventNote       = "note"
	EventEnded      = "task.ended"

	EventApprovalRequested = "approval_requested"
	EventApprovalDecided   = "approval_decided"
)

// EventData has the type of each event's data.
var EventData = map[string]any{
	EventQueued: QueuedData{}, EventStarted: StartedData{}, EventTurn: TurnData{}, EventDelta: DeltaData{}, EventRunStarted: RunStartedData{}, EventCall: CallData{},
	EventAnswer: AnswerData{}, EventLog: LogData{}, EventProgress: ProgressData{}, EventRunEnded: RunEndedData{}, EventNote: NoteData{}, EventEnded: Task{},
	EventApprovalRequested: ApprovalRequestedData{}, EventApprovalDecided: ApprovalDecidedData{},
}

// QueuedData says that the task is stored and waits.
type QueuedData struct {
	_         struct{} `additionalProperties:"true"`
	ID        string   `json:"id"`
	SessionID string   `json:"sessionId"`
	RunAt     any      `json:"runAt" doc:"When work on it begins; no time: at once."`
}

// StartedData says that work on the task has begun.
type StartedData struct {
	_  struct{} `additionalProperties:"true"`
	ID string   `json:"id"`
}

// TurnData is an answer of the model.
type TurnData struct {
	_     struct{}    `additionalProperties:"true"`
	Turn  int         `json:"turn" doc:"Its number, from 1."`
	Text  string      `json:"text"`
	Calls []TurnCall  `json:"calls"`
	Usage model.Usage `json:"usage"`
	Cost  any         `json:"costUsd" doc:"A number; none where the price of the model is not known."`
}

// TurnCall is a call of a tool in an answer of the model.
type TurnCall struct {
	_     struct{}        `additionalProperties:"true"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input" doc:"JSON, or a text with the beginning of a long one."`
}

// DeltaData is a piece of an answer while the model writes it.
type DeltaData struct {
	_      struct{} `additionalProperties:"true"`
	Text   string   `json:"text,omitempty"`
	Call   string   `json:"call,omitempty" doc:"Name of the tool that input is for."`
	CallID string   `json:"callId,omitempty"`
	Input  string   `json:"input,omitempty" doc:"A piece of the input of the call."`
	Reset  bool     `json:"reset,omitempty" doc:"Takes back all pieces of this turn."`
	Notice string   `json:"notice,omitempty" doc:"Why something takes longer."`
}

// RunStartedData says that a program begins.
type RunStartedData struct {
	_     struct{} `additionalProperties:"true"`
	RunID string   `json:"runId"`
	Code  string   `json:"code"`
}

// CallData is a call of a program.
type CallData struct {
	_     struct{}        `additionalProperties:"true"`
	RunID string          `json:"runId"`
	N     int             `json:"n" doc:"Its number in the run, from 1."`
	Kind  string          `json:"kind" example:"tool"`
	Name  string          `json:"name"`
	Args  json.RawMessage `json:"args" doc:"JSON, or a text with the beginning of a long one."`
}

// AnswerData says that the program got the answer of a call.
type AnswerData struct {
	_     struct{}        `additionalProperties:"true"`
	RunID string          `json:"runId"`
	N     int             `json:"n" doc:"The number of the call."`
	OK    bool            `json:"ok"`
	Bytes int             `json:"bytes" doc:"Size of the answer as JSON."`
	Error json.RawMessage `json:"error,omitempty" doc:"Why it failed: kind and message, or a text with the beginning of a long one."`
}

// LogData is a console line.
type LogData struct {
	_     struct{} `additionalProperties:"true"`
	RunID string   `json:"runId"`
	Level string   `json:"level" enum:"log,info,warn,error,debug"`
	Text  string   `json:"text"`
}

// ProgressData is how far a call is.
type ProgressData struct {
	_        struct{} `additionalProperties:"true"`
	RunID    string   `json:"runId"`
	N        int      `json:"n" doc:"The number of the call."`
	Progress float64  `json:"progress"`
	Total    float64  `json:"total" doc:"0 where it is not known."`
}

// RunEndedData is how a program ended.
type RunEndedData struct {
	_      struct{}        `additionalProperties:"true"`
	RunID  string          `json:"runId"`
	Status string          `json:"status" enum:"succeeded,failed,cancelled"`
	Output json.RawMessage `json:"output" doc:"JSON, or a text with the beginning of a long one."`
	Error  *Error          `json:"error,omitempty"`
}

// NoteData is what the harness tells the model.
type NoteData struct {
	_    struct{} `additionalProperties:"true"`
	Text string   `json:"text"`
}

// ApprovalRequestedData says that a run waits for a person.
type ApprovalRequestedData struct {
	_          struct{}      `additionalProperties:"true"`
	ApprovalID string        `json:"approvalId"`
	RunID      string        `json:"runId"`
	Expires    time.Time     `json:"expiresAt"`
	Calls      []WaitingCall `json:"calls"`
}

// WaitingCall is a call that waits for a person.
type WaitingCall struct {
	_    struct{}        `additionalProperties:"true"`
	N    int             `json:"n" doc:"Its number in the run."`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args" doc:"JSON, or a text with the beginning of a long one."`
}

// ApprovalDecidedData is what a person decided.
type ApprovalDecidedData struct {
	_          struct{} `additionalProperties:"true"`
	ApprovalID string   `json:"approvalId"`
	Decision   string   `json:"decision" enum:"approved,denied,expired"`
	Reason     string   `json:"reason"`
	Remember   bool     `json:"remember"`
}
