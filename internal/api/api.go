// Package api is the HTTP interface: the original's endpoints, /v1, events over SSE and WebSocket, and the document that
// describes them. It decides who may see what; everything else is the harness's.
package api

import (
	"context"
	"log/slog"
	"net/http"
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
	// Authenticate returns an error that wraps auth.ErrUnauthenticated for a request of nobody. It is safe for concurrent
	// use.
	Authenticate(ctx context.Context, r *http.Request) (auth.Identity, error)
}

// Limiter bounds how often a user may ask for work.
type Limiter interface {
	// Allow counts a request; retry is when another may be made, where this one may not.
	Allow(user string) (ok bool, remaining int, retry time.Duration)
}

// Capabilities check what /internal/mcp-call is given.
type Capabilities interface {
	Check(token string) (auth.Capability, error)
}

// Options are the parts that the API joins.
type Options struct {
	Harness      *harness.Harness
	Tasks        *task.Service
	Auth         Authenticator
	Limiter      Limiter // nil: no limit
	Capabilities Capabilities
	Metrics      *telemetry.Metrics // nil: none
	Logger       *slog.Logger
	Now          func() time.Time
	Version      string
	// Origins may call from browsers; none by default.
	Origins []string
	// BodyLimit is how many bytes a request may have.
	BodyLimit int64
	// AllowCommandServers lets admins add servers that are started by a command.
	AllowCommandServers bool
	// Health and MetricsPath switch endpoints; /metrics may be served elsewhere.
	Health, MetricsPath bool
	// InternalElsewhere leaves /internal/mcp-call to another listener.
	InternalElsewhere bool
}

// API is the HTTP interface. It is safe for concurrent use.
type API struct {
	opt Options
	doc huma.API
	// closing ends the streams: they would keep a server from its shutdown.
	closing context.Context
	close   context.CancelFunc
}

var settleErrors sync.Once // huma keeps its maker of errors in a variable

// New joins the parts.
func New(opt Options) *API {
	settleErrors.Do(func() { huma.NewError = newProblem })
	a := &API{opt: opt}
	a.closing, a.close = context.WithCancel(context.Background())
	return a
}

// Close ends the streams of events. Clients may go on with another server, from where they were.
func (a *API) Close() { a.close() }

// Handler serves everything but what is left to other listeners.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	a.doc = humago.New(mux, a.document())
	a.addTasks()
	a.addSessions()
	a.addRuns()
	a.addTools()
	a.addServers()
	a.addSchedules()
	a.addSkills(mux)
	a.addEvents(mux)
	a.addOriginal(mux)
	a.addOperations(mux)
	return a.guard(mux)
}

// Internal serves /internal/mcp-call alone, for a listener of its own.
func (a *API) Internal() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /internal/mcp-call", a.mcpCall)
	return a.outer(mux)
}
