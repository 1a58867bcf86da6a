// Package fake contains servers with the wire formats of model providers, for tests: Anthropic's Messages, OpenAI's
// Responses (also in Azure's form) and chat completions (also in Google's form). A script decides what the model answers.
// The server answers as the provider would. It issues signatures and encrypted reasoning, and refuses the requests that
// the provider would refuse: a signature or encrypted reasoning that is missing or changed, a call without its result, a
// result out of place, a missing required field or header.
//
// The servers only stream. One server has all formats, by path:
//
//	/v1/messages                         Anthropic
//	/v1/responses, /openai/v1/responses  OpenAI, Azure
//	/v1beta/openai/chat/completions      Google
//	/v1/chat/completions                 all others
package fake

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Protocol is a wire format.
type Protocol string

// The wire formats.
const (
	Messages  Protocol = "messages"
	Responses Protocol = "responses"
	Chat      Protocol = "chat"
	Gemini    Protocol = "gemini" // chat completions with Google's signatures
)

// Request is a request to a server, in the same form for all wire formats.
type Request struct {
	N         int // number of accepted requests before this one
	Protocol  Protocol
	Host      string // host that the client addressed
	Path      string
	Header    http.Header
	Raw       json.RawMessage // body of the request
	Model     string
	System    string
	MaxTokens int // 0 if the request has no limit
	Tools     []string
	Messages  []Message
}

// Last returns the last message.
func (r Request) Last() Message {
	if len(r.Messages) == 0 {
		return Message{}
	}
	return r.Messages[len(r.Messages)-1]
}

// Message is one message of a conversation. Role is user, assistant or tool. If one message of the wire format
// contains results and a text of the user, they are two messages here.
type Message struct {
	Role    string
	Text    string
	Calls   []Call
	Results []Result
}

// Call is a call of a tool.
type Call struct {
	ID    string // id of the call; if it is empty in a Reply, the server generates one
	Name  string
	Input string // text of the arguments; any text in a Reply
}

// Result is the result of a call.
type Result struct {
	CallID  string
	Text    string
	IsError bool // known only with Messages
}

// Usage is the token counts that a reply reports, with the meaning of model.Usage.
type Usage struct{ Input, CachedInput, CacheWrite, Output, Reasoning int }

// Reply is the answer of a server. The zero value is an empty message of the model.
type Reply struct {
	Thinking string
	Text     string
	Calls    []Call
	Stop     string // "length", "refusal" of the model or "content_filter" of its provider; empty for a regular end
	Usage    Usage

	// A nonzero Status makes the answer an error with Code and Message. Code is the provider's type or code, if it differs
	// from the usual one for the status. RetryAfter is sent in the provider's header.
	Status     int
	Code       string
	Message    string
	RetryAfter time.Duration

	Wait    <-chan struct{} // nothing is answered until this is closed or the request is cancelled
	Latency time.Duration   // time before the first byte
	Pause   time.Duration   // time between two events of the stream
	// CutAfter, if greater than 0, is the number of events after which the connection ends. With Broken, an error event
	// of that type is sent before.
	CutAfter int
	Broken   string
}

// Script decides the reply to a request. Calls of it do not overlap.
type Script func(Request) Reply

// Replies returns a script that gives the replies in order, and then an error with status 400.
func Replies(replies ...Reply) Script {
	return func(r Request) Reply {
		if r.N < len(replies) {
			return replies[r.N]
		}
		return Reply{Status: http.StatusBadRequest, Message: fmt.Sprintf("the script has only %d replies", len(replies))}
	}
}

// Server is a fake provider. Its methods may be called concurrently.
type Server struct {
	// URL is the server's address without a path; empty if the server has no socket.
	URL string

	script  Script
	http    *httptest.Server
	aborts  chan struct{}
	mu      sync.Mutex
	state   state
	count   int       // number of accepted requests
	good    []Request // accepted requests since Forget
	refused []string
	aborted int
}

// Serve starts a server on a port of the loopback interface. Close ends it.
func Serve(script Script) *Server {
	s := newServer(script)
	s.http = httptest.NewServer(http.HandlerFunc(s.handle))
	s.URL = s.http.URL
	return s
}

// InMemory returns a server without sockets, which only Client reaches. It can be used within a synctest bubble.
func InMemory(script Script) *Server { return newServer(script) }

func newServer(script Script) *Server {
	return &Server{script: script, aborts: make(chan struct{}, 1000), state: newState()}
}

// Close ends the server after the running requests.
func (s *Server) Close() {
	if s.http != nil {
		s.http.Close()
	}
}

