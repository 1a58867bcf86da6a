package api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/task"
)

func (a *API) addEvents(r *routes) {
	id := &huma.Param{In: "path", Name: "id", Description: "Task id.", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}
	ticket := param("query", ticketParam, "A ticket of POST /v1/tickets instead of a credential, for the EventSource and WebSocket of browsers.")
	responses := answers("200", "Events", content("text/event-stream", &huma.Schema{Type: huma.TypeString}))
	responses["204"] = &huma.Response{Description: "The task has ended and the client has all of its events: it need not come back"}
	r.add(&huma.Operation{
		OperationID: "taskEvents", Method: http.MethodGet, Path: eventsPath, Tags: []string{"tasks"}, Summary: "Events of a task, over SSE",
		Description: "Stored events have an id and come exactly once and in order; pieces of an answer have none and are not repeated. " +
			"The stream ends behind task.ended.",
		Parameters: []*huma.Param{
			id, param("header", "Last-Event-ID", "The last event that the client has."), param("query", "after", "The same, for clients that cannot set headers."), ticket,
		},
		Responses: responses,
	}, a.streamEvents)
	r.add(&huma.Operation{
		OperationID: "taskSocket", Method: http.MethodGet, Path: socketPath, Tags: []string{"tasks"}, Summary: "The same over WebSocket",
		Parameters: []*huma.Param{id, param("query", "after", "The last event that the client has."), ticket},
		Responses:  answers("101", "Each message is an event: {id, type, time, data}", nil),
	}, a.socketEvents)
	r.mux.HandleFunc("GET "+shortSocketPath, a.plain(a.socketEvents)) // the shorter name of the same
}

const (
	eventsPath      = "/v1/tasks/{id}/events"
	socketPath      = eventsPath + "/ws"
	shortSocketPath = "/v1/tasks/{id}/ws"
)

// isStream says whether a route is one of events, which browsers open without headers of their own.
func isStream(route string) bool {
	return route == eventsPath || route == socketPath || route == shortSocketPath
}

// stream writes server-sent events.
type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func startStream(ctx context.Context, w http.ResponseWriter) *stream {
	visitOf(ctx).answer.stream = true
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	s := &stream{w, http.NewResponseController(w)}
	s.c.Flush()
	return s
}

// raw writes what is a whole part of a stream.
func (s *stream) raw(text string) error {
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.c.Flush()
}

// data writes an event that is only data.
func (s *stream) data(v any) error {
	var b bytes.Buffer
	b.WriteString("data: ")
	if err := encode(&b, v); err != nil {
		return err
	}
	b.WriteString("\n")
	return s.raw(b.String())
}

// event writes an event of a task.
func (s *stream) event(e task.Event) error {
	var b bytes.Buffer
	if e.ID > 0 {
		fmt.Fprintf(&b, "id: %d\n", e.ID)
	}
	fmt.Fprintf(&b, "event: %s\ndata: ", e.Type)
	if err := json.Compact(&b, e.Data); err != nil {
		return err
	}
	b.WriteString("\n\n")
	return s.raw(b.String())
}

