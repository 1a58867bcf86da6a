package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	connectTimeout = 10 * time.Second
	// listenGrace is how long a server may take to begin the stream of notifications. It is optional, and the SDK
	// waits for it while connecting; some servers send no header before the first event.
	listenGrace = 3 * time.Second
	// deleteGrace bounds the farewell to a session.
	deleteGrace = 2 * time.Second
)

// wire is the HTTP client of one connection: it adds the configured headers, talks to the configured host only,
// keeps requests from outliving the connection, bounds answers, and takes answers off the wire (see [exchange]).
type wire struct {
	base       *http.Transport
	origin     *url.URL
	headers    map[string]string
	limit      int
	streamable bool // answers come in the response to the request; with SSE they do not

	inbound *inbound        // of streamable; otherwise the tap's
	end     context.Context // ends with the connection
	refused atomic.Int32    // the status of the last refused POST, 0 after one that was not
	gone    atomic.Bool     // the server forgot the session

	mu      sync.Mutex
	byToken map[string]*exchange
}

func newWire(end context.Context, cfg Config, limit int, streamable bool, in *inbound) *wire {
	origin, _ := url.Parse(cfg.URL) // validated when the server was added
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	base.TLSHandshakeTimeout = connectTimeout
	base.MaxIdleConnsPerHost = 16 // a program's parallel calls should not pay a handshake each
	return &wire{
		base: base, origin: origin, headers: cfg.Headers, limit: limit, streamable: streamable, inbound: in, end: end,
		byToken: make(map[string]*exchange),
	}
}

func (w *wire) client() *http.Client { return &http.Client{Transport: w} }

func (w *wire) close() { w.base.CloseIdleConnections() }

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := w.sameOrigin(req.URL); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(w.end, cancel)
	release := func() { stop(); cancel() }

	ex := exchangeOf(ctx)
	if ex != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { ex.sent.Store(true) }})
		w.expect(ex)
	}
	out := req.Clone(ctx)
	for name, value := range w.headers {
		if out.Header.Get(name) == "" {
			out.Header.Set(name, value)
		}
	}
	listen := ex == nil && (req.Method == http.MethodGet && w.streamable ||
		req.Header.Get("Mcp-Method") == "subscriptions/listen")
	var timer *time.Timer
	switch {
	case listen:
		timer = time.AfterFunc(listenGrace, cancel)
	case req.Method == http.MethodDelete:
		timer = time.AfterFunc(deleteGrace, cancel)
	}
	if w.streamable && ex == nil && isAnswer(req) {
		defer w.inbound.answered()
	}
	res, err := w.base.RoundTrip(out)
	late := timer != nil && !timer.Stop()
	if err != nil {
		release()
		if late && listen && req.Context().Err() == nil && w.end.Err() == nil {
			return noStream(req), nil
		}
		return nil, err
	}
	res.Body = &body{ReadCloser: res.Body, release: release}
	w.note(req, res, ex)
	kind := mediaType(res.Header)
	switch {
	case !w.streamable: // the tap sees what comes on the one stream there is
	case kind == "text/event-stream":
		res.Body = newEventBody(res.Body, w, ex)
	case kind == "application/json" && ex != nil && res.StatusCode == http.StatusOK:
		err = w.takeJSON(res, ex)
	default:
		res.Body = http.MaxBytesReader(nil, res.Body, maxAside)
	}
	if err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	return res, nil
}

// isAnswer reports whether a request carries the SDK's answer to a request of the server.
func isAnswer(req *http.Request) bool {
	if req.Method != http.MethodPost || req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	data, err := io.ReadAll(body) // what the SDK has encoded
	if err != nil {
		return false
	}
	msg, err := jsonrpc.DecodeMessage(data)
	_, ok := msg.(*jsonrpc.Response)
	return ok && err == nil
}

