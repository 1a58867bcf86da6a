package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// stdioConn speaks newline-delimited JSON with a child process. The SDK's own has no way to skip what is not a
// message, breaks off a write that blocks only by breaking the connection, and does not see process groups.
type stdioConn struct {
	stdin  *os.File
	lines  *lineReader
	writes chan *outgoing

	closeOnce sync.Once
	closed    chan struct{}
}

type outgoing struct {
	data  []byte
	ex    *exchange
	begun chan struct{} // closed once ex says that it was sent
	done  chan error    // buffered
}

// newStdioConn takes over stdin and reads from stdout, which stays the caller's. It runs a goroutine until Close.
func newStdioConn(stdin *os.File, stdout io.Reader, limit int, onJunk func([]byte)) *stdioConn {
	c := &stdioConn{
		stdin:  stdin,
		lines:  newLineReader(stdout, limit, onJunk),
		writes: make(chan *outgoing),
		closed: make(chan struct{}),
	}
	go c.write()
	return c
}

// SessionID implements [mcp.Connection].
func (c *stdioConn) SessionID() string { return "" }

// Close implements [mcp.Connection]. It ends the server's stdin, and with it a write that blocks. A Read ends when
// the caller closes stdout.
func (c *stdioConn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closed)
		_ = c.stdin.Close() // nothing is buffered on our side; a server that did not read is being ended
	})
	return nil
}

// Read implements [mcp.Connection]. It is called from one goroutine and ends with stdout.
func (c *stdioConn) Read(context.Context) (jsonrpc.Message, error) {
	msg, err := c.lines.next()
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return msg, err
}

// Write implements [mcp.Connection]. When ctx ends while the server does not read its stdin, Write returns; a message
// of which nothing was written is then never written, one that was begun is completed in the background.
func (c *stdioConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	out := &outgoing{data: append(data, '\n'), ex: exchangeOf(ctx), begun: make(chan struct{}), done: make(chan error, 1)}
	if err := ctx.Err(); err != nil {
		return err // below, a free writer could win over the end of ctx, with nobody to note that it was sent
	}
	select {
	case c.writes <- out:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return io.EOF
	}
	<-out.begun // at once: from here on whoever gives up must know that it was sent
	select {
	case err := <-out.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return io.EOF
	}
}

func (c *stdioConn) write() {
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
			out.done <- err
		}
	}
}
