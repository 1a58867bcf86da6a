// Package frame defines the protocol between host and runner: newline-delimited JSON objects over the runner's stdin and stdout, the same in
// every tier. The host assigns a pipe to a run; it uses the run id in a frame only to drop frames of other runs.
package frame

import "encoding/json"

// MaxSize is the maximum size in bytes of a frame that a runner may send: the largest value and its wrapping.
const MaxSize = 24 << 20

// Type is the type of a frame.
type Type string

// The types of frames. Host to runner: Start, Answer, Cancel, Reset. Runner to host: Ready, Call, Log, Idle, Done.
const (
	Start  Type = "start"  // a program to execute; the runner must be Ready
	Answer Type = "answer" // the answer of one call
	Cancel Type = "cancel" // interrupt the program; a Done follows, or the host kills the runner
	Reset  Type = "reset"  // forget the last run; answered by Ready
	Ready  Type = "ready"  // the runner is free of earlier runs; a Start may follow
	Call   Type = "call"   // a host call
	Log    Type = "log"    // a line of the console
	Idle   Type = "idle"   // no microtask is left; waiting for answers
	Done   Type = "done"   // the program ended
)

// Frame is a frame of any type; T determines which fields are set.
type Frame struct {
	T   Type   `json:"t"`
	Run string `json:"run,omitempty"`
	// Call and Answer. Calls are numbered from 1 in the order in which the guest makes them.
	ID   int  `json:"id,omitempty"`
	Sync bool `json:"sync,omitempty"` // reports that the guest is blocked until the answer comes
	// Start and Answer: the run's time in microseconds since the Unix epoch.
	Now int64 `json:"now,omitempty"`

	// Start
	Program *Program          `json:"program,omitempty"`
	Seed    string            `json:"seed,omitempty"` // 32 bytes, hexadecimal
	Env     map[string]string `json:"env,omitempty"`
	Limits  *Limits           `json:"limits,omitempty"`
	Input   *Input            `json:"input,omitempty"` // input of the run; nil for none

	// Call
	Kind Kind            `json:"kind,omitempty"`
	Name string          `json:"name,omitempty"`
	Args json.RawMessage `json:"args,omitempty"`

	// Answer and Done: a value or an error. A missing value means null.
	Value json.RawMessage `json:"value,omitempty"`
	Error *Error          `json:"error,omitempty"`
	// Answer: what the program gets in addition to the value (see run.Told).
	Exact  bool            `json:"exact,omitempty"`
	Beside json.RawMessage `json:"beside,omitempty"`
	Notes  []string        `json:"notes,omitempty"`
	Skill  bool            `json:"skill,omitempty"`
	// Start and Answer: an entry for each type of token that the program gets from a source for the first time. It maps the type to the source
	// and the place of the first token (see run.Told). From then on, the guest warns the program about operations on tokens that cannot work.
	Tokens map[string]string `json:"tokens,omitempty"`
	// Methods is set together with Tokens. It holds the functions of the package variable Methods that the program's code names; nil means all of
	// them.
	Methods []string `json:"methods,omitzero"`

	// Log
	Level string `json:"level,omitempty"` // log, info, warn, error, debug
	Text  string `json:"text,omitempty"`

	// Idle: number of asynchronous answers that the guest has received so far.
	Taken int `json:"taken,omitempty"`

	// Cancel: reason, an error kind such as timeout or cancelled.
	Reason string `json:"reason,omitempty"`

	// Ready: engine of the runner.
	Engine string `json:"engine,omitempty"`
	// The first Ready: walls that the runner lacks, with the reasons.
	Missing map[string]string `json:"missing,omitempty"`
	// The first Ready of Node.js: its code cache, if it created one (see package node).
	Cache []byte `json:"cache,omitempty"`
	// Done: whether the guest asked for more memory than its limit.
	Refused bool `json:"refused,omitempty"`
}

// Skills is the name of the built-in server whose tools are the promoted skills of a user.
const Skills = "skills"

// Kind is the kind of a host call.
type Kind string

