// Package journal holds the ordered, append-only record of a run: what it was, every host call and its answer, every
// log line, the outcome. It imports none of our packages.
package journal

import (
	"context"
	"encoding/json"
	"errors"
)

// Record is one entry; exactly one of the pointers is set.
type Record struct {
	Seq    int64   `json:"seq"` // 1, 2, ... without gaps within a run
	Start  *Start  `json:"start,omitempty"`
	Call   *Call   `json:"call,omitempty"`
	Intent *Intent `json:"intent,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	Log    *Log    `json:"log,omitempty"`
	End    *End    `json:"end,omitempty"`
}

// Start is everything a run is a function of, besides its answers.
type Start struct {
	Run     string `json:"run"`
	User    string `json:"user,omitempty"`
	Session string `json:"session,omitempty"`
	// Principal is whose credential asked for the run, Roles are those that it had then.
	Principal string            `json:"principal,omitempty"`
	Roles     []string          `json:"roles,omitempty"`
	File      string            `json:"file,omitempty"`    // name of the program as the user knows it
	Source    string            `json:"source"`            // the program as written
	Program   json.RawMessage   `json:"program,omitempty"` // frame.Program: compiled code and every module loaded by it; absent where it could not be compiled
	Map       string            `json:"map,omitempty"`     // source map of the compiled code
	Seed      string            `json:"seed"`              // 32 bytes, hexadecimal
	Time      int64             `json:"time"`              // start, microseconds since the Unix epoch
	Tier      string            `json:"tier"`
	Engine    string            `json:"engine"`  // hash of the engine
	Prelude   string            `json:"prelude"` // hash of the guest runtime
	Limits    json.RawMessage   `json:"limits,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Input     *Input            `json:"input,omitempty"` // input of the run; nil for none
	// Tokens has, by type, where the program has its first token from (see run.Told).
	Tokens map[string]string `json:"tokens,omitempty"`
	// Warnings are messages about the program for its author.
	Warnings []string `json:"warnings,omitempty"`
}

// Input is a file that a run was given. Answers about it are ranges of its bytes, so a replay needs the file.
type Input struct {
	Name   string `json:"name,omitempty"` // file name without its directory
	Path   string `json:"path,omitempty"` // path in the session's workspace; empty for a file from elsewhere
	From   string `json:"from,omitempty"` // origin of values in it, if that does not follow from Path
	Format string `json:"format"`         // json, ndjson, csv, lines or text
	Size   int64  `json:"size"`           // bytes
	SHA256 string `json:"sha256"`         // hexadecimal
}

// Call is a host call as the guest made it.
type Call struct {
	N    int             `json:"n"` // call number, from 1, in guest order
	Kind string          `json:"kind"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"` // arguments of tools as compact JSON without equal keys, in the order in which they were written
	Sync bool            `json:"sync,omitempty"`
}

// Intent says that the write of call N is about to be sent: it is committed before the first byte is. A write with an
// intent and without an answer is in doubt; one without an intent never went out.
type Intent struct {
	N        int    `json:"n"`
	Key      string `json:"key"`                // idempotency key: run id and call number
	Retry    bool   `json:"retry,omitempty"`    // idempotent: may be repeated within 5 minutes of Time
	Conn     int64  `json:"conn,omitempty"`     // the server's connection number
	Time     int64  `json:"time"`               // microseconds since the Unix epoch
	Approval string `json:"approval,omitempty"` // the request by which people approved the call: this intent uses it up
	// Before is a file call's precondition, checked before it is repeated after a crash.
	Before json.RawMessage `json:"before,omitempty"`
}

// Answer is what the guest was given for call N.
type Answer struct {
	N        int             `json:"n"`
	Delivery int             `json:"delivery,omitempty"` // 1, 2, ... in order of delivery; 0 for a synchronous call
	Now      int64           `json:"now"`                // the run's clock at delivery, microseconds
	Value    json.RawMessage `json:"value,omitempty"`
	Error    json.RawMessage `json:"error,omitempty"` // frame.Error
	// What the program learned beside the value (see run.Told).
	Exact  bool              `json:"exact,omitempty"`
	Beside json.RawMessage   `json:"beside,omitempty"`
	Notes  []string          `json:"notes,omitempty"`
	Tokens map[string]string `json:"tokens,omitempty"`
}

// Log is one console line.
type Log struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// End is the outcome.
type End struct {
	Status     string          `json:"status"` // succeeded, failed, cancelled
	Output     json.RawMessage `json:"output,omitempty"`
	Error      json.RawMessage `json:"error,omitempty"`
	Calls      int             `json:"calls"`
	DurationUS int64           `json:"durationUs"`
	Time       int64           `json:"time"` // microseconds since the Unix epoch
}

// Writer appends the records of one run. It is safe for concurrent use.
type Writer interface {
	// Append adds a record and returns at once. The record rides in the next commit; Seq is set by the writer.
	Append(Record)
	// Commit returns once every record appended so far is stored. An error is final: the run must end. Cancelling
	// ctx stops waiting; the records may still be stored.
	Commit(ctx context.Context) error
	// Close commits what is left and releases the writer. It is idempotent.
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
	// Create starts the journal of a new run. It, or the first Commit, fails with an error wrapping ErrExists if the run exists.
	Create(ctx context.Context, run string) (Writer, error)
	// Resume continues the journal of a run that has no end.
	Resume(ctx context.Context, run string) (Writer, []Record, error)
	// Read returns the records of a run in order, or an error wrapping ErrNotFound.
	Read(ctx context.Context, run string) ([]Record, error)
}

// Errors of a Store. They come wrapped with the run's id; compare with errors.Is.
var (
	ErrNotFound = errors.New("no such run")
	ErrExists   = errors.New("run exists")
	ErrEnded    = errors.New("run has ended")
	ErrBusy     = errors.New("run is being written by another writer") // a writer in this process or another that is alive
	ErrClosed   = errors.New("journal is closed")
)
