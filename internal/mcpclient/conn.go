package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/process"
)

const (
	maxPages   = 1000     // of a listing
	maxItems   = 20_000   // tools or resources of one server
	maxListing = 16 << 20 // bytes of a listing; decoded, it takes many times that
)

// conn is one connection to a server, from handshake to end. It is not used again after its end.
type conn struct {
	number    int64
	transport string
	session   *mcp.ClientSession
	proc      *child        // of stdio
	wire      *wire         // of http and sse
	tap       *tap          // of stdio and sse
	stderr    *process.Tail // of stdio
	drained   chan struct{} // of stdio: stderr is read to its end

	calls   context.Context // ends before the connection, so that calls in flight are cancelled upstream
	endAll  context.CancelFunc
	endLife context.CancelFunc         // of the transport's context
	inbound inbound                    // what the server says by itself
	changed chan struct{}              // the server said that its tools changed; buffered
	pages   map[string]json.RawMessage // of the last listing, by cursor

	dead    chan struct{} // closed at the end
	deadErr error         // why; valid once dead is closed

	ours      atomic.Bool // it was ended by this side
	closeOnce sync.Once
	closed    chan struct{} // nothing of the connection is left
	closeErr  error
}

// forget ends an exchange in whichever layer holds it.
func (c *conn) forget(ex *exchange) {
	if c.tap != nil {
		c.tap.forget(ex)
	}
	if c.wire != nil {
		c.wire.forget(ex)
	}
}

// wait watches the connection until its end and says why it ended.
func (c *conn) wait() {
	err := c.session.Wait()
	switch {
	case c.tap != nil && c.tap.failure() != nil:
		err = c.tap.failure()
	case c.wire != nil && c.wire.gone.Load():
		err = mcp.ErrSessionMissing
	case c.proc != nil:
		err = errors.New("the server " + c.exitReason())
	case err == nil:
		err = io.EOF
	}
	c.deadErr = brief{err}
	close(c.dead)
}

// exitReason says how the process ended. Its stdout ends a moment before it does.
func (c *conn) exitReason() string {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-c.proc.ended:
		select {
		case <-c.drained: // what it wrote last is the most telling
		case <-timer.C:
		}
		return c.proc.exit
	case <-timer.C:
		return "closed its stdout but did not exit"
	}
}

// close ends the connection: calls in flight are cancelled upstream, the session is closed, the process ended. When
// ctx ends first, the rest is done by force.
func (c *conn) close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		defer close(c.closed)
		select {
		case <-c.dead:
		default:
			c.ours.Store(true)
		}
		c.endAll()
		goodbye := make(chan struct{})
		go func() {
			defer close(goodbye)
			_ = c.session.Close() // a server that does not take its leave has no say in ours
		}()
		patience := time.NewTimer(deleteGrace)
		defer patience.Stop()
		select {
		case <-goodbye:
		case <-patience.C:
		case <-ctx.Done():
		}
		c.closeErr = c.release(ctx)
		<-goodbye
	})
	<-c.closed
	return c.closeErr
}

// release ends what lies under the session.
func (c *conn) release(ctx context.Context) error {
	if c.tap != nil {
		_ = c.tap.Close()
	}
	var err error
	if c.proc != nil {
		closeFiles(c.proc.stdin)
		c.proc.stop()
		err = c.proc.waitDone(ctx)
		timer := time.NewTimer(time.Second)
		select {
		case <-c.drained:
		case <-timer.C: // a descendant that could not be found holds it
		}
		timer.Stop()
		closeFiles(c.proc.stdout, c.proc.stderr)
	}
	c.endLife()
	if c.wire != nil {
		c.wire.close()
	}
	return err
}

// listTools asks for all pages. Only the goroutine that runs the connection calls it.
func (c *conn) listTools(ctx context.Context) (tools []Tool, bad []error, err error) {
	pages := map[string]json.RawMessage{}
	size := 0
	for cursor := ""; ; {
		page, err := c.listPage(ctx, cursor, maxListing-size)
		if err != nil {
			return nil, nil, fmt.Errorf("list tools: %w", err)
		}
		pages[cursor] = page
		size += len(page)
		more, next, wrong, err := decodeTools(page, maxItems-len(tools)-len(bad))
		if err != nil {
			return nil, nil, err
		}
		tools, bad = append(tools, more...), append(bad, wrong...)
		if next == "" {
			c.pages = pages
			return dedupe(tools), bad, nil
		}
		if _, seen := pages[next]; seen || len(pages) == maxPages {
			return nil, nil, fmt.Errorf("list tools: the pages do not end (%d tools so far)", len(tools))
		}
		cursor = next
	}
}

// listPage asks for a page of at most the given number of bytes. What counts is the wire: the SDK fails the whole list
// for one tool that it cannot decode.
func (c *conn) listPage(ctx context.Context, cursor string, most int) (json.RawMessage, error) {
	errTooLarge := fmt.Errorf("they take more than %d bytes", maxListing)
	if most <= 0 {
		return nil, errTooLarge
	}
	ex := newExchange("", false)
	ex.most = most
	_, err := c.session.ListTools(withExchange(ctx, ex), &mcp.ListToolsParams{Cursor: cursor})
	c.forget(ex)
	var tooLarge tooLargeError
	switch got := ex.answer.Load(); {
	case got != nil && got.err == nil:
		return got.result, nil
	case got != nil && errors.As(got.err, &tooLarge):
		return nil, errTooLarge
	case err != nil:
		return nil, err
	}
	// A server may let its answers be kept for a while; the SDK then answers without asking.
	return c.pages[cursor], nil
}

// dedupe keeps the first tool of each name.
func dedupe(tools []Tool) []Tool {
	seen := make(map[string]bool, len(tools))
	out := tools[:0]
	for _, t := range tools {
		if !seen[t.Name] {
			seen[t.Name] = true
			out = append(out, t)
		}
	}
	return out
}

// ended reports that the connection ended; a call learns of it a moment before the connection does.
func (c *conn) ended() bool {
	patience := 3 * time.Second // above what exitReason waits
	if c.proc == nil {
		patience = 200 * time.Millisecond // over HTTP a failed request mostly says nothing of the connection
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.dead:
		return true
	case <-timer.C:
		return false
	}
}

// misbehaved reports that the connection ended because the server wrote what is not MCP.
func (c *conn) misbehaved() bool { return c.tap != nil && c.tap.failure() != nil }

func (c *conn) stderrTail() string {
	if c.stderr == nil {
		return ""
	}
	return c.stderr.String()
}
