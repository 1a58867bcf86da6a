package mcpclient

import (
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxInbound bounds the requests a server may have open with us (pings).
const maxInbound = 256

var errInboundFlood = fmt.Errorf("the server has more than %d requests of its own open", maxInbound)

// inbound decides which of a server's own messages reach the SDK, which queues what it gets without a limit: requests,
// of which a bounded number may be open, and that the tools changed, which is told once until it was heard. Safe for
// concurrent use.
type inbound struct {
	mu      sync.Mutex
	open    int
	changed bool // told and not yet heard
}

// admit reports whether the SDK gets to see a request or notification. An error ends the connection.
func (in *inbound) admit(m *jsonrpc.Request) (bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case m.IsCall():
		if in.open++; in.open > maxInbound {
			return false, errInboundFlood
		}
		return true, nil
	case m.Method == methodToolsChanged && !in.changed:
		in.changed = true
		return true, nil
	}
	return false, nil
}

// answered notes that an answer of ours was written: a server that reads none keeps its requests open.
func (in *inbound) answered() {
	in.mu.Lock()
	in.open--
	in.mu.Unlock()
}

// heard notes that the change of the tools has arrived. What the server says from now on is another one.
func (in *inbound) heard() {
	in.mu.Lock()
	in.changed = false
	in.mu.Unlock()
}
