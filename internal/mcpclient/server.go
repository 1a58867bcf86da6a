package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/confine"
	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/mcpclient/supervisor"
	"mcp-code-exec-harness/internal/slots"
)

// server is one configured server over all its connections. If each user has connections of their own, there is also a server value for each user. The
// parent of a user's value is the value of the configured server, which knows the tools.
type server struct {
	cfg Config
	m   *Manager

	user     string
	parent   *server
	users    map[string]*server // servers of a parent by user; guarded by mu
	used     time.Time          // last time a user asked for this server; guarded by the parent's mu
	inFlight atomic.Int32       // number of requests in flight plus number of subscriptions

	sandbox *confine.Plan // plan of cfg.Sandbox
	secrets *repeats      // filter for cfg.Secrets; set in a parent only

	log *serverLog // log of a server that this process starts

	document parsedDocument // last OpenAPI document; used in a parent only

	calls  *slots.Slots    // limits of the calls in flight, by weight
	life   context.Context // lifetime of the server, until shutdown
	end    context.CancelFunc
	worked string // transport of the last connection; only the running attempt uses the field

	mu        sync.Mutex
	state     State
	reason    string
	detail    string // the server's own text about reason; people see it, models do not
	stderr    string // stderr of the last connection or attempt
	refusal   *Refusal
	since     time.Time
	conn      *conn
	number    int64
	restarts  int
	failures  int // failures in a row, for the backoff
	retryAt   time.Time
	scopes    []string // scopes for the next login
	attempt   *attempt
	waiting   bool           // reports that the attempt waits for its turn among the starts
	doubtful  bool           // reports that the last start failed, so that the package may be missing
	slowSince time.Time      // time when EnsureTools waited for the server in vain; zero if it did not, or if the server has listed its tools since
	work      sync.WaitGroup // goroutines; nothing is added once life has ended

	listing *listing // known tools; nil if the server has not listed any
	cached  bool     // reports that listing is from the disk

	subscriptions map[*subscription]bool // subscriptions to resources
	again         bool                   // reports that connectAgain is running

	reviewing sync.Mutex // held from the review of a listing until the field listing is set to it
	reporting sync.Mutex
	reported  *listing // last listing that OnChange got
}

// attempt is a start of the server that is under way. All callers that need the server wait for the same attempt.
type attempt struct {
	done chan struct{}
	conn *conn
	err  error
}

// hide removes the server's configured secrets from a text for people, because the server may repeat them in its output.
func (s *server) hide(text string) string { return string(s.root().secrets.clean([]byte(text))) }

// tail returns the last lines that the server of a connection wrote to stderr.
func (s *server) tail(c *conn) string { return s.hide(c.stderr.String()) }

func (s *server) setState(state State, reason string) {
	s.state, s.reason, s.detail, s.since = state, reason, "", time.Now()
}

func (s *server) unavailable(msg string) *CallError {
	return &CallError{Server: s.cfg.Name, Kind: KindUnavailable, Message: msg}
}

// connect returns the connection, and makes one if there is none. The attempt continues when ctx ends, because other callers may wait for it.
func (s *server) connect(ctx context.Context, force bool) (*conn, error) {
	c, a, err := s.begin(force)
	if a == nil {
		return c, err
	}
	select {
	case <-a.done:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, &CallError{
			Server: s.cfg.Name, Kind: KindCancelled, Err: ctx.Err(),
			Message: "waiting for it to start: " + ctx.Err().Error(),
		}
	}
}

// begin returns the connection, or else the attempt to make one. It begins an attempt if there is none.
func (s *server) begin(force bool) (*conn, *attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := time.Until(s.retryAt)
	switch {
	case s.life.Err() != nil:
		return nil, nil, s.unavailable("its connection was closed for good")
	case s.cfg.Disabled:
		return nil, nil, s.unavailable("it is disabled in the configuration")
	case s.cfg.Err != nil:
		return nil, nil, s.unavailable(s.cfg.Err.Error())
	case s.conn != nil || s.attempt != nil:
		return s.conn, s.attempt, nil
	case wait > 0 && !force:
		err := s.unavailable(fmt.Sprintf("%s; it is started again in %s at the earliest", s.reason, wait.Round(100*time.Millisecond)))
		err.Stderr, err.Refusal = s.stderr, s.refusal
		return nil, nil, err
	}
	a := &attempt{done: make(chan struct{})}
	s.attempt = a
	s.setState(StateStarting, "")
	s.work.Go(func() { s.run(a) })
	return nil, a, nil
}

