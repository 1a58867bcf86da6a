package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
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
	// deleteGrace bounds the request that ends a session.
	deleteGrace = 2 * time.Second
	// maxResumes is how often in a row the stream of one answer may break off without a new event. The SDK gives up
	// the whole connection after one more.
	maxResumes = 4
	// maxErrorBody is how many bytes of an error's body are read for a JSON-RPC answer in it.
	maxErrorBody = 64 << 10

	sessionHeader = "Mcp-Session-Id"
	typeJSON      = "application/json"
	typeEvents    = "text/event-stream"
)

// wire is the HTTP client of one connection. It adds the configured headers, talks to the configured origin only,
// takes answers off the wire and bounds them. The SDK ends the whole connection over a status or message it does not
// expect; so it gets to see only what it expects, and everything else fails the request it belongs to.
type wire struct {
	base       *http.Transport
	origin     string
	headers    map[string]string
	limit      int
	streamable bool // answers come in the response to the request; with SSE they come on one stream

	inbound *inbound        // of streamable; with SSE the tap has it
	end     context.Context // ends with the connection
	refused atomic.Int32    // the status of the last refused POST, 0 after one that was not
	muted   atomic.Pointer[error]

	mu      sync.Mutex
	byToken map[string]*exchange
}

func newWire(end context.Context, cfg Config, limit int, streamable bool, in *inbound) *wire {
	u, _ := url.Parse(cfg.URL) // validated when the server was added
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	base.TLSHandshakeTimeout = connectTimeout
	base.MaxIdleConnsPerHost = 16 // a program's parallel calls should not pay a handshake each
	return &wire{
		base: base, origin: origin(u), headers: cfg.Headers, limit: limit, streamable: streamable, inbound: in, end: end,
		byToken: make(map[string]*exchange),
	}
}

// client is the HTTP client for the SDK. A redirect that would make another request of a POST is refused.
func (w *wire) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) == 10 || req.Method != via[0].Method {
			return errRedirect
		}
		return nil
	}}
}

func (w *wire) close() { w.base.CloseIdleConnections() }

var errRedirect = errors.New("the server redirects in a way that cannot be followed; put the address it means into its url")

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if origin(req.URL) != w.origin {
		return nil, elsewhereError(req.URL.Scheme + "://" + req.URL.Host)
	}
	ex := exchangeOf(req.Context())
	switch {
	case req.Method == http.MethodGet && w.streamable && ex == nil:
		return w.listen(req), nil
	case req.Method == http.MethodGet && w.streamable:
		return w.resume(req, ex)
	case req.Method == http.MethodPost:
		return w.post(req, ex)
	}
	res, err := w.send(req, nil)
	if err == nil && mediaType(res) == typeEvents {
		res.Body = newEventBody(res.Body, w, stream{limit: w.limit, shared: true})
	}
	return res, err
}

// send makes one HTTP request with the configured headers. It ends with the connection at the latest.
func (w *wire) send(req *http.Request, ex *exchange) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(w.end, cancel)
	release := func() { stop(); cancel() }
	if ex != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { ex.sent.Store(true) }})
	}
	out := req.Clone(ctx)
	for name, value := range w.headers {
		if out.Header.Get(name) == "" {
			out.Header.Set(name, value)
		}
	}
	if req.Method == http.MethodDelete {
		timer := time.AfterFunc(deleteGrace, cancel)
		defer timer.Stop()
	}
	res, err := w.base.RoundTrip(out)
	if err != nil {
		release()
		return nil, err
	}
	res.Body = &body{ReadCloser: res.Body, release: release}
	if req.Header.Get(sessionHeader) != "" {
		res.Header.Del(sessionHeader) // the SDK ends the connection over another one
	}
	return res, nil
}