// Client returns a client that sends every request to the server, whatever its host. Request.Host is that host.
func (s *Server) Client() *http.Client {
	if s.http == nil {
		return &http.Client{Transport: memory{http.HandlerFunc(s.handle)}}
	}
	return &http.Client{Transport: rerouted{s.http.Listener.Addr().String(), s.http.Client().Transport}}
}

// Forget empties Requests, so that a long test does not hold every conversation.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good = nil
}

// Requests returns the accepted requests since Forget.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.good...)
}

// Refused returns the reasons why requests were refused that the provider would refuse. Errors of the script do not count.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

// Aborted returns the number of requests that the client gave up before the answer was complete.
func (s *Server) Aborted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aborted
}

// Aborts returns a channel that receives a value for each request that the client gives up.
func (s *Server) Aborts() <-chan struct{} { return s.aborts }

// rerouted is a transport that sends every request to one server.
type rerouted struct {
	addr string
	next http.RoundTripper
}

func (r rerouted) RoundTrip(req *http.Request) (*http.Response, error) {
	to := req.Clone(req.Context())
	to.Host = req.URL.Host
	to.URL = &url.URL{Scheme: "http", Host: r.addr, Path: req.URL.Path, RawQuery: req.URL.RawQuery}
	return r.next.RoundTrip(to)
}

// CloseIdleConnections closes the idle connections of the underlying transport.
func (r rerouted) CloseIdleConnections() {
	if c, ok := r.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// protocol implements one wire format.
type protocol struct {
	// read parses and checks a request. A refusal is the error with which the provider would refuse it.
	read func(st *state, r *http.Request, body []byte) (Request, *refusal)
	// write returns the events of a reply's stream.
	write func(st *state, req Request, reply Reply) []event
	// fail returns the body of an error.
	fail func(status int, code, message string) any
	// broken returns the event for an error within a stream.
	broken func(code string) event
}

// refusal is the reason why a request is refused.
type refusal struct {
	status  int
	code    string
	message string
}

func bad(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

var protocols = map[Protocol]protocol{
	Messages:  {readMessages, writeMessages, failMessages, brokenMessages},
	Responses: {readResponses, writeResponses, failOpenAI, brokenResponses},
	Chat:      {readChat, writeChat, failOpenAI, brokenChat},
	Gemini:    {readChat, writeChat, failGemini, brokenChat},
}

func protocolOf(path string) (Protocol, bool) {
	switch {
	case path == "/v1/messages":
		return Messages, true
	case path == "/v1/responses" || path == "/openai/v1/responses":
		return Responses, true
	case path == "/v1beta/openai/chat/completions":
		return Gemini, true
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat, true
	}
	return "", false
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	name, ok := protocolOf(r.URL.Path)
	if !ok || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	p := protocols[name]
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.abort()
		return
	}
	s.mu.Lock()
	req, fault := p.read(&s.state, r, body)
	var reply Reply
	if fault != nil {
		s.refused = append(s.refused, fault.message)
		reply = Reply{Status: fault.status, Code: fault.code, Message: fault.message}
	} else {
		req.N, req.Protocol = s.count, name
		s.count++
		req.Host, req.Path, req.Header, req.Raw = r.Host, r.URL.Path, r.Header.Clone(), body
		s.good = append(s.good, req)
		reply = s.script(req)
	}
	var events []event
	if reply.Status == 0 {
		events = p.write(&s.state, req, reply)
	}
	s.mu.Unlock()

	if !s.wait(r, reply) {
		s.abort()
		return
	}
	if reply.Status != 0 {
		fail(w, reply, p.fail(reply.Status, reply.Code, reply.Message))
		return
	}
	if reply.CutAfter > 0 && reply.CutAfter < len(events) {
		events = events[:reply.CutAfter]
		if reply.Broken != "" {
			events = append(events, p.broken(reply.Broken))
		}
	}
	if !stream(w, r, events, reply.Pause) {
		s.abort()
		return
	}
	if reply.CutAfter > 0 && reply.Broken == "" {
		panic(http.ErrAbortHandler)
	}
}

// wait waits as long as the reply asks. It returns false if the client has gone.
func (s *Server) wait(r *http.Request, reply Reply) bool {
	if reply.Wait != nil {
		select {
		case <-reply.Wait:
		case <-r.Context().Done():
			return false
		}
	}
	return pause(r, reply.Latency)
}

func pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return r.Context().Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (s *Server) abort() {
	s.mu.Lock()
	s.aborted++
	s.mu.Unlock()
	select {
	case s.aborts <- struct{}{}:
	default:
	}
}
