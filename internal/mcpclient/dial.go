package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"mcp-code-exec-harness/internal/mcpclient/supervisor"
)

// legacyVersion is the newest protocol version whose handshake begins with initialize. For newer versions the SDK sends
// server/discover first.
const legacyVersion = "2025-11-25"

const (
	// Limits of a server's output on stderr, in bytes: maximum burst and rate.
	maxStderrBurst  = 32 << 20
	stderrPerSecond = 1 << 20
)

var errStderrFlood = newFault(KindProtocol, "the server writes more than %d bytes a second to stderr", stderrPerSecond)

// dial connects and performs the handshake. ctx bounds the attempt; the connection outlives ctx. A connection that is returned with an
// error has ended.
func (s *server) dial(ctx context.Context) (*conn, error) {
	if s.cfg.Command != "" {
		c, err := s.stdio(ctx, "")
		if err != nil && c != nil && c.link.failure() == nil && c.link.probing() && ctx.Err() == nil {
			// The server exited at server/discover, which it did not know.
			c, err = s.stdio(ctx, legacyVersion)
		}
		return c, err
	}
	if s.cfg.Fetch != nil {
		return s.builtIn(ctx)
	}
	if s.cfg.Within != nil {
		return s.inProcess(ctx)
	}
	if s.cfg.documented() {
		return s.openAPI(ctx)
	}
	kind := cmp.Or(s.cfg.Transport, s.worked)
	c, err := s.http(ctx, kind != TransportSSE)
	if err == nil {
		s.worked = c.transport
		return c, nil
	}
	f, ok := errors.AsType[*fault](err)
	if kind != "" || ctx.Err() != nil || !ok || f.status < 400 || f.status >= 500 ||
		f.status == http.StatusUnauthorized || f.status == http.StatusForbidden || f.status == http.StatusTooManyRequests {
		return nil, err
	}
	c, errSSE := s.http(ctx, false)
	if errSSE != nil {
		return nil, fmt.Errorf("neither streamable HTTP (%w) nor SSE (%w) works at this address", err, errSSE)
	}
	s.worked = c.transport
	return c, nil
}