// post sends a message of the SDK. A request that is refused fails alone; that a notification or an answer was refused
// concerns nobody but the server.
func (w *wire) post(req *http.Request, ex *exchange) (*http.Response, error) {
	method, id := messageOf(req)
	call := method != "" && id.IsValid()
	if !call {
		ex = nil
	}
	if ex != nil {
		ex.id.Store(&id)
		w.expect(ex)
	}
	res, err := w.send(req, ex)
	if method == "" && w.streamable {
		w.inbound.answered()
	}
	switch {
	case err != nil:
		return nil, w.failed(ex, err)
	case res.StatusCode >= 300 && res.StatusCode < 400 && res.Header.Get("Location") != "":
		return res, nil // the HTTP client follows or refuses it
	case call:
		w.refused.Store(0)
		if res, err = w.answerOf(res, ex, id); err != nil {
			return nil, w.failed(ex, err)
		}
		return res, nil
	}
	_ = res.Body.Close()
	if method == methodInitialized && res.StatusCode >= 400 {
		w.refused.Store(int32(res.StatusCode))
		return nil, refusedError(res.StatusCode)
	}
	res.StatusCode, res.Body = http.StatusAccepted, http.NoBody
	return res, nil
}

// failed makes err the failure of a request. Over SSE the SDK would take an error for the end of the connection, unless
// the request has ended.
func (w *wire) failed(ex *exchange, err error) error {
	if ex != nil && !w.streamable {
		ex.end(err)
	}
	return err
}

// answerOf makes of the response to a request what the SDK expects: a JSON-RPC answer or a stream of events.
func (w *wire) answerOf(res *http.Response, ex *exchange, id jsonrpc.ID) (*http.Response, error) {
	kind := mediaType(res)
	switch {
	case res.StatusCode >= 300:
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
		_ = res.Body.Close()
		if ex != nil {
			ex.status.Store(int32(res.StatusCode))
		}
		if data, err := w.message(text, stream{ex: ex, id: id}); err == nil && data != nil && w.streamable {
			return rewritten(res, data), nil // the server's own answer, with a status beside it
		}
		w.refused.Store(int32(res.StatusCode))
		return nil, refusedError(res.StatusCode)
	case !w.streamable:
		return res, nil
	case kind == typeEvents:
		limit := w.limit
		if ex == nil {
			limit = maxAside
		}
		res.Body = newEventBody(res.Body, w, stream{ex: ex, id: id, limit: limit})
		return res, nil
	case kind != typeJSON:
		_ = res.Body.Close()
		return nil, fmt.Errorf("%w: HTTP %d with content of type %q", errInvalidAnswer, res.StatusCode, clip(kind, maxExcerpt))
	}
	data, err := w.readJSON(res, ex)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	seen, err := w.message(data, stream{ex: ex, id: id})
	if err == nil && seen == nil {
		err = fmt.Errorf("%w: it answers another request: %s", errInvalidAnswer, excerpt(data))
	}
	if err != nil {
		return nil, err
	}
	return rewritten(res, seen), nil
}

// readJSON reads a whole answer and charges it.
func (w *wire) readJSON(res *http.Response, ex *exchange) ([]byte, error) {
	limit := int64(w.limit)
	if ex == nil {
		limit = maxAside
	}
	if res.ContentLength > limit {
		return nil, tooLargeError(limit)
	}
	var data bytes.Buffer
	for {
		if ex != nil {
			if err := ex.charge.grow(ex.ctx, 2*int64(data.Len()), res.ContentLength); err != nil {
				return nil, err
			}
		}
		_, err := io.CopyN(&data, res.Body, max(freeResult, int64(data.Len())))
		size := int64(data.Len())
		switch {
		case size > limit:
			return nil, tooLargeError(limit)
		case errors.Is(err, io.EOF):
			if ex != nil {
				ex.charge.shrink(size)
			}
			return data.Bytes(), nil
		case err != nil:
			return nil, fmt.Errorf("read the answer: %w", err)
		}
	}
}

