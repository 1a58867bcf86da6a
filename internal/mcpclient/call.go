package mcpclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/credentials"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	segment "github.com/segmentio/encoding/json"

	"mcp-code-exec-harness/internal/slots"
	"mcp-code-exec-harness/internal/startup"
)

// idempotencyMeta is the key in a call's _meta under which the server finds CallOptions.IdempotencyKey.
const idempotencyMeta = "mcp-code-exec-harness/idempotencyKey"

// CallOptions are the options of one call. The zero value is useful.
type CallOptions struct {
	// Progress is called with each progress report of the server, from the goroutine of Call, before Call returns.
	Progress func(Progress)
	// Timeout replaces the timeout of the server's configuration. Every progress report restarts it, up to Options.MaxCall in all.
	Timeout time.Duration
	// IdempotencyKey is sent in the call's metadata, for servers that support it.
	IdempotencyKey string
	// Conn is the number of the only connection that the call may use; 0 allows any. If that connection is gone,
	// the call is not sent and fails with KindConnectionLost.
	Conn int64
	// User is the user whose connection the call uses if the server has one for each user. A large answer is charged to the
	// user's memory budget until it is released. An empty User is the user of the command line.
	User string
	// Call is the number of the run's host call, for traces; 0 if there is none.
	Call int
}

const (
	// maxCalls is the maximum weight of the calls that one owner may have in flight at a server that other owners use too. The owner's further calls wait,
	// so that they do not delay the calls of other owners.
	maxCalls = 128
	// callWeight is the number of bytes of arguments that add 1 to the weight of a call. No call weighs more than half of maxCalls, so that small calls can
	// be in flight beside a large one.
	callWeight = 1 << 10
	// alone is the time without a call of another owner after which one owner may use the whole server.
	alone = 10 * time.Second
)

func newCallSlots() *slots.Slots {
	return slots.New(slots.Limits{All: math.MaxInt, Each: maxCalls, Alone: alone, Waiting: math.MaxInt, EachWaiting: 20_000}, "calls of a server", "made")
}

