// Package gate admits and executes every host call of a program. It checks the caller, limits, names and schemas, journals the intent of a write,
// makes the call and shapes the answer. The gate trusts nothing that the guest says about users: the user is that of the run's Scope.
//
// A tool call goes through numbered steps; the code names them:
//
//  1. the caller: the run whose pipe the call comes from, and the user in the run's Scope
//  2. limits
//  3. resolve the name
//  4. restore personal data in the input; apply policy to the call and the restored values
//  5. validate the input against the tool's schema, connect the server
//  6. approval, if policy asks for it; the call is then known to be valid, and the tool's definition is that of its connected server
//  7. give the kept answer of an earlier call, if a rule allows that; otherwise count the call for the limit of its rule, journal the intent of a write,
//     call the tool
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

	"mcp-code-exec-harness/internal/answers"
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
	// Unavailable returns the errors of servers whose tools are unknown, because they do not start or because the user has to log in.
	Unavailable(user string) []*mcpclient.CallError
	// Connect makes sure that a server is connected and returns the number of the connection.
	Connect(ctx context.Context, user, server string) (int64, error)
	// Call calls a tool and returns its result, which may be an error of the tool. Every failure is a *mcpclient.CallError. When ctx ends, Call
	// sends the server a cancellation and returns. The caller releases the result.
	Call(ctx context.Context, server, tool string, args json.RawMessage, opts mcpclient.CallOptions) (*mcpclient.Result, error)
	Resources(ctx context.Context, user, server string) ([]mcpclient.Resource, error)
	ResourceTemplates(ctx context.Context, user, server string) ([]mcpclient.ResourceTemplate, error)
	Prompts(ctx context.Context, user, server string) ([]mcpclient.Prompt, error)
	// Complete asks for completions of an argument of a prompt or of a template of resources.
	Complete(ctx context.Context, server string, params *mcp.CompleteParams, opts mcpclient.CallOptions) (mcpclient.Completion, error)
	// Prompt fills in a prompt; the caller calls release once it no longer uses the result.
	Prompt(ctx context.Context, server, name string, args map[string]string, opts mcpclient.CallOptions) (result json.RawMessage, release func(), err error)
	// ReadResource reads a resource; the caller calls release once it no longer uses the contents.
	ReadResource(ctx context.Context, server, uri string, opts mcpclient.CallOptions) (contents []mcpclient.ResourceContents, release func(), err error)
	// Request makes a request that is not a call of a tool: it calls send, and records the request as Call records a call.
	Request(ctx context.Context, server, name string, call int, send func(context.Context) error) error
	// Stateful reports whether a server keeps state for a connection.
	Stateful(server string) bool
}

// Files is what a program sees of /skills and /workspace. *files.Space implements it.
type Files interface {
	// Call performs a file call.
	Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, *frame.Error)
	// Hand returns how much of the file at a path the user wrote.
	Hand(path string) files.Hand
	// Tree returns the tree that contains a path: skills, workspace or servers.
	Tree(path string) string
	// WriteFrom writes size bytes of r to a file.
	WriteFrom(ctx context.Context, path string, size int64, r io.Reader) error
	// Precondition returns the data that AlreadyDone needs after a crash to tell whether a call that changes files took effect. It returns nil if the
	// call can simply be repeated.
	Precondition(name string, args json.RawMessage) (json.RawMessage, error)
	// AlreadyDone reports whether a call with this precondition took effect.
	AlreadyDone(name string, args, precondition json.RawMessage) (bool, error)
}

// Counts counts calls for the limits of rules. It is safe for concurrent use.
type Counts interface {
	// Reached reports whether the calls of a user under a key have reached the limit.
	Reached(ctx context.Context, user, key string, limit int) (bool, error)
	// Count counts a call of a user under a key; the count expires at the given time. If the limit is reached, Count does not count the call and
	// ok is false.
	Count(ctx context.Context, user, key string, limit int, now, expires time.Time) (ok bool, err error)
}

