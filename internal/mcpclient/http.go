package mcpclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/clip"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// deleteGrace is the timeout of the request that ends a session.
	deleteGrace = 2 * time.Second
	// maxPreamble is the maximum number of events that an SSE server may send before its endpoint event.
	maxPreamble = 1_000
	// maxResumes is the maximum number of times in a row that the stream of one answer may break off without a new event.
	maxResumes = 4
	// Bounds of the pause before the stream of notifications is opened again. The pause doubles while the stream fails.
	listenMin = time.Second
	listenMax = 30 * time.Second

	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	lastIDHeader  = "Last-Event-Id"
	typeJSON      = "application/json"
	typeEvents    = "text/event-stream"
)

// web carries messages over streamable HTTP or SSE. It sends requests to the configured origin only. An unexpected status or
// message fails only the request it belongs to; the SDK's own transports would end the whole connection.
type web struct {
	*requester        // sender of the requests, with the configured headers, the session and the protocol version
	url        string // address for messages
	limit      int    // maximum size of a message in bytes
	streamable bool   // reports that an answer comes in the response to its request; with SSE, answers come on a shared stream
	link       *link
}

func newWeb(cfg Config, user string, limit int, streamable bool) *web {
	w := &web{requester: newRequester(cfg, user), url: cfg.URL, limit: limit, streamable: streamable}
	w.client.CheckRedirect = followOrigin
	return w
}

// followOrigin allows redirects within the origin of the first request.
func followOrigin(req *http.Request, via []*http.Request) error {
	// A redirect that changes the method, such as 303, may follow a request that was carried out.
	if len(via) == maxRedirects || req.Method != via[0].Method {
		return errRedirect
	}
	return sameOrigin(via[0].URL, req.URL)
}

var errRedirect = newFault(KindUnavailable, "the server redirects in a way that cannot be followed; put the address it means into its url")

// open implements [carrier]. With SSE it opens the stream of all answers, and waits for the event that gives the address for messages.
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
	if res.StatusCode != http.StatusOK {
		f := w.refuse(res)
		f.msg = "its stream of events cannot be opened: " + f.msg
		return f
	}
	if mediaType(res) != typeEvents {
		_ = res.Body.Close()
		return fmt.Errorf("its stream of events cannot be opened: HTTP 200 with content of type %q", clip.Text(mediaType(res), maxExcerpt))
	}
	s := &stream{limit: w.limit, shared: true, pace: newPace(), lines: newEventLines(res.Body, w.limit)}
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