// stdio starts the server's process and connects to it.
func (s *server) stdio(ctx context.Context, version string) (*conn, error) {
	proc, err := start(ctx, spawn{
		supervisor: s.m.opts.Supervisor,
		command:    s.cfg.Command,
		args:       s.cfg.Args,
		env:        s.env(),
		dir:        s.cfg.Cwd,
		sandbox:    s.sandbox,
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("its process was not ready within %s", s.cfg.StartupTimeout)
	}
	if err != nil {
		return nil, err
	}
	s.log.line("harness", fmt.Sprintf("started as process %d", proc.pid))
	c := &conn{transport: TransportStdio, proc: proc, drained: make(chan struct{})}
	c.link = newLink(newStdio(proc.stdin, proc.stdout, s.m.opts.MaxResult, func(line []byte) {
		line = s.root().secrets.clean(line)
		said := excerpt(line)
		c.said.CompareAndSwap(nil, &said)
		s.log.line("stdout", string(line))
		s.m.opts.Logger.Debug("server writes to stdout what is not MCP", "server", s.cfg.Name, "line", excerpt(line))
	}))
	c.link.discover = discoverGrace
	go func() {
		defer close(c.drained)
		kept := s.log.stream("stderr")
		defer kept.end()
		out := &pacedWriter{io.MultiWriter(&c.stderr, kept), rate.NewLimiter(stderrPerSecond, maxStderrBurst)}
		if _, err := io.Copy(out, proc.stderr); errors.Is(err, errStderrFlood) { // any other err: the process or conn.release closed stderr
			c.link.end(err)
		}
	}()
	// After the process has ended, only a descendant that the system cannot find may still hold its stdout open.
	go func() {
		<-proc.done
		select {
		case <-proc.ended:
			s.log.line("harness", fmt.Sprintf("process %d %s", proc.pid, proc.exit))
		default:
		}
		time.AfterFunc(time.Second, func() { closeAll(proc.stdout) })
	}()
	if err = s.handshake(ctx, c, version); err != nil {
		err = s.offline(cmp.Or(c.link.failure(), err))
	}
	return c, err
}

// env returns the environment of the server's process.
func (s *server) env() []string {
	return childEnv(s.m.opts.Environ, s.cfg.Env, s.cfg.Inherit, s.cfg.Sandbox)
}

// installers are the commands that download the program they start.
var installers = []string{"npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "bun", "uvx", "uv", "pipx", "deno"}

// offline adds a hint to the error of a failed start if a missing network may be the cause.
func (s *server) offline(err error) error {
	command := filepath.Base(s.cfg.Command)
	if s.sandbox == nil || s.sandbox.Network || !slices.Contains(installers, command) {
		return err
	}
	return fmt.Errorf("%w; %s installs what it starts, which cannot be done without a network: install the server and give its program as command, "+
		"or set sandbox.network: host", err, command)
}

// pacedWriter fails once a server writes more than its stderr limits allow.
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

// http connects over streamable HTTP or SSE.
func (s *server) http(ctx context.Context, streamable bool) (*conn, error) {
	c := &conn{transport: TransportSSE, web: newWeb(s.cfg, s.user, s.m.opts.MaxResult, streamable)}
	version := legacyVersion
	if streamable {
		c.transport, version = TransportHTTP, ""
	}
	c.link = newLink(c.web)
	return c, s.handshake(ctx, c, version)
}

// handshake performs the handshake over the transport and completes c. If it fails, it releases everything that c holds.
func (s *server) handshake(ctx context.Context, c *conn, version string) error {
	// The SDK ties streams to the context of the handshake, so that context has to live as long as the connection.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	c.changed = make(chan struct{}, 1)
	c.dead = make(chan struct{})
	c.memory = s.m.memory
	c.calls, c.endAll = context.WithCancel(context.WithoutCancel(ctx))
	c.endLife = end
	c.link.notice = s.noticed

	client := mcp.NewClient(&mcp.Implementation{Name: "mcp-code-exec-harness", Version: s.m.opts.ClientVersion}, &mcp.ClientOptions{
		Logger:         s.m.opts.Logger,
		Capabilities:   &mcp.ClientCapabilities{}, // no roots, sampling or elicitation
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			c.link.changeHandled()
			select {
			case c.changed <- struct{}{}:
			default:
			}
		},
		// The link handles these notifications. The empty handlers make the SDK ask the server for them.
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) {},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {},
	})
	for _, method := range extensionMethods {
		if err := mcp.AddSendingCustomMethod[*ExtensionParams, *extensionResult](client, method); err != nil {
			panic(err) // the methods of extensions are not those of MCP itself
		}
	}
	type outcome struct {
		session *mcp.ClientSession
		err     error
	}
	result := make(chan outcome, 1)
	go func() {
		session, err := client.Connect(life, c.link, &mcp.ClientSessionOptions{ProtocolVersion: version})
		result <- outcome{session, err}
	}()
	var got outcome
	select {
	case got = <-result:
	case <-ctx.Done():
		end()
		if c.proc != nil {
			_ = c.link.Close()
		}
		got = <-result
		if got.err == nil {
			_ = got.session.Close()
		}
		got.err = context.Cause(ctx)
		if errors.Is(got.err, context.DeadlineExceeded) {
			got.err = fmt.Errorf("the server did not answer the handshake within %s", s.cfg.StartupTimeout)
		}
	}
	if got.err != nil {
		c.endAll()
		if c.proc != nil && (errors.Is(got.err, io.EOF) || errors.Is(got.err, mcp.ErrConnectionClosed)) {
			got.err = fmt.Errorf("the server %s before it answered the handshake", c.exitReason())
		}
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervisor.EOFGrace)
		defer cancel()
		_ = c.release(short) // the failed handshake matters more than a process that cannot be ended
		return got.err
	}
	c.session = got.session
	go c.wait()
	return nil
}
