package mcpclient

import (
	"bytes"
	"cmp"
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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/credentials"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	connectTimeout = 10 * time.Second
	// deleteGrace bounds the request that ends a session.
	deleteGrace = 2 * time.Second
	// maxResumes is how often in a row the stream of one answer may break off without a new event.
	maxResumes = 4
	// maxErrorBody is how many bytes of an error's body are read for a JSON-RPC answer in it.
	maxErrorBody = 64 << 10
	// The pause before the stream of notifications is opened again: from listenMin, doubling to listenMax while it fails.
	listenMin = time.Second
	listenMax = 30 * time.Second

	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	lastIDHeader  = "Last-Event-Id"
	typeJSON      = "application/json"
	typeEvents    = "text/event-stream"
)

// web carries messages over streamable HTTP or SSE. It talks to the configured origin only. The SDK's own transports end
// the whole connection over a status or message that they do not expect; here it fails the request it belongs to.
type web struct {
	base       *http.Transport
	client     *http.Client
	url        string // where messages are posted
	limit      int    // bytes of a message
	streamable bool   // answers come in the response to the request; with SSE they come on one stream
	link       *link

	credentials credentials.Source       // nil: the configured headers
	user        string                   // whose credentials
	used        atomic.Pointer[[]string] // the last credentials that were sent

	life    context.Context // of the connection
	end     context.CancelFunc
	streams sync.WaitGroup
	header  atomic.Pointer[http.Header] // of every request: the configured headers, the session, the protocol version
}

func newWeb(cfg Config, user string, limit int, streamable bool) *web {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	base.TLSHandshakeTimeout = connectTimeout
	base.ReadBufferSize, base.WriteBufferSize = 1<<10, 1<<10 // thousands of calls may be in flight, each on a connection of its own
	base.MaxIdleConnsPerHost = 16                            // a program's parallel calls should not pay a handshake each
	w := &web{base: base, url: cfg.URL, limit: limit, streamable: streamable, credentials: cfg.Credentials, user: user}
	w.client = &http.Client{Transport: base, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) == 10 || req.Method != via[0].Method { // a 303 may follow what was done
			return errRedirect
		}
		return sameOrigin(via[0].URL, req.URL)
	}}
	header := make(http.Header)
	for name, value := range cfg.Headers {
		header.Set(name, value)
	}
	w.header.Store(&header)
	return w
}

var errRedirect = newFault(KindUnavailable, "the server redirects in a way that cannot be followed; put the address it means into its url")

// sameOrigin is the error for an address, of a redirect or of an SSE server's endpoint, at an origin that is not the
// configured one. It is not followed, because the configured headers may hold credentials.
func sameOrigin(configured, u *url.URL) error {
	if origin(configured) == origin(u) {
		return nil
	}
	f := newFault(KindUnavailable, "the server sends its clients on to %s://%s, another origin than configured; if that is "+
		"right, put that address into its url", u.Scheme, u.Host)
	f.unsent = true // a redirect that keeps the method asks for the request to be sent again
	return f
}

// origin is scheme, host and port of an address.
func origin(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// setHeader adds a header to all requests from now on, or removes it. Only the handshake does, which makes one request
// at a time.
func (w *web) setHeader(name, value string) {
	header := w.header.Load().Clone()
	if header.Set(name, value); value == "" {
		header.Del(name)
	}
	w.header.Store(&header)
}

// do makes one HTTP request, and once more with new credentials if the server refuses the first for its credentials: a request that is
// answered so was not carried out. ctx comes from within, so that the request ends with the connection.
func (w *web) do(ctx context.Context, method string, body []byte, header ...string) (*http.Response, error) {
	if w.credentials == nil {
		return w.once(ctx, method, body, header)
	}
	for again := false; ; again = true {
		name, value, err := w.credentials.Header(ctx, w.user)
		if err != nil {
			return nil, unauthorized(err, 0)
		}
		w.use(value)
		res, err := w.once(ctx, method, body, append(header[:len(header):len(header)], name, value))
		if err != nil || res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
			return res, err
		}
		err = w.credentials.Refused(ctx, w.user, value, again, res.StatusCode, res.Header)
		if err == nil && again || errors.Is(err, credentials.ErrNotMeant) {
			return res, nil // refused as any other request
		}
		_ = res.Body.Close()
		if err != nil {
			return nil, unauthorized(err, res.StatusCode)
		}
	}
}

// unauthorized is the fault of a request for which there are no credentials. status is that of the server's refusal, 0 if it was not sent.
func unauthorized(err error, status int) error {
	f := &fault{kind: KindUnavailable, msg: "its credentials cannot be had: " + err.Error(), unsent: true, status: status, err: err}
	if needs, is := errors.AsType[*credentials.NeedsLogin](err); is {
		f.kind, f.msg = KindNeedsLogin, needs.Error()
	}
	return f
}

