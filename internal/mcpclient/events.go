package mcpclient

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// minRetry is the shortest wait before a stream is opened again that a server may ask for. Without it the SDK waits
// seconds.
const minRetry = 100 * time.Millisecond

// eventBody passes a stream of server-sent events on, event by event, taking answers, progress and what nobody needs
// out of it.
type eventBody struct {
	io.Closer
	r     *bufio.Reader
	w     *wire
	ex    *exchange    // nil for the stream of notifications and the handshake
	limit int          // bytes of an event
	ready bytes.Buffer // what the SDK is to read
	err   error        // after ready
}

func newEventBody(inner io.ReadCloser, w *wire, ex *exchange) *eventBody {
	limit := w.limit
	if ex == nil {
		limit = maxAside
	}
	return &eventBody{Closer: inner, r: bufio.NewReaderSize(inner, 16<<10), w: w, ex: ex, limit: limit}
}

// Read implements [io.Reader].
func (b *eventBody) Read(p []byte) (int, error) {
	for b.ready.Len() == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.err = b.event()
	}
	return b.ready.Read(p)
}

// event reads one event and writes to ready what is left of it.
func (b *eventBody) event() error {
	var other, data []byte // the fields that are not data, and the data
	isMessage, hasData := true, false
	for size := 0; ; {
		line, err := b.line(b.limit - size)
		if err != nil {
			return err // an event that is not complete does not count
		}
		size += len(line)
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		field, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			continue // a field without a value says nothing here, and the SDK calls it malformed
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if hasData {
				data = append(data, '\n')
			}
			data, hasData = append(data, value...), true
			continue
		case "event":
			isMessage = string(value) == "message"
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err != nil || ms < int(minRetry/time.Millisecond) {
				continue
			}
		case "":
			continue // a comment, as keep-alive
		}
		other = append(append(other, line...), '\n')
	}
	if hasData && isMessage && len(data) > 0 {
		var err error
		if data, err = b.w.message(data, b.ex); err != nil {
			b.ex.fail(err)
			return err
		}
		hasData = data != nil
	}
	b.ready.Write(other)
	if hasData {
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			b.ready.WriteString("data: ")
			b.ready.Write(line)
			b.ready.WriteByte('\n')
		}
	}
	if b.ready.Len() > 0 {
		b.ready.WriteByte('\n')
	}
	return nil
}

// line reads up to and including a newline.
func (b *eventBody) line(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := b.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit:
			b.ex.fail(tooLargeError(b.limit))
			return nil, fmt.Errorf("read an event: %w", tooLargeError(b.limit))
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		default:
			return line, nil
		}
	}
}
