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
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"mcp-code-exec-harness/internal/clip"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
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
	*requester        // its headers are the configured ones, the session and the protocol version
	url        string // where messages are posted
	limit      int    // bytes of a message
	streamable bool   // answers come in the response to the request; with SSE they come on one stream
	link       *link
}

func newWeb(cfg Config, user string, limit int, streamable bool) *web {
	w := &web{requester: newRequester(cfg, user), url: cfg.URL, limit: limit, streamable: streamable}
	w.client.CheckRedirect = followOrigin
	return w
}

// followOrigin follows redirects at one origin.
func followOrigin(req *http.Request, via []*http.Request) error {
	if len(via) == maxRedirects || req.Method != via[0].Method { // a 303 may follow what was done
		return errRedirect
	}
	return sameOrigin(via[0].URL, req.URL)
}

var errRedirect = newFault(KindUnavailable, "the server redirects in a way that cannot be followed; put the address it means into its url")

// open implements [carrier]. With SSE it opens the stream of all answers, whose first event says where to post.
func (w *web) open(ctx context.Context, l *link) error {
	w.link = l
	w.begin(ctx)
	if w.streamable {
		return nil
	}
	res, err := w.do(w.life, http.MethodGet, w.url, nil, "Accept", typeEvents)
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
		if res, err := w.do(ctx, http.MethodDelete, w.url, nil); err == nil {
			_ = res.Body.Close()
		}
	}
	w.end()
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
	res, err := w.do(traced, http.MethodPost, w.url, data, w.headers(req, ex)...)
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
func (w *web) headers(req *jsonrpc.Request, ex *exchange) []string {
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
		if ex != nil {
			header = append(header, ex.headers...)
		}
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
		data, err := s.whole(ctx, res)
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

// whole reads a whole answer and charges it.
func (s *stream) whole(ctx context.Context, res *http.Response) ([]byte, error) {
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
	res, err := w.do(ctx, http.MethodGet, w.url, nil, "Accept", typeEvents, lastIDHeader, lastID)
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
