package gate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
)

// retryWindow is how long after its intent an idempotent write may be repeated. Later, its idempotency key may have expired, or the data may
// have changed.
const retryWindow = 5 * time.Minute

// toolCall is one counted tool call.
type toolCall struct {
	run    *Run
	call   *journal.Call
	flight run.InFlight    // the call in progress
	intent *journal.Intent // intent of a process that died before the answer
	write  bool            // the call may change something
	made   int             // number of lost connections that calls had reported when this call was made
	name   string          // full name of the tool; until that is resolved, the name that the program wrote
	sent   []pii.Token     // tokens whose values were sent to the server
	method *method         // method of a request that is not a call of a tool; otherwise nil
	spoke  bool            // the server was called, so an error may contain its words
}

// toolError returns an error that a program can catch as a ToolError.
func toolError(tool, message string) *frame.Error {
	return &frame.Error{Kind: frame.KindTool, Name: "ToolError", Message: message, Tool: tool}
}

// inDoubt returns the error for a write whose outcome is unknown.
func inDoubt(tool, why string) *frame.Error {
	return &frame.Error{Kind: frame.KindInDoubt, Name: "InDoubtError", Tool: tool, Message: fmt.Sprintf(
		"the outcome of %s is unknown: %s; it may have taken effect, unless it only reads. Check before you call it again", tool, why)}
}

// tool prepares a tool call: step 2.
func (r *Run) tool(c *journal.Call, intent *journal.Intent) run.Pending {
	r.toolCalls++
	if r.toolCalls > r.scope.MaxCalls {
		return refuse(&frame.Error{Kind: frame.KindCallLimit, Name: "LimitError", Tool: c.Name, Message: fmt.Sprintf(
			"the program made more than %d tool calls (sandbox.maxCalls)", r.scope.MaxCalls)})
	}
	t := &toolCall{run: r, call: c, intent: intent, made: r.sessions.count(), name: c.Name}
	if fetches(c) {
		return t.pending(t.fetch)
	}
	return t.pending(t.do)
}

// pending returns a prepared call, which the function do answers. It hides personal data in errors: step 9. Until the server is called, errors
// are texts of the harness that contain what the program wrote.
func (t *toolCall) pending(do func(ctx context.Context) (json.RawMessage, *frame.Error)) run.Pending {
	return func(ctx context.Context, flight run.InFlight) (json.RawMessage, *frame.Error) {
		t.flight = flight
		value, failed := do(ctx)
		if failed == nil {
			return value, nil
		}
		from := pii.FromProgram
		if t.spoke {
			from = pii.Origin(t.name)
		}
		failed, err := t.run.redactError(ctx, from, failed, t.sent...)
		if err != nil {
			return nil, undelivered(t.name, "the answer cannot be shown: "+err.Error(), t.write)
		}
		if t.spoke {
			t.failedBy(ctx, failed)
		}
		t.tellFailure(failed)
		return nil, failed
	}
}

// do executes the pending call of a tool: step 3, then the other steps in order.
func (t *toolCall) do(ctx context.Context) (json.RawMessage, *frame.Error) {
	var in struct {
		Server     string            `json:"server"`
		Input      json.RawMessage   `json:"input"`
		Positional []json.RawMessage `json:"positional"`
		Raw        bool              `json:"raw"`
		Within     []string          `json:"within"` // skills in whose code the call is, the outermost first
		Have       string            `json:"have"`   // digest of the code of a skill that the guest has under the name of the call
	}
	if err := decode(t.call.Args, &in); err != nil {
		return nil, err
	}
	if t.intent != nil && !t.repeatable() {
		return nil, t.stopped()
	}
	// 3. resolve
	var tool *catalog.Tool
	var err error
	if m, server := t.run.methodOf(in.Server, t.call.Name); m != nil {
		tool, t.method = m.tool(server), m
	} else if tool, err = t.run.resolve(ctx, in.Server, t.call.Name); err != nil {
		return nil, t.notCalled(t.call.Name, err)
	}
	args, err := tool.Arguments(in.Input, in.Positional)
	if err != nil {
		return nil, t.notCalled(tool.FullName(), err)
	}
	if tool.Content != "" {
		return t.skill(ctx, tool, args, skillCall{in.Within, in.Have, !bytes.Equal(args, in.Input)})
	}
	return t.send(ctx, tool, args, in.Raw)
}