// resume reopens the stream of an answer that broke off. The SDK tries again after an error, and ends the connection
// over anything else but a stream.
func (w *wire) resume(req *http.Request, ex *exchange) (*http.Response, error) {
	res, err := w.send(req, nil)
	if err == nil && (res.StatusCode != http.StatusOK || mediaType(res) != typeEvents) {
		_ = res.Body.Close()
		err = fmt.Errorf("its stream broke off and could not be resumed: HTTP %d", res.StatusCode)
		if res.StatusCode < 500 {
			ex.end(err)
		}
	}
	if n := ex.resumes.Add(1); err == nil && n > maxResumes {
		_ = res.Body.Close()
		err = errors.New("its stream broke off again and again")
	}
	if err != nil {
		if ex.resumes.Load() > maxResumes {
			ex.end(err)
		}
		return nil, err
	}
	id := jsonrpc.ID{}
	if sent := ex.id.Load(); sent != nil {
		id = *sent
	}
	res.Body = newEventBody(res.Body, w, stream{ex: ex, id: id, limit: w.limit})
	return res, nil
}

// messageOf reads the method and the id of the message in a POST: neither is a large value, and the SDK writes both
// before the parameters. An answer has no method.
func messageOf(req *http.Request) (method string, id jsonrpc.ID) {
	if req.GetBody == nil {
		return "", jsonrpc.ID{}
	}
	body, err := req.GetBody()
	if err != nil {
		return "", jsonrpc.ID{}
	}
	dec := json.NewDecoder(body)
	_, _ = dec.Token() // the opening brace of what the SDK has encoded
	for dec.More() {
		key, _ := dec.Token()
		switch key {
		case "id":
			var v any
			if dec.Decode(&v) == nil {
				id, _ = jsonrpc.MakeID(v)
			}
		case "method":
			_ = dec.Decode(&method)
			return method, id
		case "jsonrpc":
			_, _ = dec.Token()
		default:
			return "", id
		}
	}
	return "", id
}

// origin is scheme, host and port of an address.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// elsewhereError reports a redirect, or the endpoint of an SSE server, at an origin that is not the configured one. It is
// not followed, because the configured headers may hold credentials.
type elsewhereError string

func (origin elsewhereError) Error() string {
	return fmt.Sprintf("the server sends its clients on to %s, another origin than configured; if that is right, put "+
		"that address into its url", string(origin))
}

// refusedError is the HTTP status with which a server refused a request.
type refusedError int

func (status refusedError) Error() string {
	return fmt.Sprintf("HTTP %d %s", int(status), http.StatusText(int(status)))
}

// refusesUnread reports whether a status says that the request was not carried out (RFC 9110, section 15.5). Of other
// statuses, above all those of a gateway, the outcome of a request is unknown.
func (status refusedError) refusesUnread() bool {
	switch int(status) {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusProxyAuthRequired, http.StatusLengthRequired,
		http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusMisdirectedRequest, http.StatusUpgradeRequired, http.StatusTooManyRequests,
		http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return false
}

// expect makes reports of progress find ex, until forget.
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

// message takes what is ours of a message on a stream and returns what the SDK gets to see; nil is nothing. An
// errInvalidAnswer concerns the message alone, any other error ends the stream.
func (w *wire) message(data []byte, on stream) ([]byte, error) {
	msg, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return nil, invalidError(data, err)
	}
	switch m := msg.(type) {
	case *jsonrpc.Response:
		if m.ID != on.id || !on.id.IsValid() {
			return nil, on.count()
		}
		if seen := on.ex.answered(m); seen != m {
			return jsonrpc.EncodeMessage(seen)
		}
	case *jsonrpc.Request:
		if err := on.count(); err != nil {
			return nil, err
		}
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

func invalidError(data []byte, cause error) error {
	return fmt.Errorf("%w: %s: %s", errInvalidAnswer, clip(cause.Error(), maxExcerpt), excerpt(data))
}

func mediaType(res *http.Response) string {
	t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return t
}

// rewritten is a response with data, a JSON-RPC message, in place of what the server sent.
func rewritten(res *http.Response, data []byte) *http.Response {
	res.StatusCode, res.Body, res.ContentLength = http.StatusOK, io.NopCloser(bytes.NewReader(data)), int64(len(data))
	res.Header.Set("Content-Type", typeJSON)
	return res
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
