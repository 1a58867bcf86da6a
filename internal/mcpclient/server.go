package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// server is one configured server over all its connections.
type server struct {
	cfg    Config
	m      *Manager
	dialer *dialer // used by one attempt at a time

	mu       sync.Mutex
	state    State
	reason   string
	stderr   string // of the last connection or attempt
	since    time.Time
	conn     *conn
	number   int64
	restarts int
	failures int // in a row, for the backoff
	retryAt  time.Time
	attempt  *attempt
	closed   bool
	over     chan struct{}  // closed once closed is set
	work     sync.WaitGroup // goroutines; begins only while not closed

	listing *listing // what is known of the tools; nil is nothing
	cached  bool     // listing is from the disk

	reporting sync.Mutex
	reported  *listing // the last that OnChange was told
}

// attempt is a start under way; all who need the server wait for the same one.
type attempt struct {
	done   chan struct{}
	cancel context.CancelFunc
	conn   *conn
	err    error
}

func (s *server) setState(state State, reason string) {
	s.state, s.reason, s.since = state, reason, time.Now()
}

func (s *server) unavailable(msg string) *CallError {
	return &CallError{Server: s.cfg.Name, Kind: KindUnavailable, Message: msg}
}

// connect returns the connection, making one if need be. The attempt is not the caller's: it goes on when ctx ends.
func (s *server) connect(ctx context.Context, force bool) (*conn, error) {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, s.unavailable("its connection was closed for good")
	case s.cfg.Disabled:
		s.mu.Unlock()
		return nil, s.unavailable("it is disabled in the configuration")
	case s.cfg.Err != nil:
		s.mu.Unlock()
		return nil, s.unavailable(s.cfg.Err.Error())
	case s.conn != nil:
		defer s.mu.Unlock()
		return s.conn, nil
	}
	if s.attempt == nil {
		if wait := time.Until(s.retryAt); wait > 0 && !force {
			defer s.mu.Unlock()
			err := s.unavailable(fmt.Sprintf("%s; it is started again in %s at the earliest", s.reason,
				wait.Round(100*time.Millisecond)))
			err.Stderr = s.stderr
			return nil, err
		}
		life, cancel := context.WithTimeout(s.m.base, s.cfg.startupTimeout())
		a := &attempt{done: make(chan struct{}), cancel: cancel}
		s.work.Go(func() { s.run(life, a) })
		s.attempt = a
		s.setState(StateStarting, "")
	}
	a := s.attempt
	s.mu.Unlock()
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

// run makes one attempt: connect, list the tools, publish.
func (s *server) run(ctx context.Context, a *attempt) {
	defer close(a.done)
	defer a.cancel()
	c, err := s.dialer.dial(ctx)
	var l *listing
	if err == nil {
		l, err = s.list(ctx, c)
		if err != nil {
			if c.stderr != nil && c.stderr.String() != "" {
				err = &stderrError{err, c.stderr.String()}
			}
			s.release(c)
		}
	}
	s.mu.Lock()
	s.attempt = nil
	if err != nil {
		err = brief{err}
		s.failed(err)
		a.err = s.startError(err)
		s.mu.Unlock()
		s.m.opts.Logger.Warn("server did not start", "server", s.cfg.Name, "error", err)
		return
	}
	if s.number != 0 {
		s.restarts++
	}
	s.number = max(s.number+1, time.Now().UnixMicro())
	c.number = s.number
	s.conn, a.conn = c, c
	s.setState(StateReady, "")
	s.retryAt = time.Time{}
	changed := s.adopt(l)
	s.mu.Unlock()
	s.publish(l, changed)
	s.work.Go(func() { s.follow(c) })
}

// release ends a connection that nobody has seen.
func (s *server) release(c *conn) {
	ctx, cancel := context.WithTimeout(context.Background(), eofGrace)
	defer cancel()
	_ = c.close(ctx) // its failure adds nothing to the reason for ending it
}