// Call calls a tool and waits for its answer. args is a JSON object; empty stands for {}. Numbers and key order in args and in the
// result stay as written. A result with IsError is not an error of Call. Every error is a *[CallError]. Call sends a call again only
// if the server provably did not accept the first one. When ctx ends, Call sends the server a cancellation and returns at once.
func (m *Manager) Call(ctx context.Context, server, tool string, args json.RawMessage, opts CallOptions) (*Result, error) {
	s, err := m.serverOf(opts.User, server)
	if err != nil {
		return nil, err
	}
	fail := func(kind Kind, msg string) (*Result, error) {
		return nil, &CallError{Server: server, Tool: tool, Kind: kind, Message: msg}
	}
	if !s.cfg.offers(tool) {
		return fail(KindUnavailable, "the tool is not enabled in the server's configuration")
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if !isObject(args) || !json.Valid(args) {
		return fail(KindProtocol, "the arguments are not a JSON object")
	}
	release, err := s.calls.Acquire(ctx, opts.User, min(1+len(args)/callWeight, maxCalls/2))
	if err == nil {
		defer release()
	}
	if ctx.Err() != nil {
		ce := &CallError{Server: server, Tool: tool}
		ce.cancelled(ctx)
		return nil, ce
	}
	if err != nil {
		return fail(KindUnavailable, err.Error())
	}
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	if opts.IdempotencyKey != "" {
		params.Meta = mcp.Meta{idempotencyMeta: opts.IdempotencyKey}
	}
	raw, c, err := s.request(ctx, opts, params, func(ctx context.Context, c *conn) error {
		if s.root().holds(tool) { // a new connection may have listed a changed tool, which is held back until a person has reviewed it
			return newFault(KindRefused, "not called, because the tool of %s is held until a person has reviewed it", server)
		}
		if mirrors := s.root().mirrored(tool); mirrors != nil {
			exchangeOf(ctx).headers = headersOf(mirrors, args)
		}
		_, err := c.session.CallTool(ctx, params)
		return err
	})
	if failed, ok := errors.AsType[*CallError](err); ok {
		failed = new(*failed) // a copy: other callers may hold the error too
		failed.Tool = tool
		if failed.Kind == KindRPC && s.gone(ctx, c, tool, failed.Message) {
			failed = goneError(server, tool)
		}
		s.logFailure(ctx, args, failed)
		return nil, failed
	}
	res, err := decodeResult(raw.json)
	if err != nil {
		raw.charge.free()
		failed := &CallError{
			Server: server, Tool: tool, Kind: KindProtocol, Sent: true, Answered: true,
			Message: err.Error(),
		}
		if !errors.Is(err, errAsksForInput) {
			failed.Message = "it answered, but " + err.Error() + "; what the tool does is done"
		}
		s.logFailure(ctx, args, failed)
		return nil, failed
	}
	res.Conn, res.charge = c.number, raw.charge
	if res.IsError && len(res.Content) == 1 && s.gone(ctx, c, tool, res.Content[0].Text) {
		res.Release()
		return nil, goneError(server, tool)
	}
	return res, nil
}

// lacksTool matches the error messages of servers for an unknown tool. The official SDKs for Python and TypeScript write "Unknown tool: x" and
// "Tool x not found".
var lacksTool = startup.Regexp(`(?is)^.{0,60}\b(unknown tool|no such tool|tool\b.{0,150}\b(not found|does not exist|no longer))\b`)

// lists reports whether the last listing of the server contains the given tool.
func (s *server) lists(tool string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listing != nil && slices.ContainsFunc(s.listing.Tools, func(t Tool) bool { return t.Name == tool })
}

// gone reports whether the server has dropped a tool since the last listing. said is the text of an answer. If said reads like an error for an unknown
// tool, gone lists the tools again, but only once for each tool and connection, because ordinary answers may contain such a text.
func (s *server) gone(ctx context.Context, c *conn, tool, said string) bool {
	if c == nil || !lacksTool().MatchString(said) || !s.root().lists(tool) {
		return false
	}
	if _, again := c.missed.LoadOrStore(tool, true); again {
		return false
	}
	return s.relist(ctx, c) == nil && !s.root().lists(tool)
}

func goneError(server, tool string) *CallError {
	return &CallError{
		Server: server, Tool: tool, Kind: KindRefused,
		Message: "not called, because the server no longer has it; its tools have been listed again: search for the one that does this now",
	}
}

// rawResult is the undecoded result of a request, with the memory charged for it.
type rawResult struct {
	json   json.RawMessage
	charge *charge
}

// tokens is the number of the last progress token. Numbers are unique over all connections.
var tokens atomic.Int64

type progressParams interface{ SetProgressToken(any) }

// request makes one request and returns its raw result. The caller frees the charge of the result. send sends the request through the SDK.
func (s *server) request(ctx context.Context, opts CallOptions, params progressParams,
	send func(context.Context, *conn) error,
) (rawResult, *conn, error) {
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	for again := false; ; again = true {
		c, err := s.connect(ctx, false)
		if err != nil {
			return rawResult{}, nil, err
		}
		if opts.Conn != 0 && opts.Conn != c.number {
			return rawResult{}, nil, &CallError{
				Server: s.cfg.Name, Kind: KindConnectionLost,
				Message: "the connection on which the work began is gone; the server has forgotten its state",
			}
		}
		raw, err := s.try(ctx, c, opts, params, send)
		if ce, ok := errors.AsType[*CallError](err); ok && ce.Kind == KindConnectionLost && !ce.Sent && !again && !s.cfg.Stateful && opts.Conn == 0 &&
			ctx.Err() == nil {
			// The connection was gone before the request was sent, so the request can go over a new connection, unless a backoff delays connecting.
			select {
			case <-c.dead:
				s.lost(c)
			default:
				s.retire(c)
			}
			continue
		}
		return raw, c, err
	}
}

// try makes the request on the given connection.
func (s *server) try(ctx context.Context, c *conn, opts CallOptions, params progressParams,
	send func(context.Context, *conn) error,
) (_ rawResult, err error) {
	if !c.use.TryRLock() {
		return rawResult{}, &CallError{Server: s.cfg.Name, Kind: KindConnectionLost, Message: "the connection was closed"}
	}
	defer c.use.RUnlock()
	// The exchange ends with the caller's context, the timeout or the connection. The SDK then sends the server a cancellation.
	ex := newExchange(ctx, s.m.memory, opts.User, "p"+strconv.FormatInt(tokens.Add(1), 10))
	params.SetProgressToken(ex.token)
	defer func() {
		ex.end(nil)
		if err != nil {
			ex.charge.free()
		}
	}()
	defer c.link.forget(ex)
	defer context.AfterFunc(c.calls, func() { ex.end(errClosed) })()

	timeout := cmp.Or(opts.Timeout, s.cfg.Timeout)
	idle := time.NewTimer(timeout)
	defer idle.Stop()
	most := max(timeout, s.m.opts.MaxCall)
	total := time.After(most)

	done := make(chan error, 1)
	go func() { done <- send(ex.ctx, c) }()
	report := opts.Progress
	if report == nil {
		report = func(Progress) {}
	}
wait:
	for {
		select {
		case err = <-done:
			break wait
		case p := <-ex.progress:
			idle.Reset(timeout)
			report(p)
		case <-idle.C:
			ex.end(errTimeout{timeout})
		case <-total:
			ex.end(errTimeout{most})
		}
	}
	for len(ex.progress) > 0 {
		report(<-ex.progress)
	}
	got := ex.answer.Load()
	switch {
	case got != nil && got.err == nil:
		return rawResult{got.result, ex.charge}, nil
	case got != nil:
		err = got.err
	case ex.ctx.Err() != nil && ctx.Err() == nil:
		err = context.Cause(ex.ctx) // the SDK's error says only that the request was cancelled
	case err == nil:
		err = errNoAnswer
	}
	return rawResult{}, s.explain(ctx, c, ex, err)
}

type errTimeout struct{ after time.Duration }

func (e errTimeout) Error() string { return fmt.Sprintf("no answer within %s", e.after) }
func (errTimeout) Unwrap() error   { return context.DeadlineExceeded }

// cancelled fills in e for a caller's context that has ended.
func (e *CallError) cancelled(ctx context.Context) {
	e.Kind, e.Message, e.Err = KindCancelled, "it was cancelled: "+ctx.Err().Error(), ctx.Err()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Kind, e.Message = KindTimeout, "no answer before the deadline"
	}
}

