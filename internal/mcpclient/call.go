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
	res, err := decodeResult(raw)
	if err != nil {
		return nil, &CallError{Server: server, Tool: tool, Kind: KindProtocol, Sent: true, Message: err.Error()}
	}
	res.Conn = c.number
	return res, nil
}

// tokens numbers progress tokens over all connections.
var tokens atomic.Int64

type progressParams interface{ SetProgressToken(any) }

// request makes one request and returns its raw result. send makes the SDK send it.
func (s *server) request(ctx context.Context, opts CallOptions, tool string, params progressParams,
	send func(context.Context, *conn) error,
) (json.RawMessage, *conn, error) {
	for again := false; ; again = true {
		c, err := s.connect(ctx, false)
		if err != nil {
			return nil, nil, withTool(err, tool)
		}
		if opts.Conn != 0 && opts.Conn != c.number {
			return nil, nil, &CallError{
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
				_ = s.disconnect(ctx, c) // what matters is whether the next attempt works
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
) (json.RawMessage, error) {
	ex := newExchange("p"+strconv.FormatInt(tokens.Add(1), 10), true)
	params.SetProgressToken(ex.token)
	defer c.forget(ex)

	// Ends with the caller's context, the timeout, or the connection being closed; the SDK then tells the server.
	cctx, cancel := context.WithCancelCause(withExchange(ctx, ex))
	defer cancel(nil)
	ex.over = cctx.Done()
	defer context.AfterFunc(c.calls, func() { cancel(errClosed) })()

	timeout := opts.Timeout
	if timeout == 0 {
		timeout = s.cfg.callTimeout()
	}
	idle := time.NewTimer(timeout)
	defer idle.Stop()
	total := time.NewTimer(max(timeout, s.m.opts.MaxCall))
	defer total.Stop()

	done := make(chan error, 1)
	go func() { done <- send(cctx, c) }()
	report := func(p Progress) {
		if opts.Progress != nil {
			opts.Progress(p)
		}
	}
	var failure, err error
wait:
	for {
		select {
		case err = <-done:
			break wait
		case p := <-ex.progress:
			idle.Reset(timeout)
			report(p)
		case <-idle.C:
			cancel(errTimeout{timeout})
		case <-total.C:
			cancel(errTimeout{max(timeout, s.m.opts.MaxCall)})
		case failure = <-ex.failed:
			cancel(failure)
		}
	}
	for {
		select {
		case p := <-ex.progress:
			report(p)
			continue
		default:
		}
		break
	}
	if got := ex.answer.Load(); got != nil && failure == nil {
		if got.err == nil {
			return got.result, nil
		}
		if cctx.Err() == nil {
			err = got.err
		}
	}
	if failure != nil {
		err = failure
	}
	return nil, s.explain(ctx, cctx, c, ex, tool, err)
}

type errTimeout struct{ after time.Duration }

func (e errTimeout) Error() string { return fmt.Sprintf("no answer within %s", e.after) }
func (errTimeout) Unwrap() error   { return context.DeadlineExceeded }

// explain makes the error of a request from what is known of it. ctx is the caller's, cctx the request's.
func (s *server) explain(ctx, cctx context.Context, c *conn, ex *exchange, tool string, err error) *CallError {
	ce := &CallError{Server: s.cfg.Name, Tool: tool, Sent: ex.sent.Load(), Err: err}
	status := int(ex.status.Load())
	var tooLarge tooLargeError
	var elsewhere elsewhereError
	var timeout errTimeout
	// An error that comes after the request was given up is the server's answer to that: it does not say what was done.
	rpc := rpcError(err)
	switch {
	case errors.As(err, &tooLarge):
		ce.Kind, ce.Message = KindProtocol, tooLarge.Error()
	case rpc != nil && cctx.Err() == nil && (ex.answer.Load() != nil || status != 0):
		ce.Kind, ce.Message, ce.Code = KindRPC, rpc.Message, rpc.Code
	case errors.As(err, &elsewhere):
		ce.Kind, ce.Message, ce.Sent = KindUnavailable, elsewhere.Error(), false // who redirects does not act
	case errors.Is(err, errInvalidAnswer), errors.Is(err, errInboundFlood):
		ce.Kind, ce.Message = KindProtocol, plain(err)
	case ctx.Err() != nil:
		ce.Kind, ce.Message, ce.Err = KindCancelled, "it was cancelled: "+ctx.Err().Error(), ctx.Err()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			ce.Kind, ce.Message = KindTimeout, "no answer before the deadline"
		}
	case errors.As(context.Cause(cctx), &timeout):
		ce.Kind, ce.Message, ce.Err = KindTimeout, timeout.Error(), context.DeadlineExceeded
		ce.Stderr = c.stderrTail()
	case errors.Is(context.Cause(cctx), errClosed) && c.ours.Load():
		ce.Kind, ce.Message = KindConnectionLost, "the connection was closed"
	case c.wire != nil && c.wire.gone.Load() && (status == http.StatusNotFound || status == http.StatusBadRequest || status == 0):
		ce.Kind, ce.Message = KindConnectionLost, "the server has forgotten the session"
		if status != 0 {
			ce.Sent = false // it refused the request itself
		}
	case status != 0:
		refused(ce, status)
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
	ce.Message = clip(ce.Message, maxSaid)
	return ce
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

// refused explains an HTTP status. A client error says that the request was not accepted; after a server error, and
// above all one of a gateway, nobody knows.
func refused(ce *CallError, status int) {
	ce.Kind = KindUnavailable
	ce.Message = fmt.Sprintf("it answered HTTP %d %s", status, http.StatusText(status))
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		ce.Message += "; give credentials in its headers"
	case http.StatusTooManyRequests:
		ce.Message += "; call it less often"
	}
	if status < 500 && status != http.StatusRequestTimeout {
		ce.Sent = false
	}
}