// Answers keeps results of tools that only read. *answers.Cache implements it; it has the meaning of the methods.
type Answers interface {
	Find(ctx context.Context, user string, tool answers.Tool, args json.RawMessage, within time.Duration) (answers.Answer, error)
	Keep(ctx context.Context, a answers.Answer, result json.RawMessage) error
	Changed(ctx context.Context, server string) error
}

// Modules compiles what a program requires or imports while it runs, and charges the run for the time. The result goes to the guest unchanged.
type Modules func(ctx context.Context, specifier, from string, charge func(used time.Duration) error) (*program.Loaded, error)

// Zones returns the description of a time zone. It answers an intl call.
type Zones func(name string) (json.RawMessage, error)

// Options are the parts that a gate joins.
type Options struct {
	Catalog *catalog.Catalog
	Servers Servers
	Policy  policy.Decider         // policy that decides calls; nil allows every call
	Counts  func() (Counts, error) // counts for limits of the policy's rules
	Answers Answers                // kept answers; used if a rule of the policy keeps any
	// Decided is called with every verdict other than allow. It runs in the goroutine of the call; may be nil.
	Decided func(ctx context.Context, c policy.Call, v policy.Verdict)
	// Restored is called before a call is sent, if values have replaced tokens in its arguments. It runs in the goroutine of the call; may be nil.
	Restored func(ctx context.Context, tool string, tokens []pii.Token)
	// Answered is called with the answer of a tool for a user, after personal data in the answer is hidden. It runs in the goroutine of the call;
	// may be nil.
	Answered func(ctx context.Context, user string, tool *catalog.Tool, value json.RawMessage)
	// Origins remembers where values come from; nil if no rule of the policy uses origins. History has the recorded runs from which Origins is
	// rebuilt; nil if there are none.
	Origins *origin.Memory
	History func() (History, error)
	// Languages are the configured languages of strings in arguments.
	Languages []language.Setting
	// ApprovalKey returns the key of the MACs that bind approvals to the arguments of calls.
	ApprovalKey func() ([]byte, error)
	Zones       Zones
	Now         func() time.Time
}

// Gate admits host calls. It is safe for concurrent use.
type Gate struct{ opt Options }

// New returns a gate.
func New(opt Options) *Gate {
	if p, ok := opt.Policy.(interface{ Keeps() bool }); !ok || !p.Keeps() {
		opt.Answers = nil
	}
	return &Gate{opt}
}

// Scope describes a run: whose it is and what it may use.
type Scope struct {
	Run      string
	User     string
	Roles    []auth.Role // roles of the caller; nil if unknown
	Session  string
	Tier     string // tier of the sandbox
	Task     string // id of the task; empty for a run without a task
	MaxCalls int    // maximum number of tool calls
	MaxValue int    // maximum bytes of an answer; a larger answer becomes a file
	Files    Files
	Modules  Modules
	// Skill compiles the promoted skill of the user that is the given tool, and charges the run for the time. wrapped reports that the skill's input is the
	// member input of the arguments. The error says why the skill is not called: it has changed, or is not promoted any more.
	Skill func(ctx context.Context, tool *catalog.Tool, charge func(used time.Duration) error) (code *program.Loaded, wrapped bool, err error)
	Input *input.Reader // input of the run; nil if it has none
	// InputFrom is the origin of values in the input.
	InputFrom pii.Origin
	Privacy   pii.Session // session of personal data in arguments and answers
	// Said are texts of the user. Code is the program and the values of its environment variables. Both contain no personal data.
	Said, Code []string
	// Recorded is what a dead process recorded of this run; empty for a new one.
	Recorded []journal.Record
	// Decided has people's decisions about calls of the run; may be nil.
	Decided *approval.Decided
	// Progress gets the servers' progress notifications for a pending call, on the call's goroutine; may be nil.
	Progress func(call int, p mcpclient.Progress)
}

// Run is the gate for one run. The run's goroutine calls Prepare. The pending calls that Prepare returns may execute concurrently.
type Run struct {
	gate      *Gate
	scope     Scope
	toolCalls int
	left      map[int]bool // approvable calls that an earlier process left without an answer, because it died or suspended the run for an approval
	sessions  connections
	told      notes
	read      readContent
	origins   origins
}