// streamContext ends with a request or with the server, which does not wait for such a request to end by itself.
func (a *API) streamContext(ctx context.Context) (context.Context, context.CancelFunc) {
	visitOf(ctx).wait()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(a.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// lastEvent is the id of the last event that a client has.
func lastEvent(r *http.Request) (int64, error) {
	text := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, problem(http.StatusBadRequest, "Last-Event-ID is not the id of an event")
	}
	return n, nil
}

// watched is the task and the event behind which a request wants to watch.
func (a *API) watched(r *http.Request) (t task.Task, after int64, err error) {
	t, err = a.ownTask(r.Context(), r.PathValue("id"))
	if err == nil {
		after, err = lastEvent(r)
	}
	return t, after, err
}

// streamEvents is the events of a task over SSE: stored ones exactly once and in order, wherever the client begins. Where
// there is and will be nothing more it answers 204, for an EventSource comes back after every stream that ends.
func (a *API) streamEvents(w http.ResponseWriter, r *http.Request) error {
	t, after, err := a.watched(r)
	if err != nil {
		return err
	}
	if t.Status.Ended() { // with the last of its events
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
	a.forward(ctx, t.ID, after, s.event, func() error { return s.raw(": still there\n\n") })
	return nil
}

// forward passes the events of a task on until it has ended, ctx ends, or the client takes no more. It returns the last
// event, that of the end if there is no error.
func (a *API) forward(ctx context.Context, id string, after int64, event func(task.Event) error, alive func() error) (last task.Event, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type next struct {
		event task.Event
		err   error
	}
	events := make(chan next)
	go func() {
		defer close(events)
		for e, err := range a.opt.Tasks.Events(ctx, id, after) {
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
	for {
		select {
		case n, more := <-events:
			switch {
			case !more:
				return last, ctx.Err()
			case n.err != nil && ctx.Err() == nil:
				a.opt.Logger.ErrorContext(logged(ctx), "follow a task", "error", n.err)
				fallthrough
			case n.err != nil:
				return last, n.err
			}
			last = n.event
			if err := event(last); err != nil {
				return last, err
			}
		case <-beat.C:
			if err := alive(); err != nil {
				return last, err
			}
		case <-again.C:
			if err := revoked(ctx); err != nil {
				return last, err
			}
		}
	}
}

// revoked returns an error if the credential of a request is not good any more. A store or an issuer that does not answer
// ends no stream.
func revoked(ctx context.Context) error {
	_, err := visitOf(ctx).authenticate(ctx)
	if errors.Is(err, auth.ErrUnauthenticated) || errors.Is(err, auth.ErrForbidden) {
		return err
	}
	return nil
}

// socketEvents is the same over WebSocket: one JSON object for each event. The client begins with ?after=ID.
func (a *API) socketEvents(w http.ResponseWriter, r *http.Request) error {
	t, after, err := a.watched(r)
	if err != nil {
		return err
	}
	hand := &handshake{ResponseWriter: w}
	conn, err := websocket.Accept(hand, r, &websocket.AcceptOptions{OriginPatterns: a.opt.Origins})
	if err != nil {
		return problem(cmp.Or(hand.refused, http.StatusInternalServerError), "this takes a WebSocket of this or a configured origin (server.cors.origins)")
	}
	defer conn.CloseNow()
	gone := conn.CloseRead(context.WithoutCancel(r.Context())) // clients have nothing to say
	ctx, stop := a.streamContext(gone)
	defer stop()
	defer context.AfterFunc(a.closing, func() { hand.conn.SetDeadline(time.Now().Add(closeTimeout / 2)) })() // also for saying goodbye
	_, err = a.forward(ctx, t.ID, after, func(e task.Event) error {
		var text bytes.Buffer
		if err := encode(&text, e); err != nil {
			return err
		}
		return bounded(gone, func(ctx context.Context) error { return conn.Write(ctx, websocket.MessageText, text.Bytes()) })
	}, func() error { return bounded(gone, conn.Ping) })
	switch {
	case a.closing.Err() != nil:
		conn.Close(websocket.StatusGoingAway, "the server stops: come back with after")
	case err == nil:
		conn.Close(websocket.StatusNormalClosure, "the task has ended")
	case errors.Is(err, auth.ErrUnauthenticated), errors.Is(err, auth.ErrForbidden):
		conn.Close(websocket.StatusPolicyViolation, "the credential is not valid any more")
	case gone.Err() == nil:
		conn.Close(websocket.StatusInternalError, "a fault of the harness")
	}
	return nil
}

// handshake keeps the words that a refused handshake would be answered with, for they repeat what was sent, and the
// connection.
type handshake struct {
	http.ResponseWriter
	refused int
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

// bounded does something that waits for a client.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return do(ctx)
}
