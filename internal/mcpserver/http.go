package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/slots"
)

// Limits of the sessions of HTTP clients. Only versions of the protocol before 2026-07-28 have sessions.
const (
	sessionIdle   = 30 * time.Minute       // time after which a session without requests ends; clients then begin another
	maxOwnSession = 50                     // maximum number of sessions of a caller; beyond it the oldest ends
	maxEnding     = 10                     // maximum number of a caller's ending sessions beyond maxOwnSession, and of its sessions that wait to begin
	maxOfOwner    = maxSessions / 4        // maximum number of sessions of a credential, which may act for many users
	maxSessions   = 2000                   // maximum number of sessions of all callers
	sessionPause  = 100 * time.Millisecond // pause after each session that a caller with maxOwnSession sessions begins
)

const (
	identityKey   = "identity"
	decodedKey    = "decoded"
	liftedKey     = "lifted"
	maxInitialize = 64 << 10 // maximum bytes of a request that begins a session
)

// Handler serves MCP over streamable HTTP. identify returns the authenticated sender of a request. decoded is called when the request's body has
// been decoded, from any goroutine and perhaps never. Requests must have a ContentLength. A request that begins a session, or has the id of one,
// belongs to that session; every other request is handled without a session.
func (s *Server) Handler(identify func(*http.Request) auth.Identity, decoded func(*http.Request)) http.Handler {
	get := func(*http.Request) *mcp.Server { return s.server }
	options := mcp.StreamableHTTPOptions{
		Logger: s.opt.Logger, SessionTimeout: sessionIdle,
		MaxRequestBodyBytes:        -1,   // the caller of the handler has bounded the body
		DisableLocalhostProtection: true, // every request has a credential, and requests through proxies have other host names
	}
	sessions := mcp.NewStreamableHTTPHandler(get, &options)
	options.Stateless, options.PropagateRequestCancellation = true, true
	single := mcp.NewStreamableHTTPHandler(get, &options)
	verify := func(_ context.Context, _ string, r *http.Request) (*sdkauth.TokenInfo, error) {
		who := identify(r)
		// The SDK compares the UserID, and refuses requests for another caller's session.
		return &sdkauth.TokenInfo{UserID: who.Principal + " " + who.User, Extra: map[string]any{
			identityKey: who, decodedKey: func() { decoded(r) }, liftedKey: lift(r),
		}}, nil
	}
	return sdkauth.RequireBearerToken(verify, &sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})(
		negotiated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id := r.Header.Get("Mcp-Session-Id")
			if own := s.sessions.find(identify(r).Caller(), id); r.Method == http.MethodDelete && own != nil {
				own.cancel() // a session ends only after its requests have returned, so cancel them
			}
			if r.Method != http.MethodPost || id != "" || initializes(r) {
				sessions.ServeHTTP(w, r)
				return
			}
			single.ServeHTTP(w, r)
		})))
}

// initializes reports whether a request begins a session. Afterwards the body can be read again.
func initializes(r *http.Request) bool {
	if r.ContentLength < 0 || r.ContentLength > maxInitialize {
		return false // a request of this size begins no session: decoding its body would take too long
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false // the handler finds the same error
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ Method string }
	return bytes.Contains(body, []byte("initialize")) && json.Unmarshal(body, &m) == nil && m.Method == "initialize"
}

// sessions are the open sessions of HTTP clients.
type sessions struct {
	beginning *slots.Slots

	mu        sync.Mutex
	all       int
	of        map[string][]*session // sessions by caller, oldest first
	perOwner  map[string]int        // number of sessions by principal
	listening map[string]int        // number of streams of subscriptions/listen, by caller
}

// session is a session of an HTTP client, with the context of its requests.
type session struct {
	*mcp.ServerSession
	context.Context // context of the session's requests
	cancel          context.CancelFunc
}

// end ends a session and its requests.
func (s *session) end() {
	s.cancel()
	go s.Close() // Close returns when the requests have returned
}

// errSessions means that there are too many sessions.
var errSessions = errors.New("the server has too many sessions: try again later")

func newSessions() *sessions {
	return &sessions{
		beginning: slots.New(slots.Limits{All: maxSessions, Each: 1, EachWaiting: maxEnding}, "sessions", "begun"),
		of:        map[string][]*session{}, perOwner: map[string]int{}, listening: map[string]int{},
	}
}

