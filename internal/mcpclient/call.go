package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// idempotencyMeta is the key in a call's _meta under which the server finds CallOptions.IdempotencyKey.
const idempotencyMeta = "mcp-code-exec-harness/idempotencyKey"

// CallOptions are the choices of one call. The zero value is useful.
type CallOptions struct {
	// Progress is called with the server's reports, from the goroutine of Call, before Call returns.
	Progress func(Progress)
	// Timeout replaces the server's. Every report of progress starts it again, up to Options.MaxCall in all.
	Timeout time.Duration
	// IdempotencyKey is sent along in the call's metadata, for servers that know what to do with it.
	IdempotencyKey string
	// Conn is the number of the connection on which alone the call may be made; 0 is any. If that connection is gone,
	// the call fails with KindConnectionLost and was not sent.
	Conn int64
	// Owner is the user whose memory budget a large answer is charged to until it is released.
	Owner string
}

// Call calls a tool and waits for its answer. args is a JSON object; empty is {}. Numbers and order in args and in the
// result stay as written. A result with IsError is a result. Every failure is a *[CallError]; a call is never made
// twice unless the first was provably not accepted. When ctx ends, the server is told and Call returns at once.
func (m *Manager) Call(ctx context.Context, server, tool string, args json.RawMessage, opts CallOptions) (*Result, error) {
	s, err := m.server(server)
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
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	if opts.IdempotencyKey != "" {
		params.Meta = mcp.Meta{idempotencyMeta: opts.IdempotencyKey}
	}
	raw, c, err := s.request(ctx, opts, tool, params, func(ctx context.Context, c *conn) error {
		_, err := c.session.CallTool(ctx, params)
		return err
	})
	if err != nil {
		return nil, err
	}
	res, err := decodeResult(raw.json)
	if err != nil {
		raw.charge.free()
		return nil, &CallError{Server: server, Tool: tool, Kind: KindProtocol, Sent: true, Message: err.Error()}
	}
	res.Conn, res.charge = c.number, raw.charge
	return res, nil
}

// rawResult is the result of a request as it came, and what is charged for it.
type rawResult struct {
	json   json.RawMessage
	charge *charge
}

// tokens numbers progress tokens over all connections.
var tokens atomic.Int64

type progressParams interface{ SetProgressToken(any) }

