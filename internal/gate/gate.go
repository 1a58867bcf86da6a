// Package gate is the one place that every host call of a program passes: the caller, limits, names, schemas, the
// intent of a write, the call itself and the shape of its answer. Nothing the guest says about users is believed; a
// run's scope says which user it belongs to.
//
// A tool call goes through numbered steps; the code names them:
//
//  1. the caller: the run's scope, given by the pipe that a call comes from
//  2. limits
//  3. resolve the name
//  4. restore personal data in the input; policy, of the call and of what is restored
//  5. validate the input against the tool's schema, connect the server
//  6. approval, where policy asks: of a call that can be made, with the tool as its connected server defines it now
//  7. count the call for the limit of its rule, journal the intent of a write, call the tool
//  8. unwrap the result
//  9. hide personal data in the answer; it goes back to the run, which journals and delivers it
package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/input"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/origin"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/language"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
)

// Servers calls upstream MCP servers.
type Servers interface {
	// EnsureTools waits until every server has listed its tools or failed to, for a bounded time.
	EnsureTools(ctx context.Context, user string)
	// Unavailable are the servers whose tools are not known, because they do not start or because their user has to log in.
	Unavailable(user string) []*mcpclient.CallError
	// Connect makes sure that a server is connected and returns the number of the connection.
	Connect(ctx context.Context, user, server string) (int64, error)
	// Call calls a tool and returns its result, also one that is an error; every failure is a *mcpclient.CallError.
	// When ctx ends, Call sends the server a cancellation and returns. The caller releases the result.
	Call(ctx context.Context, server, tool string, args json.RawMessage, opts mcpclient.CallOptions) (*mcpclient.Result, error)
	Resources(ctx context.Context, user, server string) ([]mcpclient.Resource, error)
	ResourceTemplates(ctx context.Context, user, server string) ([]mcpclient.ResourceTemplate, error)
	Prompts(ctx context.Context, user, server string) ([]mcpclient.Prompt, error)
	// Complete asks how an argument of a prompt, or of a template of resources, can go on.
	Complete(ctx context.Context, server string, params *mcp.CompleteParams, opts mcpclient.CallOptions) (mcpclient.Completion, error)
	// Prompt fills in a prompt; the caller calls release once it no longer uses the result.
	Prompt(ctx context.Context, server, name string, args map[string]string, opts mcpclient.CallOptions) (result json.RawMessage, release func(), err error)
	// ReadResource reads a resource; the caller calls release once it no longer uses the contents.
	ReadResource(ctx context.Context, server, uri string, opts mcpclient.CallOptions) (contents []mcpclient.ResourceContents, release func(), err error)
	// Request makes a request that is no call of a tool: it calls send, and records that as Call records a call.
	Request(ctx context.Context, server, name string, call int, send func(context.Context) error) error
	// Stateful reports whether a server keeps state for a connection.
	Stateful(server string) bool
}

// Files is what a program sees of /skills and /workspace. *files.Space is it.
type Files interface {
	// Call performs a file call.
	Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, *frame.Error)
	// Hand is whose hand wrote the file at a path.
	Hand(path string) files.Hand
	// Tree is the tree that a path is in: skills, workspace or servers.
	Tree(path string) string
	// WriteFrom writes size bytes of r to a file.
	WriteFrom(ctx context.Context, path string, size int64, r io.Reader) error
	// Precondition is what must be known to judge a changing call after a crash; nil if it may simply be repeated.
	Precondition(name string, args json.RawMessage) (json.RawMessage, error)
	// AlreadyDone reports whether a call with this precondition took effect.
	AlreadyDone(name string, args, precondition json.RawMessage) (bool, error)
}

// Counts are the calls that count for limits of rules. They are safe for concurrent use.
type Counts interface {
	// Reached reports whether a user has as many calls under a key as the limit allows.
	Reached(ctx context.Context, user, key string, limit int) (bool, error)
	// Count counts a call of a user under a key until it expires; ok is false, and it is not counted, if there are as many as the limit
	// allows.
	Count(ctx context.Context, user, key string, limit int, now, expires time.Time) (ok bool, err error)
}

// Modules compiles what a program requires or imports while it runs, and charges the run for it; the value goes to the guest as it is.
type Modules func(ctx context.Context, specifier, from string, charge func(used time.Duration) error) (*program.Loaded, error)

// Zones describes a time zone: the value of the intl call.
type Zones func(name string) (json.RawMessage, error)