// failed notes a failed start; s.mu is held.
func (s *server) failed(err error) {
	s.stderr = ""
	var withTail *stderrError
	if errors.As(err, &withTail) {
		s.stderr = withTail.tail
	}
	if s.state != StateDisabled && !s.closed {
		s.setState(StateFailed, "it did not start: "+err.Error())
		s.backOff()
	}
}

func (s *server) startError(err error) *CallError {
	ce := s.unavailable("it did not start: " + err.Error())
	ce.Err, ce.Stderr = err, s.stderr
	return ce
}

// backOff sets when the server may be started again: 0.5 s after the first failure, 1 s after the second, doubling to
// 30 s, each between half and all of that, so that many do not come back in step. s.mu is held.
func (s *server) backOff() {
	d := s.m.opts.backoffMax
	if s.failures < 16 {
		d = min(d, s.m.opts.backoffMin<<s.failures)
	}
	s.failures++
	s.retryAt = time.Now().Add(d/2 + rand.N(d/2+1))
}

// The pause after listing changed tools, which doubles while they go on changing.
const (
	relistMin = time.Second
	relistMax = 30 * time.Second
)

// follow watches a connection: it lists the tools again when they change, and notes its end.
func (s *server) follow(c *conn) {
	defer s.lost(c)
	for pause := time.Duration(0); ; {
		select {
		case <-c.changed:
		case <-c.dead:
			return
		}
		s.relist(c)
		pause = min(max(2*pause, relistMin), relistMax)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.dead:
			timer.Stop()
			return
		}
		if len(c.changed) == 0 {
			pause = 0
		}
	}
}

// relist lists the tools of a connected server again.
func (s *server) relist(c *conn) {
	ctx, cancel := context.WithTimeout(c.calls, s.cfg.startupTimeout())
	defer cancel()
	l, err := s.list(ctx, c)
	if err == nil {
		s.learn(l)
	} else if c.calls.Err() == nil {
		s.m.opts.Logger.Warn("server changed its tools but did not list them", "server", s.cfg.Name, "error", brief{err})
	}
}

// lost notes that a connection ended by itself, once, and releases what is left of it.
func (s *server) lost(c *conn) {
	s.mu.Lock()
	if s.conn == c {
		s.m.opts.Logger.Info("connection to server ended", "server", s.cfg.Name, "reason", c.deadErr)
		s.conn = nil
		if c.stderr != nil {
			s.stderr = c.stderr.String()
		}
		if !s.closed {
			if time.Since(s.since) >= s.m.opts.healthy {
				s.failures = 0
			}
			s.setState(StateBackoff, "its connection was lost: "+c.deadErr.Error())
			s.backOff()
		}
	}
	s.mu.Unlock()
	s.release(c)
}

// retire replaces a connection whose session the server has forgotten: the next call makes a new one, calls in flight
// go on to their end. It says nothing of the server's health, so there is no backoff.
func (s *server) retire(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c {
		s.conn = nil
		if !s.closed {
			s.setState(StateIdle, "")
		}
	}
	if s.closed || !c.retire() {
		return
	}
	s.work.Go(func() {
		select {
		case <-c.idle:
		case <-c.dead:
		case <-s.over:
		}
		s.release(c)
	})
}

// disconnect ends the current connection, or only c if that is given, in order.
func (s *server) disconnect(ctx context.Context, c *conn) error {
	s.mu.Lock()
	have := s.conn
	if have == nil || (c != nil && have != c) {
		s.mu.Unlock()
		return nil
	}
	s.conn = nil
	if have.stderr != nil {
		s.stderr = have.stderr.String()
	}
	if !s.closed {
		s.setState(StateIdle, "")
	}
	s.mu.Unlock()
	return have.close(ctx)
}

// shutdown ends the server for good. After it, none of its processes and goroutines is left, and nothing of it is
// reported any more.
func (s *server) shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.over)
	}
	a := s.attempt
	s.mu.Unlock()
	if a != nil {
		a.cancel()
		<-a.done
	}
	err := s.disconnect(ctx, nil)
	s.work.Wait()
	s.mu.Lock()
	s.setState(StateIdle, "")
	s.mu.Unlock()
	return err
}

