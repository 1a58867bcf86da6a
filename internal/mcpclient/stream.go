package mcpclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/startup"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// maxOver is the maximum size of a line or event that the reader skips, as a multiple of the limit. A larger one is an error.
	maxOver = 16
	// endBytes is the number of bytes that are kept at each end of a message above the limit, to find its id.
	endBytes = 1 << 10
)

// lines reads lines of a bounded length.
type lines struct {
	r     *bufio.Reader
	limit int                  // maximum size of a line in bytes
	grow  func(size int) error // charges the memory of a line; nil charges nothing

	// events reports that a line may also end with CR alone, as in a stream of events.
	events  bool
	begun   bool // reports that a line of the stream of events was read
	afterCR bool // reports that the last line ended with CR, so that a following LF belongs to it
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

func newEventLines(r io.Reader, limit int) *lines {
	l := newLines(r, limit)
	l.events = true
	return l
}

// slice returns the rest of a line, or the part of it that is in the buffer, as [bufio.Reader.ReadSlice] does.
func (l *lines) slice() ([]byte, error) {
	if !l.events {
		return l.r.ReadSlice('\n')
	}
	if _, err := l.r.Peek(1); err != nil {
		return nil, err
	}
	part, _ := l.r.Peek(l.r.Buffered())
	if l.afterCR {
		l.afterCR = false
		if part[0] == '\n' {
			_, _ = l.r.Discard(1)
			return nil, bufio.ErrBufferFull
		}
	}
	size, err := len(part), bufio.ErrBufferFull
	if i := bytes.IndexByte(part, '\n'); i >= 0 {
		size, err = i+1, nil
	}
	if i := bytes.IndexByte(part[:size], '\r'); i >= 0 {
		size, err, l.afterCR = i+1, nil, true
	}
	_, _ = l.r.Discard(size)
	return part[:size], err
}

// next returns a line with its line ending. If the line exceeds the limit, cut is true and line holds only its beginning and end.
func (l *lines) next() (line []byte, cut bool, err error) {
	for size := 0; ; {
		part, err := l.slice()
		line = append(line, part...)
		if size += len(part); size > l.limit {
			cut = true
			line = shorten(line)
		}
		switch {
		case size > maxOver*l.limit:
			return nil, cut, newFault(KindProtocol, "the server wrote a line of more than %d bytes", maxOver*l.limit)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, cut, err
		case l.grow != nil && !cut:
			if err := l.grow(2 * len(line)); err != nil {
				return nil, cut, err
			}
		}
	}
}

// shorten removes the middle of a message that exceeds the limit, in place.
func shorten(data []byte) []byte {
	if len(data) <= 2*endBytes {
		return data
	}
	return append(data[:endBytes], data[len(data)-endBytes:]...)
}

// event is a server-sent event.
type event struct {
	name, id string
	retry    time.Duration // pause before the stream is opened again; 0 if the event names none
	data     []byte
	cut      bool // reports that the event exceeds the limit; data is then only its beginning and end
}

// minRetry is the minimum pause that a server may request before a stream is opened again.
const minRetry = 100 * time.Millisecond

// event reads an event. It drops an incomplete event, unless the stream ends normally after a whole message.
func (l *lines) event() (ev event, err error) {
	for size := 0; ; {
		line, cut, end := l.next()
		if end != nil && !errors.Is(end, io.EOF) {
			return event{}, end
		}
		ev.cut = ev.cut || cut
		if size += len(line); size > l.limit {
			ev.cut = true
			ev.data = shorten(ev.data)
		}
		line = bytes.TrimRight(line, "\r\n")
		if !l.begun {
			line, l.begun = bytes.TrimPrefix(line, []byte(byteOrderMark)), true
		}
		switch {
		case size > maxOver*l.limit:
			return event{}, newFault(KindProtocol, "the server wrote an event of more than %d bytes", maxOver*l.limit)
		case len(line) == 0 && end == nil:
			return ev, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if ev.data != nil {
				ev.data = append(ev.data, '\n')
			}
			ev.data = append(ev.data, value...)
		case "event":
			ev.name = string(value)
		case "id":
			ev.id = string(value)
		case "retry":
			if ms, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 32); err == nil && ms >= minRetry.Milliseconds() {
				ev.retry = time.Duration(ms) * time.Millisecond
			}
		}
		if l.grow != nil && !ev.cut {
			if err := l.grow(2 * len(ev.data)); err != nil {
				return event{}, err
			}
		}
		if end != nil {
			if !ev.cut && len(ev.data) > 0 && json.Valid(ev.data) {
				return ev, nil
			}
			return event{}, end
		}
	}
}

// messages decodes the data of an event. An event that exceeds limit, the size limit of the stream, is an error.
func (ev event) messages(limit int) ([]jsonrpc.Message, error) {
	if ev.cut {
		return nil, tooLarge(limit)
	}
	return decodeMessages(ev.data)
}

// tooLarge returns the error for a message above the size limit, in bytes.
func tooLarge(limit int) error {
	return newFault(KindProtocol, "the answer is larger than %d bytes; ask for less at once", limit)
}

// invalidMessage returns the error for a message that is not JSON-RPC.
func invalidMessage(data []byte, why string) error {
	f := newFault(KindProtocol, "the server answered with an invalid message: %s: %s", clip.Text(why, maxExcerpt), excerpt(data))
	f.said = bytes.Clone(data[:min(len(data), maxReason)])
	return f
}

// The id of a JSON-RPC answer is among the first two or the last two members, because an answer has three.
const (
	versionMember = `"jsonrpc"\s*:\s*"2.0"\s*`
	idMember      = `"id"\s*:\s*(\d+|"(?:[^"\\]|\\.)*")\s*`
)

var (
	messageStart = startup.Regexp(`^\s*\{\s*(?:` + versionMember + `,\s*)?(?:` + idMember + `,\s*)?(?:` + versionMember + `,\s*)?"(\w+)"`)
	messageEnd   = startup.Regexp(`,\s*` + idMember + `(?:,\s*` + versionMember + `)?\}\s*$`)
)

// salvage returns an error answer for a message that is cut or cannot be decoded, if it can find the id of the answered request.
func salvage(data []byte, cause error) (*jsonrpc.Response, bool) {
	found := messageStart().FindSubmatch(data)
	switch {
	case found != nil && string(found[2]) == "method":
		return nil, false // a request
	case found == nil || found[1] == nil:
		found = messageEnd().FindSubmatch(data)
	}
	if found == nil {
		return nil, false
	}
	id, ok := answeredID(found[1])
	return &jsonrpc.Response{ID: id, Error: cause}, ok
}
