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
	maxPages   = 1000     // maximum number of pages of a listing
	maxItems   = 20_000   // maximum number of tools or resources of one server
	maxListing = 16 << 20 // maximum size of a listing in bytes; a decoded listing takes many times that

	exitWait = 5 * time.Second // maximum wait for the process to exit after its pipe ended; a busy machine may take seconds
)

// conn is one connection to a server, from handshake to end. It is not used again after its end.
type conn struct {
	number    int64
	transport string
	session   *mcp.ClientSession
	proc      *child // process of a stdio server
	web       *web   // requests of an http or sse server
	local     *local // transport of an openapi or built-in server
	link      *link
	stderr    process.Tail           // last lines of a stdio server's stderr
	said      atomic.Pointer[string] // first line of a stdio server's stdout that is not a message
	drained   chan struct{}          // closed when a stdio server's stderr has been read to its end

	calls   context.Context // context that ends before the connection, so that calls in flight are cancelled upstream
	endAll  context.CancelFunc
	endLife context.CancelFunc // ends the transport's context
	changed chan struct{}      // receives a value when the server reports changed tools; buffered
	memory  *memory            // budget that answers are charged to

	use     sync.RWMutex // read-locked by each call; locked forever once the connection is retired and its calls have ended
	retired atomic.Bool  // reports that new calls must use another connection

	checking sync.Mutex // held while the server is asked whether it still knows the session

	listing sync.Mutex // held while the tools are listed again
	missed  sync.Map   // tools that the server reported as unknown and that already caused a new listing

	lacks sync.Map // kinds of listing that the server does not announce and whose request has failed

	dead    chan struct{} // closed when the connection has ended
	deadErr error         // reason of the end; valid once dead is closed

	ours      atomic.Bool // reports that this side ended the connection
	closeOnce sync.Once
	closeErr  error
}

// wait waits for the end of the connection, sets deadErr and closes dead.
func (c *conn) wait() {
	err := c.session.Wait()
	switch {
	case c.link.failure() != nil:
		err = c.link.failure()
	case c.proc != nil:
		err = errors.New("the server " + c.exitReason())
	case err == nil:
		err = io.EOF
	}
	c.deadErr = brief{err}
	close(c.dead)
}

// exitReason returns how the process ended. It waits for the exit, because the pipes of the process close a moment earlier.
func (c *conn) exitReason() string {
	if !await(c.proc.ended, exitWait) {
		return "closed its stdin or stdout but did not exit"
	}
	await(c.drained, exitWait) // the last lines usually name the cause
	return c.proc.exit
}

// close ends the connection: it cancels calls in flight upstream, closes the session and ends the process. If
// ctx ends before the process, close kills the process.
func (c *conn) close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		select {
		case <-c.dead:
		default:
			c.ours.Store(true)
		}
		c.endAll()
		grace, cancel := context.WithTimeout(ctx, deleteGrace)
		defer cancel()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = c.session.Close() // the end of the transport closes the session too
		}()
		select {
		case <-closed:
		case <-grace.Done():
		}
		c.closeErr = c.release(ctx)
		<-closed
	})
	return c.closeErr
}

// release closes the transport under the session and ends the process.
func (c *conn) release(ctx context.Context) error {
	var err error
	c.endLife()
	_ = c.link.Close()
	if c.proc != nil {
		closeAll(c.proc.stdin)
		c.proc.stop()
		err = c.proc.waitDone(ctx)
		await(c.drained, time.Second) // If stderr is still open afterwards, an undetected descendant probably holds it.
		closeAll(c.proc.stdout, c.proc.stderr)
	}
	if c.web != nil {
		c.web.release()
	}
	if c.local != nil {
		c.local.release()
	}
	return err
}

// page summarizes one page of a listing.
type page struct {
	items int     // number of items on the page, usable or not
	fresh int     // number of items that no earlier page had
	next  *string // cursor of the next page; nil on the last page
}

