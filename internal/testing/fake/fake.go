// Package fake has servers that speak the wire formats of model providers, for tests: Anthropic's Messages, OpenAI's
// Responses (also as Azure has them) and chat completions (also as Google has them). A script decides what the model says;
// the server says it as the provider would, gives out signatures and encrypted reasoning, and refuses requests that the
// provider would refuse: such a field missing or changed, a call without its result, a result out of place, a required
// field or header missing.
//
// Only streams are spoken. One server speaks all formats, by path:
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

// Request is what a server was asked, the same for all wire formats.
type Request struct {
	N         int // the number of requests before it that were in order
	Protocol  Protocol
	Host      string // host that the client addressed
	Path      string
	Header    http.Header
	Raw       json.RawMessage // the body
	Model     string
	System    string
	MaxTokens int // 0 if the request says nothing
	Tools     []string
	Messages  []Message
}

// Last is the last message.
func (r Request) Last() Message {
	if len(r.Messages) == 0 {
		return Message{}
	}
	return r.Messages[len(r.Messages)-1]
}

// Message is one message of a conversation. Role is user, assistant or tool; results and a text of the user that one
// message of the wire holds are two messages here.
type Message struct {
	Role    string
	Text    string
	Calls   []Call
	Results []Result
}

// Call is a call of a tool.
type Call struct {
	ID    string // id in a Reply; the server makes one if it is empty
	Name  string
	Input string // the text of the arguments; in a Reply it may be any text
}

// Result is the result of a call.
type Result struct {
	CallID  string
	Text    string
	IsError bool // known of Messages only
}

// Usage is the token counts that a reply reports, in the sense of model.Usage.
type Usage struct{ Input, CachedInput, CacheWrite, Output, Reasoning int }

// Reply is what a server answers. The zero value is an empty message of the model.
type Reply struct {
	Thinking string
	Text     string
	Calls    []Call
	Stop     string // "length", "refusal" of the model or "content_filter" of its provider; empty otherwise
	Usage    Usage

	// An error instead: Status with Code (the provider's type or code, if it differs from the usual one of the status) and
	// Message. RetryAfter is sent in the header that the provider uses.
	Status     int
	Code       string
	Message    string
	RetryAfter time.Duration

	Wait    <-chan struct{} // nothing is answered until it is closed or the request is cancelled
	Latency time.Duration   // before the first byte
	Pause   time.Duration   // between two events of the stream
	// CutAfter ends the connection after so many events, if it is more than 0; with Broken an error event of that type is
	// sent before.
	CutAfter int
	Broken   string
}

// Script decides the reply to a request. It is called by one goroutine at a time.
type Script func(Request) Reply

// Replies answers with one after the other, and then with an error of status 400.
func Replies(replies ...Reply) Script {
	return func(r Request) Reply {
		if r.N < len(replies) {
			return replies[r.N]
		}
		return Reply{Status: http.StatusBadRequest, Message: fmt.Sprintf("the script has only %d replies", len(replies))}
	}
}

// Server is a fake provider. Its methods may be called from several goroutines.
type Server struct {
	// URL is the server's address without a path; empty of one without sockets.
	URL string

	script  Script
	http    *httptest.Server
	aborts  chan struct{}
	mu      sync.Mutex
	state   state
	count   int       // requests that were in order
	good    []Request // the accepted ones since Forget
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

// InMemory makes a server that only Client reaches, without sockets: it can be used within a synctest bubble.
func InMemory(script Script) *Server { return newServer(script) }

func newServer(script Script) *Server {
	return &Server{script: script, aborts: make(chan struct{}, 1000), state: newState()}
}

// Close ends the server, after the requests under way.
func (s *Server) Close() {
	if s.http != nil {
		s.http.Close()
	}
}

// Client sends every request to the server, whatever host it is for; Request.Host says which that was.
func (s *Server) Client() *http.Client {
	if s.http == nil {
		return &http.Client{Transport: memory{http.HandlerFunc(s.handle)}}
	}
	return &http.Client{Transport: rerouted{s.http.Listener.Addr().String(), s.http.Client().Transport}}
}

// Forget restarts Requests, so that a long test does not hold every conversation.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good = nil
}

// Requests are the requests that were in order, as far as they came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.good...)
}

// Refused says why requests were refused that the provider would refuse. Errors of the script do not count.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

// Aborted is the number of requests that the client gave up before they were answered.
func (s *Server) Aborted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aborted
}

// Aborts gets a value for each request that the client gives up.
func (s *Server) Aborts() <-chan struct{} { return s.aborts }

// rerouted is a transport to one server.
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

// CloseIdleConnections closes what the server's tests have left open.
func (r rerouted) CloseIdleConnections() {
	if c, ok := r.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// protocol is what one wire format needs.
type protocol struct {
	// read parses and checks a request; an error is the status and the text that the provider would refuse it with.
	read func(st *state, r *http.Request, body []byte) (Request, *refusal)
	// write makes the events of a reply's stream.
	write func(st *state, req Request, reply Reply) []event
	// fail makes the body of an error.
	fail func(status int, code, message string) any
	// broken makes the event of an error within a stream.
	broken func(code string) event
}

// refusal is a request's fault.
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

// wait waits as the reply asks for; false means that the client has gone.
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