// maxUsed is how many credentials are looked for in what the server sends: requests in flight may have earlier ones.
const maxUsed = 4

// use notes a credential that is sent.
func (w *web) use(value string) {
	secret := value[strings.LastIndexByte(value, ' ')+1:] // without a scheme
	for {
		old := w.used.Load()
		var all []string
		if old != nil {
			all = *old
		}
		if slices.Contains(all, secret) || secret == "" || w.used.CompareAndSwap(old, new(append([]string{secret}, all[:min(len(all), maxUsed-1)]...))) {
			return
		}
	}
}

// clean is what the server sends without the credentials that it was sent: a server may repeat what it got, in an answer or an error.
func (w *web) clean(data []byte) []byte {
	used := w.used.Load()
	if used == nil {
		return data
	}
	for _, secret := range *used {
		if len(secret) >= minSecret && bytes.Contains(data, []byte(secret)) {
			data = bytes.ReplaceAll(data, []byte(secret), []byte("[credential]"))
		}
	}
	return data
}

// minSecret is the length in bytes from which a credential is looked for: texts hold shorter ones by chance.
const minSecret = 8

// once makes one HTTP request.
func (w *web) once(ctx context.Context, method string, body []byte, header []string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = w.header.Load().Clone()
	for i := 0; i < len(header); i += 2 {
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	return w.client.Do(req)
}

// within is ctx that ends with the connection, too.
func (w *web) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(w.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// open implements [carrier]. With SSE it opens the stream of all answers, whose first event says where to post.
func (w *web) open(ctx context.Context, l *link) error {
	w.link = l
	w.life, w.end = context.WithCancel(ctx)
	if w.streamable {
		return nil
	}
	res, err := w.do(w.life, http.MethodGet, nil, "Accept", typeEvents)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || mediaType(res) != typeEvents {
		_ = res.Body.Close()
		return fmt.Errorf("its stream of events cannot be opened: HTTP %d with content of type %q", res.StatusCode,
			clip.Text(mediaType(res), maxExcerpt))
	}
	s := &stream{limit: w.limit, shared: true, pace: newPace(), lines: newLines(res.Body, w.limit)}
	if err := w.endpoint(s); err != nil {
		_ = res.Body.Close()
		return err
	}
	w.streams.Go(func() {
		defer res.Body.Close()
		l.end(w.read(s))
	})
	return nil
}

// endpoint reads where to post messages with SSE.
func (w *web) endpoint(s *stream) error {
	first, err := s.lines.event()
	if err != nil {
		return fmt.Errorf("read its endpoint: %w", err)
	}
	configured, _ := url.Parse(w.url) // validated when the server was added
	u, err := configured.Parse(string(first.data))
	if err != nil || first.name != "endpoint" {
		return fmt.Errorf("the first event is no endpoint: %s", excerpt(first.data))
	}
	w.url = u.String()
	return sameOrigin(configured, u)
}

// close implements [carrier]. It ends the session on the server.
func (w *web) close() {
	if w.life == nil {
		return
	}
	if w.header.Load().Get(sessionHeader) != "" {
		ctx, cancel := context.WithTimeout(w.life, deleteGrace)
		defer cancel()
		if res, err := w.do(ctx, http.MethodDelete, nil); err == nil {
			_ = res.Body.Close()
		}
	}
	w.end()
}

// release waits until nothing of a closed connection is left.
func (w *web) release() {
	w.streams.Wait()
	w.base.CloseIdleConnections()
}

// send implements [carrier]. That a notification or an answer is refused has no consequence but at the handshake.
func (w *web) send(ctx context.Context, msg jsonrpc.Message, ex *exchange) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	ctx, release := w.within(ctx)
	traced := ctx
	if ex != nil {
		traced = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { ex.sent.Store(true) }})
	}
	req, _ := msg.(*jsonrpc.Request) // nil for an answer
	res, err := w.do(traced, http.MethodPost, data, w.headers(req)...)
	if req == nil || !req.IsCall() {
		defer release()
		if err != nil {
			return nil
		}
		_ = res.Body.Close()
		if req != nil && req.Method == methodInitialized {
			return w.initialized(res.StatusCode)
		}
		return nil
	}
	if err != nil {
		release()
		w.link.reject(req.ID, err)
		return nil
	}
	w.streams.Go(func() {
		defer release()
		if err := w.answer(ctx, res, req, ex); err != nil {
			w.link.reject(req.ID, err)
		}
	})
	return nil
}

