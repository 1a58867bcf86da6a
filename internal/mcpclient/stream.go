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
	// The reader skips a line or event above the limit, if it is at most maxOver times as long as the limit.
	maxOver = 16
	// endBytes of the beginning and of the end of a larger message are kept, to find its id in.
	endBytes = 1 << 10
)

// lines reads lines of a bounded length.
type lines struct {
	r     *bufio.Reader
	limit int                  // bytes of a line
	grow  func(size int) error // charges the memory of a line; nil charges nothing

	// events says that a line may also end with CR alone, as in a stream of events.
	events  bool
	begun   bool // a line of the stream of events was read
	afterCR bool // the last line ended with CR, so an LF that follows belongs to it
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

func newEventLines(r io.Reader, limit int) *lines {
	l := newLines(r, limit)
	l.events = true
	return l
}

// slice returns the rest of a line, as far as it is in the buffer, as [bufio.Reader.ReadSlice] does.
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

// next returns a line with its end. Of a line above the limit (cut) it returns the beginning and the end.
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

// shorten removes the middle of a message that is too large, in place.
func shorten(data []byte) []byte {
	if len(data) <= 2*endBytes {
		return data
	}
	return append(data[:endBytes], data[len(data)-endBytes:]...)
}

// event is a server-sent event.
type event struct {
	name, id string
	retry    time.Duration // 0 is none
	data     []byte
	cut      bool // data is above the limit, and only its beginning and end
}

// minRetry is the shortest wait before a stream is opened again that a server may ask for.
const minRetry = 100 * time.Millisecond

// event reads an event. One that is not complete is dropped, unless the stream ends in order behind a whole message.
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

// messages decodes the data of an event; limit is the one that it may be above.
func (ev event) messages(limit int) ([]jsonrpc.Message, error) {
	if ev.cut {
		return nil, tooLarge(limit)
	}
	return decodeMessages(ev.data)
}

// tooLarge stands for a message above the size limit, in bytes.
func tooLarge(limit int) error {
	return newFault(KindProtocol, "the answer is larger than %d bytes; ask for less at once", limit)
}

// invalidMessage stands for a message that is not JSON-RPC.
func invalidMessage(data []byte, why string) error {
	f := newFault(KindProtocol, "the server answered with an invalid message: %s: %s", clip.Text(why, maxExcerpt), excerpt(data))
	f.said = bytes.Clone(data[:min(len(data), maxReason)])
	return f
}

// The id of a JSON-RPC answer is among its first two members or its last two, because it has three.
const (
	versionMember = `"jsonrpc"\s*:\s*"2.0"\s*`
	idMember      = `"id"\s*:\s*(\d+|"(?:[^"\\]|\\.)*")\s*`
)

var (
	messageStart = startup.Regexp(`^\s*\{\s*(?:` + versionMember + `,\s*)?(?:` + idMember + `,\s*)?(?:` + versionMember + `,\s*)?"(\w+)"`)
	messageEnd   = startup.Regexp(`,\s*` + idMember + `(?:,\s*` + versionMember + `)?\}\s*$`)
)

// salvage makes an error answer of a message that is cut or cannot be decoded, if it says which request it answers.
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