// begin counts a session. The sessions of a caller begin one after another, with a pause if an older one has to end.
func (s *sessions) begin(ctx context.Context, who auth.Identity, began *mcp.ServerSession) error {
	release, err := s.beginning.Acquire(ctx, who.Caller(), 1)
	if err != nil {
		return err
	}
	full, err := s.add(who, began)
	if full {
		time.AfterFunc(sessionPause, release)
	} else {
		release()
	}
	return err
}

// add counts a session until it ends. If the caller has too many sessions, the oldest ends and full is true.
func (s *sessions) add(who auth.Identity, began *mcp.ServerSession) (full bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[who.Caller()]
	if s.all >= maxSessions || s.perOwner[who.Principal] >= maxOfOwner || len(own) >= maxOwnSession+maxEnding {
		return true, errSessions
	}
	if full = len(own) >= maxOwnSession; full {
		own[len(own)-maxOwnSession].end() // older sessions are ending already
	}
	added := &session{ServerSession: began}
	added.Context, added.cancel = context.WithCancel(context.Background())
	s.all++
	s.perOwner[who.Principal]++
	s.of[who.Caller()] = append(own, added)
	go func() { // the goroutine ends with the session
		_ = began.Wait()
		added.cancel()
		s.remove(who, added)
	}()
	return full, nil
}

func (s *sessions) remove(who auth.Identity, ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	caller := who.Caller()
	s.of[caller] = slices.DeleteFunc(s.of[caller], func(other *session) bool { return other == ended })
	s.all--
	if len(s.of[caller]) == 0 {
		delete(s.of, caller)
	}
	if s.perOwner[who.Principal]--; s.perOwner[who.Principal] == 0 {
		delete(s.perOwner, who.Principal)
	}
}

// find returns a caller's session, nil if there is none.
func (s *sessions) find(caller, id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, own := range s.of[caller] {
		if own.ID() == id {
			return own
		}
	}
	return nil
}

// context returns a context that ends with the session of a request. If the request has no session, the context never ends.
func (s *sessions) context(caller string, of *mcp.ServerSession) context.Context {
	if of != nil && of.ID() != "" {
		if found := s.find(caller, of.ID()); found != nil {
			return found
		}
	}
	return context.Background()
}

// countSessions is a middleware that bounds the sessions of HTTP clients.
func (s *Server) countSessions(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		began, ok := req.GetSession().(*mcp.ServerSession)
		if method == "initialize" && ok && began.ID() != "" {
			ctx, cancel := bound(ctx, s.closing)
			defer cancel()
			if err := s.sessions.begin(ctx, s.caller(req.GetExtra()).Identity, began); err != nil {
				return nil, err
			}
		}
		return next(ctx, method, req)
	}
}

// errListening means that a caller has too many streams of changes.
var errListening = errors.New("you listen for changes too many times: end one first")

// boundListening is a middleware that limits the streams on which clients wait for changes. A stream ends after sessionIdle, so that clients
// listen again with a credential that is still valid.
func (s *Server) boundListening(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method != "subscriptions/listen" || req.GetExtra() == nil || req.GetExtra().TokenInfo == nil { // stdio has one client
			return next(ctx, method, req)
		}
		who := s.caller(req.GetExtra())
		if !s.sessions.listen(who.Caller(), 1) {
			return nil, errListening
		}
		defer s.sessions.listen(who.Caller(), -1)
		ctx, cancel := bound(withCaller(ctx, who), s.closing)
		defer cancel()
		ctx, cancel = context.WithTimeout(ctx, sessionIdle)
		defer cancel()
		return next(ctx, method, req)
	}
}

// callerKey is the key of a caller in the context of subscriptions/listen, and of methods that are not those of MCP itself.
type callerKey struct{}

func withCaller(ctx context.Context, who caller) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// identifying is a middleware that puts the caller into the context of the methods of extensions: the SDK does not give their handlers the request.
func (s *Server) identifying(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if slices.Contains(skillMethods, method) {
			ctx = withCaller(ctx, s.caller(req.GetExtra()))
		}
		return next(ctx, method, req)
	}
}

// listen adds n to the number of a caller's streams. It returns false if there would be too many.
func (s *sessions) listen(caller string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening[caller]+n > maxOwnSession {
		return false
	}
	if s.listening[caller] += n; s.listening[caller] == 0 {
		delete(s.listening, caller)
	}
	return true
}
