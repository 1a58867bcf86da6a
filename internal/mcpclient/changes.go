package mcpclient

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	methodPromptsChanged   = "notifications/prompts/list_changed"
	methodResourcesChanged = "notifications/resources/list_changed"
	methodResourceUpdated  = "notifications/resources/updated"
)

const (
	maxSubscriptions = 10_000          // maximum number of subscriptions to resources of one server
	unsubscribeTime  = 5 * time.Second // timeout of the request that ends a subscription
)

// notice tells any number of waiters that something has changed. The zero value is ready for use.
type notice struct {
	mu sync.Mutex
	c  chan struct{}
}

// wait returns a channel that the next change closes.
func (s *notice) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}

func (s *notice) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}

// PromptsChanged returns a channel that is closed when a server reports changed prompts, is connected or is removed.
func (m *Manager) PromptsChanged() <-chan struct{} { return m.prompts.wait() }

// ResourcesChanged does the same as PromptsChanged for resources and their templates.
func (m *Manager) ResourcesChanged() <-chan struct{} { return m.resources.wait() }

// Subscribe subscribes to a resource of a server until cancel is called; the server stays connected until then. The function updated is called
// when the server reports a change. It is also called after each reconnection, because changes before it may have been missed. updated must not
// block. Errors are *[CallError].
func (m *Manager) Subscribe(ctx context.Context, user, server, uri string, updated func()) (cancel func(), err error) {
	s, err := m.serverOf(user, server)
	if err != nil {
		return nil, err
	}
	c, err := s.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	if caps := c.session.InitializeResult().Capabilities; caps == nil || caps.Resources == nil || !caps.Resources.Subscribe {
		return nil, &CallError{Server: server, Kind: KindRefused, Message: "it does not tell when its resources change"}
	}
	added := &subscription{uri, updated}
	if !s.addSubscription(added) {
		return nil, s.unavailable("there are too many subscriptions to its resources")
	}
	if err := s.subscribe(ctx, c, uri); err != nil {
		s.removeSubscription(added)
		return nil, err
	}
	return sync.OnceFunc(func() { s.removeSubscription(added) }), nil
}

// subscription is one subscriber of a resource.
type subscription struct {
	uri     string
	updated func()
}

// of reports whether uri is the subscribed resource or lies below it: servers may report a change of a part.
func (s *subscription) of(uri string) bool {
	rest, below := strings.CutPrefix(uri, s.uri)
	return below && (rest == "" || rest[0] == '/' || strings.HasSuffix(s.uri, "/"))
}

func (s *server) addSubscription(added *subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil || len(s.subscriptions) >= maxSubscriptions {
		return false
	}
	if s.subscriptions == nil {
		s.subscriptions = map[*subscription]bool{}
	}
	s.subscriptions[added] = true
	s.inFlight.Add(1) // a subscription keeps a user's connection from counting as idle
	return true
}

// removeSubscription removes a subscription. If it was the last one to its resource, removeSubscription also unsubscribes at the server.
func (s *server) removeSubscription(gone *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscriptions, gone)
	s.inFlight.Add(-1)
	if c := s.conn; c != nil && s.life.Err() == nil && !s.subscribed(gone.uri) {
		s.work.Go(func() { s.unsubscribe(c, gone.uri) })
	}
}

// subscribed reports whether there is a subscription to a resource. The caller holds s.mu.
func (s *server) subscribed(uri string) bool {
	for other := range s.subscriptions {
		if other.uri == uri {
			return true
		}
	}
	return false
}

// noProgress stands for the parameters of a request without progress reports.
type noProgress struct{}

func (noProgress) SetProgressToken(any) {}

// subscribe asks a connected server to report changes of a resource. It may be repeated for the same resource.
func (s *server) subscribe(ctx context.Context, c *conn, uri string) error {
	params := &mcp.SubscribeParams{URI: uri}
	if c.session.InitializeResult().ProtocolVersion > legacyVersion {
		return c.session.Subscribe(ctx, params) // opens a stream, and returns at once
	}
	raw, err := s.try(ctx, c, CallOptions{}, noProgress{}, func(ctx context.Context, c *conn) error { return c.session.Subscribe(ctx, params) })
	raw.charge.free()
	return err
}

// unsubscribe ends the subscription to a resource at a connected server.
func (s *server) unsubscribe(c *conn, uri string) {
	ctx, cancel := context.WithTimeout(s.life, unsubscribeTime)
	defer cancel()
	params := &mcp.UnsubscribeParams{URI: uri}
	if c.session.InitializeResult().ProtocolVersion > legacyVersion {
		_ = c.session.Unsubscribe(ctx, params) // ends the stream
	} else {
		raw, _ := s.try(ctx, c, CallOptions{}, noProgress{}, func(ctx context.Context, c *conn) error { return c.session.Unsubscribe(ctx, params) })
		raw.charge.free() // later reports of the server are ignored
	}
	s.mu.Lock()
	again := s.subscribed(uri)
	s.mu.Unlock()
	if again { // the server may have received a newer request to subscribe before the request to unsubscribe
		_ = s.subscribe(ctx, c, uri)
	}
}

// noticed handles a notification of the server. It does not block.
func (s *server) noticed(m *jsonrpc.Request) {
	switch m.Method {
	case methodPromptsChanged:
		s.m.prompts.fire()
	case methodResourcesChanged:
		s.m.resources.fire()
	case methodResourceUpdated:
		var params struct {
			URI string `json:"uri"`
		}
		if json.Unmarshal(m.Params, &params) != nil {
			return
		}
		s.mu.Lock()
		all := slices.Collect(maps.Keys(s.subscriptions))
		s.mu.Unlock()
		for _, to := range all {
			if to.of(params.URI) {
				to.updated()
			}
		}
	}
}

// offersAgain handles a new connection: it reports that prompts and resources may have changed, and repeats the subscriptions.
func (s *server) offersAgain(c *conn) {
	s.m.prompts.fire()
	s.m.resources.fire()
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.subscriptions))
	s.mu.Unlock()
	done := map[string]bool{}
	for _, to := range all {
		if !done[to.uri] {
			done[to.uri] = true
			if err := s.subscribe(c.calls, c, to.uri); err != nil && c.calls.Err() == nil {
				s.m.opts.Logger.Warn("subscribe again to a resource", "server", s.cfg.Name, "error", brief{err})
			}
		}
		to.updated()
	}
}

// connectAgain tries in the background to connect the server. It stops when the server is connected or no subscription to its resources is left.
// The caller holds s.mu.
func (s *server) connectAgain() {
	if s.again || len(s.subscriptions) == 0 || s.life.Err() != nil {
		return
	}
	s.again = true
	s.work.Go(func() {
		for pause := relistMin; ; pause = min(2*pause, relistMax) {
			s.mu.Lock()
			wait := max(pause, time.Until(s.retryAt))
			if s.conn != nil || len(s.subscriptions) == 0 || s.life.Err() != nil {
				s.again = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			if await(s.life.Done(), wait) {
				continue
			}
			_, _ = s.connect(s.life, false) // the server's status keeps the error
		}
	})
}
