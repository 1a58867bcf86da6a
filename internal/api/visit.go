package api

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/netip"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/telemetry"
)

// visit is the state of a request while it is served. Only the goroutine of the request changes it.
type visit struct {
	identity auth.Identity
	route    string
	id       string     // id in the path; empty if there is none
	from     netip.Addr // address of the client
	// capability is the credential of /internal/mcp-call; zero if none was checked.
	capability auth.Capability
	answer     *recorder
	conn       *counted // connection of the request; nil in tests
	// authenticate checks the credential of the request. Streams call it again from time to time.
	authenticate func(context.Context) (auth.Identity, error)
	task, run    string // ids of the task and the run of the request, for the log
	leave        func() // releases the slot of the request
	decoded      func() // releases the slots and the memory of the body
	// detach tells a shutdown not to wait for the request, because closing the streams ends it.
	detach func()
}

type visitKey struct{}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// identity returns the identity of the sender of the request.
func identity(ctx context.Context) auth.Identity { return visitOf(ctx).identity }

// logged returns the context for log lines, with the ids of the task and the run of the request.
func logged(ctx context.Context) context.Context {
	v := visitOf(ctx)
	return telemetry.WithIDs(ctx, v.task, v.run)
}

// audit writes an event with the route, the address and the principal of the request.
func (a *API) audit(ctx context.Context, e telemetry.Event) {
	a.opt.Audit.Audit(logged(ctx), a.event(ctx, e))
}

// event adds four facts to an event: the time, and the route, the address and the principal of the request.
func (a *API) event(ctx context.Context, e telemetry.Event) telemetry.Event {
	v := visitOf(ctx)
	e.Time = a.opt.Now()
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details["route"] = v.route
	if v.from.IsValid() {
		e.Details["address"] = v.from.String()
	}
	if v.identity.Principal != "" {
		e.Details["principal"] = v.identity.Principal
	}
	return e
}

const (
	writeTimeout = 30 * time.Second // time for a client to read writeChunk bytes, or to send any bytes
	writeChunk   = 64 << 10
	leastRate    = 32 << 10 // minimum rate in bytes a second, after the first writeTimeout, at which a client reads an answer or sends a file
)

// pace determines how fast a client has to read an answer or send a body.
type pace struct {
	began  time.Time // time of the first bytes
	bytes  int64
	stream bool // marks a stream of events, to which leastRate does not apply
}

// deadline returns the time by which the client must have read or sent the next chunk: after writeTimeout, or earlier to keep leastRate.
func (p *pace) deadline(now time.Time) time.Time {
	if p.bytes == 0 {
		p.began = now
	}
	end := now.Add(writeTimeout)
	if whole := p.began.Add(writeTimeout + time.Duration(p.bytes)*time.Second/leastRate); !p.stream && whole.Before(end) {
		return whole
	}
	return end
}

// recorder records the status of an answer, and limits how long a client may take to read the answer.
type recorder struct {
	http.ResponseWriter
	status int
	pace   pace
	// computed ends the request's turn to compute its answer. It is called when the first bytes are written, or at the end. computed is nil if the request
	// has no turn.
	computed func()
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.limit()
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (written int, err error) {
	r.endTurn()
	for {
		r.limit()
		n, err := r.ResponseWriter.Write(p[:min(len(p), writeChunk)])
		written += n
		r.pace.bytes += int64(n)
		if p = p[n:]; err != nil || len(p) == 0 {
			return written, err
		}
	}
}

// Limits of discard. net/http itself reads up to unreadBody bytes, and resets the connection if there are more.
const (
	discardBytes = 8 << 20
	discardTime  = 2 * time.Second
	unreadBody   = 256 << 10
)

// discard sends what was written and reads the rest of a refused body. If the connection were reset while the client is still sending, the client
// would report the reset instead of the reason.
func (r *recorder) discard(req *http.Request, body io.Reader) {
	if req.Header.Get("Expect") != "" || req.ContentLength >= 0 && req.ContentLength <= unreadBody {
		return
	}
	conn := http.NewResponseController(r.ResponseWriter)
	if conn.Flush() == nil && conn.SetReadDeadline(time.Now().Add(discardTime)) == nil {
		io.CopyN(io.Discard, body, discardBytes)
	}
}

func (r *recorder) endTurn() {
	if r.computed != nil {
		r.computed()
		r.computed = nil
	}
}

func (r *recorder) limit() {
	http.NewResponseController(r.ResponseWriter).SetWriteDeadline(r.pace.deadline(time.Now()))
}

// Unwrap lets http.ResponseController flush, and WebSocket take the connection over.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) code() int { return cmp.Or(r.status, http.StatusOK) }
