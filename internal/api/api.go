// Package api is the HTTP interface: the original's endpoints, /v1, events over SSE and WebSocket, and the document that
// describes them. It decides who may see what; everything else is the harness's.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/doctor"
	"mcp-code-exec-harness/internal/mcpserver"
	"mcp-code-exec-harness/internal/quarantine"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/tiers"
)

// Authenticator says who sends a request; *auth.Authenticator is the product's. Its methods are safe for concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, r *http.Request) (auth.Identity, error)
	Active(ctx context.Context, principal string) error
}

// Harness is what the API needs of the harness, with what its gateway for MCP clients does. Its methods are safe for concurrent use.
type Harness interface {
	mcpserver.Harness
	Tiers() *tiers.Set
	// Quarantine holds what servers say until a person has approved it.
	Quarantine() *quarantine.Quarantine
}

// Options are the parts that the API joins.
type Options struct {
	Harness      Harness
	Tasks        *task.Service
	Auth         Authenticator
	Limiter      *auth.Limiter // limiter of requests for work; nil: none
	Requests     *auth.Limiter // limiter of all requests; nil: none
	Capabilities *auth.Capabilities
	Metrics      *telemetry.Metrics // nil: they are not shown
	Audit        *telemetry.Auditor // nil: none
	AuditFile    AuditFile          // the file that Audit writes
	Keys         Keys
	// Doctor examines the harness until ctx ends, and notes what it finds; nil: it does not.
	Doctor  func(ctx context.Context, note func(doctor.Finding))
	Tracer  *telemetry.Tracer // nil: none
	Logger  *slog.Logger
	Now     func() time.Time
	Version string
	// Origins are the web origins whose pages may call from browsers. "*" is every origin, for requests that carry their
	// credentials in a header or a ticket; it must not be set while Auth accepts requests without a credential.
	Origins []string
	// Proxies are the peers whose X-Forwarded-For is believed.
	Proxies []netip.Prefix
	// BodyLimit is the most bytes of a request body; 0: no limit.
	BodyLimit int64
	// AllowCommandServers lets admins add servers that are started by a command.
	AllowCommandServers bool
	// Policy is the configuration with the policy in effect; nil: one without rules.
	Policy *config.Config
	// Destinations are the destinations of a tool for the policy, of those that its definition says; nil: the same.
	Destinations func(tool string, defined []destination.Destination) []destination.Destination
	// Health adds /health and /ready.
	Health bool
	// InternalElsewhere leaves /internal/mcp-call to another listener.
	InternalElsewhere bool
	// Issuer is the address of the issuer whose tokens Auth accepts for Audience; empty: none.
	Issuer, Audience string
	// MCPMode is what MCP clients get, see mcpserver.Options.
	MCPMode string
	// MCPSkills are the skills that they get as tools.
	MCPSkills []string
	// MCPTasks offers them run_task.
	MCPTasks bool
	// Heartbeat is the pause after which a stream without events sends a comment; 0: 15 s. Recheck is how often the
	// credential of a stream is checked again; 0: 5 s.
	Heartbeat, Recheck time.Duration
}

// API is the HTTP interface. It is safe for concurrent use.
type API struct {
	opt Options
	doc huma.API
	// closing ends when the streams of events have to end, for a shutdown.
	closing context.Context
	close   context.CancelFunc
	tickets tickets
	gateway *mcpserver.Server // server for MCP clients; nil before Handler
	// reads, heavy and transfers bound requests that are served at the same time, streams the streams of events, bodies and large the
	// bodies that are decoded, scans the files that are looked through.
	reads, heavy, loading, streams, bodies, large, transfers, scans *bound
	// arriving bounds the memory of bodies of callers with a credential, open that of bodies without one, in units of bodyUnit.
	arriving, open *bound

	checks    *bound // checks of programs
	verifying *bound // verifications of the audit log
	examining *bound // examinations by the doctor
	verified  verified
	// simulating bounds requests that decide recorded calls again.
	simulating *bound

	layouts  layouts
	uploads  uploads
	refusals *refusals
	pace     openPace

	requests atomic.Int64 // being served
	busy     atomic.Int64 // requests among them whose end a shutdown waits for before it closes the streams
	stopping atomic.Bool  // the server stops: it takes no more work
	probed   atomic.Int64 // time of the last /ready before the stop, in nanoseconds since 1970
	refused  atomic.Bool  // /ready has answered 503 since the stop
}