// send sends a call with arguments to the server of its tool: steps 4 to 8.
func (t *toolCall) send(
	ctx context.Context, tool *catalog.Tool, shown json.RawMessage, raw bool,
) (json.RawMessage, *frame.Error) {
	name := tool.FullName()
	t.name = name
	// 4. restore, policy
	args, sent, err := t.run.scope.Privacy.RestoreArguments(ctx, shown, t.run.gate.Languages(tool))
	t.sent = sent
	_, unknown := errors.AsType[*pii.UnknownTokenError](err)
	if _, code := errors.AsType[*pii.CodeError](err); code || unknown {
		return nil, t.forbidden(name, policy.Verdict{Reason: err.Error()})
	}
	if err != nil {
		return nil, t.notCalled(name, err)
	}
	verdict := t.run.judge(ctx, tool, shown, t.sent)
	session := t.method == sessionFile // a client that reads the file does not wait for an approval
	if verdict.Action == policy.Deny || session && verdict.Action == policy.Ask {
		return nil, t.forbidden(name, verdict)
	}
	if failed := t.refusal(ctx, name); failed != nil {
		return nil, failed
	}
	if t.intent == nil {
		if failed := t.within(ctx, tool, shown, verdict, false); failed != nil {
			return nil, failed
		}
	}
	if session {
		if failed := t.within(ctx, tool, shown, verdict, true); failed != nil {
			return nil, failed
		}
		return t.request(ctx, tool.Server, args, mcpclient.CallOptions{})
	}
	// 5. validate, connect
	if err := t.run.gate.opt.Catalog.Validate(ctx, t.run.scope.User, tool, args); err != nil {
		return nil, t.notCalled(name, err)
	}
	servers := t.run.gate.opt.Servers
	options := mcpclient.CallOptions{IdempotencyKey: t.run.key(t.call), User: t.run.scope.User, Call: t.call.N}
	if report := t.run.scope.Progress; report != nil {
		options.Progress = func(p mcpclient.Progress) { report(t.call.N, p) }
	}
	conn, err := servers.Connect(ctx, t.run.scope.User, tool.Server)
	if err != nil {
		return nil, t.notCalled(name, err)
	}
	// Policy judged the tool as it was listed before its server was connected, perhaps by an earlier process.
	now, err := t.now(tool)
	if held, is := errors.AsType[*catalog.HeldError](err); is {
		return nil, t.notCalled(name, held)
	}
	if err == nil && differ(now, tool) {
		if verdict = t.run.judge(ctx, now, shown, t.sent); verdict.Action == policy.Deny {
			return nil, t.forbidden(name, verdict)
		}
		tool = now
	}
	// 6. approval
	approved := ""
	if verdict.Action == policy.Ask {
		if err != nil {
			return nil, t.notCalled(name, err)
		}
		tool = now
		var failed *frame.Error
		if approved, failed = t.approve(ctx, tool, verdict, shown, args); failed != nil {
			return nil, failed
		}
	}
	if servers.Stateful(tool.Server) {
		if t.intent != nil && t.intent.Conn != conn {
			return nil, t.stopped() // the connection on which the write was sent no longer exists
		}
		if lost := t.run.use(tool.Server, conn, name, t.made); lost != nil {
			return nil, lost
		}
		options.Conn = conn
	}
	// 7. look for a kept answer, count the call, journal the intent, call; a call that a dead process may have sent is already counted
	kept, known := t.find(ctx, tool, verdict, args)
	if known {
		result, err := mcpclient.ParseResult(kept.Result)
		if err != nil {
			return nil, unmade(name, err)
		}
		t.spoke = true
		t.flight.Kept(kept.At)
		return t.unwrap(ctx, tool, result, raw)
	}
	if t.intent == nil {
		if failed := t.within(ctx, tool, shown, verdict, true); failed != nil {
			return nil, failed
		}
	}
	t.write = !tool.Annotations.IsReadOnly()
	if t.write {
		done, failed := t.changes(ctx, tool)
		if failed != nil {
			return nil, failed
		}
		defer done()
	}
	if t.write && t.intent == nil {
		err := t.flight.Intend(ctx, journal.Intent{
			N: t.call.N, Key: options.IdempotencyKey, Retry: tool.Annotations.IsIdempotent(), Time: t.run.gate.opt.Now().UnixMicro(), Conn: conn,
			Approval: approved,
		})
		if err != nil {
			return nil, toolError(name, fmt.Sprintf("%s was not called: write the journal: %v", name, err))
		}
	}
	if hook := t.run.gate.opt.Restored; hook != nil && len(t.sent) > 0 {
		hook(ctx, name, t.sent)
	}
	t.sends(ctx, shown)
	t.spoke = true
	if t.method != nil {
		return t.request(ctx, tool.Server, args, options)
	}
	result, err := servers.Call(ctx, tool.Server, tool.Name, args, options)
	if err != nil {
		return nil, t.failed(ctx, name, err)
	}
	defer result.Release()
	if kept != nil && !result.IsError {
		t.keep(ctx, kept, result)
	}
	// 8. unwrap
	return t.unwrap(ctx, tool, result, raw)
}

