// Package mcpserver offers the harness as an MCP server. Its few tools stay the same however many tools the upstream servers offer; in the modes
// direct and both, clients also get the tools of the upstream servers. Package runs executes the programs, as the user of the client's
// credential. Results hold tokens in place of personal data.
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

// Harness has the parts of the harness that a Server needs. Its methods are safe for concurrent use.
type Harness interface {
	Runs() *runs.Service
	Catalog() *catalog.Catalog
	Servers() *upstream.Servers
	// EnsureTools waits until every server has listed its tools or failed to.
	EnsureTools(ctx context.Context, user string)
	Skills() (*skills.Store, error)
	Presence() *approval.Presence
	// Privacy returns the filter of personal data, or nil if it is switched off.
	Privacy() *pii.Filter
	Features() agent.Features
	// Computing limits how much the host computes to answer the reads of users, such as searches: users take turns.
	Computing() *slots.Computing
}

// Options configures a Server.
type Options struct {
	Harness Harness
	// Mode determines what clients get: the tools that run programs (code, or empty), the tools of the upstream servers (direct), or both.
	Mode string
	// Skills are the names of skills that clients get as tools.
	Skills []string
	// Tasks executes the tasks of run_task. If it is nil, that tool is not offered.
	Tasks *task.Service
	// Notice is a text that clients have to know first, such as why there are no servers; it may be empty. The instructions and the results of
	// searches contain it.
	Notice string
	// Identity is the sender of requests over stdio. Requests over HTTP have their own.
	Identity auth.Identity
	// Local means that the client's user is the user of this machine and may be asked about calls: on a page of this machine or, if Forms is
	// set, in a form of the client, which the client's model could fill in.
	Local, Forms bool
	// Shown returns an error in the form that its caller may read. If Shown is nil, all errors are shown unchanged.
	Shown func(ctx context.Context, err error) error
	// Admit counts a call of a tool against the limits of its caller; work means that the call executes a program. The error is for the caller.
	// Admit may be nil.
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
	// begun counts the goroutines in the background, for which Close waits.
	begun    sync.WaitGroup
	sessions *sessions
	page     *page
	offered  offered
	waiting  waiting
	watches  watches
	known    completable
	skills   map[string]string // names of skills by the names of their tools
}

// New returns a server. The caller must call Close.
func New(opt Options) *Server {
	s := &Server{opt: opt, sessions: newSessions()}
	s.closing, s.close = context.WithCancel(context.Background())
	s.page = newPage(opt.Harness.Runs, opt.Harness.Presence, func(r approval.Request) { s.begun.Go(func() { s.resume(r) }) })
	options := mcp.ServerOptions{
		Logger: opt.Logger,
		Capabilities: &mcp.ServerCapabilities{
			Logging: &mcp.LoggingCapabilities{}, //nolint:staticcheck // clients of the older versions show console lines
			Tools:   &mcp.ToolCapabilities{ListChanged: opt.direct()}, Resources: &mcp.ResourceCapabilities{ListChanged: opt.direct()},
			Prompts: opt.prompts(), Extensions: map[string]any{skillsExtension: map[string]any{"directoryRead": true}},
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
	s.addSkillResources()
	s.server.AddReceivingMiddleware(restoring, s.private, s.greeting, s.prompting, s.listing, s.countSessions, s.boundListening, s.identifying)
	if opt.direct() {
		s.addUpstreamResources()
		s.server.AddSendingMiddleware(s.onlyWatching)
		s.tellChanges()
		s.begun.Go(s.offerTools)
		s.begun.Go(func() { opt.Harness.EnsureTools(s.closing, s.caller(nil).user) })
	}
	return s
}

// Close ends all sessions and the requests in progress, with their runs. It waits at most drainTime for sessions whose clients do not read.
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

// session returns the session of a request: the named one or, if name is empty, the caller's own, which is the same for every connection.
func (c caller) session(name string) string {
	if name != "" {
		return name
	}
	of := sha256.Sum256([]byte(c.Principal))
	return "mcp-" + hex.EncodeToString(of[:6])
}

// greeting is a middleware that completes the answer to initialize: it names the servers, and lets the client get console lines without asking
// for them.
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
			if a.ProtocolVersion < skillsVersion {
				delete(a.Capabilities.Extensions, skillsExtension) // the extension builds on a later version
			}
		case *mcp.DiscoverResult:
			a.Instructions = s.instructions()
		}
		return answer, err
	}
}

// instructions returns what a client tells its model about this server; in the mode direct, only the notice.
func (s *Server) instructions() string {
	if !s.opt.code() {
		return s.opt.Notice
	}
	return strings.TrimSpace(s.opt.Notice + "\n\n" + instructions + s.serverNames())
}

// maxServerNames is the maximum number of bytes of servers' names that a client's model gets.
const maxServerNames = 300

// serverNames returns a sentence with the names of the servers, so that a model knows what it can search for.
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

// listTTL is how long, in milliseconds, a client may use a list without asking again. Clients with sessions are notified of changes earlier.
const listTTL = 60_000

// private is a middleware that marks cacheable answers as private to the caller: they contain tokens of the caller's session. It sees requests
// before most other middleware, so it also reports that the request is decoded.
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
			if a.CacheScope = cacheScope; len(s.skills) == 0 { // no notification reports changed skills; a promotion is seen after the TTL
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

// bound returns a copy of ctx that ends when either of the two given contexts ends.
func bound(ctx, with context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(with, cancel)
	return ctx, func() { stop(); cancel() }
}

// resume is called when a request was decided after its client had given up. It resumes the run or task of the request.
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