// request makes one request and returns its raw result, whose charge the caller frees. send makes the SDK send it.
func (s *server) request(ctx context.Context, opts CallOptions, tool string, params progressParams,
	send func(context.Context, *conn) error,
) (rawResult, *conn, error) {
	for again := false; ; again = true {
		c, err := s.connect(ctx, false)
		if err != nil {
			return rawResult{}, nil, withTool(err, tool)
		}
		if opts.Conn != 0 && opts.Conn != c.number {
			return rawResult{}, nil, &CallError{
				Server: s.cfg.Name, Tool: tool, Kind: KindConnectionLost,
				Message: "the connection on which the work began is gone; the server has forgotten its state",
			}
		}
		raw, err := s.try(ctx, c, opts, tool, params, send)
		var ce *CallError
		if errors.As(err, &ce) && ce.Kind == KindConnectionLost && !ce.Sent && !again && !s.cfg.Stateful && opts.Conn == 0 &&
			ctx.Err() == nil {
			// The connection was gone before the request: a new one is as good, if there is no backoff.
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

func withTool(err error, tool string) error {
	var ce *CallError
	if tool == "" || !errors.As(err, &ce) {
		return err
	}
	named := *ce
	named.Tool = tool
	return &named
}

// try makes the request on one connection.
func (s *server) try(ctx context.Context, c *conn, opts CallOptions, tool string, params progressParams,
	send func(context.Context, *conn) error,
) (_ rawResult, err error) {
	if !c.enter() {
		return rawResult{}, &CallError{Server: s.cfg.Name, Tool: tool, Kind: KindConnectionLost, Message: "the connection was closed"}
	}
	defer c.leave()
	// It ends with the caller's context, the timeout, or the connection; the SDK then tells the server.
	ex := newExchange(ctx, s.m.memory, opts.Owner, "p"+strconv.FormatInt(tokens.Add(1), 10))
	params.SetProgressToken(ex.token)
	defer func() {
		ex.end(nil)
		if err != nil {
			ex.charge.free()
		}
	}()
	defer c.forget(ex)
	defer context.AfterFunc(c.calls, func() { ex.end(errClosed) })()

	timeout := opts.Timeout
	if timeout == 0 {
		timeout = s.cfg.callTimeout()
	}
	idle := time.NewTimer(timeout)
	defer idle.Stop()
	total := time.NewTimer(max(timeout, s.m.opts.MaxCall))
	defer total.Stop()

	done := make(chan error, 1)
	go func() { done <- send(ex.ctx, c) }()
	report := func(p Progress) {
		if opts.Progress != nil {
			opts.Progress(p)
		}
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
		case <-total.C:
			ex.end(errTimeout{max(timeout, s.m.opts.MaxCall)})
		}
	}
	for len(ex.progress) > 0 {
		report(<-ex.progress)
	}
	got := ex.answer.Load()
	switch {
	case got != nil && got.err == nil:
		return rawResult{got.result, ex.charge}, nil
	case got != nil && ex.ctx.Err() == nil:
		err = got.err
	case ex.ctx.Err() != nil && ctx.Err() == nil:
		err = context.Cause(ex.ctx) // the SDK says only that it was cancelled
	case err == nil:
		err = errNoAnswer
	}
	return rawResult{}, s.explain(ctx, c, ex, tool, err)
}

type errTimeout struct{ after time.Duration }

func (e errTimeout) Error() string { return fmt.Sprintf("no answer within %s", e.after) }
func (errTimeout) Unwrap() error   { return context.DeadlineExceeded }

// explain makes the error of a request from what is known of it. ctx is the caller's.
func (s *server) explain(ctx context.Context, c *conn, ex *exchange, tool string, err error) *CallError {
	ce := &CallError{Server: s.cfg.Name, Tool: tool, Sent: ex.sent.Load(), Err: err}
	var tooLarge tooLargeError
	var noMemory *memoryError
	var elsewhere elsewhereError
	var refused refusedError
	var timeout errTimeout
	// An error that comes after the request was given up is the server's answer to that: it does not say what was done.
	rpc := rpcError(err)
	if status := ex.status.Load(); status == http.StatusNotFound || status == http.StatusBadRequest {
		if s.forgotten(ctx, c) {
			s.retire(c)
			if rpc == nil && status == http.StatusNotFound {
				// The server refuses every request of the session unread, as the specification demands.
				ce.Kind, ce.Message, ce.Sent = KindConnectionLost, "the server has forgotten the session", false
				return ce
			}
		}
	}
	switch {
	case errors.As(err, &tooLarge), errors.As(err, &noMemory), errors.Is(err, errInvalidAnswer), errors.Is(err, errFlood),
		errors.Is(err, errInboundFlood):
		ce.Kind, ce.Message = KindProtocol, plain(err)
	case rpc != nil && ex.ctx.Err() == nil && (ex.answer.Load() != nil || ex.status.Load() != 0):
		ce.Kind, ce.Message, ce.Code = KindRPC, rpc.Message, rpc.Code
	case errors.Is(err, errRedirect):
		ce.Kind, ce.Message = KindUnavailable, plain(err) // 303 may follow what was done
	case errors.As(err, &elsewhere):
		ce.Kind, ce.Message, ce.Sent = KindUnavailable, elsewhere.Error(), false // a 307 or 308 that would send it again
	case errors.As(err, &refused):
		explainRefusal(ce, refused)
	case ctx.Err() != nil:
		ce.Kind, ce.Message, ce.Err = KindCancelled, "it was cancelled: "+ctx.Err().Error(), ctx.Err()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			ce.Kind, ce.Message = KindTimeout, "no answer before the deadline"
		}
	case errors.As(err, &timeout):
		ce.Kind, ce.Message, ce.Err = KindTimeout, timeout.Error(), context.DeadlineExceeded
		ce.Stderr = c.stderrTail()
	case errors.Is(err, errClosed) && c.ours.Load():
		ce.Kind, ce.Message = KindConnectionLost, "the connection was closed"
	case c.ended():
		<-c.dead
		ce.Kind, ce.Message, ce.Stderr = KindConnectionLost, "the connection was lost: "+c.deadErr.Error(), c.stderrTail()
		if c.misbehaved() {
			ce.Kind = KindProtocol
		}
	case c.wire != nil && !ce.Sent:
		ce.Kind, ce.Message = KindUnavailable, "it cannot be reached: "+plain(err)
	default:
		ce.Kind, ce.Message, ce.Stderr = KindConnectionLost, "no answer came: "+plain(err), c.stderrTail()
	}
	if full := ex.charge.waits.Load(); full != nil && ce.Kind == KindTimeout {
		ce.Message += ": " + full.Error()
	}
	if ce.Kind != KindRPC { // the server's own words stay as they are
		ce.Message = withoutSecrets(ce.Message)
	}
	ce.Message = clip(ce.Message, maxSaid)
	return ce
}

// checkTimeout is how long a server may take to say whether it knows a session.
const checkTimeout = 5 * time.Second

// forgotten reports whether the server refuses a request that every session of its may make, where it refused another
// one with a status that can mean so. One request decides for all calls that were refused.
func (s *server) forgotten(ctx context.Context, c *conn) bool {
	if c.wire == nil || c.session.ID() == "" {
		return false
	}
	c.checking.Lock()
	defer c.checking.Unlock()
	if c.retired() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	ex := newExchange(ctx, s.m.memory, "", "")
	defer ex.charge.free()
	defer ex.end(nil)
	_ = c.session.Ping(ex.ctx, nil) // what counts is the status
	status := ex.status.Load()
	return ex.answer.Load() == nil && (status == http.StatusNotFound || status == http.StatusBadRequest)
}

// codeRejected is by which the SDK marks errors of its own transports, which are of the type of a server's answer.
const codeRejected = -32005

// rpcError returns the server's JSON-RPC error in err, if there is one.
func rpcError(err error) *jsonrpc.Error {
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) && rpc.Code != codeRejected {
		return rpc
	}
	return nil
}

// plain is err without the names of the SDK's layers, where there is something under them.
func plain(err error) string {
	var inner *url.Error
	if errors.As(err, &inner) {
		return inner.Err.Error()
	}
	return err.Error()
}

// explainRefusal explains an HTTP status.
func explainRefusal(ce *CallError, status refusedError) {
	ce.Kind, ce.Message = KindUnavailable, "it answered "+status.Error()
	switch int(status) {
	case http.StatusUnauthorized, http.StatusForbidden:
		ce.Message += "; give credentials in its headers"
	case http.StatusTooManyRequests:
		ce.Message += "; call it less often"
	}
	if status.refusesUnread() {
		ce.Sent = false
	}
}
