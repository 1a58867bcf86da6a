package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// minRetry is the shortest wait before a stream is opened again that a server may ask for. Without it the SDK waits
// seconds.
const minRetry = 100 * time.Millisecond

// stream says what a stream of messages is for.
type stream struct {
	ex    *exchange  // the request it answers; nil for the SDK's own requests, and where it answers none
	id    jsonrpc.ID // of that request
	limit int        // bytes of an event
	// shared is the one stream of the SSE transport: it carries all answers, which the tap takes off it.
	shared bool
	pace   pace
}

// count counts a message that nothing asked for.
func (s stream) count() error {
	if s.pace.left == nil {
		return nil
	}
	return s.pace.count()
}

// eventBody passes a stream of server-sent events on, event by event: messages that the SDK can decode, with the fields
// it uses, and nothing else.
type eventBody struct {
	io.Closer
	stream
	r      *bufio.Reader
	w      *wire
	lastID string
	ready  bytes.Buffer // what the SDK is to read
	err    error        // after ready
}

func newEventBody(inner io.ReadCloser, w *wire, s stream) *eventBody {
	s.pace = newPace()
	return &eventBody{Closer: inner, stream: s, r: bufio.NewReaderSize(inner, 16<<10), w: w}
}

// Read implements [io.Reader].
func (b *eventBody) Read(p []byte) (int, error) {
	for b.ready.Len() == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.err = b.event()
		if b.err != nil && b.ex != nil && !errors.Is(b.err, io.EOF) && !errors.Is(b.err, io.ErrUnexpectedEOF) {
			b.ex.end(b.err)
		}
	}
	return b.ready.Read(p)
}

// event reads one event and writes to ready what the SDK gets of it.
func (b *eventBody) event() error {
	var name, id, retry string
	var data []byte
	var large *idScanner // of an event above the limit
	for size := 0; ; {
		line, err := b.line(b.limit-size, &large)
		if err != nil {
			return err // an event that is not complete does not count
		}
		size += len(line)
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 && large == nil {
			break
		}
		if large != nil {
			return b.skip(large)
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(field) {
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "event":
			name = string(value)
		case "id":
			id = string(value)
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms >= int(minRetry/time.Millisecond) {
				retry = string(value)
			}
		}
	}
	if b.ex != nil {
		if id != "" {
			b.ex.resumes.Store(0)
		}
		b.ex.charge.shrink(int64(len(data)))
	}
	if id != "" {
		b.lastID = id
	}
	switch {
	case name != "" && name != "message":
		if !b.shared {
			return b.count() // not MCP's
		}
	case len(data) > 0 && b.shared:
		if _, err := jsonrpc.DecodeMessage(data); err != nil {
			if data, err = b.salvaged(data, err); err != nil {
				return err
			}
		}
	case len(data) > 0:
		seen, err := b.w.message(data, b.stream)
		if errors.Is(err, errInvalidAnswer) && b.ex == nil {
			seen, err = nil, b.count()
		}
		if err != nil {
			return err
		}
		data = seen
	}
	b.pass("event", name)
	if b.ex != nil { // the SDK ends the connection if it cannot resume a stream of its own
		b.pass("id", id)
		b.pass("retry", retry)
	}
	b.pass("data", string(data))
	if b.ready.Len() > 0 {
		b.ready.WriteByte('\n')
	}
	return nil
}

// pass writes a field for the SDK.
func (b *eventBody) pass(field, value string) {
	if value == "" {
		return
	}
	for line := range bytes.SplitSeq([]byte(value), []byte("\n")) {
		fmt.Fprintf(&b.ready, "%s: %s\n", field, line)
	}
}

// salvaged is an error answer in the place of a message that cannot be decoded, nil if it answers no request.
func (b *eventBody) salvaged(data []byte, cause error) ([]byte, error) {
	res, ok := salvage(data, cause)
	if !ok {
		return nil, b.count()
	}
	return jsonrpc.EncodeMessage(res)
}

// skip reads to the end of an event that is too large, and answers the request that it answers with an error.
func (b *eventBody) skip(scan *idScanner) error {
	for size := 0; ; {
		line, err := b.line(maxOver*b.limit-size, nil)
		if err != nil {
			return err
		}
		if size += len(line); len(bytes.TrimRight(line, "\r\n")) == 0 {
			break
		}
		scan.write(bytes.TrimPrefix(line, []byte("data:")))
	}
	id, ok := scan.id()
	if !ok {
		return b.count()
	}
	data, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: id, Error: tooLargeError(b.limit)})
	if err != nil {
		return fmt.Errorf("encode an error answer: %w", err)
	}
	b.pass("data", string(data))
	b.ready.WriteByte('\n')
	return nil
}