// headers are those of a POST. Which protocol version is spoken, the SDK decides in the handshake.
func (w *web) headers(req *jsonrpc.Request) []string {
	header := []string{"Content-Type", typeJSON, "Accept", typeJSON + ", " + typeEvents}
	if !w.streamable || req == nil {
		return header
	}
	var params struct {
		Name string         `json:"name"`
		URI  string         `json:"uri"`
		Meta map[string]any `json:"_meta"`
	}
	switch req.Method {
	case methodInitialize:
		w.setHeader(versionHeader, "")
	case methodDiscover:
		_ = json.Unmarshal(req.Params, &params) // the SDK has encoded it
		version, _ := params.Meta[mcp.MetaKeyProtocolVersion].(string)
		w.setHeader(versionHeader, version)
	}
	if w.header.Load().Get(versionHeader) > legacyVersion {
		_ = json.Unmarshal(req.Params, &params)
		header = append(header, "Mcp-Method", req.Method, "Mcp-Name", cmp.Or(params.Name, params.URI))
	}
	return header
}

// initialized ends the handshake of a server that has sessions, and begins to listen.
func (w *web) initialized(status int) error {
	if status >= 400 {
		return refused(status)
	}
	if w.streamable {
		w.streams.Go(w.listen)
	}
	return nil
}

// refused is the fault of a request that was refused with an HTTP status.
func refused(status int) *fault {
	f := newFault(KindUnavailable, "it answered HTTP %d %s", status, http.StatusText(status))
	f.status = status
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		f.msg += "; give credentials in its headers, or set its auth and log in: harness servers login NAME"
	case http.StatusTooManyRequests:
		f.msg += "; call it less often"
	}
	// These say that the request was not carried out (RFC 9110, section 15.5). Of other statuses, above all those of a
	// gateway, the outcome of a request is unknown.
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusProxyAuthRequired, http.StatusLengthRequired,
		http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusMisdirectedRequest, http.StatusUpgradeRequired, http.StatusTooManyRequests,
		http.StatusRequestHeaderFieldsTooLarge:
		f.unsent = true
	}
	return f
}

// stream is a stream of events, and what it is for.
type stream struct {
	call  *jsonrpc.Request // the call that it answers; nil for none
	limit int              // bytes of an event
	// shared is the one stream of the SSE transport, which carries all answers.
	shared bool
	pace   *pace
	charge *charge // of the answer; nil for the SDK's own calls
	lines  *lines

	lastID string
	retry  time.Duration // the wait that the server asks for before the stream is opened again
	events int           // that were read
}

// answer delivers the server's answer to a call. The error is the reason why there is none.
func (w *web) answer(ctx context.Context, res *http.Response, call *jsonrpc.Request, ex *exchange) error {
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
		if ex != nil {
			ex.status.Store(int32(res.StatusCode))
		}
		if w.streamable && w.answered(call, text) == nil {
			return nil // the server's own answer, with a status beside it
		}
		return refused(res.StatusCode)
	}
	if !w.streamable {
		return nil // it comes on the shared stream
	}
	if session := res.Header.Get(sessionHeader); session != "" && call.Method == methodInitialize {
		w.setHeader(sessionHeader, session)
	}
	s := &stream{call: call, limit: maxAside, pace: newPace()}
	if ex != nil {
		s.limit, s.charge = w.limit, ex.charge
	}
	switch kind := mediaType(res); kind {
	case typeEvents:
		return w.follow(ctx, res, s)
	case typeJSON:
		data, err := s.readJSON(ctx, res)
		if err != nil {
			return err
		}
		return w.answered(call, data)
	default:
		return newFault(KindProtocol, "the server answered with an invalid message: HTTP %d with content of type %q", res.StatusCode,
			clip.Text(kind, maxExcerpt))
	}
}

// answered delivers a message that has to be the answer to a call.
func (w *web) answered(call *jsonrpc.Request, data []byte) error {
	data = w.clean(data)
	msg, err := decodeMessage(data)
	if err != nil {
		return err
	}
	answer, ok := msg.(*jsonrpc.Response)
	if !ok || answer.ID != call.ID {
		return invalidMessage(data, "it answers another request")
	}
	return w.deliver(call, answer)
}

