package mcpclient

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// exchange follows one request from the SDK's call to the wire and back. It travels in the call's context, which the
// SDK hands to the transport.
type exchange struct {
	// take says that the SDK gets an empty result in place of the answer: it would decode it a second time, into maps.
	take bool
	// most is the size in bytes above which the answer is refused unread; 0 leaves it to the transport.
	most int
	// token is the progress token of the request, if it asks for progress.
	token    string
	progress chan Progress

	over <-chan struct{} // closed when the call is given up; nil is never

	sent   atomic.Bool  // a byte of the request may have reached the server
	status atomic.Int32 // the HTTP status of a refusal

	answer atomic.Pointer[answer]
	failed chan error // buffered: the transport cannot deliver the answer, whatever the SDK still tries
}

// answer is what the server said.
type answer struct {
	result json.RawMessage
	err    error // of the JSON-RPC answer
}

// Progress is a server's report on a call under way.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"` // 0 is unknown
	Message  string  `json:"message,omitempty"`
}

type exchangeKey struct{}

// newExchange makes an exchange; an empty token asks for no progress.
func newExchange(token string, take bool) *exchange {
	return &exchange{take: take, token: token, progress: make(chan Progress, 16), failed: make(chan error, 1)}
}

func withExchange(ctx context.Context, ex *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, ex)
}

// exchangeOf returns the exchange that a message with this context belongs to. The SDK sends notifications/cancelled
// with what the call's context held, but once the call is given up: that message is not the call.
func exchangeOf(ctx context.Context) *exchange {
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	if ex == nil {
		return nil
	}
	select {
	case <-ex.over:
		return nil
	default:
		return ex
	}
}

// emptyResult decodes as any result type that is taken.
var emptyResult = json.RawMessage(`{"content":[],"contents":[],"resources":[]}`)

// maxAside is the size in bytes of an answer to what the SDK asks by itself: the handshake above all.
const maxAside = 1 << 20

// answered keeps the answer and returns what the SDK is to see. Without an exchange, nil, the SDK has asked by itself.
func (ex *exchange) answered(res *jsonrpc.Response) *jsonrpc.Response {
	most := maxAside
	if ex != nil {
		most = ex.most
	}
	if most > 0 && len(res.Result) > most {
		res = &jsonrpc.Response{ID: res.ID, Error: tooLargeError(most)}
	}
	if ex == nil {
		return res
	}
	ex.answer.Store(&answer{result: res.Result, err: res.Error})
	if ex.take && res.Error == nil {
		return &jsonrpc.Response{ID: res.ID, Result: emptyResult, Extra: res.Extra}
	}
	return res
}

// fail ends the exchange; the first failure counts. Without an exchange there is nobody to tell.
func (ex *exchange) fail(err error) {
	if ex == nil {
		return
	}
	select {
	case ex.failed <- err:
	default:
	}
}

// progressed hands a progress notification to the call. A caller that does not keep up misses some: progress is a
// report on the present, and the transport must not wait for it.
func (ex *exchange) progressed(p Progress) {
	p.Message = clip(p.Message, maxSaid)
	select {
	case ex.progress <- p:
	default:
	}
}

// notification methods that the transports treat themselves.
const (
	methodProgress     = "notifications/progress"
	methodToolsChanged = "notifications/tools/list_changed"
	methodDiscover     = "server/discover"
)

// readProgress reads the parameters of notifications/progress. The token is a string because ours are.
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
