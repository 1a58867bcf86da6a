package mcpclient

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"mcp-code-exec-harness/internal/clip"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// exchange is one request, from the SDK's call to the wire and back. The SDK passes the context of a call to the transport. So
// the context contains the exchange, and the transport finds it there.
type exchange struct {
	ctx   context.Context // context of the request; its cause says why the request was given up
	end   context.CancelCauseFunc
	limit int    // maximum size of a listing page in bytes; 0 leaves the limit to the transport
	token string // progress token of the request; empty if it asks for no progress
	// headers are additional HTTP headers of the request; names and values alternate.
	headers []string
	// progress is buffered; a caller that is slower than the server misses reports.
	progress chan Progress

	id     jsonrpc.ID   // id of the request; guarded by the link's lock
	sent   atomic.Bool  // reports that a byte of the request may have reached the server
	status atomic.Int32 // HTTP status of a refusal
	answer atomic.Pointer[answer]
	charge *charge // memory of the answer
}

// answer is the server's JSON-RPC answer to a request.
type answer struct {
	result json.RawMessage
	err    error
}

// Progress is a server's report on a call in flight.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"` // value of Progress at the end; 0 if unknown
	Message  string  `json:"message,omitempty"`
}

type exchangeKey struct{}

// newExchange returns an exchange whose context descends from ctx. The caller ends it with end(nil) and frees its charge.
func newExchange(ctx context.Context, m *memory, owner, token string) *exchange {
	ex := &exchange{token: token, progress: make(chan Progress, 16), charge: &charge{memory: m, owner: owner}}
	ctx, ex.end = context.WithCancelCause(context.WithValue(ctx, exchangeKey{}, ex))
	ex.ctx = ctx
	return ex
}

// traced returns a context for the HTTP requests of the exchange. Its trace sets ex.sent when a request may have reached the server. The next request
// clears ex.sent, because there is a next request only if the last one was not written, or if the server refused the last one without carrying it out (a
// redirect, new credentials). A request with an idempotency key does not clear ex.sent, because net/http may send such a request again after writing it.
func (ex *exchange) traced(ctx context.Context, header http.Header) context.Context {
	trace := &httptrace.ClientTrace{WroteHeaders: func() { ex.sent.Store(true) }}
	if header.Get("Idempotency-Key") == "" && header.Get("X-Idempotency-Key") == "" {
		trace.GetConn = func(string) { ex.sent.Store(false) }
	}
	return httptrace.WithClientTrace(ctx, trace)
}

// exchangeOf returns the exchange that a message with this context belongs to, or nil. After a call has ended, the SDK may send
// notifications/cancelled with a context that has the values of the call's context; that message does not belong to the exchange.
func exchangeOf(ctx context.Context) *exchange {
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	if ex == nil || ex.ctx.Err() != nil {
		return nil
	}
	return ex
}

// emptyResult can be decoded as every result type that callers request from the SDK. The SDK gets emptyResult instead of the server's result, so that the
// SDK does not decode that result into maps.
var emptyResult = json.RawMessage(`{"content":[],"contents":[],"resources":[],"tools":[]}`)

// maxAside is the maximum size in bytes of an answer to the SDK's own requests, mainly the handshake.
const maxAside = 1 << 20

// answered keeps the answer and returns the response that the SDK sees. A nil exchange stands for a request that the SDK makes itself.
func (ex *exchange) answered(res *jsonrpc.Response) *jsonrpc.Response {
	switch {
	case ex == nil && len(res.Result) > maxAside:
		return &jsonrpc.Response{ID: res.ID, Error: tooLarge(maxAside)}
	case ex == nil:
		return res
	case ex.limit > 0 && len(res.Result) > ex.limit:
		res = &jsonrpc.Response{ID: res.ID, Error: errLargeListing}
	}
	// An error that arrives after the request was given up does not tell whether the request was carried out.
	if ex.ctx.Err() == nil || res.Error == nil && !isError(res.Result) {
		ex.answer.Store(&answer{result: res.Result, err: res.Error})
	}
	if res.Error == nil {
		return &jsonrpc.Response{ID: res.ID, Result: emptyResult, Extra: res.Extra}
	}
	return res
}

// isError reports whether a result has isError set.
func isError(result json.RawMessage) bool {
	var r struct{ IsError json.RawMessage }
	return json.Unmarshal(result, &r) == nil && present(r.IsError) && asFlag(r.IsError)
}

// progressed passes a report to the call, or drops it if the buffer is full.
func (ex *exchange) progressed(p Progress) {
	p.Message = clip.Words(p.Message, maxSaid)
	select {
	case ex.progress <- p:
	default:
	}
}

// readProgress decodes the parameters of notifications/progress. It accepts string tokens only, because the harness sends no others.
func readProgress(params json.RawMessage) (token string, p Progress, ok bool) {
	var wire struct {
		Token any `json:"progressToken"`
		Progress
	}
	if err := json.Unmarshal(params, &wire); err != nil {
		return "", Progress{}, false
	}
	token, ok = wire.Token.(string)
	return token, wire.Progress, ok
}
