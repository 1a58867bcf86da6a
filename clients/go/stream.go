package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is an event of a task or a run. docs/EVENTS.md describes the types.
type Event struct {
	ID   int64  // 0 for events that are not stored, such as delta
	Type string // name of the type, such as run.log
	Data json.RawMessage
}

// TaskEvents yields the events of a task behind one until the task has ended, each stored event once. It goes on after lost connections. An error ends it.
func (c *Client) TaskEvents(ctx context.Context, id string, after int64) iter.Seq2[Event, error] {
	return c.events(ctx, join("tasks", id, "events"), after, "task.ended", 0)
}

// RunEvents yields the events of a run in the same way. A run that CreateRun did not wait for is recorded up to a second later, so RunEvents asks for an
// unknown run for 5 s.
func (c *Client) RunEvents(ctx context.Context, id string, after int64) iter.Seq2[Event, error] {
	return c.events(ctx, join("runs", id, "events"), after, "run.ended", 5*time.Second)
}

// WaitTask waits for the end of a task, also through a restart of the server.
func (c *Client) WaitTask(ctx context.Context, id string) (Task, error) {
	for _, err := range c.TaskEvents(ctx, id, 0) {
		if err != nil {
			return Task{}, err
		}
	}
	return c.Task(ctx, id)
}

// WaitRun waits for the end of a run, also through approvals.
func (c *Client) WaitRun(ctx context.Context, id string) (Run, error) {
	for _, err := range c.RunEvents(ctx, id, 0) {
		if err != nil {
			return Run{}, err
		}
	}
	return c.Run(ctx, id)
}

// StreamTask yields the answer of a task as it is written. It is not continued after a lost connection: use TaskEvents for that.
func (c *Client) StreamTask(ctx context.Context, t NewTask) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		resp, err := c.open(ctx, request{method: http.MethodPost, path: "/task/stream", body: t})
		if err != nil {
			yield("", lost(err))
			return
		}
		defer resp.Body.Close()
		for e, err := range parse(resp.Body) {
			var piece struct{ Chunk, Error string }
			if err == nil && string(e.Data) == "[DONE]" {
				return
			}
			if err == nil {
				err = json.Unmarshal(e.Data, &piece)
			}
			if err == nil && piece.Error != "" {
				err = &Error{Status: http.StatusInternalServerError, Code: "task_failed", Message: piece.Error, RetryAfter: -1}
			}
			if err != nil {
				yield("", lost(err))
				return
			}
			if !yield(piece.Chunk, nil) {
				return
			}
		}
	}
}

// events yields the events of a stream until the event last. A path that is unknown is asked for as long as appears says.
func (c *Client) events(ctx context.Context, path string, after int64, last string, appears time.Duration) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		known := time.Now().Add(appears)
		for t := c.tries(); ; {
			over, err := c.stream(ctx, path, func(e Event) bool {
				if e.ID > 0 {
					if e.ID <= after {
						return true
					}
					after = e.ID
					t.progress()
				}
				return yield(e, nil) && e.Type != last
			}, after)
			if over {
				return
			}
			var refused *Error
			if errors.As(err, &refused) && refused.Status == http.StatusNotFound && time.Now().Before(known) {
				err = sleep(ctx, or(c.Backoff, 200*time.Millisecond))
			} else {
				err = t.next(ctx, err, true)
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// stream reads one stream, and reports whether do returned false or there are no more events. Otherwise the error says why the stream ended.
func (c *Client) stream(ctx context.Context, path string, do func(Event) bool, after int64) (over bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := request{method: http.MethodGet, path: path}
	if after > 0 {
		r.header = map[string]string{"Last-Event-ID": strconv.FormatInt(after, 10)}
	}
	resp, err := c.open(ctx, r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return true, nil
	}
	silence := or(c.Silence, time.Minute)
	alarm := time.AfterFunc(silence, stop)
	defer alarm.Stop()
	for e, err := range parse(&watched{resp.Body, alarm, silence}) {
		if errors.Is(err, context.Canceled) {
			err = fmt.Errorf("the stream was silent for %s", silence) // next returns the error of the caller's context, if that ended
		}
		if err != nil {
			return false, err
		}
		if !do(e) {
			return true, nil
		}
	}
	return false, io.ErrUnexpectedEOF
}

// watched sets an alarm again at each read.
type watched struct {
	io.Reader
	alarm   *time.Timer
	silence time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.alarm.Reset(w.silence)
	return n, err
}

// parse yields the events of a stream of server-sent events that have come whole, and then the error with which it ended.
func parse(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		lines := bufio.NewReader(r)
		e := Event{}
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				yield(Event{}, err)
				return
			}
			line = strings.TrimRight(line, "\r\n")
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case line == "":
				if e.Data != nil && !yield(e, nil) {
					return
				}
				e = Event{}
			case name == "id":
				e.ID, _ = strconv.ParseInt(value, 10, 64)
			case name == "event":
				e.Type = value
			case name == "data":
				e.Data = append(e.Data, value...)
			}
		}
	}
}
