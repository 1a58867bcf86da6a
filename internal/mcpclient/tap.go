package mcpclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// discoverGrace is how long a server may take to answer server/discover, which servers before 2026-07-28 do not know;
// most refuse it at once, some say nothing. The SDK then goes on with initialize.
const discoverGrace = 3 * time.Second

// tap is a connection between the SDK and a stream transport (stdio, SSE). It takes answers and progress off the
// wire, and bounds what a server can make the SDK do.
type tap struct {
	inner    mcp.Connection
	inbound  *inbound
	pace     pace
	discover time.Duration

	injected chan jsonrpc.Message // answers made here

	mu      sync.Mutex
	byID    map[jsonrpc.ID]*exchange
	byToken map[string]*exchange
	probe   jsonrpc.ID // of server/discover while it is unanswered
	readErr error

	reads     chan message // from the reading goroutine
	startOnce sync.Once
	closeOnce sync.Once
	closeErr  error
	closed    chan struct{}
}

type message struct {
	msg jsonrpc.Message
	err error
}

func newTap(inner mcp.Connection, in *inbound) *tap {
	return &tap{
		inner:    inner,
		inbound:  in,
		pace:     newPace(),
		discover: discoverGrace,
		injected: make(chan jsonrpc.Message, 1),
		byID:     make(map[jsonrpc.ID]*exchange),
		byToken:  make(map[string]*exchange),
		reads:    make(chan message),
		closed:   make(chan struct{}),
	}
}

// SessionID implements [mcp.Connection].
func (t *tap) SessionID() string { return t.inner.SessionID() }

// Close implements [mcp.Connection].
func (t *tap) Close() error {
	t.closeOnce.Do(func() {
		close(t.closed)
		t.closeErr = t.inner.Close()
	})
	return t.closeErr
}

// Write implements [mcp.Connection].
func (t *tap) Write(ctx context.Context, msg jsonrpc.Message) error {
	switch m := msg.(type) {
	case *jsonrpc.Request:
		if !m.IsCall() {
			break
		}
		if m.Method == methodDiscover { // the first request of a connection
			t.mu.Lock()
			t.probe = m.ID
			t.mu.Unlock()
			time.AfterFunc(t.discover, func() { t.giveUp(m.ID) })
		}
		if ex := exchangeOf(ctx); ex != nil {
			t.mu.Lock()
			t.byID[m.ID] = ex
			if ex.token != "" {
				t.byToken[ex.token] = ex
			}
			t.mu.Unlock()
		}
	case *jsonrpc.Response:
		defer t.inbound.answered()
	}
	return t.inner.Write(ctx, msg)
}

// giveUp answers server/discover in the server's place.
func (t *tap) giveUp(id jsonrpc.ID) {
	t.mu.Lock()
	open := t.probe == id
	t.probe = jsonrpc.ID{}
	t.mu.Unlock()
	if open {
		t.injected <- &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
			Code: jsonrpc.CodeMethodNotFound, Message: "no answer to " + methodDiscover,
		}} // the buffer has room: there is one probe in a connection
	}
}

// probing reports that server/discover was sent and has no answer yet.
func (t *tap) probing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.probe.IsValid()
}

// forget ends an exchange: what comes for it from now on is dropped.
func (t *tap) forget(ex *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, have := range t.byID {
		if have == ex {
			delete(t.byID, id)
		}
	}
	delete(t.byToken, ex.token)
}

// failure is why reading ended, nil while it goes on or when it ended in order.
func (t *tap) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readErr
}

// Read implements [mcp.Connection].
func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	t.startOnce.Do(func() { go t.read(ctx) })
	for {
		var m message
		select {
		case <-t.closed:
			return nil, io.EOF
		case msg := <-t.injected:
			return msg, nil
		case m = <-t.reads:
		}
		if m.err == nil {
			m.msg, m.err = t.incoming(m.msg)
		}
		if m.err != nil {
			// The SDK waits for its own answers to be written, which a server that is gone or floods may never read.
			if errors.Is(m.err, io.EOF) {
				_ = t.Close()
			} else {
				t.fail(m.err)
			}
			return nil, m.err
		}
		if m.msg != nil {
			return m.msg, nil
		}
	}
}

// read moves messages until the transport ends. The SDK's context for reading never ends.
func (t *tap) read(ctx context.Context) {
	for {
		msg, err := t.inner.Read(ctx)
		select {
		case t.reads <- message{msg, err}:
		case <-t.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// incoming decides what the SDK sees of a message; nil is nothing.
func (t *tap) incoming(msg jsonrpc.Message) (jsonrpc.Message, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch m := msg.(type) {
	case *jsonrpc.Response:
		if t.probe.IsValid() && m.ID == t.probe {
			t.probe = jsonrpc.ID{}
		}
		ex := t.byID[m.ID]
		delete(t.byID, m.ID)
		if ex == nil {
			return ex.answered(m), t.pace.count()
		}
		size := int64(len(m.Result))
		if err := ex.charge.grow(nil, size, size); err != nil { //nolint:staticcheck // without a context it does not wait: that would hold up the other calls
			m = &jsonrpc.Response{ID: m.ID, Error: err}
		}
		return ex.answered(m), nil
	case *jsonrpc.Request:
		if err := t.pace.count(); err != nil {
			return nil, err
		}
		if m.Method == methodProgress && !m.IsCall() {
			if token, p, ok := readProgress(m.Params); ok && t.byToken[token] != nil {
				t.byToken[token].progressed(p)
			}
			return nil, nil
		}
		if pass, err := t.inbound.admit(m); !pass {
			return nil, err
		}
		return m, nil
	}
	return nil, nil
}

// fail ends the connection with a reason.
func (t *tap) fail(err error) {
	t.mu.Lock()
	if t.readErr == nil {
		t.readErr = err
	}
	t.mu.Unlock()
	_ = t.Close()
}
