package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

// liveRun streams the events of a run as changes of its page.
func (v *visit) liveRun() error {
	id := v.r.PathValue("id")
	return v.follow(at("/v1/runs/", id, "/events"), "run "+id, func(kind string, _ int64, data []byte) (part, error) {
		switch kind {
		case runs.EventCall:
			var line runs.CallLine
			if err := json.Unmarshal(data, &line); err != nil {
				return part{}, err
			}
			row := bar{CallLine: line, Run: id, Width: 4}
			if line.Answered != nil {
				row.Took = line.Answered.Sub(line.Began)
			}
			html, err := fragment("callrow", row)
			return part{To: "calls", ID: "c" + strconv.Itoa(line.N), HTML: html}, err
		case runs.EventLog:
			var line runs.LogLine
			if err := json.Unmarshal(data, &line); err != nil {
				return part{}, err
			}
			html, err := fragment("logline", line.Text)
			return part{To: "console", N: line.N, HTML: html}, err
		case runs.EventBehind:
			return part{Behind: true}, nil
		}
		var status runs.StatusLine
		err := json.Unmarshal(data, &status)
		return part{Status: status.Status}, err
	})
}

// liveTask streams the events of a task as changes of its page.
func (v *visit) liveTask() error {
	id := v.r.PathValue("id")
	return v.follow(at("/v1/tasks/", id, "/events"), "task "+id, func(kind string, id int64, data []byte) (part, error) {
		switch kind {
		case task.EventDelta:
			var piece struct {
				Text  string `json:"text"`
				Reset bool   `json:"reset"`
			}
			err := json.Unmarshal(data, &piece)
			return part{To: "pieces", Text: clip.Visible(piece.Text), Reset: piece.Reset}, err
		case task.EventProgress, task.EventCall, task.EventAnswer:
			return part{}, nil
		case task.EventEnded, task.EventApprovalRequested, task.EventApprovalDecided, task.EventStarted, task.EventQueued:
			return part{Status: kind}, nil
		}
		one, shown, err := stepOf(task.Event{ID: id, Type: kind, Data: data, Time: time.Time{}})
		if err != nil || !shown {
			return part{}, err
		}
		html, err := fragment("step", one)
		return part{To: "steps", ID: "e" + strconv.FormatInt(id, 10), HTML: html}, err
	})
}

// part is a change of a page: an element of a list, a piece of a text, or a status. An element has an id or a number. It replaces an
// existing element with the same id. For a status, the script loads the page again.
type part struct {
	To     string `json:"to,omitempty"`
	ID     string `json:"id,omitempty"`
	N      int    `json:"n,omitempty"`
	HTML   string `json:"html,omitempty"`
	Text   string `json:"text,omitempty"`
	Reset  bool   `json:"reset,omitempty"`
	Status string `json:"status,omitempty"`
	Behind bool   `json:"behind,omitempty"`
}

// fragment renders a template for a part of a page.
func fragment(name string, of any) (string, error) {
	var b strings.Builder
	err := templates()["run"].ExecuteTemplate(&b, name, of)
	return b.String(), err
}

// follow passes on a stream of the API's events, each as a part of a page. It ends at the latest when the reader's session expires.
func (v *visit) follow(path, of string, make func(kind string, id int64, data []byte) (part, error)) error {
	ctx, cancel := context.WithDeadline(v.r.Context(), v.reader.Expires)
	defer cancel()
	go v.endWith(ctx, cancel)
	r, err := v.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if after := v.query("after"); after != "" {
		r.URL.RawQuery = url.Values{"after": {after}}.Encode()
	}
	if last := v.r.Header.Get("Last-Event-ID"); last != "" { // the header is newer than the parameter in the URL
		r.Header.Set("Last-Event-ID", last)
	}
	v.s.opt.Uncounted.ServeHTTP(&parts{ResponseWriter: v.w, of: of, rendered: &v.s.rendered, make: make}, r)
	return nil
}

// lookForLogout is the interval at which the stream of a page checks whether its session has ended.
const lookForLogout = 5 * time.Second

// endWith calls end when the session of the reader has ended, until ctx ends.
func (v *visit) endWith(ctx context.Context, end func()) {
	again := time.NewTicker(lookForLogout)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if ended, err := v.s.sessions.ended(ctx, v.reader); err == nil && ended {
			end()
			return
		}
	}
}

