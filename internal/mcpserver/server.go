// Package mcpserver is the harness as an MCP server: a few tools that stay the same however many tools the upstream servers
// offer. Its runs are those of package runs, in the name of the client's credential. Results hold tokens in place of personal data.
package mcpserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/slots"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/upstream"
)

// Harness is what a Server needs of the harness. Its methods are safe for concurrent use.
type Harness interface {
	Runs() *runs.Service
	Catalog() *catalog.Catalog
	Servers() *upstream.Servers
	// EnsureTools waits until every server has listed its tools or failed to.
	EnsureTools(ctx context.Context, user string)
	Skills() (*skills.Store, error)
	Presence() *approval.Presence
	// Privacy is the filter of personal data; nil where it is switched off.
	Privacy() *pii.Filter
	Features() agent.Features
	// Computing has what users read take turns.
	Computing() *slots.Computing
}

// Options are the parts of a Server.
type Options struct {
	Harness Harness
	// Mode is what clients get: the tools that run programs (code, or empty), the tools of the upstream servers (direct), or both.
	Mode string
	// Skills are the names of skills that clients get as tools.
	Skills []string
	// Tasks works the tasks of run_task; nil offers no such tool.
	Tasks *task.Service
	// Notice is what a client has to know before anything else, such as why there are no servers; empty: nothing. It is in the instructions and in what
	// a search finds.
	Notice string
	// Identity is the sender of requests over stdio. Requests over HTTP have their own.
	Identity auth.Identity
	// Local says that the client's user is the user of this machine, who may be asked about calls: on a page of this machine, or with
	// Forms in a form of the client, which a client's model could fill in.
	Local, Forms bool
	// Shown is an error as its caller may read it; nil shows all errors as they are.
	Shown func(ctx context.Context, err error) error
	// Admit counts a call of a tool against the limits of its caller; work says that it runs a program. The error is for the caller. It
	// may be nil.
	Admit   func(ctx context.Context, who auth.Identity, work bool) error
	Logger  *slog.Logger
	Version string
}

func (o Options) code() bool   { return o.Mode != "direct" }
func (o Options) direct() bool { return o.Mode == "direct" || o.Mode == "both" }

func (o Options) prompts() *mcp.PromptCapabilities {
	if o.direct() {
		return &mcp.PromptCapabilities{ListChanged: true}
	}
	return nil
}

// Server serves MCP. Its methods are safe for concurrent use.
type Server struct {
	opt    Options
	server *mcp.Server
	// closing ends when the requests in progress have to end.
	closing context.Context
	close   context.CancelFunc
	// begun is what goes on in the background.
	begun    sync.WaitGroup
	sessions *sessions
	page     *page
	offered  offered
	waiting  waiting
	watches  watches
	known    completable
	skills   map[string]string // skills by the names of their tools
}

// New makes a server. Close must be called.
func New(opt Options) *Server {
	s := &Server{opt: opt, sessions: newSessions()}
	s.closing, s.close = context.WithCancel(context.Background())
	s.page = newPage(opt.Harness.Runs, opt.Harness.Presence, func(r approval.Request) { s.begun.Go(func() { s.resume(r) }) })
	options := mcp.ServerOptions{
		Logger: opt.Logger,
		Capabilities: &mcp.ServerCapabilities{
			Logging: &mcp.LoggingCapabilities{}, //nolint:staticcheck // clients of the older versions show console lines
			Tools:   &mcp.ToolCapabilities{ListChanged: opt.direct()}, Resources: &mcp.ResourceCapabilities{ListChanged: opt.direct()},
			Prompts: opt.prompts(),
		},
	}
	if opt.direct() {
		options.CompletionHandler, options.SubscribeHandler, options.UnsubscribeHandler = s.complete, s.subscribe, s.unsubscribe
	}
	s.server = mcp.NewServer(&mcp.Implementation{Name: "harness", Title: "Code execution with MCP", Version: opt.Version}, &options)
	if opt.code() {
		s.addTools()
		s.addAliases()
	}
	if opt.Tasks != nil {
		d := s.taskDefinition()
		s.server.AddTool(d.tool(), s.guard(d.call, true))
	}
	s.addSkills()
	s.addResources()
	s.server.AddReceivingMiddleware(restoring, s.private, s.greeting, s.prompting, s.listing, s.countSessions, s.boundListening)
	if opt.direct() {
		s.addUpstreamResources()
		s.server.AddSendingMiddleware(s.onlyWatching)
		s.tellChanges()
		s.begun.Go(s.offerTools)
		s.begun.Go(func() { opt.Harness.EnsureTools(s.closing, s.caller(nil).user) })
	}
	return s
}

