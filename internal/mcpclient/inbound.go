package mcpclient

import (
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/time/rate"
)

const (
	// maxInbound bounds the requests a server may have open with this client (pings).
	maxInbound = 256

	// A server may send maxBurst messages that nothing asked for at once, and messagesPerSecond over time: reports of
	// progress, notifications, its own requests, answers to no request, lines that are no message.
	messagesPerSecond = 1_000
	maxBurst          = 20_000
	// The same for the bytes it writes to stderr.
	stderrPerSecond = 1 << 20
	maxStderrBurst  = 32 << 20
)

var (
	errInboundFlood = fmt.Errorf("the server has more than %d requests of its own open", maxInbound)
	errFlood        = fmt.Errorf("the server sends more than %d messages a second that nothing asked for", messagesPerSecond)
	errStderrFlood  = fmt.Errorf("the server writes more than %d bytes a second to stderr", stderrPerSecond)
)

// pace bounds the messages on one stream of a server that nothing asked for.
type pace struct{ left *rate.Limiter }

func newPace() pace { return pace{rate.NewLimiter(messagesPerSecond, maxBurst)} }

// count counts one message; the error ends the stream.
func (p pace) count() error {
	if !p.left.Allow() {
		return errFlood
	}
	return nil
}

// inbound decides which of a server's own messages reach the SDK, which queues what it gets without a limit: requests,
// of which maxInbound may be open, and a change of the tools, once until it was heard. Safe for concurrent use.
type inbound struct {
	mu      sync.Mutex
	open    int
	changed bool // passed on and not yet heard
}

// admit reports whether the SDK gets to see a request or notification. An error ends the stream it came on.
func (in *inbound) admit(m *jsonrpc.Request) (bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case m.IsCall():
		if in.open == maxInbound {
			return false, errInboundFlood
		}
		in.open++
		return true, nil
	case m.Method == methodToolsChanged && !in.changed:
		in.changed = true
		return true, nil
	}
	return false, nil
}

// answered notes that an answer to a request of the server was written.
func (in *inbound) answered() {
	in.mu.Lock()
	in.open--
	in.mu.Unlock()
}

// heard notes that the change of the tools has arrived. The next one is passed on again.
func (in *inbound) heard() {
	in.mu.Lock()
	in.changed = false
	in.mu.Unlock()
}