// Options are the parts that a gate joins.
type Options struct {
	Catalog *catalog.Catalog
	Servers Servers
	Policy  policy.Decider         // nil allows every call
	Counts  func() (Counts, error) // counts for limits of the policy's rules
	// Decided is called with every verdict other than allow, by the goroutine of its call; may be nil.
	Decided func(ctx context.Context, c policy.Call, v policy.Verdict)
	// Restored is called before a call is sent whose arguments have the values of tokens, by the goroutine of the call; may be nil.
	Restored func(ctx context.Context, tool string, tokens []pii.Token)
	// Answered is called with the value that a tool gave a user and in which personal data is hidden, by the goroutine of the call; may be nil.
	Answered func(ctx context.Context, user string, tool *catalog.Tool, value json.RawMessage)
	// Origins remembers where values come from; nil: no rule of the policy looks at that. History is the recorded runs that it is made again from; nil: there
	// are none.
	Origins *origin.Memory
	History func() (History, error)
	// Languages are those of strings in arguments that the configuration says.
	Languages []language.Setting
	// ApprovalKey binds approvals to arguments.
	ApprovalKey func() ([]byte, error)
	Zones       Zones
	Now         func() time.Time
}

// Gate admits host calls. It is safe for concurrent use.
type Gate struct{ opt Options }

// New joins the parts.
func New(opt Options) *Gate { return &Gate{opt} }

// Scope is whose run it is, and what the run may touch.
type Scope struct {
	Run      string
	User     string
	Roles    []auth.Role // roles of the caller; nil if unknown
	Session  string
	Tier     string // tier of the sandbox
	Task     string // empty: a run of no task
	MaxCalls int    // tool calls
	MaxValue int    // bytes of an answer; a larger one becomes a file
	Files    Files
	Modules  Modules
	Input    *input.Reader // input of the run; nil for none
	// InputFrom is the origin of values in it.
	InputFrom pii.Origin
	Privacy   pii.Session // session of personal data in arguments and answers
	// Said are texts of the user, Code is the program and what a client gave it, both without personal data.
	Said, Code []string
	// Recorded is what a dead process recorded of this run; empty for a new one.
	Recorded []journal.Record
	// Decided is what people decided about calls of the run; nil for nothing.
	Decided *approval.Decided
	// Progress gets the servers' progress notifications for a pending call, on the call's goroutine; may be nil.
	Progress func(call int, p mcpclient.Progress)
}

// Run is the gate as one run sees it. Prepare is called by the run's goroutine; pending calls are independent.
type Run struct {
	gate      *Gate
	scope     Scope
	toolCalls int
	left      map[int]bool // approvable calls that a dead process, or one that waited for an approval, left without an answer
	sessions  connections
	told      notes
	read      readContent
	origins   origins
}

var _ run.Gate = (*Run)(nil)

// Open admits a run.
func (g *Gate) Open(scope Scope) *Run {
	r := &Run{gate: g, scope: scope, left: map[int]bool{}, sessions: connections{used: map[string]connection{}}}
	r.remember()
	return r
}

// remember counts the tool calls that a dead process had answered, and finds the approvable calls that it had not and the connections
// that it sent writes on.
func (r *Run) remember() {
	calls := map[int]*journal.Call{}
	for _, record := range r.scope.Recorded {
		switch {
		case record.Call != nil:
			calls[record.Call.N] = record.Call
			r.left[record.Call.N] = approvable(record.Call)
		case record.Answer != nil:
			if c := calls[record.Answer.N]; c != nil && (frame.Kind(c.Kind) == frame.Tool || fetches(c)) {
				r.toolCalls++
			}
			delete(r.left, record.Answer.N)
		case record.Intent != nil && record.Intent.Conn != 0:
			if c := calls[record.Intent.N]; c != nil {
				r.sessions.earlier = append(r.sessions.earlier, earlier{c, record.Intent.Conn})
			}
		}
	}
	if r.gate.opt.Origins != nil {
		r.origins.recorded = r.scope.Recorded
	}
	r.scope.Recorded = nil
}

// approvable reports whether policy may put a call to a person.
func approvable(c *journal.Call) bool {
	kind := frame.Kind(c.Kind)
	return kind == frame.Tool || kind == frame.PII || kind == frame.Resource
}

// answer is a prepared call without a write.
func answer(f func(ctx context.Context) (json.RawMessage, *frame.Error)) run.Pending {
	return func(ctx context.Context, _ run.InFlight) (json.RawMessage, *frame.Error) { return f(ctx) }
}

// refuse is the answer of a call that goes no further.
func refuse(err *frame.Error) run.Pending {
	return answer(func(context.Context) (json.RawMessage, *frame.Error) { return nil, err })
}

