package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/auth"
)

// Sessions of HTTP clients, which versions of the protocol before 2026-07-28 have.
const (
	sessionIdle   = 30 * time.Minute // after which a session without requests ends; clients begin another
	maxOwnSession = 50               // of a caller; the oldest ends
	maxSessions   = 2000             // of all
)

const identityKey = "identity"

// Handler serves MCP over streamable HTTP. identify returns the authenticated sender of a request. A request that has a session's id, or
// begins a session, is one of a session; every other request stands for itself.
func (s *Server) Handler(identify func(*http.Request) auth.Identity) http.Handler {
	get := func(*http.Request) *mcp.Server { return s.server }
	options := mcp.StreamableHTTPOptions{
		Logger: s.opt.Logger, SessionTimeout: sessionIdle,
		MaxRequestBodyBytes:        -1,   // the caller has bounded it
		DisableLocalhostProtection: true, // every request has a credential, and proxies have names
	}
	sessions := mcp.NewStreamableHTTPHandler(get, &options)
	options.Stateless, options.PropagateRequestCancellation = true, true
	single := mcp.NewStreamableHTTPHandler(get, &options)
	verify := func(_ context.Context, _ string, r *http.Request) (*sdkauth.TokenInfo, error) {
		who := identify(r)
		// The SDK refuses requests for another one's session by the UserID.
		return &sdkauth.TokenInfo{UserID: who.Principal + " " + who.User, Extra: map[string]any{identityKey: who}}, nil
	}
	return sdkauth.RequireBearerToken(verify, &sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.Header.Get("Mcp-Session-Id") != "" || initializes(r) {
				sessions.ServeHTTP(w, r)
				return
			}
			single.ServeHTTP(w, r)
		}))
}

// initializes reports whether a request begins a session. The body can be read again after it.
func initializes(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false // the handler finds the same error
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ Method string }
	return json.Unmarshal(body, &m) == nil && m.Method == "initialize"
}

// sessions are the open sessions of HTTP clients, the oldest first.
type sessions struct {
	mu  sync.Mutex
	all int
	of  map[string][]*mcp.ServerSession // by caller
}

// errSessions reports that there are too many sessions.
var errSessions = errors.New("the server has too many sessions: try again later")

// add counts a session until it ends. The oldest of a caller with too many ends.
func (s *sessions) add(who string, session *mcp.ServerSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxSessions {
		return errSessions
	}
	if s.of == nil {
		s.of = map[string][]*mcp.ServerSession{}
	}
	if own := s.of[who]; len(own) >= maxOwnSession {
		go own[0].Close() // ends with its requests
	}
	s.all++
	s.of[who] = append(s.of[who], session)
	go func() { // ends with the session
		_ = session.Wait()
		s.remove(who, session)
	}()
	return nil
}

func (s *sessions) remove(who string, session *mcp.ServerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[who]
	for i, other := range own {
		if other == session {
			s.of[who] = append(own[:i:i], own[i+1:]...)
			s.all--
			break
		}
	}
	if len(s.of[who]) == 0 {
		delete(s.of, who)
	}
}

// countSessions is a middleware that bounds the sessions of HTTP clients.
func (s *Server) countSessions(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		session, ok := req.GetSession().(*mcp.ServerSession)
		if method == "initialize" && ok && session.ID() != "" {
			if err := s.sessions.add(s.caller(req.GetExtra()).Caller(), session); err != nil {
				return nil, err
			}
		}
		return next(ctx, method, req)
	}
}
