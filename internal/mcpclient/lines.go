package mcpclient

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// What a server may write to stdout that is no message, between two messages: some print logs there by mistake,
	// which is tolerated, and some never stop, which is not.
	maxJunkLines = 10_000
	maxJunkBytes = 16 << 20
)

// lineReader reads newline-delimited JSON-RPC messages from a server that may write anything.
type lineReader struct {
	r       *bufio.Reader
	limit   int // bytes of one message
	queue   []jsonrpc.Message
	onJunk  func(line []byte) // the first line of each run of junk, for the log
	lines   int
	bytes   int
	example string
}

func newLineReader(r io.Reader, limit int, onJunk func([]byte)) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit, onJunk: onJunk}
}

// next returns the next message, skipping lines that are none. A line above the limit is discarded; if it was the
// answer to a request, an error answer takes its place, so that only that request fails.
func (l *lineReader) next() (jsonrpc.Message, error) {
	for {
		if len(l.queue) > 0 {
			msg := l.queue[0]
			l.queue = l.queue[1:]
			return msg, nil
		}
		line, tooLong, end := l.line()
		var err error
		switch {
		case tooLong != nil:
			l.lines, l.bytes = 0, 0
			return tooLong, nil
		case line != nil:
			err = l.take(line, end == nil)
		case end == nil:
			err = l.junk([]byte("(a line above the size limit)"), l.limit)
		}
		switch {
		case end != nil && len(l.queue) == 0:
			return nil, end // what was wrong with a line that broke off is that it broke off
		case err != nil:
			return nil, err
		}
	}
}

// take queues the messages of a line. One that broke off and is no message is no message that is wrong.
func (l *lineReader) take(line []byte, complete bool) error {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")))
	if len(line) == 0 {
		return nil
	}
	msgs, err := decodeLine(line)
	if err != nil {
		res, ok := salvage(line, err)
		switch {
		case !complete:
			return nil
		case !ok:
			return l.junk(line, len(line))
		}
		msgs = []jsonrpc.Message{res}
	}
	l.lines, l.bytes = 0, 0
	l.queue = msgs
	return nil
}

func decodeLine(line []byte) ([]jsonrpc.Message, error) {
	switch line[0] {
	case '{':
		msg, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			return nil, err
		}
		return []jsonrpc.Message{msg}, nil
	case '[':
		return decodeBatch(line) // protocol 2025-03-26 had batches
	}
	return nil, errors.New("not a JSON object")
}

func (l *lineReader) junk(line []byte, size int) error {
	if l.lines == 0 {
		l.example = excerpt(line)
		l.onJunk(line)
	}
	l.lines++
	l.bytes += size
	if l.lines > maxJunkLines || l.bytes > max(maxJunkBytes, l.limit) {
		return fmt.Errorf("the server floods stdout with what is not MCP (%d lines, %d bytes, beginning with %s)",
			l.lines, l.bytes, l.example)
	}
	return nil
}

// line reads one line. Of a line above the limit it returns nil, and the error answer if the line had an id.
func (l *lineReader) line() (line []byte, tooLong *jsonrpc.Response, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > l.limit {
			return l.discard(line, part, err)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, nil, err
		}
	}
}

// maxOver is how many times the limit a line is read to its end, to go on behind it.
const maxOver = 16

// discard reads the rest of a line without keeping it, looking for its id.
func (l *lineReader) discard(line, part []byte, err error) ([]byte, *jsonrpc.Response, error) {
	var scan idScanner
	scan.write(line)
	scan.write(part)
	for size := len(line) + len(part); errors.Is(err, bufio.ErrBufferFull); size += len(part) {
		if size > maxOver*l.limit {
			return nil, nil, fmt.Errorf("the server wrote a line of more than %d bytes", maxOver*l.limit)
		}
		part, err = l.r.ReadSlice('\n')
		scan.write(part)
	}
	if err != nil {
		return nil, nil, err
	}
	id, ok := scan.id()
	if !ok {
		return nil, nil, nil
	}
	return nil, &jsonrpc.Response{ID: id, Error: tooLargeError(l.limit)}, nil
}

// tooLargeError stands for an answer above the size limit, in bytes.
type tooLargeError int

func (limit tooLargeError) Error() string {
	return fmt.Sprintf("the answer is larger than %d bytes; ask for less at once", int(limit))
}
