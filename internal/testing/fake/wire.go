package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// event is one server-sent event.
type event struct {
	name string // empty if the format has no names
	data any    // value to send as JSON, or a string to send unchanged
}

// object is a JSON object.
type object = map[string]any

// stream sends events. It returns false if the client has gone.
func stream(w http.ResponseWriter, r *http.Request, events []event, each time.Duration) bool {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	flusher := w.(http.Flusher)
	flusher.Flush()
	for i, e := range events {
		if i > 0 && !pause(r, each) {
			return false
		}
		data, ok := e.data.(string)
		if !ok {
			data = string(encode(e.data))
		}
		if e.name != "" {
			fmt.Fprintf(w, "event: %s\n", e.name)
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return false
		}
		flusher.Flush()
	}
	return r.Context().Err() == nil
}

// fail answers a request with an error.
func fail(w http.ResponseWriter, reply Reply, body any) {
	w.Header().Set("Content-Type", "application/json")
	if after := reply.RetryAfter; after%time.Second == 0 && after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(after/time.Second)))
	} else if after > 0 {
		w.Header().Set("Retry-After-Ms", strconv.Itoa(int(after/time.Millisecond)))
	}
	w.WriteHeader(reply.Status)
	w.Write(encode(body))
}

// encode returns v as JSON. It panics if v cannot be encoded, which is a bug of this package.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// pieces splits a text into the pieces that a stream sends.
func pieces(text string) []string {
	var list []string
	for text != "" {
		end := min(len(text), 9)
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		list = append(list, text[:end])
		text = text[end:]
	}
	return list
}

// memory is a transport that calls a handler in the same process, without sockets.
type memory struct{ handler http.Handler }

func (m memory) RoundTrip(req *http.Request) (*http.Response, error) {
	body := []byte{}
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	in := req.Clone(req.Context())
	in.Host, in.Body = req.URL.Host, io.NopCloser(bytes.NewReader(body))
	reader, writer := io.Pipe()
	out := &memoryWriter{header: http.Header{}, begun: make(chan int, 1), pipe: writer}
	go func() {
		defer func() {
			switch why := recover(); why {
			case nil:
				writer.CloseWithError(in.Context().Err()) // nil means a regular end
			case http.ErrAbortHandler: // the handler cuts the connection
				writer.CloseWithError(io.ErrUnexpectedEOF)
			default:
				panic(why)
			}
			out.WriteHeader(http.StatusOK)
		}()
		m.handler.ServeHTTP(out, in)
	}()
	select {
	case status := <-out.begun:
		stop := make(chan struct{})
		go func() { // the body ends with its request, as it does on a connection
			select {
			case <-req.Context().Done():
				reader.CloseWithError(req.Context().Err())
			case <-stop:
			}
		}()
		return &http.Response{
			StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: out.header, Body: &memoryBody{PipeReader: reader, stop: stop}, ContentLength: -1, Request: req,
		}, nil
	case <-req.Context().Done():
		reader.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
}

type memoryWriter struct {
	header http.Header
	wrote  bool
	begun  chan int
	pipe   *io.PipeWriter
}

func (w *memoryWriter) Header() http.Header { return w.header }
func (w *memoryWriter) Flush()              {}

func (w *memoryWriter) WriteHeader(status int) {
	if !w.wrote {
		w.wrote = true
		w.begun <- status
	}
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

type memoryBody struct {
	*io.PipeReader
	stop   chan struct{}
	closed bool
}

func (b *memoryBody) Close() error {
	if !b.closed {
		b.closed = true
		close(b.stop)
	}
	return b.PipeReader.Close()
}
