// Package api is the HTTP interface: the endpoints of the original system, /v1, events over SSE and WebSocket, and the document that describes
// them. It decides who may see what; everything else is left to the harness.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
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
	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/quarantine"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/tiers"
)

// Authenticator identifies the sender of a request; *auth.Authenticator implements it. Its methods are safe for concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, r *http.Request) (auth.Identity, error)
	Active(ctx context.Context, principal string) error
}

// Harness is the part of the harness that the API and its gateway for MCP clients use. Its methods are safe for concurrent use.
type Harness interface {
	mcpserver.Harness
	Tiers() *tiers.Set
	// Probes returns the checks of the parts that the harness depends on.
	Probes() []part.Probe
	// Quarantine returns the quarantine, which holds definitions of servers until a person has approved them.
	Quarantine() *quarantine.Quarantine
}

// Options holds the parts and the settings of the API.
type Options struct {
	Harness      Harness
	Tasks        *task.Service
	Auth         Authenticator
	Limiter      *auth.Limiter // limiter of requests for work; nil means no limit
	Requests     *auth.Limiter // limiter of all requests; nil means no limit
	Capabilities *auth.Capabilities
	Metrics      *telemetry.Metrics // metrics of the API; if nil, New creates them
	Audit        *telemetry.Auditor // writer of audit events; if nil, no events are written
	AuditFile    AuditFile          // the file that Audit writes to
	Keys         Keys
	// Doctor examines the harness until ctx ends, and calls note with each finding. nil means that the API offers no examination.
	Doctor  func(ctx context.Context, note func(doctor.Finding))
	Tracer  *telemetry.Tracer // maker of spans; if nil, no spans are made
	Logger  *slog.Logger
	Now     func() time.Time
	Version string
	// Origins are the web origins whose pages may call the API from browsers. "*" allows every origin, for requests that carry their credentials in a
	// header or a ticket; it must not be set while Auth accepts requests without a credential.
	Origins []string
	// Proxies are the trusted proxies before this server.
	Proxies auth.Proxies
	// BodyLimit is the maximum size of a request body in bytes; 0 means no limit.
	BodyLimit int64
	// AllowCommandServers lets admins add servers that are started by a command.
	AllowCommandServers bool
	// Policy is the configuration that contains the policy in effect; nil means a policy without rules.
	Policy *config.Config
	// Destinations returns the destinations that the policy uses for a tool. defined are the destinations that the tool's definition declares. A nil
	// function means that the policy uses the declared ones.
	Destinations func(tool string, defined []destination.Destination) []destination.Destination
	// Health adds the endpoints /health and /ready.
	Health bool
	// InternalElsewhere leaves out /internal/mcp-call, which another listener serves.
	InternalElsewhere bool
	// Issuer is the address of the token issuer; it is empty if no issuer is configured. Audience is the audience of the tokens for the API.
	Issuer, Audience string
	// MCPMode decides what MCP clients get, see mcpserver.Options.
	MCPMode string
	// MCPSkills are the skills that MCP clients get as tools.
	MCPSkills []string
	// PublishedSkills are the skills that anyone may read at the well-known index, as USER/NAME.
	PublishedSkills []string
	// MCPTasks offers MCP clients the tool run_task.
	MCPTasks bool
	// Heartbeat is the interval at which a stream of events sends a comment or a ping; 0 means 15 s. Recheck is the interval at which the credential of
	// a stream is checked again; 0 means 5 s.
	Heartbeat, Recheck time.Duration
	// KeysRevoked calls f soon after each revocation of a key, until ctx ends. f makes the API check the credentials of all streams. If KeysRevoked is nil,
	// the API checks them only every Recheck.
	KeysRevoked func(ctx context.Context, f func()) error
}