// deliver delivers the answer to a call.
func (w *web) deliver(call *jsonrpc.Request, answer *jsonrpc.Response) error {
	if call.Method == methodInitialize {
		var result struct {
			Version string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(answer.Result, &result) // the SDK reports a wrong one
		w.setHeader(versionHeader, result.Version)
	}
	return w.link.deliver(answer, nil)
}

// readJSON reads a whole answer and charges it.
func (s *stream) readJSON(ctx context.Context, res *http.Response) ([]byte, error) {
	if res.ContentLength > int64(s.limit) {
		return nil, tooLarge(s.limit)
	}
	var data bytes.Buffer
	for {
		if err := s.charge.grow(ctx, 2*int64(data.Len()), res.ContentLength); err != nil {
			return nil, err
		}
		_, err := io.CopyN(&data, res.Body, max(freeResult, int64(data.Len())))
		switch {
		case data.Len() > s.limit:
			return nil, tooLarge(s.limit)
		case errors.Is(err, io.EOF):
			s.charge.shrink(int64(data.Len()))
			return data.Bytes(), nil
		case err != nil:
			return nil, fmt.Errorf("read the answer: %w", err)
		}
	}
}

// follow reads the stream of one answer, and opens it again where it breaks off.
func (w *web) follow(ctx context.Context, res *http.Response, s *stream) error {
	for events, resumes := 0, 0; ; {
		s.lines = newLines(res.Body, s.limit)
		s.lines.grow = func(size int) error { return s.charge.grow(ctx, int64(size), 0) }
		err := w.read(s)
		_ = res.Body.Close()
		_, wrong := errors.AsType[*fault](err)
		switch {
		case err == nil, wrong, ctx.Err() != nil:
			return err
		case s.lastID == "":
			return errors.New("its stream ended without response")
		case s.events > events:
			events, resumes = s.events, 0
		}
		for res = nil; res == nil; {
			if resumes++; resumes > maxResumes {
				return errors.New("its stream broke off again and again")
			}
			if err := sleep(ctx, cmp.Or(s.retry, listenMin)); err != nil {
				return err
			}
			if res, err = w.stream(ctx, s.lastID); err != nil && res != nil { //nolint:bodyclose // the loop around this one closes it
				return fmt.Errorf("its stream broke off and could not be resumed: %w", err)
			}
		}
	}
}

// stream opens a stream of events behind the event with an id. The response beside an error is that of a server that will
// not open it later either.
func (w *web) stream(ctx context.Context, lastID string) (*http.Response, error) {
	res, err := w.do(ctx, http.MethodGet, nil, "Accept", typeEvents, lastIDHeader, lastID)
	if err != nil || res.StatusCode == http.StatusOK && mediaType(res) == typeEvents {
		return res, err
	}
	_ = res.Body.Close()
	err = fmt.Errorf("HTTP %d", res.StatusCode)
	if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests {
		return nil, err
	}
	return res, err
}

// listen reads the stream on which a server of the streamable transport speaks by itself. The stream is optional: calls
// do not need it. When it fails, listen opens it again after a pause.
func (w *web) listen() {
	s := &stream{limit: maxAside}
	for pause := time.Duration(0); sleep(w.life, pause) == nil; pause = min(max(2*pause, listenMin), listenMax) {
		res, err := w.stream(w.life, s.lastID)
		switch {
		case err != nil && res != nil:
			return // it has no such stream
		case err != nil:
			continue
		}
		s.pace, s.lines, s.events = newPace(), newLines(res.Body, s.limit), 0
		err = w.read(s)
		_ = res.Body.Close()
		if _, floods := errors.AsType[*fault](err); floods {
			pause = listenMax
		} else if s.events > 0 {
			pause = 0
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	await(ctx.Done(), d)
	return ctx.Err()
}

// read delivers the messages of a stream until the answer that it is for has come, which is no error, or the stream ends.
func (w *web) read(s *stream) error {
	for {
		ev, err := s.lines.event()
		if err != nil {
			return err
		}
		if s.retry = cmp.Or(ev.retry, s.retry); ev.id != "" {
			s.lastID = ev.id
		}
		s.events++
		s.charge.shrink(int64(len(ev.data)))
		if ev.name != "" && ev.name != "message" || len(ev.data) == 0 {
			if err := s.pace.count(); err != nil {
				return err
			}
			continue
		}
		ev.data = w.clean(ev.data)
		msg, err := ev.message(s.limit)
		if err != nil && s.call != nil {
			return err
		}
		answer, isAnswer := msg.(*jsonrpc.Response)
		if err != nil {
			answer, isAnswer = salvage(ev.data, err)
			msg = answer
		}
		switch {
		case isAnswer && s.call != nil && answer.ID == s.call.ID:
			return w.deliver(s.call, answer)
		case isAnswer && s.shared, !isAnswer && err == nil:
			err = w.link.deliver(msg, s.pace)
		default: // it answers no request of this stream
			err = s.pace.count()
		}
		if err != nil {
			return err
		}
	}
}

func mediaType(res *http.Response) string {
	t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return t
}
