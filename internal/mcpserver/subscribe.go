package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/runs"
)

const (
	maxWatched    = 100         // maximum number of resources that a caller is subscribed to, on all streams together
	changesEvery  = time.Second // minimum time between two notifications of the same kind, so that a server with constant changes does not burden clients
	updateMethod  = "notifications/resources/updated"
	changedMarker = "harness:changed" // name of a prompt or resource that is added and removed at once, so that the SDK notifies clients of a change
)

// watches are the subscriptions of clients to resources of the upstream servers. The zero value is ready for use.
type watches struct {
	mu  sync.Mutex
	all map[watchKey]*watch
	of  map[string]int              // number of subscriptions by caller
	in  map[*mcp.ServerSession]bool // sessions with subscriptions; the end of a session removes its subscriptions
}

type watchKey struct {
	session *mcp.ServerSession
	uri     string // URI that the client uses
}

// watch is a subscription of a session.
type watch struct {
	mu     sync.Mutex
	due    bool      // reports that a notification will be sent
	last   time.Time // time of the last notification
	ready  bool      // reports that the session may be notified now
	cancel func()    // ends the subscription at the server
	caller string
}

var errWatched = fmt.Errorf("you are subscribed to %d resources: unsubscribe from one first", maxWatched)

// subscribe answers resources/subscribe. For subscriptions/listen, the SDK calls it for each resource of the request.
func (s *Server) subscribe(ctx context.Context, r *mcp.SubscribeRequest) error {
	who, ok := ctx.Value(callerKey{}).(caller) // within subscriptions/listen, r has no caller of its own
	if !ok {
		who = s.caller(r.Extra)
	}
	if s.opt.Admit != nil {
		if err := s.opt.Admit(ctx, who.Identity, false); err != nil {
			return err
		}
	}
	key := watchKey{r.Session, r.Params.URI}
	w := &watch{caller: who.Caller(), cancel: func() {}}
	if err := s.watches.add(key, w); err != nil || w.caller == "" {
		return err
	}
	server, uri, err := s.locate(ctx, who, r.Params.URI)
	if err == nil {
		if err := s.mayRequest(ctx, who, "", server+"__resources/subscribe", uri); err != nil {
			s.watches.remove(key)
			return err
		}
		var cancel func()
		cancel, err = s.opt.Harness.Servers().Subscribe(ctx, who.user, server, uri, func() { s.changed(w, r.Params.URI) })
		if err == nil && !s.watches.begin(key, w, cancel) {
			cancel() // the client has gone
		}
	}
	if err != nil {
		s.watches.remove(key)
		if failed, ok := errors.AsType[*mcpclient.CallError](err); ok {
			return errors.New(failed.Error())
		}
		return s.shown(ctx, err)
	}
	if s.watches.enter(r.Session) {
		s.begun.Go(func() {
			_ = r.Session.Wait() // the reason why the session ended does not matter
			s.watches.leave(r.Session)
		})
	}
	return nil
}

// mayRequest makes the gate check, count, audit and journal a request that this package makes itself. An empty session means the caller's own.
func (s *Server) mayRequest(ctx context.Context, who caller, session, name, uri string) error {
	args, err := json.Marshal(map[string]string{"uri": uri})
	if err == nil {
		req := runs.CallOf("callMCPTool", name, args)
		req.Session = session
		_, err = s.value(ctx, who, req)
	}
	return err
}

// enter registers a session with subscriptions, and reports whether it was not registered before.
func (w *watches) enter(session *mcp.ServerSession) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.in == nil {
		w.in = map[*mcp.ServerSession]bool{}
	}
	had := w.in[session]
	w.in[session] = true
	return !had
}

// leave removes the subscriptions of a session that has ended.
func (w *watches) leave(session *mcp.ServerSession) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.in, session)
	for key := range w.all {
		if key.session == session {
			w.removeOne(key)
		}
	}
}

// unsubscribe answers resources/unsubscribe.
func (s *Server) unsubscribe(_ context.Context, r *mcp.UnsubscribeRequest) error {
	s.watches.remove(watchKey{r.Session, r.Params.URI})
	return nil
}

