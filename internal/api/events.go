package api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

func (a *API) addEvents(r *routes) {
	id := param("path", "id", "Task id.")
	ticket := param("query", ticketParam, "A ticket of POST /v1/tickets instead of a credential, for the EventSource and WebSocket of browsers.")
	responses := answers("200", "Events", eventStream(taskEvent))
	responses["204"] = &huma.Response{Description: "The task has ended and the client has all of its events"}
	r.add(&huma.Operation{
		OperationID: "taskEvents", Method: http.MethodGet, Path: eventsPath, Tags: []string{"tasks"}, Summary: "Events of a task, over SSE",
		Description: "Stored events have an id and come exactly once and in order; pieces of an answer have no id and are not repeated. " +
			"The stream ends after task.ended.",
		Parameters: []*huma.Param{
			id, param("header", "Last-Event-ID", "The last event that the client has."), param("query", "after", "The same, for clients that cannot set headers."), ticket,
		},
		Responses: responses,
	}, a.streamEvents)
	r.add(&huma.Operation{
		OperationID: "taskSocket", Method: http.MethodGet, Path: socketPath, Tags: []string{"tasks"}, Summary: "The same over WebSocket",
		Parameters: []*huma.Param{id, param("query", "after", "The last event that the client has."), ticket},
		Responses:  answers("101", "Each message is a TaskEvent", nil),
		Extensions: map[string]any{eventExtension: &huma.Schema{Ref: schemaPath + taskEvent}},
	}, a.socketEvents)
	responses = answers("200", "Events", eventStream(runEvent))
	responses["204"] = &huma.Response{Description: "The run has ended and the client has all of its events"}
	r.add(&huma.Operation{
		OperationID: "runEvents", Method: http.MethodGet, Path: runEventsPath, Tags: []string{"runs"}, Summary: "Events of a run, over SSE",
		Description: "run.call (a call as in the list of calls: when it is made, sent and answered), run.log and run.ended have an id and come exactly once and in " +
			"order; run.status, and run.behind to a client that reads too slowly, have none. The stream ends after run.ended.",
		Parameters: []*huma.Param{
			param("path", "id", "Run id."), param("header", "Last-Event-ID", "The last event that the client has."), param("query", "after", "The same, for clients that cannot set headers."), ticket,
		},
		Responses: responses,
	}, a.streamRun)
	r.mux.HandleFunc("GET "+shortSocketPath, a.plain(a.socketEvents)) // a shorter path of the same endpoint
}

// eventExtension names the schema of the events of a stream in the document: OpenAPI 3.1 has no word for it.
const eventExtension = "x-event"

// Names of the schemas of all events of a stream.
const (
	taskEvent = "TaskEvent"
	runEvent  = "RunEvent"
)

// eventStream describes a stream over SSE whose events have a schema.
func eventStream(event string) map[string]*huma.MediaType {
	all := content("text/event-stream", &huma.Schema{Type: huma.TypeString, Description: "The fields id, event (the type) and data (JSON) of each event are those of the schema that " + eventExtension + " names."})
	all["text/event-stream"].Extensions = map[string]any{eventExtension: &huma.Schema{Ref: schemaPath + event}}
	return all
}

const (
	eventsPath      = "/v1/tasks/{id}/events"
	socketPath      = eventsPath + "/ws"
	shortSocketPath = "/v1/tasks/{id}/ws"
	runEventsPath   = "/v1/runs/{id}/events"
)

// isStream reports whether a route is a stream of events. A web page that opens a stream cannot set header fields of the request.
func isStream(route string) bool {
	return route == eventsPath || route == socketPath || route == shortSocketPath || route == runEventsPath
}

// stream writes server-sent events.
type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func startStream(ctx context.Context, w http.ResponseWriter) *stream {
	visitOf(ctx).answer.pace.stream = true
	visitOf(ctx).answer.endTurn() // A stream waits most of the time, so it gives up the turn that takeTurn has taken.
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // keeps nginx from buffering events
	w.WriteHeader(http.StatusOK)
	s := &stream{w, http.NewResponseController(w)}
	s.c.Flush()
	return s
}

// raw writes a complete part of a stream and flushes it.
func (s *stream) raw(text []byte) error {
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.c.Flush()
}

// heartbeat sends a comment, which shows that the stream is alive.
func (s *stream) heartbeat() error { return s.raw([]byte(": still there\n\n")) }

// data writes an event that has data only.
func (s *stream) data(v any) error {
	text, err := journal.Encode(v)
	if err != nil {
		return err
	}
	return s.raw(fmt.Appendf(nil, "data: %s\n\n", text))
}

// event writes an event of a task.
func (s *stream) event(e task.Event) error {
	var data bytes.Buffer
	if err := json.Compact(&data, e.Data); err != nil { // A line break would end the data.
		return err
	}
	return s.raw(appendEvent(nil, e.ID, e.Type, data.Bytes()))
}