// The kinds of host calls.
const (
	Tool     Kind = "tool"     // call a tool of an MCP server
	Catalog  Kind = "catalog"  // discover tools
	Resource Kind = "resource" // MCP resources
	FS       Kind = "fs"       // files in /skills and /workspace
	Timer    Kind = "timer"    // sleep
	Load     Kind = "module"   // require and import at run time
	Intl     Kind = "intl"     // time zones
	PII      Kind = "pii"      // functions of the global pii, which answer questions about tokens
	InputOf  Kind = "input"    // parts of the run's input
	Skill    Kind = "skill"    // report that a skill that was called as a tool has ended
)

// Program is compiled code, ready for any runner.
type Program struct {
	// Code evaluates to an async function. Its parameters are the namespaces of Imports in order, followed by the
	// function that implements dynamic import (see package program).
	Code    string   `json:"code"`
	Imports []Import `json:"imports,omitempty"`
	Modules []Module `json:"modules,omitempty"`
	// Lines maps lines of Code to lines of the source: pairs of line numbers, from 1. A pair applies to all lines up to the next pair.
	Lines [][2]int `json:"lines,omitempty"`
	// Unreturned is the guest's message if the program ends without a value and has printed nothing; "" means no message.
	Unreturned string `json:"unreturned,omitempty"`
}

// Input describes the input of a run, which the program reads by calls.
type Input struct {
	Name   string `json:"name,omitempty"`
	Format string `json:"format"` // json, ndjson, csv, lines or text
	Size   int64  `json:"size"`   // bytes
}

// Import is one static import of a program.
type Import struct {
	Specifier string   `json:"specifier"`       // specifier as written
	Module    string   `json:"module"`          // id of a Module
	Names     []string `json:"names,omitempty"` // exports that must exist
}

// Module is a module that a program or another module can import.
type Module struct {
	ID    string   `json:"id"`              // "/skills/a.js", "./servers/crm", "npm:lodash"
	Kind  string   `json:"kind"`            // js, json, server, builtin
	Code  string   `json:"code,omitempty"`  // for js, an expression that evaluates to function(exports, require, module, __import); for json, the text
	Lines [][2]int `json:"lines,omitempty"` // line pairs like those of Program.Lines
	// Async marks a js module with top-level await: its function is async, and only import can load it.
	Async bool `json:"async,omitempty"`
	// ESM marks a js module written with import/export syntax (its default export is exports.default).
	ESM  bool              `json:"esm,omitempty"`
	Deps map[string]string `json:"deps,omitempty"` // specifier as written -> module id

	Server       string     `json:"server,omitempty"` // name of the module of kind server or builtin
	Functions    []Function `json:"functions,omitempty"`
	Instructions string     `json:"instructions,omitempty"`
}

// Function is one tool of a server module.
type Function struct {
	Name string `json:"name"` // camelCase, as exported
	Tool string `json:"tool"` // server__tool
}

// Error is an error in a frame: thrown into the guest by an Answer, or the reason of a Done.
type Error struct {
	Kind    string          `json:"kind,omitempty"` // value of error.kind in the public interface
	Name    string          `json:"name,omitempty"` // JavaScript class: ToolError, TypeError, ...
	Message string          `json:"message"`
	Stack   string          `json:"stack,omitempty"` // stack of the engine, with positions in compiled code
	Tool    string          `json:"tool,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Limits are the limits that the runner itself enforces; the host enforces the others.
type Limits struct {
	Memory   int64 `json:"memory,omitempty"`   // maximum guest memory in bytes
	InFlight int   `json:"inFlight,omitempty"` // maximum number of calls in flight; further calls wait in the guest
	MaxValue int   `json:"maxValue,omitempty"` // maximum size in bytes of one call's arguments or of the output
}

// The kinds of errors in the public interface.
const (
	KindSyntax       = "syntax"
	KindRuntime      = "runtime"
	KindTool         = "tool"
	KindTimeout      = "timeout"
	KindMemory       = "memory"
	KindOutputLimit  = "output_limit"
	KindCallLimit    = "call_limit"
	KindNeverSettles = "never_settles"
	KindCrash        = "crash"
	KindDenied       = "denied"
	KindInDoubt      = "in_doubt"
	KindDiverged     = "diverged"
	KindCancelled    = "cancelled"
)