// run makes one attempt: it installs the server if necessary, connects, lists the tools and publishes them.
func (s *server) run(a *attempt) {
	defer close(a.done)
	var c *conn
	var l *listing
	stderr, err := s.installed(false)
	if err == nil {
		c, l, err = s.startup()
		if err != nil && s.incomplete(c) {
			s.m.opts.Logger.Warn("the package of a server is incomplete; it is installed again", "server", s.cfg.Name)
			if stderr, err = s.installed(true); err == nil {
				c, l, err = s.startup()
			}
		}
	}
	if err == nil {
		s.root().publish(l)
	}
	s.mu.Lock()
	s.attempt = nil
	s.doubtful = err != nil
	if needs, is := errors.AsType[*credentials.NeedsLogin](err); is {
		a.err = &CallError{Server: s.cfg.Name, Kind: KindNeedsLogin, Message: needs.Error(), Err: needs, Refusal: refusalOf(err)}
		if s.life.Err() == nil {
			s.awaitLogin(needs)
		}
		s.mu.Unlock()
		return
	}
	if err != nil {
		message := brief{err}.Error()
		if _, ok := errors.AsType[*installError](err); !ok {
			message = "it did not start: " + message
		}
		failed := s.unavailable(s.hide(message))
		failed.Err, failed.Stderr, failed.Refusal = brief{err}, stderr, refusalOf(err)
		if c != nil {
			failed.Stderr = s.tail(c)
		}
		s.stderr, s.refusal, a.err = failed.Stderr, failed.Refusal, failed
		if s.life.Err() == nil {
			s.setState(StateFailed, failed.Message)
			s.detail = s.detailOf(c, failed)
			s.backOff()
		}
		s.mu.Unlock()
		s.log.line("harness", failed.Message)
		s.m.opts.Logger.Warn("server did not start", "server", s.cfg.Name, "error", failed.Message)
		return
	}
	if s.number != 0 {
		s.restarts++
	}
	s.number = max(s.number+1, time.Now().UnixMicro())
	c.number = s.number
	s.conn, a.conn = c, c
	s.setState(StateReady, "")
	s.retryAt, s.scopes, s.refusal = time.Time{}, nil, nil
	if s.life.Err() == nil {
		s.work.Go(func() { s.offersAgain(c) })
	}
	s.mu.Unlock()
	s.work.Go(func() { s.follow(c) })
}

// installed waits for the server's turn and then calls install.
func (s *server) installed(repair bool) (stderr string, err error) {
	release, err := s.turn(s.m.installs)
	if err != nil {
		return "", err
	}
	defer release()
	return s.install(repair)
}

// maxStarts is the maximum number of simultaneous installations, and of simultaneous starts: more would slow each other down.
const maxStarts = 4

// maxTurn is the time for which an installation or a start counts towards maxStarts, so that servers that hang do not block the others.
const maxTurn = 10 * time.Second

// turn waits until a server that this process starts may be installed or started. The timeout of the installation or start begins afterwards.
func (s *server) turn(turns chan struct{}) (release func(), err error) {
	if s.cfg.Command == "" {
		return func() {}, nil
	}
	wait := func(on bool) {
		s.mu.Lock()
		s.waiting = on
		s.mu.Unlock()
	}
	wait(true)
	defer wait(false)
	select {
	case turns <- struct{}{}:
	case <-s.life.Done():
		return nil, errClosed
	}
	once := sync.OnceFunc(func() { <-turns })
	timer := time.AfterFunc(maxTurn, once)
	return func() { timer.Stop(); once() }, nil
}

// startup connects and lists the tools. If it returns an error, c is a connection that has ended, or nil.
func (s *server) startup() (c *conn, l *listing, err error) {
	release, err := s.turn(s.m.starts)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(s.life, s.cfg.StartupTimeout)
	defer cancel()
	if err = s.authorized(ctx); err == nil {
		c, err = s.dial(ctx)
	}
	if err == nil {
		if l, err = s.list(ctx, c); err != nil {
			s.release(c)
		}
	}
	return c, l, err
}

