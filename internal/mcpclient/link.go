package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"
)

const (
	// maxInbound is the maximum number of unanswered requests of a server (pings).
	maxInbound = 256

	// Limits of a server's unsolicited messages: rate and maximum burst. Progress reports, notifications, requests and answers to
	// unknown requests count as unsolicited.
	messagesPerSecond = 1_000
	maxBurst          = 20_000
)

// discoverGrace is the timeout of server/discover to a stdio server. Servers of protocol versions before 2026-07-28
// refuse the request or do not answer it; the SDK then sends initialize.
var discoverGrace = 3 * time.Second

var (
	errInboundFlood = newFault(KindProtocol, "the server has more than %d requests of its own open", maxInbound)
	errFlood        = newFault(KindProtocol, "the server sends more than %d messages a second that nothing asked for", messagesPerSecond)
)

// Methods that this package handles itself.
const (
	methodInitialize   = "initialize"
	methodInitialized  = "notifications/initialized"
	methodProgress     = "notifications/progress"
	methodToolsChanged = "notifications/tools/list_changed"
	methodDiscover     = "server/discover"
)

// carrier moves messages between a link and a server.
type carrier interface {
	// open starts delivering the server's messages to the link.
	open(ctx context.Context, l *link) error
	// send writes a message; ex is its exchange, nil for the SDK's own messages. It returns early when ctx ends. An error ends the
	// link, so a carrier reports the failure of a single request with link.reject. Safe for concurrent use.
	send(ctx context.Context, msg jsonrpc.Message, ex *exchange) error
	// close ends sending. It is called once.
	close()
}

// pace limits the rate of unsolicited messages on one stream. A nil pace has no limit.
type pace struct{ left *rate.Limiter }

func newPace() *pace { return &pace{rate.NewLimiter(messagesPerSecond, maxBurst)} }

// count counts one message; the error ends the stream.
func (p *pace) count() error {
	if p != nil && !p.left.Allow() {
		return errFlood
	}
	return nil
}

// link is the connection between the SDK and a carrier. It keeps answers and progress for the exchanges. It limits the messages that
// reach the SDK, because the SDK's queue of received messages has no limit.
type link struct {
	carrier  carrier
	notice   func(*jsonrpc.Request) // called for notifications about prompts and resources; must not block
	discover time.Duration          // timeout of server/discover; 0 is no timeout

	mu      sync.Mutex
	byID    map[jsonrpc.ID]*exchange
	byToken map[string]*exchange
	probe   jsonrpc.ID // id of the unanswered server/discover
	shaking jsonrpc.ID // id of the unanswered initialize
	version string     // protocol version that the server named; empty before its answer
	open    int        // number of unanswered requests of the server
	changed bool       // reports that the SDK got a notification of changed tools, whose handler has not run yet
	err     error

	messages  chan jsonrpc.Message
	closeOnce sync.Once
	closed    chan struct{}
}

func newLink(c carrier) *link {
	return &link{
		carrier: c, byID: make(map[jsonrpc.ID]*exchange), byToken: make(map[string]*exchange),
		messages: make(chan jsonrpc.Message), closed: make(chan struct{}),
	}
}

// Connect implements [mcp.Transport].
func (l *link) Connect(ctx context.Context) (mcp.Connection, error) { return l, l.carrier.open(ctx, l) }

// SessionID implements [mcp.Connection].
func (l *link) SessionID() string { return "" }

// Close implements [mcp.Connection].
func (l *link) Close() error {
	l.closeOnce.Do(func() {
		close(l.closed)
		l.carrier.close()
	})
	return nil
}

// Read implements [mcp.Connection].
func (l *link) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case <-l.closed:
		return nil, io.EOF
	case msg := <-l.messages:
		return msg, nil
	}
}

// Write implements [mcp.Connection].
func (l *link) Write(ctx context.Context, msg jsonrpc.Message) error {
	var ex *exchange
	switch m := msg.(type) {
	case *jsonrpc.Request:
		if m.IsCall() {
			if strings.HasSuffix(m.Method, "/list") && bytes.Contains(m.Params, []byte(emptyCursor)) {
				m.Params = bytes.Replace(m.Params, []byte(emptyCursor), nil, 1)
			}
			ex = exchangeOf(ctx)
			l.expect(m, ex)
		}
	case *jsonrpc.Response:
		defer func() {
			l.mu.Lock()
			l.open--
			l.mu.Unlock()
		}()
	}
	return l.carrier.send(ctx, msg, ex)
}