// sameOrigin keeps the headers, which may hold credentials, from any host but the configured one: neither a redirect
// nor the endpoint event of an SSE server may name another, or leave https.
func (w *wire) sameOrigin(u *url.URL) error {
	if strings.EqualFold(u.Hostname(), w.origin.Hostname()) &&
		(u.Scheme == w.origin.Scheme && u.Port() == w.origin.Port() || u.Scheme == "https" && w.origin.Scheme == "http") {
		return nil
	}
	return elsewhereError(u.Scheme + "://" + u.Host)
}

// elsewhereError is the refusal to follow a server to another host, named by it.
type elsewhereError string

func (host elsewhereError) Error() string {
	return fmt.Sprintf("the server sends its clients on to %s, another host than configured; if that is right, put "+
		"that address into its url", string(host))
}

// expect makes progress for ex find it. An exchange leaves with forget.
func (w *wire) expect(ex *exchange) {
	if ex.token == "" {
		return
	}
	w.mu.Lock()
	w.byToken[ex.token] = ex
	w.mu.Unlock()
}

func (w *wire) forget(ex *exchange) {
	w.mu.Lock()
	delete(w.byToken, ex.token)
	w.mu.Unlock()
}

// note remembers what a status says about the request and the session.
func (w *wire) note(req *http.Request, res *http.Response, ex *exchange) {
	bad := res.StatusCode >= 400
	if req.Method == http.MethodPost {
		w.refused.Store(0)
		if bad {
			w.refused.Store(int32(res.StatusCode))
		}
	}
	if !bad {
		return
	}
	if ex != nil {
		ex.status.Store(int32(res.StatusCode))
	}
	const enough = 64 << 10 // of the body of an error, which the SDK reads to its end
	text, _ := io.ReadAll(io.LimitReader(res.Body, enough))
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(text))
	if req.Method != http.MethodPost || req.Header.Get("Mcp-Session-Id") == "" {
		return
	}
	// The specification says 404 for a session the server does not know; servers built on the TypeScript SDK's
	// examples say 400 and a sentence. Without a body the SDK takes a 404 for what it is and ends the connection.
	if res.StatusCode == http.StatusNotFound ||
		res.StatusCode == http.StatusBadRequest && bytes.Contains(bytes.ToLower(text), []byte("session")) {
		w.gone.Store(true)
		res.StatusCode, res.Status, res.Body = http.StatusNotFound, "404 Not Found", http.NoBody
	}
}

// takeJSON reads the whole answer here: an error on the way then fails this request, where the SDK would give up the
// whole connection.
func (w *wire) takeJSON(res *http.Response, ex *exchange) error {
	data, err := io.ReadAll(io.LimitReader(res.Body, int64(w.limit)+1))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if len(data) > w.limit {
		return tooLargeError(w.limit)
	}
	_ = res.Body.Close()
	data, err = w.message(data, ex)
	if err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(data))
	res.ContentLength = int64(len(data))
	return nil
}

var errInvalidAnswer = errors.New("the server answered with an invalid message")

// message takes what is ours of a message and returns what the SDK is to see; nil is nothing.
func (w *wire) message(data []byte, ex *exchange) ([]byte, error) {
	msg, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %s", errInvalidAnswer, clip(err.Error(), maxExcerpt), excerpt(data))
	}
	switch m := msg.(type) {
	case *jsonrpc.Response:
		seen := ex.answered(m)
		if seen == m {
			return data, nil
		}
		return jsonrpc.EncodeMessage(seen)
	case *jsonrpc.Request:
		if m.Method == methodProgress && !m.IsCall() {
			if token, p, ok := readProgress(m.Params); ok {
				w.mu.Lock()
				to := w.byToken[token]
				w.mu.Unlock()
				if to != nil {
					to.progressed(p)
				}
			}
			return nil, nil
		}
		if pass, err := w.inbound.admit(m); !pass {
			return nil, err
		}
	}
	return data, nil
}

func mediaType(h http.Header) string {
	t, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return t
}

// noStream is what a server answers that has no stream of notifications.
func noStream(req *http.Request) *http.Response {
	return &http.Response{
		Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// body releases the request's context when it is closed.
type body struct {
	io.ReadCloser
	release func()
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}
