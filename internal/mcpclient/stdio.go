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
	// What a server may write to stdout that is no message, between two messages: some print logs there by mistake,
	// which is tolerated, and some never stop, which is not.
	maxJunkLines = 10_000
	maxJunkBytes = 16 << 20
)

// stdio carries newline-delimited JSON to and from a child process. The SDK's own transport has no way to skip what is
// not a message, and breaks off a write that blocks only by breaking the connection.
type stdio struct {
	stdin  io.WriteCloser
	stdout *lineReader
	writes chan *outgoing
	closed chan struct{}
}

type outgoing struct {
	data  []byte
	ex    *exchange
	begun chan struct{} // closed once ex says that it was sent
	done  chan error    // buffered
}

// newStdio takes over stdin and reads from stdout, which stays the caller's.
func newStdio(stdin io.WriteCloser, stdout io.Reader, limit int, onJunk func([]byte)) *stdio {
	return &stdio{
		stdin: stdin, stdout: newLineReader(stdout, limit, onJunk), writes: make(chan *outgoing), closed: make(chan struct{}),
	}
}

// open implements [carrier]. The goroutines end with stdout and with close.
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

// close implements [carrier]. It ends the server's stdin, and with it a write that blocks.
func (c *stdio) close() {
	close(c.closed)
	_ = c.stdin.Close() // nothing is buffered here; a server that did not read is being ended
}

// send implements [carrier]. When ctx ends while the server does not read its stdin, send returns; a message of which
// nothing was written is then never written, one that was begun is completed in the background.
func (c *stdio) send(ctx context.Context, msg jsonrpc.Message, ex *exchange) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	out := &outgoing{data: append(data, '\n'), ex: ex, begun: make(chan struct{}), done: make(chan error, 1)}
	if err := ctx.Err(); err != nil {
		return err // select could choose a free writer although ctx has ended
	}
	select {
	case c.writes <- out:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return io.EOF
	}
	<-out.begun // closed at once: a caller that gives up later must see that the message was sent
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
				out.ex.sent.Store(false) // the server has gone: provably not one byte
			}
			if err != nil {
				err = fmt.Errorf("%w: %w", io.EOF, err) // the server reads no more: its end, as that of its stdout
			}
			out.done <- err
		}
	}
}

// lineReader reads newline-delimited JSON-RPC messages from a server that may write anything.
type lineReader struct {
	lines  *lines
	queue  []jsonrpc.Message
	onJunk func(line []byte) // the first line of each run of junk, for the log

	junkLines, junkBytes int
	example              string
}

func newLineReader(r io.Reader, limit int, onJunk func([]byte)) *lineReader {
	return &lineReader{lines: newLines(r, limit), onJunk: onJunk}
}

// next returns the next message, skipping lines that are none. An answer above the limit or one that cannot be decoded
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
			return nil, end // a last line without an end is no wrong message: it broke off
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

// startOfMessage begins every message.
var startOfMessage = startup.Regexp(`\{\s*"(?:jsonrpc|id|result|error|method)"\s*:`)

const (
	// maxNoise is how many bytes may stand before a message on its line.
	maxNoise = 64 << 10
	// maxWithin is how many places of a line are tried for a message.
	maxWithin = 16
)

// within finds messages on a line that has something else before, between or behind them: control sequences, a word that was printed without
// an end of line. Requests of the server are not looked for there: a log that shows what was received holds ours.
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
				break // a message that is broken: what is in it is none
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

// decodeLine decodes a line that is a message, or a batch of them.
func decodeLine(line []byte) ([]jsonrpc.Message, error) {
	if line[0] != '{' && line[0] != '[' {
		return nil, errors.New("not a JSON object")
	}
	// The SDK reads the first value and ignores what follows. Only another message matters, and then the line is no JSON.
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