// API is the HTTP interface. It is safe for concurrent use.
type API struct {
	opt Options
	doc huma.API
	// closing is cancelled during a shutdown, when the streams of events have to end.
	closing context.Context
	close   context.CancelFunc
	tickets tickets
	gateway *mcpserver.Server // server for MCP clients; nil before Handler
	// These fields limit how many of the following are in progress at the same time: reads, replays (heavy and loading), streams of events, decoding
	// of bodies (bodies and large), transfers of files, and scans of files.
	reads, heavy, loading, streams, bodies, large, transfers, scans *bound
	// arriving limits the memory for bodies of callers with a credential. open limits the memory for bodies of callers without a credential. Both
	// count in units of bodyUnit.
	arriving, open *bound

	checks    *bound // limits the concurrent checks of programs
	verifying *bound // limits the verifications of the audit log
	examining *bound // limits the examinations by the doctor
	verified  verified
	// simulating limits the concurrent requests that read recorded runs.
	simulating *bound
	packing    *bound // limits the requests for the index of skills and its files, whose archives are made in memory

	layouts  layouts
	uploads  uploads
	refusals *refusals
	pace     openPace
	revoked  signal // signal that a key was revoked

	requests atomic.Int64 // number of requests that are being served
	busy     atomic.Int64 // number of requests that a shutdown waits for before it closes the streams
	stopping atomic.Bool  // the server is stopping and takes no more work
	probed   atomic.Int64 // time of the last request to /ready before the stop, in nanoseconds since 1970
	refused  atomic.Bool  // /ready has answered 503 since the stop
}

var settleHuma sync.Once // makes New change the global variables of huma only once

// New returns an API that is made of the parts in opt.
func New(opt Options) *API {
	settleHuma.Do(func() {
		huma.NewError = newProblem
		huma.DefaultArrayNullable = false // no list is ever null
		huma.ValidateStrictCasing = true  // decode is case-sensitive, too
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
		bodies:    newBound("bodies that are decoded", max(1, processors/2), processors, decodeWait),
		large:     newBound("large bodies", 1, 1024, slotWait),
		transfers: newBound("transfers of files", 8, 128, slotWait), scans: newBound("files that are looked through", 1, scansAtOnce, slotWait),
	}
	a.checks = newBound("checks of programs", 1, 2*processors, slotWait)
	a.verifying = newBound("verifications of the audit log", 1, 1, 0)
	a.examining = newBound("examinations", 1, 1, 0)
	a.packing = newBound("reads of the index of skills", 2, 4, slotWait)
	a.simulating = newBound("simulations", 1, 2, 0)
	a.arriving = newBound("units of 64 KiB of request bodies", 4*body, 16*body, slotWait)
	a.open = newBound("units of 64 KiB of request bodies without credentials", body, 2*body, slotWait)
	a.refusals = &refusals{now: opt.Now, write: func(e telemetry.Event) { opt.Audit.Audit(context.Background(), e) }}
	a.closing, a.close = context.WithCancel(context.Background())
	if opt.KeysRevoked != nil {
		go func() {
			if err := opt.KeysRevoked(a.closing, a.revoked.send); err != nil && a.closing.Err() == nil {
				opt.Logger.Warn("streams learn of revoked keys only every few seconds", "error", err)
			}
		}()
	}
	return a
}

// Close ends the streams of events and the requests of MCP clients. Clients can continue at another server, after the last event that they have
// received.
func (a *API) Close() {
	a.close()
	a.refusals.flush()
	if a.gateway != nil {
		a.gateway.Close()
	}
}

// Handler returns a handler that serves every endpoint, except those that the options leave to other listeners.
func (a *API) Handler() http.Handler {
	handler, _ := a.Handlers()
	return handler
}

// Handlers returns the result of Handler, and the same handler without the rate limit of Options.Requests. The dashboard uses the second one, because
// it makes several requests for one page and counts only the page.
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
	a.addSkillLife()
	a.addSkillShares()
	a.addSkillIndex(r)
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
	mux.HandleFunc("/v1/skills", a.nothing(mux)) // Without this pattern, the mux would redirect to /v1/skills/.
	origin, query := a.checkOrigin(), a.checkQuery()
	return a.serve(mux, origin, a.authenticate, a.countRequest, a.checkOpenBody, query, a.takeSlot, a.readBody),
		a.serve(mux, origin, a.authenticate, a.checkOpenBody, query, a.takeSlot, a.readBody)
}

// Internal returns a handler that serves only /internal/mcp-call, for a separate listener.
func (a *API) Internal() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+mcpCallPath, a.plain(a.mcpCall))
	mux.HandleFunc("/", a.nothing(mux))
	return a.serve(mux, a.checkOpenBody, a.readBody)
}