// endpoint reads the address to which an SSE server wants messages posted.
func (w *web) endpoint(s *stream) error {
	for range maxPreamble {
		ev, err := s.lines.event()
		if err != nil {
			return fmt.Errorf("read its endpoint: %w", err)
		}
		if ev.name != "endpoint" {
			continue // no request was sent yet, so the event cannot be an answer
		}
		configured, _ := url.Parse(w.url) // validated when the server was added
		u, err := configured.Parse(strings.TrimSpace(string(ev.data)))
		if err != nil || len(ev.data) == 0 {
			return fmt.Errorf("its endpoint is no address: %s", excerpt(ev.data))
		}
		w.url = u.String()
		return sameOrigin(configured, u)
	}
	return fmt.Errorf("none of the first %d events is its endpoint", maxPreamble)
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

// send implements [carrier]. If the server refuses a notification or an answer, send ignores this. Only the refusal of notifications/initialized
// is an error.
func (w *web) send(ctx context.Context, msg jsonrpc.Message, ex *exchange) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	ctx, release := w.within(ctx)
	traced := ctx
	if ex != nil {
		traced = ex.traced(ctx, *w.header.Load())
	}
	req, _ := msg.(*jsonrpc.Request) // req is nil for an answer
	res, err := w.do(traced, http.MethodPost, w.url, data, w.headers(req, ex)...)
	if req == nil || !req.IsCall() {
		defer release()
		if err != nil {
			return nil
		}
		if req != nil && req.Method == methodInitialized {
			return w.initialized(res)
		}
		_ = res.Body.Close()
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

// headers returns the headers of a POST. It takes the protocol version from the SDK's requests during the handshake.
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
		_ = json.Unmarshal(req.Params, &params) // the SDK encoded the parameters, so they are valid
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

// initialized handles the response to notifications/initialized and starts the stream of notifications.
func (w *web) initialized(res *http.Response) error {
	if res.StatusCode >= 400 {
		return w.refuse(res)
	}
	_ = res.Body.Close()
	if w.streamable {
		w.streams.Go(w.listen)
	}
	return nil
}

// stream is the state of reading a response or a stream of events: its limits, and the call that it answers.
type stream struct {
	call  *jsonrpc.Request // call that the stream answers; nil if there is none
	limit int              // maximum size of an event in bytes
	// shared reports that this is the stream of the SSE transport, which carries all answers.
	shared bool
	pace   *pace
	charge *charge // budget of the answer; nil for the SDK's own calls
	lines  *lines

	lastID string
	retry  time.Duration // pause that the server requests before the stream is opened again
	events int           // number of events read
}

// answer delivers the server's answer to a call. The error is the reason why there is no answer.
func (w *web) answer(ctx context.Context, res *http.Response, call *jsonrpc.Request, ex *exchange) error {
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		f := w.refuse(res)
		if ex != nil {
			ex.status.Store(int32(res.StatusCode))
		}
		if w.streamable && w.answered(call, f.refusal.body, nil) == nil {
			return nil // the body was the JSON-RPC answer to the call, despite the error status
		}
		return f
	}
	if !w.streamable {
		return nil // the answer comes on the shared stream
	}
	if session := res.Header.Get(sessionHeader); session != "" && call.Method == methodInitialize {
		w.setHeader(sessionHeader, session)
	}
	s := &stream{call: call, limit: maxAside, pace: newPace()}
	if ex != nil {
		s.limit, s.charge = w.limit, ex.charge
	}
	switch kind := mediaType(res); {
	case kind == typeEvents:
		return w.follow(ctx, res, s)
	case strings.HasPrefix(kind, typeJSON): // the official clients compare the same way
		data, err := s.whole(ctx, res)
		if err != nil {
			return err
		}
		data = w.clean(data)
		if failed := errorWithoutID(data); failed != nil { // an error without an id can only answer this request
			return w.deliver(call, &jsonrpc.Response{ID: call.ID, Error: failed})
		}
		return w.answered(call, data, s.pace)
	default:
		return newFault(KindProtocol, "the server answered with an invalid message: HTTP %d with content of type %q", res.StatusCode,
			clip.Text(kind, maxExcerpt))
	}
}

// answered decodes data, which must be the answer to a call or a batch with that answer, and delivers it.
func (w *web) answered(call *jsonrpc.Request, data []byte, p *pace) error {
	msgs, err := decodeMessages(data)
	if err != nil {
		return err
	}
	var answer *jsonrpc.Response
	for _, msg := range msgs {
		if res, ok := msg.(*jsonrpc.Response); ok && res.ID == call.ID {
			answer = res
		} else if _, ok := msg.(*jsonrpc.Request); ok && len(msgs) > 1 {
			if err := w.link.deliver(msg, p); err != nil {
				return err
			}
		}
	}
	if answer == nil {
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
		_ = json.Unmarshal(answer.Result, &result) // the SDK reports an invalid version
		w.setHeader(versionHeader, result.Version)
	}
	return w.link.deliver(answer, nil)
}

// whole reads a whole answer and charges its size to the budget.
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

// follow reads the stream of one answer, and opens it again when it breaks off.
func (w *web) follow(ctx context.Context, res *http.Response, s *stream) error {
	for events, resumes := 0, 0; ; {
		s.lines = newEventLines(res.Body, s.limit)
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

// stream opens a stream of the events that follow the event with the id lastID. If it returns both a response and an error, the server would
// not open the stream later either.
func (w *web) stream(ctx context.Context, lastID string) (*http.Response, error) {
	res, err := w.do(ctx, http.MethodGet, w.url, nil, "Accept", typeEvents, lastIDHeader, lastID)
	if err != nil || res.StatusCode == http.StatusOK && mediaType(res) == typeEvents {
		return res, err
	}
	if err = fmt.Errorf("HTTP %d with content of type %q", res.StatusCode, clip.Text(mediaType(res), maxExcerpt)); res.StatusCode != http.StatusOK {
		err = errors.New(w.refuse(res).msg) // the refusal concerns the shared stream, not a call on it
	}
	_ = res.Body.Close()
	if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests {
		return nil, err
	}
	return res, err
}

// listen reads the stream on which a streamable HTTP server sends messages that answer no request. The stream is optional: calls
// do not need it. When it fails, listen opens it again after a pause.
func (w *web) listen() {
	s := &stream{limit: maxAside}
	for pause := time.Duration(0); sleep(w.life, pause) == nil; pause = min(max(2*pause, listenMin), listenMax) {
		res, err := w.stream(w.life, s.lastID)
		switch {
		case err != nil && res != nil:
			return // the server offers no shared stream
		case err != nil:
			continue
		}
		s.pace, s.lines, s.events = newPace(), newEventLines(res.Body, s.limit), 0
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

// read delivers the messages of a stream. It returns nil once the answer to the stream's call has come, and an error if the stream ends before.
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
		msgs, err := ev.messages(s.limit)
		if err != nil && s.call != nil {
			return err
		}
		if err != nil {
			answer, ok := salvage(ev.data, err)
			if msgs = []jsonrpc.Message{answer}; !ok {
				msgs, err = nil, s.pace.count()
			} else {
				err = nil
			}
		}
		answered := false
		for i := 0; i < len(msgs) && err == nil; i++ {
			answer, isAnswer := msgs[i].(*jsonrpc.Response)
			switch {
			case isAnswer && s.call != nil && answer.ID == s.call.ID:
				err, answered = w.deliver(s.call, answer), true
			case !isAnswer || s.shared:
				err = w.link.deliver(msgs[i], s.pace)
			default: // the message answers no request of this stream
				err = s.pace.count()
			}
		}
		if err != nil || answered {
			return err
		}
	}
}

// mediaType returns the media type of a response without its parameters, because some servers send malformed parameters.
func mediaType(res *http.Response) string {
	t, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}