// detailOf returns what a server that did not start wrote about the failure, and hints about missing variables. c is nil if there was no connection.
func (s *server) detailOf(c *conn, failed *CallError) string {
	var lines []string
	if line := telling(failed.Stderr); line != "" && !strings.Contains(failed.Message, line) {
		lines = append(lines, "it wrote: "+line)
	}
	if c != nil {
		if said := c.said.Load(); said != nil {
			lines = append(lines, "its stdout, where only messages of MCP may be, has "+*said)
		}
	}
	if s.cfg.Command != "" {
		if hint := envHint(failed.Stderr, s.m.opts.Environ, s.env()); hint != "" {
			lines = append(lines, hint)
		}
	}
	return strings.Join(lines, "\n")
}

// release ends a connection within EOFGrace, by force if necessary.
func (s *server) release(c *conn) {
	ctx, cancel := context.WithTimeout(context.Background(), supervisor.EOFGrace)
	defer cancel()
	_ = c.close(ctx) // an error of close does not help to explain why the connection ended
}

// backOff sets when the server may be started again: 0.5 s after the first failure, 1 s after the second, doubling to
// 30 s. Jitter shortens each pause by up to half, so that many servers do not start at once. The caller holds s.mu.
func (s *server) backOff() {
	d := s.m.opts.backoffMax
	if s.failures < 16 {
		d = min(d, s.m.opts.backoffMin<<s.failures)
	}
	s.failures++
	s.retryAt = time.Now().Add(d/2 + rand.N(d/2+1))
}

// Bounds of the pause after changed tools were listed again. The pause doubles while the tools keep changing.
const (
	relistMin = time.Second
	relistMax = 30 * time.Second
)

// follow watches a connection: it lists the tools again when they change, and calls lost when the connection has ended.
func (s *server) follow(c *conn) {
	defer s.lost(c)
	for pause := time.Duration(0); ; {
		select {
		case <-c.changed:
		case <-c.dead:
			return
		}
		_ = s.relist(c.calls, c) // relist logs its error
		pause = min(max(2*pause, relistMin), relistMax)
		if await(c.dead, pause) {
			return
		}
		if len(c.changed) == 0 {
			pause = 0
		}
	}
}

// relist lists the tools of a connected server again.
func (s *server) relist(ctx context.Context, c *conn) error {
	c.listing.Lock()
	defer c.listing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StartupTimeout)
	defer cancel()
	defer context.AfterFunc(c.calls, cancel)()
	l, err := s.list(ctx, c)
	if err == nil {
		s.root().publish(l)
	} else if c.calls.Err() == nil {
		s.m.opts.Logger.Warn("server changed its tools but did not list them", "server", s.cfg.Name, "error", brief{err})
	}
	return err
}

// lost records that a connection ended by itself, and releases its resources. Further calls do nothing.
func (s *server) lost(c *conn) {
	s.mu.Lock()
	if s.conn == c {
		s.m.opts.Logger.Info("connection to server ended", "server", s.cfg.Name, "reason", c.deadErr)
		s.conn, s.stderr = nil, s.tail(c)
		if s.life.Err() == nil {
			if time.Since(s.since) >= s.m.opts.healthy {
				s.failures = 0
			}
			s.setState(StateBackoff, "its connection was lost: "+c.deadErr.Error())
			s.backOff()
			s.connectAgain()
		}
	}
	s.mu.Unlock()
	s.release(c)
}

// retire replaces a connection whose session the server has forgotten: the next call makes a new connection, and calls in flight
// continue on the old one. There is no backoff, because a forgotten session does not mean that the server is unhealthy.
func (s *server) retire(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c {
		s.conn = nil
		s.setState(StateIdle, "")
		s.connectAgain()
	}
	if s.life.Err() != nil || c.retired.Swap(true) {
		return
	}
	idle := make(chan struct{})
	go func() {
		c.use.Lock() // waits for the calls in flight; an earlier release of c cancels them
		close(idle)
	}()
	s.work.Go(func() {
		select {
		case <-idle:
		case <-c.dead:
		case <-s.life.Done():
		}
		s.release(c)
	})
}

// disconnect ends the current connection normally.
func (s *server) disconnect(ctx context.Context) error {
	s.mu.Lock()
	c := s.conn
	if c == nil {
		s.mu.Unlock()
		return nil
	}
	s.conn, s.stderr = nil, s.tail(c)
	s.setState(StateIdle, "")
	s.mu.Unlock()
	return c.close(ctx)
}

