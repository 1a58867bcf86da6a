// Package journal defines the ordered, append-only record of a run: its start, every host call and its answer, every
// log line and the outcome. It imports no other package of the harness.
package journal

import (
	"context"
	"encoding/json"
	"errors"
)

// Record is one entry of a journal; exactly one of the pointers is set.
type Record struct {
	Seq    int64   `json:"seq"` // record number: 1, 2, ... without gaps within a run
	Start  *Start  `json:"start,omitempty"`
	Call   *Call   `json:"call,omitempty"`
	Intent *Intent `json:"intent,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	Log    *Log    `json:"log,omitempty"`
	End    *End    `json:"end,omitempty"`
}

// Start holds everything that determines a run, except the answers to its calls.
type Start struct {
	Run     string `json:"run"`
	User    string `json:"user,omitempty"`
	Session string `json:"session,omitempty"`
	// Principal is the principal whose credential requested the run. Roles are the roles that it had then.
	Principal string            `json:"principal,omitempty"`
	Roles     []string          `json:"roles,omitempty"`
	File      string            `json:"file,omitempty"`    // name of the program as the user knows it
	Source    string            `json:"source"`            // program as written
	Program   json.RawMessage   `json:"program,omitempty"` // frame.Program: compiled code and every module loaded by it; absent if compiling failed
	Map       string            `json:"map,omitempty"`     // source map of the compiled code
	Seed      string            `json:"seed"`              // seed of the random numbers, 32 bytes in hexadecimal
	Time      int64             `json:"time"`              // start of the run in microseconds since the Unix epoch
	Tier      string            `json:"tier"`
	Engine    string            `json:"engine"`  // hash of the engine
	Prelude   string            `json:"prelude"` // hash of the guest runtime
	Limits    json.RawMessage   `json:"limits,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Input     *Input            `json:"input,omitempty"` // input of the run; nil if there is none
	// Tokens maps each type of token in the program to the place of its first token (see run.Told).
	Tokens map[string]string `json:"tokens,omitempty"`
	// Warnings are messages about the program for its author.
	Warnings []string `json:"warnings,omitempty"`
}

// Input is a file that a run was given. The journal stores which bytes of the file the program got, but not the bytes, so a replay
// needs the file.
type Input struct {
	Name   string `json:"name,omitempty"` // file name without its directory
	Path   string `json:"path,omitempty"` // path in the session's workspace; empty for a file from elsewhere
	From   string `json:"from,omitempty"` // origin of the values in the file, if it does not follow from Path
	Format string `json:"format"`         // json, ndjson, csv, lines or text
	Size   int64  `json:"size"`           // size in bytes
	SHA256 string `json:"sha256"`         // SHA-256 of the file in hexadecimal
}

// Call is a host call as the guest made it.
type Call struct {
	N    int             `json:"n"` // call number, from 1, in guest order
	Kind string          `json:"kind"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"` // arguments; for a tool, compact JSON without duplicate keys, with the keys in their original order
	Sync bool            `json:"sync,omitempty"`
}

// Intent records that the write of call N is about to be sent. It is committed before the first byte is sent. A write with an
// intent and without an answer is in doubt; a write without an intent was never sent.
type Intent struct {
	N        int    `json:"n"`
	Key      string `json:"key"`                // idempotency key: run id and call number
	Retry    bool   `json:"retry,omitempty"`    // whether the call is idempotent; it may then be repeated within 5 minutes of Time
	Conn     int64  `json:"conn,omitempty"`     // number of the connection to the server
	Time     int64  `json:"time"`               // time of the intent in microseconds since the Unix epoch
	Approval string `json:"approval,omitempty"` // request by which people approved the call; the intent uses up the approval
	// Before is the precondition of a file call. It is checked before the call is repeated after a crash.
	Before json.RawMessage `json:"before,omitempty"`
}

// Answer is the answer that the guest got for call N.
type Answer struct {
	N        int             `json:"n"`
	Delivery int             `json:"delivery,omitempty"` // 1, 2, ... in order of delivery; 0 for a synchronous call; see Undelivered
	Now      int64           `json:"now"`                // time that the program sees at delivery, in microseconds since the Unix epoch
	Value    json.RawMessage `json:"value,omitempty"`
	Error    json.RawMessage `json:"error,omitempty"` // frame.Error
	// Parts of the answer in addition to the value (see run.Told).
	Exact  bool              `json:"exact,omitempty"`
	Beside json.RawMessage   `json:"beside,omitempty"`
	Notes  []string          `json:"notes,omitempty"`
	Tokens map[string]string `json:"tokens,omitempty"`
	Skill  bool              `json:"skill,omitempty"`
	// Kept is the time of the earlier call whose answer this is, in microseconds since the Unix epoch; 0 if the server was asked.
	Kept int64 `json:"kept,omitempty"`
}

// Log is one console line.
type Log struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// End is the outcome of a run.
type End struct {
	Status     string          `json:"status"` // succeeded, failed or cancelled
	Output     json.RawMessage `json:"output,omitempty"`
	Error      json.RawMessage `json:"error,omitempty"`
	Calls      int             `json:"calls"`
	DurationUS int64           `json:"durationUs"`
	Time       int64           `json:"time"` // microseconds since the Unix epoch
}

// Writer appends the records of one run. It is safe for concurrent use.
type Writer interface {
	// Append adds a record and returns at once. The next commit stores the record; the writer sets Seq.
	Append(Record)
	// Commit returns once every record appended so far is stored. An error is final: the run must end. When ctx is
	// cancelled, Commit stops waiting; the records may still be stored.
	Commit(ctx context.Context) error
	// Close commits the remaining records and releases the writer. It is idempotent.
	Close(ctx context.Context) error
}

// Discard is a Writer that stores nothing, for replays.
var Discard Writer = discard{}

type discard struct{}

func (discard) Append(Record)                {}
func (discard) Commit(context.Context) error { return nil }
func (discard) Close(context.Context) error  { return nil }

// Store keeps journals. Its methods are safe for concurrent use.
type Store interface {
	// Create starts the journal of a new run. If the run exists, Create or the first Commit fails with an error that wraps ErrExists.
	Create(ctx context.Context, run string) (Writer, error)
	// Resume continues the journal of a run that has not ended.
	Resume(ctx context.Context, run string) (Writer, []Record, error)
	// Read returns the records of a run in order, or an error that wraps ErrNotFound.
	Read(ctx context.Context, run string) ([]Record, error)
}

// Errors of a Store. A Store wraps them with the run's id; compare with errors.Is.
var (
	ErrNotFound = errors.New("no such run")
	ErrExists   = errors.New("run exists")
	ErrEnded    = errors.New("run has ended")
	ErrBusy     = errors.New("run is being written by another writer") // a writer in this process or in another live process
	ErrClosed   = errors.New("journal is closed")
)