// add registers a subscription. If the session is already subscribed to the resource, add keeps the earlier subscription and makes added.caller
// empty.
func (w *watches) add(key watchKey, added *watch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all, w.of = map[watchKey]*watch{}, map[string]int{}
	}
	if w.all[key] != nil {
		added.caller = ""
		return nil
	}
	if w.of[added.caller] >= maxWatched {
		return errWatched
	}
	w.all[key] = added
	w.of[added.caller]++
	return nil
}

// begin stores the function that ends a subscription. It returns false if the subscription has ended.
func (w *watches) begin(key watchKey, of *watch, cancel func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all[key] != of {
		return false
	}
	of.cancel = cancel
	return true
}

func (w *watches) remove(key watchKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeOne(key)
}

// removeOne removes a subscription, if there is one. The caller holds w.mu.
func (w *watches) removeOne(key watchKey) {
	gone := w.all[key]
	if gone == nil {
		return
	}
	delete(w.all, key)
	if w.of[gone.caller]--; w.of[gone.caller] == 0 {
		delete(w.of, gone.caller)
	}
	gone.cancel()
}

// changed tells a session that a resource has changed, at most once in changesEvery. It does not block.
func (s *Server) changed(w *watch, uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due {
		return
	}
	w.due = true
	time.AfterFunc(max(0, time.Until(w.last.Add(changesEvery))), func() {
		w.mu.Lock()
		w.due, w.ready, w.last = false, true, time.Now()
		w.mu.Unlock()
		if s.closing.Err() == nil {
			_ = s.server.ResourceUpdated(s.closing, &mcp.ResourceUpdatedNotificationParams{URI: uri}) // the SDK returns no error here
		}
	})
}

// onlyWatching is a middleware that sends the notification of a changed resource only to the session concerned. The SDK sends the notification to
// all sessions that are subscribed to the same URI, and for another user this URI may mean another resource.
func (s *Server) onlyWatching(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		params, ok := req.GetParams().(*mcp.ResourceUpdatedNotificationParams)
		session, is := req.GetSession().(*mcp.ServerSession)
		if method != updateMethod || !ok || !is {
			return next(ctx, method, req)
		}
		s.watches.mu.Lock()
		w := s.watches.all[watchKey{session, params.URI}]
		s.watches.mu.Unlock()
		if w == nil {
			return nil, nil
		}
		w.mu.Lock()
		ready := w.ready
		w.ready = false
		w.mu.Unlock()
		if !ready {
			return nil, nil
		}
		return next(ctx, method, req)
	}
}

// tellChanges tells clients when the servers' prompts and resources change, until the server is closed.
func (s *Server) tellChanges() {
	servers := s.opt.Harness.Servers()
	tell := func(wait func() <-chan struct{}, change func()) {
		for changed := wait(); ; {
			select {
			case <-changed:
			case <-s.closing.Done():
				return
			}
			changed = wait() // get the next channel before clients list the prompts or resources again
			change()
			select {
			case <-time.After(changesEvery):
			case <-s.closing.Done():
				return
			}
		}
	}
	s.begun.Go(func() {
		tell(servers.PromptsChanged, func() {
			s.server.AddPrompt(&mcp.Prompt{Name: changedMarker}, nil)
			s.server.RemovePrompts(changedMarker)
		})
	})
	s.begun.Go(func() {
		tell(servers.ResourcesChanged, func() {
			s.server.AddResource(&mcp.Resource{Name: changedMarker, URI: changedMarker}, nil)
			s.server.RemoveResources(changedMarker)
		})
	})
}

// locate finds the server of a resource, and the resource's URI on that server.
func (s *Server) locate(ctx context.Context, who caller, uri string) (server, there string, err error) {
	if ownURI(uri) {
		return "", "", errors.New("files of sessions and skills tell of no changes")
	}
	if strings.HasPrefix(uri, upstreamScheme) {
		return splitUpstream(uri)
	}
	all, err := s.resources(ctx, who)
	if err != nil {
		return "", "", err
	}
	for _, r := range all {
		if r.URI == uri && server != "" {
			return "", "", mcp.ResourceNotFoundError(uri) // if several servers offer a URI, clients must use the form that upstreamURI returns
		}
		if r.URI == uri {
			server = r.Server
		}
	}
	if server == "" {
		server, err = s.serverOfTemplate(ctx, who, uri)
	}
	return server, uri, err
}