// shutdown ends the server permanently. After shutdown none of its processes and goroutines is left, and OnChange is
// not called for it again.
func (s *server) shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.end()
	a, users := s.attempt, slices.Collect(maps.Values(s.users))
	s.mu.Unlock()
	for _, u := range users {
		_ = u.shutdown(ctx) // a server of one user has no process that could hang
	}
	if a != nil {
		<-a.done
	}
	err := s.disconnect(ctx)
	s.work.Wait()
	s.log.close()
	s.mu.Lock()
	s.setState(StateIdle, "")
	s.mu.Unlock()
	return err
}

const (
	maxInstructions = 64 << 10 // maximum size of the instructions in bytes
	maxInfo         = 1 << 10  // maximum size of a name, title or version in bytes
	maxBadLogged    = 5        // maximum number of unusable tools that are logged
)

// list requests the tools of a connected server.
func (s *server) list(ctx context.Context, c *conn) (*listing, error) {
	init := c.session.InitializeResult()
	l := &listing{Version: listingVersion, Protocol: cmp.Or(c.link.spoken(), init.ProtocolVersion), Instructions: clip.Text(init.Instructions, maxInstructions)}
	if i := init.ServerInfo; i != nil {
		l.ServerInfo = Info{clip.Text(i.Name, maxInfo), clip.Text(i.Title, maxInfo), clip.Text(i.Version, maxInfo)}
	}
	announced := init.Capabilities != nil && init.Capabilities.Tools != nil
	if !announced {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, unannouncedGrace)
		defer cancel()
	}
	tools, bad, why, err := c.listTools(ctx)
	switch {
	case announced && err == nil:
	case err != nil && !announced && !await(c.dead, 0):
		s.m.opts.Logger.Debug("server announces no tools and lists none", "server", s.cfg.Name, "error", brief{err})
		return l, nil
	case err == nil && len(tools) > 0:
		s.m.opts.Logger.Info("server lists tools without announcing that it has any", "server", s.cfg.Name, "tools", len(tools))
	}
	if why != "" {
		s.m.opts.Logger.Warn("the list of a server does not end; what it has so far is used", "server", s.cfg.Name, "list", "tools", "items", len(tools), "reason", why)
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("it did not list its tools within %s", s.cfg.StartupTimeout)
		}
		return nil, err
	}
	for _, err := range bad[:min(len(bad), maxBadLogged)] {
		s.m.opts.Logger.Warn("server describes a tool that cannot be used", "server", s.cfg.Name, "error", err, "such", len(bad))
	}
	l.Tools = tools
	if c.proc == nil { // a call over stdio has no headers that could repeat arguments
		l.Tools = slices.DeleteFunc(tools, func(t Tool) bool {
			_, err := mirrorsOf(t.InputSchema)
			if err != nil {
				s.m.opts.Logger.Warn("server describes a tool that cannot be used", "server", s.cfg.Name, "tool", t.Name, "error", err)
			}
			return err != nil
		})
	}
	return l, nil
}

// recall sets and reports a cached listing, unless the server has listed its tools meanwhile.
func (s *server) recall(l *listing) {
	s.reviewing.Lock()
	defer s.reviewing.Unlock()
	s.mu.Lock()
	known := s.listing != nil
	s.mu.Unlock()
	if known {
		return
	}
	held, fresh := s.review(l, true)
	if fresh {
		return
	}
	l.held, l.mirrors = held, mirrorsByTool(l.Tools)
	s.mu.Lock()
	s.listing, s.cached = l, true
	s.mu.Unlock()
	if s.cfg.usable() {
		s.report()
	}
}

// rereview reviews the known listing again.
func (s *server) rereview() {
	s.reviewing.Lock()
	defer s.reviewing.Unlock()
	s.mu.Lock()
	l, cached := s.listing, s.cached
	s.mu.Unlock()
	if l == nil {
		return
	}
	again := *l
	if again.held, _ = s.review(l, cached); maps.Equal(again.held, l.held) {
		return
	}
	s.mu.Lock()
	s.listing = &again
	s.mu.Unlock()
	if s.cfg.usable() {
		s.report()
	}
}

