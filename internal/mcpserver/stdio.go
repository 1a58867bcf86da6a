package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// drainTime is how long requests in flight may take after the input has ended. Clients kill a server that lives longer.
const drainTime = 5 * time.Second

// ServeStdio serves one client until in or ctx ends. The end of in is no error. The upstream servers list their tools in the background.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	s.begun.Go(func() { s.opt.Harness.EnsureTools(s.closing, s.caller(nil).user) })
	transport := &draining{&mcp.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}}, s.closing}
	session, err := s.server.Connect(context.WithoutCancel(ctx), transport, nil)
	if err != nil {
		return err
	}
	var left error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		left = session.Wait()
	}()
	select {
	case <-ctx.Done():
		s.close()
		go session.Close() // Close returns when the session ends; if the client does not read, the goroutine ends with the process
		select {
		case <-ended:
		case <-time.After(drainTime):
		}
	case <-ended:
		var malformed *json.SyntaxError
		if errors.As(left, &malformed) {
			return fmt.Errorf("the client has sent what is no JSON: %w", left)
		}
	}
	return nil // any other error only means that the client has left
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// draining is a transport that delays the end of its input until the requests in flight are answered, drainTime has passed or closing ends. The
// SDK cancels requests in flight when its input ends.
type draining struct {
	mcp.Transport
	closing context.Context
}

// Connect implements mcp.Transport.
func (d *draining) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := d.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &drainingConn{Connection: conn, closing: d.closing, answered: make(chan struct{}, 1)}, nil
}

type drainingConn struct {
	mcp.Connection
	closing  context.Context
	mu       sync.Mutex
	inFlight int
	answered chan struct{} // contains an element after an answer
}

// Read implements mcp.Connection.
func (c *drainingConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		c.add(1)
	}
	if err == nil {
		return m, nil
	}
	last := time.NewTimer(drainTime)
	defer last.Stop()
	for c.add(0) > 0 {
		select {
		case <-c.answered:
		case <-last.C:
			return m, err
		case <-c.closing.Done():
			return m, err
		case <-ctx.Done():
			return m, err
		}
	}
	return m, err
}

// Write implements mcp.Connection.
func (c *drainingConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		c.add(-1)
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}

// add changes the number of requests in flight and returns it.
func (c *drainingConn) add(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight += n
	return c.inFlight
}
