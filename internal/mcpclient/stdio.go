package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"mcp-code-exec-harness/internal/startup"
)

const (
	// Limits of the output between two messages on a server's stdout. Some servers print logs there by mistake, which is tolerated up to these
	// limits.
	maxJunkLines = 10_000
	maxJunkBytes = 16 << 20
)

// stdio carries newline-delimited JSON to and from a child process. The SDK's own transport cannot skip lines that are
// not messages, and can end a blocked write only by ending the connection.
type stdio struct {
	stdin  io.WriteCloser
	stdout *lineReader
	writes chan *outgoing
	closed chan struct{}
}

type outgoing struct {
	data  []byte
	ex    *exchange
	begun chan struct{} // closed once ex.sent is set
	done  chan error    // buffered
}

// newStdio returns a carrier that owns stdin and reads from stdout, which the caller closes.
func newStdio(stdin io.WriteCloser, stdout io.Reader, limit int, onJunk func([]byte)) *stdio {
	return &stdio{
		stdin: stdin, stdout: newLineReader(stdout, limit, onJunk), writes: make(chan *outgoing), closed: make(chan struct{}),
	}
}

// open implements [carrier]. It starts a reader, which ends when stdout ends, and a writer, which ends when close is called.
func (c *stdio) open(_ context.Context, l *link) error {
	go c.write()
	go func() {
		pace := newPace()
		for {
			msg, err := c.stdout.next()
			if err == nil {
				err = l.deliver(msg, pace)
			}
			if err != nil {
				l.end(err)
				return
			}
		}
	}()
	return nil
}

// close implements [carrier]. It closes the server's stdin, which also ends a blocked write.
func (c *stdio) close() {
	close(c.closed)
	_ = c.stdin.Close() // nothing is buffered, and a server that did not read its stdin is about to end
}

// send implements [carrier]. When ctx ends while the server does not read its stdin, send returns. A message whose write has not begun is
// then never written; a message whose write has begun is completed in the background.
func (c *stdio) send(ctx context.Context, msg jsonrpc.Message, ex *exchange) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	out := &outgoing{data: append(data, '\n'), ex: ex, begun: make(chan struct{}), done: make(chan error, 1)}
	if err := ctx.Err(); err != nil {
		return err // the select below could choose a free writer although ctx has ended
	}
	select {
	case c.writes <- out:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return io.EOF
	}
	<-out.begun // the writer closes begun at once; a caller that gives up later must see that the message was sent
	select {
	case err := <-out.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return io.EOF
	}
}

func (c *stdio) write() {
	for {
		select {
		case <-c.closed:
			return
		case out := <-c.writes:
			if out.ex != nil {
				out.ex.sent.Store(true)
			}
			close(out.begun)
			n, err := c.stdin.Write(out.data)
			if n == 0 && err != nil && out.ex != nil {
				out.ex.sent.Store(false) // the server is gone and provably got no byte
			}
			if err != nil {
				err = fmt.Errorf("%w: %w", io.EOF, err) // a closed stdin counts as the server's end, as a closed stdout does
			}
			out.done <- err
		}
	}
}

// lineReader reads newline-delimited JSON-RPC messages from a server that may write anything.
type lineReader struct {
	lines  *lines
	queue  []jsonrpc.Message
	onJunk func(line []byte) // called with the first of consecutive lines that are not messages, for the log

	junkLines, junkBytes int
	example              string
}

func newLineReader(r io.Reader, limit int, onJunk func([]byte)) *lineReader {
	return &lineReader{lines: newLines(r, limit), onJunk: onJunk}
}

// next returns the next message and skips lines that are not messages. An answer that exceeds the limit or cannot be decoded
// becomes an error answer, so that only its request fails.
func (l *lineReader) next() (jsonrpc.Message, error) {
	for len(l.queue) == 0 {
		line, cut, end := l.lines.next()
		var err error
		if !cut || end == nil {
			err = l.take(line, cut, end == nil)
		}
		switch {
		case end != nil && len(l.queue) == 0:
			return nil, end // an unfinished last line is not an error of its own, because the output broke off
		case err != nil:
			return nil, err
		}
	}
	msg := l.queue[0]
	l.queue = l.queue[1:]
	return msg, nil
}

// take queues the messages of a line.
func (l *lineReader) take(line []byte, cut, complete bool) error {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte(byteOrderMark)))
	if len(line) == 0 {
		return nil
	}
	msgs, err := decodeLine(line)
	if cut {
		err = tooLarge(l.lines.limit)
	}
	if err != nil {
		res, ok := salvage(line, err)
		within := l.within(line, cut)
		switch {
		case len(within) > 0:
			l.onJunk(line)
		case !complete:
			return nil
		case !ok && cut:
			return l.junk([]byte("(a line above the size limit)"), l.lines.limit)
		case !ok:
			return l.junk(line, len(line))
		default:
			within = []jsonrpc.Message{res}
		}
		msgs = within
	}
	l.junkLines, l.junkBytes = 0, 0
	l.queue = msgs
	return nil
}

// startOfMessage matches the beginning of a message.
var startOfMessage = startup.Regexp(`\{\s*"(?:jsonrpc|id|result|error|method)"\s*:`)

const (
	// maxNoise is the maximum number of bytes before a message on its line.
	maxNoise = 64 << 10
	// maxWithin is the maximum number of places in a line at which the reader looks for a message.
	maxWithin = 16
)

// within finds messages on a line with other text before, between or after them, such as control sequences or a word printed without a
// newline. It ignores requests, because a log of received messages contains the requests of the harness.
func (l *lineReader) within(line []byte, cut bool) (msgs []jsonrpc.Message) {
	if cut {
		return nil
	}
	for n := range maxWithin {
		at := startOfMessage().FindIndex(line[:min(len(line), maxNoise)])
		if at == nil {
			break
		}
		line = line[at[0]:]
		dec := json.NewDecoder(bytes.NewReader(line))
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			if n == 0 && at[0] == 0 {
				break // the line is a broken message, so its parts are not messages
			}
			line = line[1:]
			continue
		}
		line = line[dec.InputOffset():]
		switch msg, _ := decodeMessage(value); m := msg.(type) {
		case *jsonrpc.Response:
			msgs = append(msgs, m)
		case *jsonrpc.Request:
			if !m.IsCall() {
				msgs = append(msgs, m)
			}
		}
	}
	return msgs
}

// decodeLine decodes a line that is a message or a batch of messages.
func decodeLine(line []byte) ([]jsonrpc.Message, error) {
	if line[0] != '{' && line[0] != '[' {
		return nil, errors.New("not a JSON object")
	}
	// The SDK decodes the first value and ignores the rest. If the rest holds another message, report the line as invalid, so that within
	// finds both.
	if bytes.Count(line, []byte(`"jsonrpc"`)) > 1 && !json.Valid(line) {
		return nil, invalidMessage(line, "it is not JSON")
	}
	return decodeMessages(line)
}

func (l *lineReader) junk(line []byte, size int) error {
	if l.junkLines == 0 {
		l.example = excerpt(line)
		l.onJunk(line)
	}
	l.junkLines++
	l.junkBytes += size
	if l.junkLines > maxJunkLines || l.junkBytes > max(maxJunkBytes, l.lines.limit) {
		return newFault(KindProtocol, "the server floods stdout with what is not MCP (%d lines, %d bytes, beginning with %s)",
			l.junkLines, l.junkBytes, l.example)
	}
	return nil
}
