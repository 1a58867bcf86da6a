package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"mcp-code-exec-harness/internal/process"
)

// legacyVersion is the newest protocol version that begins with initialize. The SDK asks newer servers by
// server/discover first.
const legacyVersion = "2025-11-25"

// dialer makes the connections of one server.
type dialer struct {
	cfg        Config
	version    string // of this program
	environ    []string
	supervisor string
	memory     *memory
	limit      int
	log        *slog.Logger

	transport string // of the last connection that worked
}

// dial connects and shakes hands. The connection outlives ctx, which bounds the attempt.
func (d *dialer) dial(ctx context.Context) (*conn, error) {
	if d.cfg.Command != "" {
		c, probing, err := d.stdio(ctx, "")
		if err != nil && probing && ctx.Err() == nil {
			// It ended over a request it did not know.
			c, _, err = d.stdio(ctx, legacyVersion)
		}
		return c, err
	}
	kind := d.cfg.Transport
	if kind == "" {
		kind = d.transport
	}
	switch kind {
	case TransportHTTP:
		c, _, err := d.http(ctx)
		return c, err
	case TransportSSE:
		return d.sse(ctx)
	}
	c, status, err := d.http(ctx)
	if err == nil {
		d.transport = TransportHTTP
		return c, nil
	}
	switch {
	case status < 400 || status >= 500 || ctx.Err() != nil,
		status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return nil, err
	}
	c, errSSE := d.sse(ctx)
	if errSSE != nil {
		return nil, fmt.Errorf("neither streamable HTTP (%w) nor SSE (%w) works at this address", err, errSSE)
	}
	d.transport = TransportSSE
	return c, nil
}

// stdio starts the process. probing reports that the attempt ended before the server answered the first request.
func (d *dialer) stdio(ctx context.Context, version string) (_ *conn, probing bool, err error) {
	proc, err := start(ctx, spawn{
		supervisor: d.supervisor,
		command:    d.cfg.Command,
		args:       d.cfg.Args,
		env:        childEnv(d.environ, d.cfg.Env),
		dir:        d.cfg.Cwd,
	})
	if err != nil {
		return nil, false, err
	}
	c := &conn{transport: TransportStdio, proc: proc, stderr: new(process.Tail), drained: make(chan struct{})}
	tap := newTap(newStdioConn(proc.stdin, proc.stdout, d.limit, func(line []byte) {
		d.log.Debug("server writes to stdout what is not MCP", "server", d.cfg.Name, "line", excerpt(line))
	}), &c.inbound)
	c.tap = tap
	go func() {
		defer close(c.drained)
		out := &pacedWriter{c.stderr, rate.NewLimiter(stderrPerSecond, maxStderrBurst)}
		if _, err := io.Copy(out, proc.stderr); errors.Is(err, errStderrFlood) { // else it ended, or release closed it
			tap.fail(err)
		}
	}()
	// A process that ends leaves its stdout to a descendant at most where the system cannot find descendants.
	go func() {
		<-proc.done
		time.AfterFunc(time.Second, func() { closeFiles(proc.stdout) })
	}()
	err = d.connect(ctx, c, func(context.Context) mcp.Transport { return handOver{c.tap} }, version)
	if err == nil {
		return c, false, nil
	}
	if failure := c.tap.failure(); failure != nil {
		err = failure
	} else {
		probing = c.tap.probing()
	}
	if tail := c.stderr.String(); tail != "" {
		err = &stderrError{err, tail}
	}
	return nil, probing, err
}

// pacedWriter fails once more is written to it than a server may write to stderr.
type pacedWriter struct {
	io.Writer
	left *rate.Limiter
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	if !w.left.AllowN(time.Now(), len(p)) {
		return 0, errStderrFlood
	}
	return w.Writer.Write(p)
}

// stderrError adds what the server wrote to stderr to the reason of a failed start.
type stderrError struct {
	error
	tail string
}

func (e *stderrError) Unwrap() error { return e.error }