// pages requests the pages of a listing, until the last page or until the pages repeat. If they repeat, why describes the repetition. fetch requests
// a page of at most limit bytes; take decodes it.
func (c *conn) pages(fetch func(cursor string, limit int) (json.RawMessage, error), take func(json.RawMessage) (page, error)) (why string, err error) {
	seen := map[string]bool{}
	left, items := maxListing, 0
	for cursor := ""; ; {
		raw, err := fetch(cursor, left)
		if err != nil {
			return "", err
		}
		got, err := take(raw)
		if err != nil {
			return "", err
		}
		items += got.fresh
		left -= len(raw)
		first := len(seen) == 0
		seen[cursor] = true
		switch {
		case got.next == nil || *got.next == "" && c.session.InitializeResult().ProtocolVersion <= legacyVersion:
			return "", nil // before 2026-07-28, servers may also end a listing with an empty cursor
		case *got.next == "":
			cursor = emptyCursor
		default:
			cursor = *got.next
		}
		switch {
		case seen[cursor]:
			return fmt.Sprintf("the server gives the cursor %s of a page again", excerpt([]byte(*got.next))), nil
		case !first && got.items > 0 && got.fresh == 0:
			return "a page repeats what earlier ones had", nil
		case len(seen) == maxPages:
			return "", newFault(KindProtocol, "the pages do not end (%d items so far)", items)
		case left <= 0:
			return "", errLargeListing
		}
	}
}

// emptyCursor stands for the cursor "", which the SDK cannot send. The link replaces it by "".
const emptyCursor = "mcp-code-exec-harness/empty-cursor"

// listTools requests all tools. bad has an error for each unusable tool; why is not empty if the listing repeats itself.
func (c *conn) listTools(ctx context.Context) (tools []Tool, bad []error, why string, err error) {
	names := map[string]bool{}
	why, err = c.pages(func(cursor string, limit int) (json.RawMessage, error) {
		return c.listPage(ctx, cursor, limit)
	}, func(raw json.RawMessage) (page, error) {
		more, next, wrong, err := decodeTools(raw, maxItems-len(tools)-len(bad))
		got := page{items: len(more) + len(wrong), next: next}
		earlier := len(tools)
		for _, t := range more {
			if !names[t.Name] {
				tools = append(tools, t)
			}
		}
		bad = append(bad, wrong...)
		// Names are recorded only after the loop above: a tool that one page lists twice stays twice in tools, so that the catalog reports it.
		for _, t := range tools[earlier:] {
			names[t.Name] = true
		}
		got.fresh = len(tools) - earlier
		return got, err
	})
	if err != nil {
		return nil, nil, "", fmt.Errorf("list tools: %w", err)
	}
	return tools, bad, why, nil
}

// listPage requests a page of at most limit bytes. It returns the undecoded answer, because the SDK would fail the whole list for one
// tool that it cannot decode.
func (c *conn) listPage(ctx context.Context, cursor string, limit int) (json.RawMessage, error) {
	ex := newExchange(ctx, c.memory, "", "")
	ex.limit = limit
	defer ex.charge.free()
	defer ex.end(nil)
	defer c.link.forget(ex)
	_, err := c.session.ListTools(ex.ctx, &mcp.ListToolsParams{Cursor: cursor})
	got := ex.answer.Load()
	if got != nil {
		err = got.err
	}
	switch {
	case err != nil:
		return nil, err
	case got == nil:
		return nil, errNoAnswer
	}
	return got.result, nil
}

var errLargeListing = newFault(KindProtocol, "they take more than %d bytes", maxListing)

// errNoAnswer is the error of a request that the SDK reports as answered although no answer came.
var errNoAnswer = errors.New("the server did not answer it")

// ended reports whether the connection has ended. It waits a moment, because a call may fail before the end of the connection is known.
func (c *conn) ended() bool {
	wait := 3 * exitWait // longer than exitReason waits
	if c.proc == nil {
		wait = 200 * time.Millisecond // a failed HTTP request rarely means that the connection has ended
	}
	return await(c.dead, wait)
}