// review returns the names of the tools of a listing that Options.Review holds back. fresh reports that a cached listing must not be used.
func (s *server) review(l *listing, cached bool) (held map[string]bool, fresh bool) {
	if s.m.opts.Review == nil {
		return nil, false
	}
	of := s.offer(l)
	of.Cached = cached
	names, fresh := s.m.opts.Review(s.life, of)
	for _, name := range names {
		if held == nil {
			held = map[string]bool{}
		}
		held[name] = true
	}
	return held, fresh
}

// offer returns the part of a listing that the configuration allows.
func (s *server) offer(l *listing) Server {
	return Server{
		Status: Status{Name: s.cfg.Name, Protocol: l.Protocol, ServerInfo: l.ServerInfo, Instructions: l.Instructions},
		Tools:  slices.DeleteFunc(slices.Clone(l.Tools), func(t Tool) bool { return !s.cfg.offers(t.Name) }), Known: true,
	}
}

// holds reports whether the review of the known listing holds a tool back.
func (s *server) holds(tool string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listing != nil && s.listing.held[tool]
}

// mirrored returns the mirrored arguments of a tool.
func (s *server) mirrored(tool string) []mirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing == nil {
		return nil
	}
	return s.listing.mirrors[tool]
}

// publish sets and reports a listing of the running server, and writes it to disk if it has changed.
func (s *server) publish(l *listing) {
	s.reviewing.Lock()
	defer s.reviewing.Unlock()
	l.held, _ = s.review(l, false)
	l.mirrors = mirrorsByTool(l.Tools)
	s.mu.Lock()
	changed := !reflect.DeepEqual(s.listing, l)
	if changed {
		s.listing = l
	}
	s.cached = false
	s.mu.Unlock()
	if changed {
		if err := writeListing(s.m.opts.CacheDir, s.cfg, l); err != nil {
			s.m.opts.Logger.Warn("tools are not cached", "error", err)
		}
	}
	s.notSlow()
	s.report()
}

// report calls OnChange if the listing differs from the last reported one. The lock keeps reports in order.
func (s *server) report() {
	if s.m.opts.OnChange == nil {
		return
	}
	s.reporting.Lock()
	defer s.reporting.Unlock()
	s.mu.Lock()
	l := s.listing
	s.mu.Unlock()
	if s.life.Err() != nil || l == s.reported {
		return
	}
	s.reported = l
	s.m.opts.OnChange(s.snapshot())
}

// snapshot returns the present state and tools of the server.
func (s *server) snapshot() Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Name: s.cfg.Name, State: s.state, Reason: strings.TrimSpace(s.reason + "\n" + s.detail), Transport: s.transport(), Sandbox: s.cfg.Sandbox, Since: s.since,
		Restarts: s.restarts, RetryAt: s.retryAt, StderrTail: s.stderr, Refusal: s.refusal, Conn: s.number, Cached: s.cached, Scopes: s.scopes, PerUser: s.cfg.PerUser,
	}
	if c := s.conn; c != nil {
		st.StderrTail = s.tail(c)
		if c.proc != nil {
			st.PID = c.proc.pid
		}
	}
	out := Server{}
	if l := s.listing; l != nil {
		offer := s.offer(l)
		st.Protocol, st.ServerInfo, st.Instructions = offer.Protocol, offer.ServerInfo, offer.Instructions
		if l.held[""] {
			st.ServerInfo.Title, st.Instructions = "", ""
		}
		if s.cfg.usable() {
			out.Known = true
			out.Tools = slices.DeleteFunc(offer.Tools, func(t Tool) bool { return l.held[t.Name] })
			out.Held = slices.Sorted(maps.Keys(l.held))
		}
	}
	st.Tools, st.Held = len(out.Tools), len(out.Held)
	out.Status = st
	return out
}

// transport returns the transport in use, or the one that will be tried first. The caller holds s.mu.
func (s *server) transport() string {
	switch {
	case s.conn != nil:
		return s.conn.transport
	case s.cfg.Transport != "":
		return s.cfg.Transport
	case s.cfg.Command != "":
		return TransportStdio
	case s.cfg.Fetch != nil, s.cfg.Within != nil:
		return TransportBuiltIn
	case s.cfg.documented():
		return TransportOpenAPI
	}
	return TransportHTTP
}