// texts holds buffers for events that are being written. Streams share them, because many streams wait and few write.
var texts = sync.Pool{New: func() any { return new([]byte) }}

// maxText is the maximum size in bytes of a buffer that is reused.
const maxText = 64 << 10

// runEvents writes events of a run. Their data contains no line breaks.
func (s *stream) runEvents(all []runs.Event) error {
	text := texts.Get().(*[]byte)
	*text = (*text)[:0]
	for _, e := range all {
		*text = appendEvent(*text, e.ID, e.Type, e.Data)
	}
	err := s.raw(*text)
	if cap(*text) <= maxText {
		texts.Put(text)
	}
	return err
}

// appendEvent appends an event with its type and data on one line each. An id of 0 means that the event has no id.
func appendEvent(b []byte, id int64, kind string, data []byte) []byte {
	if id > 0 {
		b = strconv.AppendInt(append(b, "id: "...), id, 10)
		b = append(b, '\n')
	}
	b = append(append(b, "event: "...), kind...)
	b = append(append(b, "\ndata: "...), data...)
	return append(b, "\n\n"...)
}

// streamContext returns a context that ends when the request ends, or when Close ends the streams. A shutdown does not wait for the request.
func (a *API) streamContext(ctx context.Context) (context.Context, context.CancelFunc) {
	visitOf(ctx).detach()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(a.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// watched returns the task of a request for events, and the id of the last event that the client has.
func (a *API) watched(r *http.Request) (t task.Task, after int64, err error) {
	if t, err = a.ownTask(r.Context(), r.PathValue("id")); err != nil {
		return t, 0, err
	}
	after, err = lastEvent(r)
	return t, after, err
}

// lastEvent returns the id of the last event that a client has.
func lastEvent(r *http.Request) (int64, error) {
	text := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
	if text == "" {
		return 0, nil
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil || after < 0 {
		return 0, problem(http.StatusBadRequest, "Last-Event-ID is not the id of an event")
	}
	return after, nil
}

// streamEvents sends the events of a task over SSE. It sends each stored event exactly once and in order. It answers 204 if no events are left and
// none will follow, because an EventSource reconnects after every stream that ends.
func (a *API) streamEvents(w http.ResponseWriter, r *http.Request) error {
	t, after, err := a.watched(r)
	if err != nil {
		return err
	}
	if t.Status.Ended() { // the end of a task is stored in the same transaction as its last event
		rest, err := a.opt.Tasks.Past(r.Context(), t.ID, after)
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
	}
	ctx, stop := a.streamContext(r.Context())
	defer stop()
	s := startStream(ctx, w)
	a.forward(ctx, t, after, s.event, s.heartbeat)
	return nil
}

// streamRun sends the events of a run over SSE, in the same way as streamEvents.
func (a *API) streamRun(w http.ResponseWriter, r *http.Request) error {
	info, err := a.findRun(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	after, err := lastEvent(r)
	if err != nil {
		return err
	}
	if !info.Ended.IsZero() {
		rest, err := a.opt.Harness.Runs().JournalPage(r.Context(), info.ID, after, 1)
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
	}
	ctx, stop := a.streamContext(r.Context())
	defer stop()
	s := startStream(ctx, w)
	events := func(ctx context.Context) iter.Seq2[[]runs.Event, error] {
		return a.opt.Harness.Runs().Events(ctx, info.ID, after)
	}
	_ = forwardAll(ctx, a, events, s.runEvents, s.heartbeat) // The answer has begun, so it cannot report an error.
	return nil
}

// forward sends the events of a task, as the caller may see them, until the task has ended, ctx ends, or the client stops reading. It returns the
// last event.
func (a *API) forward(ctx context.Context, t task.Task, after int64, event func(task.Event) error, heartbeat func() error) (last task.Event, err error) {
	shown := a.shownEvents(ctx, t)
	err = forwardAll(ctx, a, func(ctx context.Context) iter.Seq2[task.Event, error] { return a.opt.Tasks.Events(ctx, t.ID, after) }, func(e task.Event) (err error) {
		if last, err = shown(e); err == nil {
			err = event(last)
		}
		return err
	}, heartbeat)
	return last, err
}

// forwardAll sends the events of the sequence all, until the sequence ends, ctx ends, the credential is no longer valid, or the client stops reading.
func forwardAll[E any](ctx context.Context, a *API, all func(context.Context) iter.Seq2[E, error], event func(E) error, heartbeat func() error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type next struct {
		event E
		err   error
	}
	events := make(chan next)
	go func() {
		defer close(events)
		for e, err := range all(ctx) {
			select {
			case events <- next{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	beat := time.NewTicker(a.opt.Heartbeat)
	defer beat.Stop()
	again := time.NewTicker(a.opt.Recheck)
	defer again.Stop()
	keys := a.revoked.next()
	for err == nil {
		select {
		case n, more := <-events:
			if !more {
				return ctx.Err()
			}
			if n.err != nil {
				if ctx.Err() == nil {
					a.opt.Logger.ErrorContext(logged(ctx), "follow events", "error", n.err)
				}
				return n.err
			}
			err = event(n.event)
		case <-beat.C:
			err = heartbeat()
		case <-again.C:
			err = revoked(ctx)
		case <-keys:
			keys = a.revoked.next() // fetched before the check, so that a signal after the check is not missed
			err = revoked(ctx)
		}
	}
	return err
}

// signal wakes goroutines. The zero value is ready to use; it is safe for concurrent use.
type signal struct {
	mu   sync.Mutex
	sent chan struct{} // closed by send; nil if no goroutine waits
}

// next returns a channel that the next send closes.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent == nil {
		s.sent = make(chan struct{})
	}
	return s.sent
}

func (s *signal) send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent != nil {
		close(s.sent)
		s.sent = nil
	}
}

// whileValid returns a context that ends when the credential of a request is no longer valid. The caller must call stop.
func (a *API) whileValid(of context.Context) (ctx context.Context, stop func()) {
	ctx, stop = context.WithCancel(of)
	keys := a.revoked.next()
	go func() {
		again := time.NewTicker(a.opt.Recheck)
		defer again.Stop()
		for revoked(ctx) == nil {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
			case <-keys:
				keys = a.revoked.next()
			}
		}
		stop()
	}()
	return ctx, stop
}

// revoked returns an error if the credential of a request is no longer valid. It returns nil if the store or the issuer does not answer.
func revoked(ctx context.Context) error {
	_, err := visitOf(ctx).authenticate(ctx)
	if errors.Is(err, auth.ErrUnauthenticated) || errors.Is(err, auth.ErrForbidden) {
		return err
	}
	return nil
}

// socketEvents sends the events of a task over WebSocket, each as a JSON object. A client that reconnects continues with ?after=ID.
func (a *API) socketEvents(w http.ResponseWriter, r *http.Request) error {
	t, after, err := a.watched(r)
	if err != nil {
		return err
	}
	hand := &handshake{ResponseWriter: w}
	conn, err := websocket.Accept(hand, r, &websocket.AcceptOptions{OriginPatterns: a.opt.Origins})
	if err != nil {
		return problem(cmp.Or(hand.refused, http.StatusInternalServerError), "a WebSocket of this or a configured origin is required (server.cors.origins)")
	}
	defer conn.CloseNow()
	gone := conn.CloseRead(context.WithoutCancel(r.Context())) // clients send no messages
	ctx, stop := a.streamContext(gone)
	defer stop()
	defer context.AfterFunc(a.closing, func() { hand.conn.SetDeadline(time.Now().Add(closeTimeout / 2)) })() // ends pending writes, and limits the time for the close frame
	_, err = a.forward(ctx, t, after, func(e task.Event) error {
		text, err := journal.Encode(e)
		if err != nil {
			return err
		}
		return bounded(gone, func(ctx context.Context) error { return conn.Write(ctx, websocket.MessageText, text) })
	}, func() error { return bounded(gone, conn.Ping) })
	switch {
	case a.closing.Err() != nil:
		conn.Close(websocket.StatusGoingAway, "the server stops: come back with after")
	case err == nil:
		conn.Close(websocket.StatusNormalClosure, "the task has ended")
	case errors.Is(err, auth.ErrUnauthenticated), errors.Is(err, auth.ErrForbidden):
		conn.Close(websocket.StatusPolicyViolation, "the credential is no longer valid")
	case gone.Err() == nil:
		conn.Close(websocket.StatusInternalError, "internal error")
	}
	return nil
}

// handshake is the ResponseWriter of a WebSocket handshake. If the library refuses the handshake, Write drops the body of the refusal, because the body
// repeats data of the request. conn is the hijacked connection.
type handshake struct {
	http.ResponseWriter
	refused int // status of the refusal; 0 if there is none
	conn    net.Conn
}

// Hijack implements http.Hijacker.
func (h *handshake) Hijack() (conn net.Conn, rw *bufio.ReadWriter, err error) {
	h.conn, rw, err = http.NewResponseController(h.ResponseWriter).Hijack()
	return h.conn, rw, err
}

// WriteHeader implements http.ResponseWriter.
func (h *handshake) WriteHeader(status int) {
	if status >= 400 {
		h.refused = status
		return
	}
	h.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (h *handshake) Write(p []byte) (int, error) {
	if h.refused != 0 {
		return len(p), nil
	}
	return h.ResponseWriter.Write(p)
}

// bounded calls do with a context that ends after writeTimeout, the time for the client to read.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return do(ctx)
}