// Prepare implements run.Gate. Answers are redacted, except modules, which are redacted where their files are read.
func (r *Run) Prepare(c *journal.Call, intent *journal.Intent) run.Pending {
	switch frame.Kind(c.Kind) {
	case frame.Tool:
		return r.tool(c, intent)
	case frame.FS:
		return r.redacted(c, pii.FromProgram, r.file(c, intent)) // the answer has paths that the program wrote
	case frame.Catalog:
		return r.redacted(c, pii.FromProgram, answer(func(ctx context.Context) (json.RawMessage, *frame.Error) { return r.catalog(ctx, c.Name, c.Args) }))
	case frame.Resource:
		return r.resource(c)
	case frame.PII:
		return r.redacted(c, pii.FromProgram, func(ctx context.Context, call run.InFlight) (json.RawMessage, *frame.Error) {
			return r.question(ctx, c, call)
		})
	case frame.InputOf:
		return r.redacted(c, r.scope.InputFrom, func(ctx context.Context, call run.InFlight) (json.RawMessage, *frame.Error) {
			return r.input(ctx, c.Args, call)
		})
	case frame.Load:
		return func(ctx context.Context, call run.InFlight) (json.RawMessage, *frame.Error) {
			return r.load(ctx, c.Args, call)
		}
	case frame.Intl:
		return answer(func(context.Context) (json.RawMessage, *frame.Error) { return r.zone(c.Args) })
	}
	return r.redacted(c, pii.FromProgram, refuse(runtimeError("TypeError", "there is no host call %s %s", c.Kind, c.Name)))
}

// redacted is a prepared call whose errors are redacted of personal data: step 9. Values are redacted where they are made.
func (r *Run) redacted(c *journal.Call, from pii.Origin, pending run.Pending) run.Pending {
	return func(ctx context.Context, call run.InFlight) (json.RawMessage, *frame.Error) {
		value, failed := pending(ctx, call)
		if failed == nil {
			return value, nil
		}
		failed, err := r.redactError(ctx, from, failed)
		if err != nil {
			return nil, undelivered(c.Name, "the answer cannot be shown: "+err.Error(), false)
		}
		return nil, failed
	}
}

// hide takes personal data out of the value of an answer. An answer that came is journaled, also when the run is being cancelled.
func (r *Run) hide(ctx context.Context, from pii.Origin, name string, value json.RawMessage) (json.RawMessage, *frame.Error) {
	value, err := r.scope.Privacy.HideJSON(context.WithoutCancel(ctx), from, value)
	if err != nil {
		return nil, undelivered(name, "the answer cannot be shown: "+err.Error(), false)
	}
	return value, nil
}

// redactError takes personal data out of an error. sent are the tokens whose values it may repeat.
func (r *Run) redactError(ctx context.Context, from pii.Origin, failed *frame.Error, sent ...pii.Token) (_ *frame.Error, err error) {
	ctx, shown := context.WithoutCancel(ctx), *failed
	if shown.Message, err = r.scope.Privacy.Hide(ctx, from, failed.Message, sent...); err == nil {
		shown.Data, err = r.scope.Privacy.HideJSON(ctx, from, failed.Data, sent...)
	}
	return &shown, err
}

// runtimeError is an error of the call itself, thrown into the guest as the given class.
func runtimeError(class, format string, args ...any) *frame.Error {
	return &frame.Error{Kind: frame.KindRuntime, Name: class, Message: fmt.Sprintf(format, args...)}
}

// decode reads a call's arguments; the guest wrote them.
func decode(args json.RawMessage, into any) *frame.Error {
	if len(args) == 0 {
		return nil
	}
	if err := frame.DecodeArgs(args, into); err != nil {
		return runtimeError("TypeError", "wrong arguments: %v", err)
	}
	return nil
}

// encode makes an answer's value.
func encode(v any) (json.RawMessage, *frame.Error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, runtimeError("Error", "encode answer: %v", err)
	}
	return raw, nil
}

// cancelled answers a call that was cut off by the end of its run; no guest sees it.
func cancelled() *frame.Error {
	return &frame.Error{Kind: frame.KindCancelled, Name: "Error", Message: "the run ended before the call was answered"}
}

// catalog answers what programs ask about tools.
func (r *Run) catalog(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, *frame.Error) {
	r.gate.opt.Servers.EnsureTools(ctx, r.scope.User)
	answer, err := r.gate.opt.Catalog.Answer(ctx, r.scope.User, name, args)
	if err != nil {
		return nil, toolError("", err.Error())
	}
	value, failed := encode(answer)
	if failed != nil {
		return nil, failed
	}
	return r.hide(ctx, pii.FromCatalog, name, value)
}

// load resolves a require or import at run time.
func (r *Run) load(ctx context.Context, args json.RawMessage, call run.InFlight) (json.RawMessage, *frame.Error) {
	var in struct {
		Specifier string `json:"specifier"`
		From      string `json:"from"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	loaded, err := r.scope.Modules(ctx, in.Specifier, in.From, call.Charge)
	if err != nil {
		return nil, runtimeError("Error", "%v", err)
	}
	return encode(loaded)
}

func (r *Run) zone(args json.RawMessage) (json.RawMessage, *frame.Error) {
	var in struct {
		Zone string `json:"zone"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	raw, err := r.gate.opt.Zones(in.Zone)
	if err != nil {
		return nil, runtimeError("RangeError", "%v", err)
	}
	return raw, nil
}