// now returns a tool with its server's current definition. A request that is not a call of a tool has no definition; for such a request, now
// returns the tool unchanged, or an error if the server is quarantined.
func (t *toolCall) now(tool *catalog.Tool) (*catalog.Tool, error) {
	if t.method != nil {
		return tool, t.run.gate.opt.Catalog.HeldServer(tool.Server)
	}
	return t.run.gate.opt.Catalog.ResolveIn(tool.Server, tool.Name)
}

// resolve finds a tool. If the tool is not known yet, it first waits for servers that have not listed their tools.
func (r *Run) resolve(ctx context.Context, server, name string) (*catalog.Tool, error) {
	tool, err := r.gate.opt.Catalog.ResolveIn(server, name)
	if _, held := errors.AsType[*catalog.HeldError](err); err == nil || held {
		return tool, err
	}
	if strings.HasPrefix(ident.Fold(cmp.Or(server, name)), frame.Skills) { // for no other name are the user's skills read
		if own, err := r.gate.opt.Catalog.Of(ctx, r.scope.User).ResolveIn(server, name); err == nil && own.Content != "" {
			return own, nil
		}
	}
	r.gate.opt.Servers.EnsureTools(ctx, r.scope.User)
	tool, err = r.gate.opt.Catalog.ResolveIn(server, name)
	unknown, is := errors.AsType[*catalog.UnknownError](err)
	switch {
	case is && isRequest(server, name):
		return nil, errNoNetwork
	case is && ident.Fold(cmp.Or(server, strings.SplitN(name, "__", 2)[0])) == frame.Skills:
		return nil, fmt.Errorf("there is no promoted skill %s: harness skills promote makes a skill of the user a function", strings.TrimPrefix(name, frame.Skills+"__"))
	case is && unknown.Kind == "tool":
		err = r.permitted(unknown)
	}
	if err != nil && len(name)+len(server) <= catalog.MaxName {
		of := server
		if of == "" {
			of, _, _ = strings.Cut(name, "__")
		}
		for _, known := range r.gate.opt.Servers.Unavailable(r.scope.User) {
			switch {
			case ident.Fold(of) != ident.Fold(known.Server):
			case known.Kind == mcpclient.KindNeedsLogin:
				return nil, known
			default:
				return nil, &unknownYet{name, known}
			}
		}
	}
	return tool, err
}

// unknownYet is the error for a name that may be a tool of a server that is not available.
type unknownYet struct {
	name   string
	server *mcpclient.CallError
}

func (e *unknownYet) Error() string {
	return e.name + " may be a tool of a server that is not known yet: " + unavailable(e.server)
}

// errNoNetwork is the error for a program's network request if the built-in server http does not exist.
var errNoNetwork = errors.New("programs have no network: the operator names hosts in network.allow. Call a tool of a server instead: " +
	"await search_mcp_tools('what you need')")

// isRequest reports whether a name is a tool of the built-in server http, which the guest's fetch calls.
func isRequest(server, name string) bool {
	fold := ident.Fold(server + name)
	return fold == "httpfetch" || fold == "httpsend"
}

// key returns the idempotency key of a call.
func (r *Run) key(c *journal.Call) string { return fmt.Sprintf("%s-%d", r.scope.Run, c.N) }