// expect records a request that is about to be sent.
func (l *link) expect(m *jsonrpc.Request, ex *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Method == methodDiscover && l.discover > 0 { // the first request of a connection
		l.probe = m.ID
		time.AfterFunc(l.discover, func() {
			if l.probing() {
				l.reject(m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer to " + methodDiscover})
			}
		})
	}
	if m.Method == methodInitialize {
		l.shaking = m.ID
	}
	if ex != nil {
		ex.id = m.ID
		l.byID[ex.id] = ex
		l.byToken[ex.token] = ex
	}
}

// forget removes an exchange: later messages for it are dropped.
func (l *link) forget(ex *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byID, ex.id)
	delete(l.byToken, ex.token)
}

// probing reports whether server/discover was sent and has no answer yet.
func (l *link) probing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.probe.IsValid()
}

// reject answers a request with an error in place of the server.
func (l *link) reject(id jsonrpc.ID, err error) {
	_ = l.deliver(&jsonrpc.Response{ID: id, Error: err}, nil) // a closed link answers every request itself
}

// deliver handles a message of the server, and passes what incoming returns to the SDK. An error ends the stream that carried the message.
func (l *link) deliver(msg jsonrpc.Message, p *pace) error {
	msg, err := l.incoming(msg, p)
	if msg == nil || err != nil {
		return err
	}
	select {
	case l.messages <- msg:
		return nil
	case <-l.closed:
		return io.EOF
	}
}

// incoming handles a message and returns the one that the SDK gets in its place; nil if the SDK gets none.
func (l *link) incoming(msg jsonrpc.Message, p *pace) (jsonrpc.Message, error) {
	var notice *jsonrpc.Request
	defer func() { // runs without the lock
		if notice != nil && l.notice != nil {
			l.notice(notice)
		}
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	if m, ok := msg.(*jsonrpc.Response); ok {
		switch {
		case !m.ID.IsValid():
		case m.ID == l.probe:
			l.probe = jsonrpc.ID{}
		case m.ID == l.shaking:
			l.shaking = jsonrpc.ID{}
			if m.Error == nil && len(m.Result) <= maxAside {
				plain := *m
				plain.Result, l.version = plainHandshake(m.Result)
				m = &plain
			}
		}
		ex := l.byID[m.ID]
		delete(l.byID, m.ID)
		if ex == nil {
			return ex.answered(m), p.count()
		}
		size := int64(len(m.Result))
		if err := ex.charge.grow(nil, size, size); err != nil { //nolint:staticcheck // with nil, grow fails at once: waiting would delay other calls
			m = &jsonrpc.Response{ID: m.ID, Error: err}
		}
		return ex.answered(m), nil
	}
	m := msg.(*jsonrpc.Request)
	if err := p.count(); err != nil {
		return nil, err
	}
	switch {
	case m.IsCall() && l.open == maxInbound:
		return nil, errInboundFlood
	case m.IsCall():
		l.open++
		return m, nil
	case m.Method == methodProgress:
		if token, report, ok := readProgress(m.Params); ok && l.byToken[token] != nil {
			l.byToken[token].progressed(report)
		}
	case m.Method == methodPromptsChanged || m.Method == methodResourcesChanged || m.Method == methodResourceUpdated:
		notice = m
	case m.Method == methodToolsChanged && !l.changed:
		l.changed = true
		return m, nil
	}
	return nil, nil
}

// changeHandled records that the SDK's handler for changed tools has run, so that the next change is passed on.
func (l *link) changeHandled() {
	l.mu.Lock()
	l.changed = false
	l.mu.Unlock()
}

// end closes the link because the stream that carries all messages ended. If the link stayed open, the SDK would wait until the server
// reads the SDK's answers. A server that is gone or floods may never read them.
func (l *link) end(err error) {
	l.mu.Lock()
	if f, ok := errors.AsType[*fault](err); ok && l.err == nil {
		l.err = f
	}
	l.mu.Unlock()
	_ = l.Close()
}

// spoken returns the protocol version that the server named in the handshake, "" if it named none.
func (l *link) spoken() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// failure returns the server's fault because of which the link was closed, nil if there was none.
func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
