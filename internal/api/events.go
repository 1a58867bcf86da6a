package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"mcp-code-exec-harness/internal/task"
)

const (
	heartbeat    = 15 * time.Second
	writeTimeout = 30 * time.Second // of one event: a client that does not read is let go
)

func (a *API) addEvents(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/tasks/{id}/events", a.streamEvents)
	mux.HandleFunc("GET /v1/tasks/{id}/ws", a.socketEvents)
	mux.HandleFunc("GET /v1/tasks/{id}/events/ws", a.socketEvents)
}

// stream writes server-sent events.
type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func startStream(w http.ResponseWriter) *stream {
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
	s.c.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.c.Flush()
}

// data writes an event that is only data.
func (s *stream) data(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.raw("data: " + string(text) + "\n\n")
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

// streamContext ends with the request or with the server.
func (a *API) streamContext(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(a.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// lastEvent is the id of the last event that a client has.
func lastEvent(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if q := r.URL.Query(); text == "" {
		if text = q.Get("after"); text == "" {
			text = q.Get("lastEventId")
		}
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, problem(http.StatusBadRequest, "Last-Event-ID is not the id of an event")
	}
	return n, nil
}

// streamEvents is the events of a task over SSE: stored ones exactly once and in order, wherever the client begins.
func (a *API) streamEvents(w http.ResponseWriter, r *http.Request) {
	t, err := a.ownTask(r.Context(), r.PathValue("id"))
	var after int64
	if err == nil {
		after, err = lastEvent(r)
	}
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	ctx, stop := a.streamContext(r)
	defer stop()
	s := startStream(w)
	events := a.follow(ctx, t.ID, after)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case e, ok := <-events:
			if !ok || s.event(e) != nil {
				return
			}
		case <-beat.C:
			if s.raw(": still there\n\n") != nil {
				return
			}
		}
	}
}

// follow sends the events of a task until it has ended or ctx ends; then the channel is closed.
func (a *API) follow(ctx context.Context, id string, after int64) <-chan task.Event {
	events := make(chan task.Event)
	go func() {
		defer close(events)
		for e, err := range a.opt.Tasks.Events(ctx, id, after) {
			if err != nil {
				if ctx.Err() == nil {
					a.opt.Logger.ErrorContext(ctx, "follow a task", "task", id, "error", err)
				}
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// socketEvents is the same over WebSocket: one JSON object for each event. The client begins with ?after=ID.
func (a *API) socketEvents(w http.ResponseWriter, r *http.Request) {
	t, err := a.ownTask(r.Context(), r.PathValue("id"))
	var after int64
	if err == nil {
		after, err = lastEvent(r)
	}
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: a.opt.Origins})
	if err != nil {
		return // Accept has answered
	}
	defer conn.CloseNow()
	ctx, stop := a.streamContext(r)
	defer stop()
	ctx = conn.CloseRead(ctx) // clients have nothing to say
	events := a.follow(ctx, t.ID, after)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				code, reason := websocket.StatusNormalClosure, "the task has ended"
				if a.closing.Err() != nil {
					code, reason = websocket.StatusGoingAway, "the server stops: come back with after"
				}
				conn.Close(code, reason)
				return
			}
			text, err := json.Marshal(e)
			if err != nil || send(ctx, func(ctx context.Context) error { return conn.Write(ctx, websocket.MessageText, text) }) != nil {
				return
			}
		case <-beat.C:
			if send(ctx, conn.Ping) != nil {
				return
			}
		}
	}
}

func send(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return f(ctx)
}
