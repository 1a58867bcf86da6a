package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

const (
	jsonType   = "application/json"
	streamType = "text/event-stream"
)

// negotiated serves POST requests whose Accept header allows only one of the two types of answers; the SDK would refuse them. A client that does
// not accept event streams gets only the answer, as JSON; messages before the answer are dropped.
func negotiated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asJSON, asStream := accepted(r.Header.Values("Accept"))
		if r.Method != http.MethodPost || asJSON == asStream {
			next.ServeHTTP(w, r)
			return
		}
		both := r.WithContext(r.Context())
		both.Header = r.Header.Clone()
		both.Header.Set("Accept", jsonType+", "+streamType)
		if asStream {
			next.ServeHTTP(w, both)
			return
		}
		answer := &singleAnswer{ResponseWriter: w}
		next.ServeHTTP(answer, both)
		answer.end()
	})
}

// accepted reports which types of answers an Accept header allows. Without the header, a client gets JSON.
func accepted(values []string) (asJSON, asStream bool) {
	if len(values) == 0 {
		values = []string{jsonType}
	}
	for kind := range strings.SplitSeq(strings.ToLower(strings.Join(values, ",")), ",") {
		kind, _, _ = strings.Cut(kind, ";")
		switch strings.TrimSpace(kind) {
		case jsonType, "application/*":
			asJSON = true
		case streamType, "text/*":
			asStream = true
		case "*/*":
			asJSON, asStream = true, true
		}
	}
	return asJSON, asStream
}

// singleAnswer turns an event stream into JSON: the response at the stream's end. It passes other answers on unchanged.
type singleAnswer struct {
	http.ResponseWriter
	status int
	stream bool
	events bytes.Buffer
}

func (a *singleAnswer) WriteHeader(status int) {
	if a.status != 0 {
		return
	}
	a.status = status
	kind, _, _ := strings.Cut(a.Header().Get("Content-Type"), ";")
	if a.stream = kind == streamType; !a.stream {
		a.ResponseWriter.WriteHeader(status)
	}
}

func (a *singleAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if !a.stream {
		return a.ResponseWriter.Write(p)
	}
	a.keepLast(p)
	return len(p), nil
}

// Flush does nothing: a stream is written at its end.
func (a *singleAnswer) Flush() {}

// keepLast appends bytes of the stream and drops complete events that are not the response.
func (a *singleAnswer) keepLast(p []byte) {
	a.events.Write(p)
	for {
		event, rest, whole := bytes.Cut(a.events.Bytes(), []byte("\n\n"))
		if !whole || responseIn(event) != nil {
			return
		}
		a.events.Next(a.events.Len() - len(rest))
	}
}

func (a *singleAnswer) end() {
	if !a.stream {
		return
	}
	event, _, _ := bytes.Cut(a.events.Bytes(), []byte("\n\n"))
	answer := responseIn(event)
	if answer == nil { // the client has gone, or the server ends
		a.Header().Del("Content-Type")
		http.Error(a.ResponseWriter, "the server ended before it had an answer", http.StatusServiceUnavailable)
		return
	}
	a.Header().Set("Content-Type", jsonType)
	a.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	a.ResponseWriter.WriteHeader(a.status)
	_, _ = a.ResponseWriter.Write(answer)
}

// responseIn returns the JSON-RPC response in an event, or nil if the event has something else.
func responseIn(event []byte) []byte {
	lines := bufio.NewScanner(bytes.NewReader(event))
	lines.Buffer(nil, len(event)+1)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		var m struct {
			Method *string         `json:"method"`
			ID     json.RawMessage `json:"id"`
		}
		if data = bytes.TrimSpace(data); ok && json.Unmarshal(data, &m) == nil && m.Method == nil && m.ID != nil {
			return data
		}
	}
	return nil
}
