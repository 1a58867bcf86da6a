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
	endLife context.CancelFunc // of the transport's context
	inbound inbound            // what the server says by itself
	changed chan struct{}      // the server said that its tools changed; buffered
	memory  *memory            // what answers are charged to

	use      sync.Mutex
	inFlight int           // calls
	replaced bool          // no call begins on it any more
	idle     chan struct{} // closed when it is retired and has no calls

	checking sync.Mutex // of whether the server still knows the session

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
	case c.proc != nil:
		err = errors.New("the server " + c.exitReason())
	case err == nil:
		err = io.EOF
	}
	c.deadErr = brief{err}
	close(c.dead)
}

// enter begins a call, unless the connection is retired; leave ends it.
func (c *conn) enter() bool {
	c.use.Lock()
	defer c.use.Unlock()
	if !c.replaced {
		c.inFlight++
	}
	return !c.replaced
}

func (c *conn) leave() {
	c.use.Lock()
	defer c.use.Unlock()
	if c.inFlight--; c.replaced && c.inFlight == 0 {
		close(c.idle)
	}
}

// retire ends the beginning of calls on the connection. It reports false if it was done before.
func (c *conn) retire() bool {
	c.use.Lock()
	defer c.use.Unlock()
	if c.replaced {
		return false
	}
	if c.replaced = true; c.inFlight == 0 {
		close(c.idle)
	}
	return true
}

func (c *conn) retired() bool {
	c.use.Lock()
	defer c.use.Unlock()
	return c.replaced
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
	seen := map[string]bool{}
	size := 0
	for cursor := ""; ; {
		page, err := c.listPage(ctx, cursor, maxListing-size)
		if err != nil {
			return nil, nil, fmt.Errorf("list tools: %w", err)
		}
		seen[cursor] = true
		size += len(page)
		more, next, wrong, err := decodeTools(page, maxItems-len(tools)-len(bad))
		if err != nil {
			return nil, nil, err
		}
		tools, bad = append(tools, more...), append(bad, wrong...)
		if next == "" {
			return dedupe(tools), bad, nil
		}
		if seen[next] || len(seen) == maxPages {
			return nil, nil, fmt.Errorf("list tools: the pages do not end (%d tools so far)", len(tools))
		}
		cursor = next
	}
}

// listPage asks for a page of at most limit bytes. What counts is the wire: the SDK fails the whole list for one tool that
// it cannot decode.
func (c *conn) listPage(ctx context.Context, cursor string, limit int) (json.RawMessage, error) {
	errTooLarge := fmt.Errorf("they take more than %d bytes", maxListing)
	if limit <= 0 {
		return nil, errTooLarge
	}
	ex := newExchange(ctx, c.memory, "", "")
	ex.limit = limit
	defer ex.charge.free()
	defer ex.end(nil)
	defer c.forget(ex)
	_, err := c.session.ListTools(ex.ctx, &mcp.ListToolsParams{Cursor: cursor})
	got := ex.answer.Load()
	if got != nil {
		err = got.err
	}
	var tooLarge tooLargeError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errTooLarge
	case err != nil:
		return nil, err
	case got == nil:
		return nil, errNoAnswer
	}
	return got.result, nil
}

// errNoAnswer reports a request that the SDK takes for answered while no answer to it came.
var errNoAnswer = errors.New("the server did not answer it")

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