// repeatable reports whether a write that a dead process may have sent can be sent again.
func (t *toolCall) repeatable() bool {
	return t.intent.Retry && t.run.gate.opt.Now().Sub(time.UnixMicro(t.intent.Time)) <= retryWindow
}

// stopped returns the error for a write that a dead process may have sent.
func (t *toolCall) stopped() *frame.Error {
	return inDoubt(t.call.Name, "the harness stopped while it was being called")
}

// notCalled returns the error for a call that does not reach its server. If a dead process may have sent the call, its outcome stays unknown.
func (t *toolCall) notCalled(name string, err error) *frame.Error {
	if t.intent != nil {
		return t.stopped()
	}
	if held, is := errors.AsType[*catalog.HeldError](err); is {
		return &frame.Error{Kind: frame.KindDenied, Name: "DeniedError", Tool: name, Message: "the call was not made: " + held.Error()}
	}
	return unmade(name, err)
}

// unmade returns the error for a call that failed without effect.
func unmade(name string, err error) *frame.Error {
	failed := told(toolError(name, failure(err)), err)
	if call, is := errors.AsType[*mcpclient.CallError](err); is && call.Kind == mcpclient.KindNeedsLogin {
		failed.Name = "NeedsLoginError"
	}
	return failed
}

// failed returns the error for a call without a result. A write that may have reached the server, in this attempt or an earlier one, is in
// doubt.
func (t *toolCall) failed(ctx context.Context, name string, err error) *frame.Error {
	var call *mcpclient.CallError
	switch {
	case errors.As(err, &call) && t.write && call.InDoubt():
		return told(inDoubt(name, failure(call)), call)
	case t.intent != nil && (call == nil || call.Kind != mcpclient.KindRPC):
		return t.stopped()
	case ctx.Err() != nil:
		return cancelled()
	}
	return unmade(name, err)
}

// undelivered returns the error for a call whose answer cannot be given to the program. A write is then in doubt: it was executed, but the
// program does not learn the result.
func undelivered(name, why string, write bool) *frame.Error {
	if write {
		return inDoubt(name, "it answered, but "+why)
	}
	return toolError(name, fmt.Sprintf("%s answered, but %s", name, why))
}

// connections remembers which connection of each stateful server a run has used. After a restart of the server, the run's state there is lost,
// and the program must be told.
type connections struct {
	mu      sync.Mutex
	used    map[string]connection
	losses  int // number of lost connections, according to the calls of the run
	earlier []earlier
}

// connection is the connection to a stateful server that a run uses.
type connection struct {
	number int64
	since  int // value of losses after the loss that led to this connection; 0 for the first connection
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.losses
}

// earlier is a write that a dead process sent, and the connection it was sent on.
type earlier struct {
	call *journal.Call
	conn int64
}

// use records the connection of a call; made is the number of losses that had been reported when the program made the call. The call fails if it
// was made before the loss of its connection was reported; later calls use the new connection.
func (r *Run) use(server string, conn int64, tool string, made int) *frame.Error {
	c := &r.sessions
	c.mu.Lock()
	defer c.mu.Unlock()
	now, used := c.used[server]
	if !used {
		now.number = r.recordedConn(server)
	}
	if conn > now.number { // later connections have larger numbers
		if now.number != 0 {
			c.losses++
			now.since = c.losses
		}
		now.number = conn
	}
	c.used[server] = now
	if conn == now.number && made >= now.since {
		return nil
	}
	return &frame.Error{Kind: frame.KindTool, Name: "SessionLostError", Tool: tool, Message: fmt.Sprintf(
		"the connection to server %q was lost and made again: what earlier calls of this run set up there is gone; repeat it", server)}
}

// recordedConn returns the connection on which a dead process last sent a write of this run to a server, or 0 if there was none.
func (r *Run) recordedConn(server string) int64 {
	for _, e := range slices.Backward(r.sessions.earlier) {
		var in struct {
			Server string `json:"server"`
		}
		if decode(e.call.Args, &in) != nil {
			continue
		}
		if tool, err := r.gate.opt.Catalog.ResolveIn(in.Server, e.call.Name); err == nil && tool.Server == server {
			return e.conn
		}
	}
	return 0
}