func (d *dialer) http(ctx context.Context) (*conn, int, error) {
	c := &conn{transport: TransportHTTP}
	err := d.connect(ctx, c, func(life context.Context) mcp.Transport {
		c.wire = newWire(life, d.cfg, d.limit, true, &c.inbound)
		return &mcp.StreamableClientTransport{Endpoint: d.cfg.URL, HTTPClient: c.wire.client(), MaxEventSize: d.limit}
	}, "")
	status := int(c.wire.refused.Load())
	if err != nil {
		return nil, status, explain(err, status)
	}
	return c, status, nil
}

func (d *dialer) sse(ctx context.Context) (*conn, error) {
	c := &conn{transport: TransportSSE}
	// The stream exists before the SDK is involved, because it is tapped.
	err := d.connect(ctx, c, func(life context.Context) mcp.Transport {
		c.wire = newWire(life, d.cfg, d.limit, false, &c.inbound)
		return tapped{c, &mcp.SSEClientTransport{Endpoint: d.cfg.URL, HTTPClient: c.wire.client(), MaxEventSize: d.limit}}
	}, legacyVersion)
	if err != nil {
		return nil, explain(err, int(c.wire.refused.Load()))
	}
	return c, nil
}

// explain says what to do about a status.
func explain(err error, status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("the server refuses access (HTTP %d); give credentials in its headers: %w", status, err)
	case 0:
		return err
	}
	return fmt.Errorf("HTTP %d: %w", status, err)
}

// handOver gives the SDK a connection that exists.
type handOver struct{ conn mcp.Connection }

func (h handOver) Connect(context.Context) (mcp.Connection, error) { return h.conn, nil }

// tapped puts a tap into the connection of another transport.
type tapped struct {
	c     *conn
	inner mcp.Transport
}

func (t tapped) Connect(ctx context.Context) (mcp.Connection, error) {
	inner, err := t.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.c.tap = newTap(inner, &t.c.inbound)
	return t.c.tap, nil
}

// connect shakes hands over the transport and completes c, or releases all it holds.
func (d *dialer) connect(ctx context.Context, c *conn, transport func(life context.Context) mcp.Transport, version string) error {
	// The SDK ties streams to the context of the handshake, so that one has to live as long as the connection.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	c.changed = make(chan struct{}, 1)
	c.dead, c.closed, c.idle = make(chan struct{}), make(chan struct{}), make(chan struct{})
	c.memory = d.memory
	calls, cancelCalls := context.WithCancel(context.WithoutCancel(ctx))
	c.calls = calls
	c.endAll = cancelCalls
	c.endLife = end

	client := mcp.NewClient(&mcp.Implementation{Name: "mcp-code-exec-harness", Version: d.version}, &mcp.ClientOptions{
		Logger:         d.log,
		Capabilities:   &mcp.ClientCapabilities{}, // no roots, sampling or elicitation
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			c.inbound.heard()
			select {
			case c.changed <- struct{}{}:
			default:
			}
		},
	})
	t := transport(life)
	type outcome struct {
		session *mcp.ClientSession
		err     error
	}
	result := make(chan outcome, 1)
	go func() {
		session, err := client.Connect(life, t, &mcp.ClientSessionOptions{ProtocolVersion: version})
		result <- outcome{session, err}
	}()
	var got outcome
	select {
	case got = <-result:
	case <-ctx.Done():
		end()
		if c.proc != nil {
			_ = c.tap.Close()
		}
		got = <-result
		if got.err == nil {
			_ = got.session.Close()
		}
		got.err = context.Cause(ctx)
		if errors.Is(got.err, context.DeadlineExceeded) {
			got.err = fmt.Errorf("the server did not answer the handshake within %s", d.cfg.startupTimeout())
		}
	}
	if got.err != nil {
		cancelCalls()
		if c.proc != nil && (errors.Is(got.err, io.EOF) || errors.Is(got.err, mcp.ErrConnectionClosed)) {
			got.err = fmt.Errorf("the server %s before it answered the handshake", c.exitReason())
		}
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), eofGrace)
		defer cancel()
		_ = c.release(short) // a process that cannot be ended is the lesser problem of this server
		return got.err
	}
	c.session = got.session
	go c.wait()
	return nil
}