const (
	// maxEvent is the maximum size of an event in bytes. Events of runs and tasks are cut to much less.
	maxEvent = 16 << 20
	// partsBytes is the number of bytes that are written at once, and the maximum size of a buffer that is reused.
	partsBytes = 64 << 10
)

// parts writes a stream of events as parts of a page. It buffers only an event that is not complete.
type parts struct {
	http.ResponseWriter
	of       string // name of the run or task that the events are about
	rendered *rendered
	make     func(kind string, id int64, data []byte) (part, error)
	event    []byte // beginning of an incomplete event
	status   int
}

// writing holds the buffers of one call of parts.Write.
type writing struct {
	out []byte // parts to be written next
	key []byte // input from which a part is rendered
}

// writings holds buffers that streams share, because most streams wait and few write at the same time.
var writings = sync.Pool{New: func() any { return new(writing) }}

// Unwrap lets http.ResponseController flush.
func (p *parts) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (p *parts) WriteHeader(status int) {
	p.status = status
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *parts) Write(text []byte) (int, error) {
	if p.status != http.StatusOK {
		return p.ResponseWriter.Write(text)
	}
	w := writings.Get().(*writing)
	rest := text
	if len(p.event) > 0 {
		p.event = append(p.event, text...)
		rest = p.event
	}
	rest, err := p.pass(w, rest)
	switch {
	case err != nil:
	case len(rest) > maxEvent:
		err = errors.New("an event is too long")
	case len(rest) > 0:
		p.event = append(p.event[:0], rest...)
	default:
		p.event = nil
	}
	if max(cap(w.out), cap(w.key)) <= partsBytes {
		writings.Put(w)
	}
	if err != nil {
		return 0, err
	}
	return len(text), nil
}

// pass writes the complete events of a text as parts of the page, and returns the rest of the text.
func (p *parts) pass(w *writing, text []byte) (rest []byte, err error) {
	w.out = w.out[:0]
	for {
		event, behind, whole := bytes.Cut(text, []byte("\n\n"))
		if len(w.out) > 0 && (!whole || len(w.out)+len(event) > partsBytes) {
			if _, err := p.ResponseWriter.Write(w.out); err != nil {
				return nil, err
			}
			w.out = w.out[:0]
		}
		if !whole {
			return text, nil
		}
		text = behind
		if bytes.HasPrefix(event, []byte(":")) { // a heartbeat
			w.out = append(append(w.out, event...), "\n\n"...)
			continue
		}
		w.key = append(append(append(w.key[:0], p.of...), '\n'), event...)
		one, err := p.rendered.of(w.key, func() ([]byte, error) { return p.render(string(event)) })
		if err != nil {
			return nil, err
		}
		w.out = append(w.out, one...)
	}
}

func (p *parts) render(event string) ([]byte, error) {
	var id int64
	var kind, data string
	for line := range strings.Lines(event) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id, _ = strconv.ParseInt(value, 10, 64)
		case "event":
			kind = value
		case "data":
			data = value
		}
	}
	one, err := p.make(kind, id, []byte(data))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(one)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if id > 0 {
		b.WriteString("id: " + strconv.FormatInt(id, 10) + "\n")
	}
	b.WriteString("data: ")
	b.Write(text)
	b.WriteString("\n\n")
	return b.Bytes(), nil
}

// rendered caches the latest parts of live pages by their input, so that tabs with the same run share them. The zero value is ready to use.
type rendered struct {
	mu  sync.Mutex
	all map[string][]byte
	len int
}

// maxRendered is the maximum number of bytes in the cache. If it is exceeded, the cache is emptied.
const maxRendered = 2 << 20

// of returns the part for an event, from the cache or else from render. It does not keep the slice event.
func (r *rendered) of(event []byte, render func() ([]byte, error)) ([]byte, error) {
	r.mu.Lock()
	out := r.all[string(event)]
	r.mu.Unlock()
	if out != nil {
		return out, nil
	}
	out, err := render()
	if err != nil || len(event)+len(out) > maxRendered/4 {
		return out, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.len += len(event) + len(out); r.all == nil || r.len > maxRendered {
		r.all, r.len = map[string][]byte{}, len(event)+len(out)
	}
	r.all[string(event)] = out
	return out, nil
}