const (
	maxInstructions = 64 << 10 // bytes
	maxInfo         = 1 << 10  // bytes of a name
	maxBadLogged    = 5        // of the tools that cannot be used
)

// list asks a connected server for its tools.
func (s *server) list(ctx context.Context, c *conn) (*listing, error) {
	init := c.session.InitializeResult()
	l := &listing{Protocol: init.ProtocolVersion, Instructions: clip(init.Instructions, maxInstructions)}
	if i := init.ServerInfo; i != nil {
		l.ServerInfo = Info{clip(i.Name, maxInfo), clip(i.Title, maxInfo), clip(i.Version, maxInfo)}
	}
	if init.Capabilities == nil || init.Capabilities.Tools == nil {
		return l, nil // it says that it has none
	}
	tools, bad, err := c.listTools(ctx)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("it did not list its tools within %s", s.cfg.startupTimeout())
		}
		return nil, err
	}
	for _, err := range bad[:min(len(bad), maxBadLogged)] {
		s.m.opts.Logger.Warn("server describes a tool that cannot be used", "server", s.cfg.Name, "error", err, "such", len(bad))
	}
	l.Tools = tools
	return l, nil
}

// learn makes a listing of the running server the known one, on disk as well.
func (s *server) learn(l *listing) {
	s.mu.Lock()
	changed := s.adopt(l)
	s.mu.Unlock()
	s.publish(l, changed)
}

// adopt makes a listing the known one and reports whether it differs from the one before; s.mu is held.
func (s *server) adopt(l *listing) (changed bool) {
	changed = s.listing == nil || !sameListing(s.listing, l)
	s.listing, s.cached = l, false
	return changed
}

// publish writes a listing to disk if it has changed, and reports it.
func (s *server) publish(l *listing, changed bool) {
	if changed {
		if err := writeListing(s.m.opts.CacheDir, s.cfg, l); err != nil {
			s.m.opts.Logger.Warn("tools are not cached", "error", err)
		}
	}
	s.report()
}

func sameListing(a, b *listing) bool {
	return a.Protocol == b.Protocol && a.ServerInfo == b.ServerInfo && a.Instructions == b.Instructions &&
		sameTools(a.Tools, b.Tools)
}

// report tells OnChange what it does not know yet. The lock keeps reports in order.
func (s *server) report() {
	if s.m.opts.OnChange == nil {
		return
	}
	s.reporting.Lock()
	defer s.reporting.Unlock()
	s.mu.Lock()
	l, closed := s.listing, s.closed
	s.mu.Unlock()
	if closed || l == nil {
		return
	}
	if s.reported != nil && s.reported.Instructions == l.Instructions && sameTools(s.reported.Tools, l.Tools) {
		return
	}
	s.reported = l
	s.m.opts.OnChange(s.snapshot())
}

// snapshot describes the server as it is now.
func (s *server) snapshot() Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Name: s.cfg.Name, State: s.state, Reason: s.reason, Transport: s.transport(), Since: s.since,
		Restarts: s.restarts, RetryAt: s.retryAt, StderrTail: s.stderr, Conn: s.number, Cached: s.cached,
	}
	if c := s.conn; c != nil {
		if c.proc != nil {
			st.PID = c.proc.pid
		}
		if c.stderr != nil {
			st.StderrTail = c.stderr.String()
		}
	}
	out := Server{}
	if l := s.listing; l != nil {
		st.Protocol, st.ServerInfo, st.Instructions = l.Protocol, l.ServerInfo, l.Instructions
		if s.cfg.usable() {
			out.Known = true
			out.Tools = slices.DeleteFunc(slices.Clone(l.Tools), func(t Tool) bool { return !s.cfg.offers(t.Name) })
		}
	}
	st.Tools = len(out.Tools)
	out.Status = st
	return out
}

// transport is the one in use, or the one that will be tried first; s.mu is held.
func (s *server) transport() string {
	switch {
	case s.conn != nil:
		return s.conn.transport
	case s.cfg.Transport != "":
		return s.cfg.Transport
	case s.cfg.Command != "":
		return TransportStdio
	}
	return TransportHTTP
}
