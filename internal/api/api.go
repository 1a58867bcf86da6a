// Package api is the HTTP interface: the original's endpoints, /v1, events over SSE and WebSocket, and the document that
// describes them. It decides who may see what; everything else is the harness's.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// Authenticator says who sent a request.
type Authenticator interface {
	// Authenticate returns an error that wraps auth.ErrUnauthenticated for a request of nobody. Beside an error the
	// identity has at most a principal. Errors hold nothing of what was sent. It is safe for concurrent use.
	Authenticate(ctx context.Context, r *http.Request) (auth.Identity, error)
}

// Limiter bounds how often a caller may ask.
type Limiter interface {
	// Allow counts a request of a caller. limit is how many may come at once, remaining how many of those are left; after is
	// how long to wait: for the next one where this one may not, else until nothing of the limit is used. It is safe for
	// concurrent use.
	Allow(caller string) (ok bool, limit, remaining int, after time.Duration)
}

// Principals says whether a credential that was accepted before still is.
type Principals interface {
	// Active returns an error that wraps auth.ErrUnauthenticated for a principal that is not accepted any more.
	Active(ctx context.Context, principal string) error
}

// Capabilities make and check what /internal/mcp-call is given.
type Capabilities interface {
	// Issue returns a token for a run and when it expires.
	Issue(c auth.Capability) (token string, expires time.Time, err error)
	// Check returns what a token stands for. It is safe for concurrent use.
	Check(token string) (auth.Capability, error)
}

// Options are the parts that the API joins.
type Options struct {
	Harness      *harness.Harness
	Tasks        *task.Service
	Auth         Authenticator
	Limiter      Limiter // of requests for work; nil: none
	Requests     Limiter // of all requests; nil: none
	Capabilities Capabilities
	Metrics      *telemetry.Metrics // nil: none
	Audit        *telemetry.Auditor // nil: none
	Tracer       *telemetry.Tracer  // nil: none
	Logger       *slog.Logger
	Now          func() time.Time
	Version      string
	// Origins are those whose pages may call from browsers; none by default. "*" is all of them, for requests that bring
	// their credentials with them; it must not be there where Auth lets everybody in.
	Origins []string
	// Proxies are believed about whom they speak for (X-Forwarded-For).
	Proxies []netip.Prefix
	// BodyLimit is how many bytes the body of a request may have; 0 does not limit it.
	BodyLimit int64
	// AllowCommandServers lets admins add servers that are started by a command.
	AllowCommandServers bool
	// Health and MetricsPath switch endpoints; /metrics may be served elsewhere.
	Health, MetricsPath bool
	// InternalElsewhere leaves /internal/mcp-call to another listener.
	InternalElsewhere bool
	// Heartbeat is how often a stream without events shows that it is alive; 0 is every 15 s. Recheck is how often the
	// credential of a stream is checked again; 0 is every 5 s.
	Heartbeat, Recheck time.Duration
}

// API is the HTTP interface. It is safe for concurrent use.
type API struct {
	opt Options
	doc huma.API
	// closing ends the streams: they would keep a server from its shutdown.
	closing context.Context
	close   context.CancelFunc
	// busy are the requests that a shutdown lets end; all are those and the ones that Close ends.
	busy, all flights
	tickets   tickets
	// reads and heavy bound requests that are served at the same time, streams those that stay.
	reads, heavy, streams *slots
	draining              drain
}

var settleHuma sync.Once // it keeps these in variables

// New joins the parts.
func New(opt Options) *API {
	settleHuma.Do(func() {
		huma.NewError = newProblem
		huma.DefaultArrayNullable = false // no list is ever null
		huma.ValidateStrictCasing = true  // as decode has it
	})
	if opt.Heartbeat == 0 {
		opt.Heartbeat = 15 * time.Second
	}
	if opt.Recheck == 0 {
		opt.Recheck = 5 * time.Second
	}
	a := &API{
		opt: opt, reads: newSlots("reads", 16, 128, slotWait), heavy: newSlots("reads of whole journals", 1, 2, slotWait),
		streams: newSlots("streams of events", 512, 4096, 0),
	}
	a.closing, a.close = context.WithCancel(context.Background())
	return a
}

// Close ends the streams of events. Clients may go on with another server, from where they were.
func (a *API) Close() { a.close() }

// Handler serves everything but what is left to other listeners.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	a.doc = humago.New(mux, a.document())
	r := &routes{a, mux}
	a.addOriginal(r)
	a.addTasks()
	a.addEvents(r)
	a.addSessions()
	a.addRuns()
	a.addCapabilities()
	a.addTools()
	a.addServers()
	a.addSkills(r)
	a.addSchedules()
	a.addTickets()
	a.addOperations(r)
	if !a.opt.InternalElsewhere {
		a.addInternal(r)
	}
	a.finish()
	mux.HandleFunc("/", a.nothing(mux))
	mux.HandleFunc("/v1/skills", a.nothing(mux)) // the pattern of the files below it would redirect here
	return a.outer(mux, a.cors(a.authenticate(a.checkQuery(a.bound(a.readBody(mux))))))
}

// Internal serves /internal/mcp-call alone, for a listener of its own.
func (a *API) Internal() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+mcpCallPath, a.plain(a.mcpCall))
	mux.HandleFunc("/", a.nothing(mux))
	return a.outer(mux, a.readBody(mux))
}