var _ run.Gate = (*Run)(nil)

// Open returns the gate for a run.
func (g *Gate) Open(scope Scope) *Run {
	r := &Run{gate: g, scope: scope, left: map[int]bool{}, sessions: connections{used: map[string]connection{}}}
	r.remember()
	return r
}

// remember counts the tool calls that an earlier process answered. It finds the approvable calls that the process left unanswered, and the
// connections on which it sent writes.
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

// approvable reports whether policy may ask a person about a call.
func approvable(c *journal.Call) bool {
	kind := frame.Kind(c.Kind)
	return kind == frame.Tool || kind == frame.PII || kind == frame.Resource
}

// answer returns a prepared call that writes nothing.
func answer(f func(ctx context.Context) (json.RawMessage, *frame.Error)) run.Pending {
	return func(ctx context.Context, _ run.InFlight) (json.RawMessage, *frame.Error) { return f(ctx) }
}

// refuse returns a prepared call that only answers with an error.
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
	case frame.Skill:
		return answer(func(context.Context) (json.RawMessage, *frame.Error) { return json.RawMessage("null"), nil })
	case frame.Intl:
		return answer(func(context.Context) (json.RawMessage, *frame.Error) { return r.zone(c.Args) })
	}
	return r.redacted(c, pii.FromProgram, refuse(runtimeError("TypeError", "there is no host call %s %s", c.Kind, c.Name)))
}

// redacted returns a prepared call in whose errors personal data is hidden: step 9. Values are redacted where they are made.
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

// hide hides personal data in the value of an answer. It ignores the end of ctx, so that an answer is journaled even if the run is being
// cancelled.
func (r *Run) hide(ctx context.Context, from pii.Origin, name string, value json.RawMessage) (json.RawMessage, *frame.Error) {
	value, err := r.scope.Privacy.HideJSON(context.WithoutCancel(ctx), from, value)
	if err != nil {
		return nil, undelivered(name, "the answer cannot be shown: "+err.Error(), false)
	}
	return value, nil
}

// redactError hides personal data in an error. sent are the tokens whose values the error may repeat.
func (r *Run) redactError(ctx context.Context, from pii.Origin, failed *frame.Error, sent ...pii.Token) (_ *frame.Error, err error) {
	ctx, shown := context.WithoutCancel(ctx), *failed
	if shown.Message, err = r.scope.Privacy.Hide(ctx, from, failed.Message, sent...); err == nil {
		shown.Data, err = r.scope.Privacy.HideJSON(ctx, from, failed.Data, sent...)
	}
	return &shown, err
}

// runtimeError returns an error of the call itself, which the guest throws as the given class.
func runtimeError(class, format string, args ...any) *frame.Error {
	return &frame.Error{Kind: frame.KindRuntime, Name: class, Message: fmt.Sprintf(format, args...)}
}

// decode decodes a call's arguments, which the guest wrote.
func decode(args json.RawMessage, into any) *frame.Error {
	if len(args) == 0 {
		return nil
	}
	if err := frame.DecodeArgs(args, into); err != nil {
		return runtimeError("TypeError", "wrong arguments: %v", err)
	}
	return nil
}

// encode encodes the value of an answer.
func encode(v any) (json.RawMessage, *frame.Error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, runtimeError("Error", "encode answer: %v", err)
	}
	return raw, nil
}

// cancelled returns the answer to a call that the end of its run has interrupted. No guest sees it.
func cancelled() *frame.Error {
	return &frame.Error{Kind: frame.KindCancelled, Name: "Error", Message: "the run ended before the call was answered"}
}

// catalog answers programs' questions about tools.
func (r *Run) catalog(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, *frame.Error) {
	r.gate.opt.Servers.EnsureTools(ctx, r.scope.User)
	answer, err := r.gate.opt.Catalog.Of(ctx, r.scope.User).Answer(ctx, r.scope.User, name, args)
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