// line reads up to and including a newline, charging what it takes. A line above the limit is an error; on the shared
// stream it is read to its end, and large scans it.
func (b *eventBody) line(limit int, large **idScanner) ([]byte, error) {
	var line []byte
	for over := 0; ; {
		part, err := b.r.ReadSlice('\n')
		switch {
		case large != nil && *large != nil:
			(*large).write(part)
			if over += len(part); over > maxOver*b.limit {
				return nil, fmt.Errorf("read an event: %w", tooLargeError(maxOver*b.limit))
			}
		case len(line)+len(part) <= limit:
			line = append(line, part...)
		case large == nil || !b.shared:
			return nil, fmt.Errorf("read an event: %w", tooLargeError(b.limit))
		default:
			*large = new(idScanner)
			(*large).write(bytes.TrimPrefix(line, []byte("data:")))
			(*large).write(part)
		}
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case b.ex != nil:
			if err := b.ex.charge.grow(b.ex.ctx, 2*int64(len(line)), 0); err != nil {
				return nil, err
			}
		}
	}
}

// The pause before the stream of notifications is opened again: from listenMin, doubling to listenMax while it fails.
const (
	listenMin = time.Second
	listenMax = 30 * time.Second
)

// listener is the stream on which a server of the streamable transport speaks by itself. It is optional: where it fails
// it is opened again after a pause, and calls go on without it. The SDK reads it as one stream that never ends.
type listener struct {
	w      *wire
	ctx    context.Context
	cancel context.CancelFunc
	req    *http.Request
	body   *eventBody // nil while there is no stream
	lastID string
	pause  time.Duration
}

// listen answers the SDK's request for the stream of notifications.
func (w *wire) listen(req *http.Request) *http.Response {
	ctx, cancel := context.WithCancel(req.Context())
	context.AfterFunc(w.end, cancel)
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {typeEvents}}, ContentLength: -1,
		Body: &listener{w: w, ctx: ctx, cancel: cancel, req: req},
	}
}

// Close implements [io.Closer].
func (l *listener) Close() error {
	l.cancel()
	return nil
}

// Read implements [io.Reader].
func (l *listener) Read(p []byte) (int, error) {
	for {
		if l.body == nil {
			if err := l.open(); err != nil {
				return 0, err
			}
		}
		n, err := l.body.Read(p)
		if n > 0 {
			l.pause = 0
			return n, nil
		}
		l.lastID = l.body.lastID
		_ = l.body.Close()
		l.body = nil
		if errors.Is(err, errFlood) || errors.Is(err, errInboundFlood) {
			l.w.muted.Store(&err)
			l.pause = listenMax
		}
	}
}

// open opens the stream, as soon as there is one; the error is that of the context. A server that has no such stream
// answers with a client error and is not asked again.
func (l *listener) open() error {
	for {
		if l.pause > 0 {
			timer := time.NewTimer(l.pause)
			select {
			case <-timer.C:
			case <-l.ctx.Done():
				timer.Stop()
				return l.ctx.Err()
			}
		}
		l.pause = min(max(2*l.pause, listenMin), listenMax)
		req := l.req.Clone(l.ctx)
		if l.lastID != "" {
			req.Header.Set("Last-Event-Id", l.lastID)
		}
		res, err := l.w.send(req, nil)
		if l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		if err != nil {
			continue
		}
		if res.StatusCode == http.StatusOK && mediaType(res) == typeEvents {
			l.w.muted.Store(nil)
			l.body = newEventBody(res.Body, l.w, stream{limit: maxAside})
			return nil
		}
		_ = res.Body.Close()
		if res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests {
			<-l.ctx.Done()
			return l.ctx.Err()
		}
	}
}