var settleHuma sync.Once // huma keeps these settings in variables

// New joins the parts.
func New(opt Options) *API {
	settleHuma.Do(func() {
		huma.NewError = newProblem
		huma.DefaultArrayNullable = false // no list is ever null
		huma.ValidateStrictCasing = true  // the same as decode does
	})
	opt.Heartbeat = cmp.Or(opt.Heartbeat, 15*time.Second)
	if opt.Metrics == nil {
		opt.Metrics = telemetry.NewMetrics()
	}
	opt.Recheck = cmp.Or(opt.Recheck, 5*time.Second)
	processors := runtime.GOMAXPROCS(0)
	body := int(max(opt.BodyLimit, 8<<20) / bodyUnit)
	a := &API{
		opt: opt, reads: newBound("reads", 16, 128, slotWait), heavy: newBound("replays", 1, 16, slotWait), loading: newBound("replays that begin", 1, 2, slotWait),
		streams:   newBound("streams of events", 512, 4096, 0),
		bodies:    newBound("bodies that are decoded", max(1, processors/2), processors, slotWait),
		large:     newBound("large bodies", 1, 1024, slotWait),
		transfers: newBound("transfers of files", 8, 128, slotWait), scans: newBound("files that are looked through", 1, scansAtOnce, slotWait),
	}
	a.checks = newBound("checks of programs", 1, 2*processors, slotWait)
	a.verifying = newBound("verifications of the audit log", 1, 1, 0)
	a.examining = newBound("examinations", 1, 1, 0)
	a.simulating = newBound("simulations", 1, 2, 0)
	a.arriving = newBound("units of 64 KiB of request bodies", 4*body, 16*body, slotWait)
	a.open = newBound("units of 64 KiB of request bodies without credentials", body, 2*body, slotWait)
	a.refusals = &refusals{now: opt.Now, write: func(e telemetry.Event) { opt.Audit.Audit(context.Background(), e) }}
	a.closing, a.close = context.WithCancel(context.Background())
	return a
}

// Close ends the streams of events, and the requests of MCP clients. Clients continue with another server, behind the last event that
// they have.
func (a *API) Close() {
	a.close()
	a.refusals.flush()
	if a.gateway != nil {
		a.gateway.Close()
	}
}

// Handler serves every endpoint but those that the options leave to other listeners.
func (a *API) Handler() http.Handler {
	handler, _ := a.Handlers()
	return handler
}

// Handlers are Handler, and the same without the limit of all requests: for the dashboard, which asks several things for one page and counts the
// page.
func (a *API) Handlers() (handler, uncounted http.Handler) {
	mux := http.NewServeMux()
	a.doc = humago.New(mux, a.document())
	r := &routes{a, mux}
	a.addOriginal(r)
	a.addTasks()
	a.addEvents(r)
	a.addSessions()
	a.addFiles(r)
	a.addPII()
	a.addRuns()
	a.addCheck()
	a.addCalls()
	a.addApprovals()
	a.addSecurityKeys()
	a.addCapabilities()
	a.addTools()
	a.addServers()
	a.addReviews()
	a.addSkills(r)
	a.addSchedules()
	a.addTickets()
	a.addCaller()
	a.addPolicy()
	a.addRecordedPolicy()
	a.addUsage()
	a.addAudit()
	a.addDoctor()
	a.addKeys()
	a.addMCP(r)
	a.addOperations(r)
	if !a.opt.InternalElsewhere {
		a.addInternal(r)
	}
	a.finish()
	mux.HandleFunc("/", a.nothing(mux))
	mux.HandleFunc("/v1/skills", a.nothing(mux)) // else the pattern of the files below it redirects
	origin, query := a.checkOrigin(), a.checkQuery()
	return a.serve(mux, origin, a.authenticate, a.countRequest, a.checkOpenBody, query, a.takeSlot, a.readBody),
		a.serve(mux, origin, a.authenticate, a.checkOpenBody, query, a.takeSlot, a.readBody)
}

// Internal serves /internal/mcp-call alone, for a listener of its own.
func (a *API) Internal() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+mcpCallPath, a.plain(a.mcpCall))
	mux.HandleFunc("/", a.nothing(mux))
	return a.serve(mux, a.checkOpenBody, a.readBody)
}
