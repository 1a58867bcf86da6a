package api

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/telemetry"
)

// visit is what is known of a request while it is served. Only its own goroutine changes it.
type visit struct {
	identity auth.Identity
	route    string
	header   http.Header // of the answer
	from     netip.Addr  // the client's
	answer   *recorder
	// authenticate returns who sent the request as of now: an error says that the credential is not good any more.
	authenticate func(context.Context) (auth.Identity, error)
	task, run    string // that it is about, for the log
	// wait says that the request from now on waits for what ends by itself, or is ended, when the server stops.
	wait func()
}

type visitKey struct{}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// identity is who sent the request.
func identity(ctx context.Context) auth.Identity { return visitOf(ctx).identity }

// logged is the context for log lines: with the ids of what the request is about.
func logged(ctx context.Context) context.Context {
	v := visitOf(ctx)
	return telemetry.WithIDs(ctx, v.task, v.run)
}

// audit tells of something that matters to security.
func (a *API) audit(ctx context.Context, e telemetry.Event) {
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
	a.opt.Audit.Audit(logged(ctx), e)
}

// client is the address of who sent a request: the peer, or whom trusted proxies say that they speak for. The last entry
// of the header is the nearest proxy's; what stands before the first one that is not trusted could be anything.
func (a *API) client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	at := peer.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && a.trusted(at); i-- {
		before, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		at = before.Unmap()
	}
	return at
}

func (a *API) trusted(proxy netip.Addr) bool {
	for _, p := range a.opt.Proxies {
		if p.Contains(proxy) {
			return true
		}
	}
	return false
}

const (
	writeTimeout = 30 * time.Second // for writeChunk to leave: a client that does not read is let go
	writeChunk   = 64 << 10
	leastRate    = 32 << 10 // bytes a second that a client has to read of an answer, beyond its first writeTimeout
)

// recorder remembers the status, and bounds how long a client may take to read.
type recorder struct {
	http.ResponseWriter
	status  int
	began   time.Time // the first write
	written int64
	stream  bool // it has no end that the client could wait for
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
	for {
		r.limit()
		n, err := r.ResponseWriter.Write(p[:min(len(p), writeChunk)])
		written += n
		r.written += int64(n)
		if p = p[n:]; err != nil || len(p) == 0 {
			return written, err
		}
	}
}

func (r *recorder) limit() {
	now := time.Now()
	if r.written == 0 {
		r.began = now
	}
	http.NewResponseController(r.ResponseWriter).SetWriteDeadline(r.deadline(now))
}

// deadline is until when the next chunk has to leave: within writeTimeout, and so that the whole answer keeps leastRate.
func (r *recorder) deadline(now time.Time) time.Time {
	end := now.Add(writeTimeout)
	if whole := r.began.Add(writeTimeout + time.Duration(r.written)*time.Second/leastRate); !r.stream && whole.Before(end) {
		return whole
	}
	return end
}

// Unwrap lets http.ResponseController flush, and WebSocket take the connection over.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

// flights counts requests under way. The zero value is ready.
type flights struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when there are none; nil if nobody waits
}

func (f *flights) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

func (f *flights) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	if f.n == 0 && f.none != nil {
		close(f.none)
		f.none = nil
	}
}

// landed is closed once none is under way.
func (f *flights) landed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	if f.none == nil {
		f.none = make(chan struct{})
	}
	return f.none
}
