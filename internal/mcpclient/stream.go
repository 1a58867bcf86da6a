package mcpclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/clip"

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
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns a line with its end. Of a line above the limit (cut) it returns the beginning and the end.
func (l *lines) next() (line []byte, cut bool, err error) {
	for size := 0; ; {
		part, err := l.r.ReadSlice('\n')
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

// event reads an event. One that is not complete is dropped.
func (l *lines) event() (ev event, err error) {
	for size := 0; ; {
		line, cut, err := l.next()
		if err != nil {
			return event{}, err
		}
		ev.cut = ev.cut || cut
		if size += len(line); size > l.limit {
			ev.cut = true
			ev.data = shorten(ev.data)
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case size > maxOver*l.limit:
			return event{}, newFault(KindProtocol, "the server wrote an event of more than %d bytes", maxOver*l.limit)
		case len(line) == 0:
			return ev, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
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
			if ms, err := strconv.ParseInt(string(value), 10, 32); err == nil && ms >= minRetry.Milliseconds() {
				ev.retry = time.Duration(ms) * time.Millisecond
			}
		}
		if l.grow != nil && !ev.cut {
			if err := l.grow(2 * len(ev.data)); err != nil {
				return event{}, err
			}
		}
	}
}

// message decodes the data of an event; limit is the one that it may be above.
func (ev event) message(limit int) (jsonrpc.Message, error) {
	if ev.cut {
		return nil, tooLarge(limit)
	}
	return decodeMessage(ev.data)
}

func decodeMessage(data []byte) (jsonrpc.Message, error) {
	msg, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return nil, invalidMessage(data, err.Error())
	}
	return msg, nil
}

// tooLarge stands for a message above the size limit, in bytes.
func tooLarge(limit int) error {
	return newFault(KindProtocol, "the answer is larger than %d bytes; ask for less at once", limit)
}

// invalidMessage stands for a message that is not JSON-RPC.
func invalidMessage(data []byte, why string) error {
	return newFault(KindProtocol, "the server answered with an invalid message: %s: %s", clip.Text(why, maxExcerpt), excerpt(data))
}

// The id of a JSON-RPC answer is among its first two members or its last two, because it has three.
const (
	versionMember = `"jsonrpc"\s*:\s*"2.0"\s*`
	idMember      = `"id"\s*:\s*(\d+|"(?:[^"\\]|\\.)*")\s*`
)

var (
	messageStart = regexp.MustCompile(`^\s*\{\s*(?:` + versionMember + `,\s*)?(?:` + idMember + `,\s*)?(?:` + versionMember + `,\s*)?"(\w+)"`)
	messageEnd   = regexp.MustCompile(`,\s*` + idMember + `(?:,\s*` + versionMember + `)?\}\s*$`)
)

// salvage makes an error answer of a message that is cut or cannot be decoded, if it says which request it answers.
func salvage(data []byte, cause error) (*jsonrpc.Response, bool) {
	found := messageStart.FindSubmatch(data)
	switch {
	case found != nil && string(found[2]) == "method":
		return nil, false // a request
	case found == nil || found[1] == nil:
		found = messageEnd.FindSubmatch(data)
	}
	var v any
	if found == nil || json.Unmarshal(found[1], &v) != nil {
		return nil, false
	}
	id, err := jsonrpc.MakeID(v)
	return &jsonrpc.Response{ID: id, Error: cause}, err == nil
}