// Close ends the requests in progress with their runs, and all sessions. It leaves sessions whose clients do not read after drainTime.
func (s *Server) Close() {
	s.close()
	s.page.close()
	for session := range s.server.Sessions() {
		s.begun.Go(func() { _ = session.Close() })
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.begun.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(drainTime):
	}
}

// caller is the sender of a request.
type caller struct {
	auth.Identity
	user string // user whose files and tokens a request uses
}

// caller returns the sender of a request.
func (s *Server) caller(extra *mcp.RequestExtra) caller {
	who := s.opt.Identity
	if extra != nil && extra.TokenInfo != nil {
		who, _ = extra.TokenInfo.Extra[identityKey].(auth.Identity)
	}
	return caller{who, cmp.Or(who.User, runs.DefaultUser)}
}

// session is the session of a request: the named one of the caller's user, or the caller's own, which is the same at every connection.
func (c caller) session(name string) string {
	if name != "" {
		return name
	}
	of := sha256.Sum256([]byte(c.Principal))
	return "mcp-" + hex.EncodeToString(of[:6])
}

// greeting is a middleware that completes the answer to initialize: it names the servers, and has the client get console lines without
// asking for them.
func (s *Server) greeting(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		answer, err := next(ctx, method, req)
		switch a := answer.(type) {
		case *mcp.InitializeResult:
			if session, ok := req.GetSession().(*mcp.ServerSession); ok && err == nil {
				level := &mcp.ServerRequest[*mcp.SetLoggingLevelParams]{Session: session, Params: &mcp.SetLoggingLevelParams{Level: "info"}} //nolint:staticcheck // for clients of the older versions
				if _, err := next(ctx, "logging/setLevel", level); err != nil {
					return nil, err
				}
			}
			a.Instructions = s.instructions()
		case *mcp.DiscoverResult:
			a.Instructions = s.instructions()
		}
		return answer, err
	}
}

// instructions are what a client tells its model of this server; in mode direct the notice alone.
func (s *Server) instructions() string {
	if !s.opt.code() {
		return s.opt.Notice
	}
	return strings.TrimSpace(s.opt.Notice + "\n\n" + instructions + s.serverNames())
}

// maxServerNames is how many characters of the names of servers a client's model gets.
const maxServerNames = 300

// serverNames is a sentence with the names of the servers, so that a model knows what it can search for.
func (s *Server) serverNames() string {
	var names []string
	length, more := 0, 0
	for _, server := range s.opt.Harness.Servers().Servers() {
		switch {
		case server.State == mcpclient.StateDisabled:
		case length+len(server.Name) > maxServerNames:
			more++
		default:
			names = append(names, ident.OneLine(server.Name))
			length += len(server.Name) + 2
		}
	}
	list := strings.Join(names, ", ")
	switch {
	case more > 0:
		return fmt.Sprintf(" Servers: %s and %d more.", list, more)
	case list == "":
		return " No server is configured."
	}
	return " Servers: " + list + "."
}

// listTTL is how long a client may use a list again without asking, in milliseconds. Clients of sessions are notified of changes before.
const listTTL = 60_000

// private is a middleware that says of what can be cached that it is the caller's own: it has the tokens of the caller's session. It is
// the first one, so it also notes that the request is decoded.
func (s *Server) private(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
			if decoded, ok := extra.TokenInfo.Extra[decodedKey].(func()); ok {
				decoded()
			}
		}
		answer, err := next(ctx, method, req)
		if err != nil {
			return answer, err
		}
		switch a := answer.(type) {
		case *mcp.ListToolsResult:
			if a.CacheScope = cacheScope; len(s.skills) == 0 { // skills come without a notification
				a.TTLMs = listTTL
			}
		case *mcp.ListResourcesResult:
			a.CacheScope, a.TTLMs = cacheScope, listTTL
		case *mcp.ListResourceTemplatesResult:
			a.CacheScope, a.TTLMs = cacheScope, listTTL
		case *mcp.ReadResourceResult:
			a.CacheScope = cacheScope
		case *mcp.ListPromptsResult:
			a.CacheScope, a.TTLMs = cacheScope, listTTL
		}
		return answer, nil
	}
}

const cacheScope = "private"

// bound is ctx that also ends with another one.
func bound(ctx, with context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(with, cancel)
	return ctx, func() { stop(); cancel() }
}

// resume resumes the run or task of a request that was decided after its client had given up.
func (s *Server) resume(r approval.Request) {
	if r.Task != "" {
		if s.opt.Tasks != nil {
			s.resumeTask(r.Task)
		}
		return
	}
	_, err := s.opt.Harness.Runs().Resume(s.closing, r.Run, nil)
	if err != nil && !errors.Is(err, journal.ErrBusy) && !errors.Is(err, journal.ErrEnded) && s.closing.Err() == nil {
		s.opt.Logger.Warn("resume an approved run", "run", r.Run, "error", err)
	}
}