// explain returns the error of a failed request, with the most specific cause. ctx is the caller's context.
func (s *server) explain(ctx context.Context, c *conn, ex *exchange, err error) *CallError {
	ce := &CallError{Server: s.cfg.Name, Sent: ex.sent.Load(), Err: err}
	var f *fault
	var rpc *jsonrpc.Error // error in the server's answer
	if got := ex.answer.Load(); got != nil {
		errors.As(got.err, &rpc)
	}
	var timeout errTimeout
	errors.As(err, &f)
	if status := int(ex.status.Load()); mayForget(status, f, rpc) && s.forgotten(ctx, c) {
		s.retire(c)
		if status != 0 && !leavesOpen(status) {
			// The server refuses every request of a forgotten session without carrying it out.
			ce.Kind, ce.Message, ce.Sent, ce.Refusal = KindConnectionLost, "the server has forgotten the session", false, refusalOf(err)
			return ce
		}
	}
	switch {
	case f != nil:
		ce.Kind, ce.Message, ce.Sent, ce.Refusal = f.kind, f.msg, ce.Sent && !f.unsent, f.refusal
		if needs, is := errors.AsType[*credentials.NeedsLogin](err); is {
			s.needLogin(c, needs, f.status)
		}
	case rpc != nil:
		ce.Kind, ce.Message, ce.Code = KindRPC, rpc.Message, rpc.Code
	case ctx.Err() != nil:
		ce.cancelled(ctx)
	case errors.As(err, &timeout):
		ce.Kind, ce.Message, ce.Err = KindTimeout, timeout.Error(), context.DeadlineExceeded
		ce.Stderr = s.tail(c)
	case errors.Is(err, errClosed) && c.ours.Load():
		ce.Kind, ce.Message = KindConnectionLost, "the connection was closed"
	case c.ended():
		<-c.dead
		ce.Kind, ce.Message, ce.Stderr = KindConnectionLost, "the connection was lost: "+c.deadErr.Error(), s.tail(c)
		if c.link.failure() != nil {
			ce.Kind = KindProtocol
		}
	case c.proc == nil && !ce.Sent:
		ce.Kind, ce.Message = KindUnavailable, "it cannot be reached: "+plain(err)
	default:
		ce.Kind, ce.Message, ce.Stderr = KindConnectionLost, "no answer came: "+plain(err), s.tail(c)
	}
	if full := ex.charge.waits.Load(); full != nil && ce.Kind == KindTimeout {
		ce.Message += ": " + full.Error()
	}
	if ce.Kind != KindRPC { // the server's own message stays unchanged
		ce.Message = withoutSecrets(s.hide(ce.Message))
	}
	ce.Message = clip.Words(ce.Message, maxSaid)
	return ce
}

// logFailure logs why a request failed. It masks texts from the call's arguments, because the server may repeat them in its message.
func (s *server) logFailure(ctx context.Context, args json.RawMessage, ce *CallError) {
	if !s.m.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	text := ce.Message
	for _, given := range textsIn(args) {
		text = strings.ReplaceAll(text, given, "[argument]")
	}
	s.m.opts.Logger.Debug("request to server failed", "server", s.cfg.Name, "tool", ce.Tool, "kind", ce.Kind, "sent", ce.Sent, "error", clip.Words(s.hide(text), maxReason))
}

// minText is the length in bytes of the shortest argument that the log masks.
const minText = 3

// textsIn returns the strings and numbers in a JSON value. Each is returned twice, as it is written and decoded. Longer texts come first.
func textsIn(raw json.RawMessage) []string {
	var texts []string
	for t := segment.NewTokenizer(raw); t.Next(); {
		if !t.IsKey && (t.Value.String() || t.Value.Number()) {
			texts = append(texts, strings.Trim(string(t.Value), `"`), asText(json.RawMessage(t.Value)))
		}
	}
	texts = slices.DeleteFunc(texts, func(text string) bool { return len(text) < minText })
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
	return texts
}

// checkTimeout is the timeout of the request that checks whether a server still knows a session.
const checkTimeout = 5 * time.Second

// forgotten reports whether the server has lost the session of c. It is called after an answer that can mean a lost session. It sends a ping, which a
// server accepts in every session that it knows. If the server refuses the ping in the same way, the session is lost. One ping decides for all calls that
// were refused.
func (s *server) forgotten(ctx context.Context, c *conn) bool {
	if c.web == nil || c.web.streamable && c.web.header.Load().Get(sessionHeader) == "" {
		return false
	}
	c.checking.Lock()
	defer c.checking.Unlock()
	if c.retired.Load() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	ex := newExchange(ctx, s.m.memory, "", "")
	defer ex.charge.free()
	defer ex.end(nil)
	_ = c.session.Ping(ex.ctx, nil) // ex keeps the answer, also an error
	got := ex.answer.Load()
	if got == nil || got.err == nil {
		return false
	}
	f, _ := errors.AsType[*fault](got.err)
	rpc, _ := errors.AsType[*jsonrpc.Error](got.err)
	return mayForget(int(ex.status.Load()), f, rpc)
}

// mayForget reports whether the HTTP status or the text of a server's error can mean that the server does not know the session.
func mayForget(status int, f *fault, rpc *jsonrpc.Error) bool {
	switch {
	case status == http.StatusNotFound || status == http.StatusBadRequest || status == http.StatusGone:
		return true
	case rpc != nil:
		return namesSession([]byte(rpc.Message)) || namesSession(rpc.Data)
	case f != nil && f.refusal != nil:
		return namesSession(f.refusal.body)
	case f != nil:
		return namesSession(f.said)
	}
	return false
}

func namesSession(text []byte) bool { return bytes.Contains(bytes.ToLower(text), []byte("session")) }

// plain returns the text of err. If err wraps a *url.Error, plain returns only the text of the error inside the *url.Error.
func plain(err error) string {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		return inner.Err.Error()
	}
	return err.Error()
}
