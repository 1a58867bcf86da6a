package api

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/telemetry"
)

// Limits of the audit lines about refused requests in one minute, so that no caller fills the audit log. The first refusals of an address or a caller get a
// line each; its later refusals are counted in one line. The maximum of 50 lines a minute makes 25 MB a day.
const (
	refusalWindow  = time.Minute
	refusalSingle  = 10 // maximum number of single lines of one address or caller
	refusalSingles = 30 // maximum number of single lines of all addresses and callers
	refusalCounted = 20 // maximum number of addresses and callers with their own count; all further ones share a count
	refusalReasons = 5  // maximum number of reasons in a count
)

// Limits of requests without credentials. Requests with a valid credential neither wait nor count.
const (
	openBurst = 200                   // number of requests of an address that need not wait
	openEvery = 20 * time.Millisecond // pause between later requests
	openWait  = 30 * time.Second      // maximum wait of a request; the connection of a request that would wait longer is closed without an answer
	openPaced = 10_000                // maximum number of remembered addresses; all further ones share an entry
)

// refusals counts refused requests for the audit log. Its methods are safe for concurrent use.
type refusals struct {
	write func(telemetry.Event)
	now   func() time.Time

	mu     sync.Mutex
	begin  time.Time // beginning of the counted minute; zero before its first refusal
	lines  int       // number of single lines written in this minute
	counts map[refusalKey]*refusal
	timer  *time.Timer
}

type refusalKey struct {
	what telemetry.EventType
	of   string // address block or caller; empty for the shared count
}

// refusal counts the refused requests of one address or caller: those with a line (lines) and those without (n).
type refusal struct {
	lines   int
	n       int64
	event   telemetry.Event // last event without a line
	reasons []string
}

// note writes or counts the event of an address block or a caller.
func (r *refusals) note(of string, e telemetry.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begin.IsZero() {
		r.begin, r.lines, r.counts = r.now(), 0, map[refusalKey]*refusal{}
		r.timer = time.AfterFunc(refusalWindow, r.flush)
	}
	key := refusalKey{e.Type, of}
	c := r.counts[key]
	if c == nil && len(r.counts) >= refusalCounted {
		key.of = ""
		c = r.counts[key]
	}
	if c == nil {
		c = &refusal{}
		r.counts[key] = c
	}
	if c.lines < refusalSingle && r.lines < refusalSingles {
		c.lines++
		r.lines++
		r.write(e)
		return
	}
	c.n++
	c.event = e
	if reason, _ := e.Details["reason"].(string); reason != "" && !slices.Contains(c.reasons, reason) && len(c.reasons) < refusalReasons {
		c.reasons = append(c.reasons, reason)
	}
}

// flush writes the counts of the minute to the audit log.
func (r *refusals) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begin.IsZero() {
		return
	}
	r.timer.Stop()
	keys := slices.SortedFunc(maps.Keys(r.counts), func(a, b refusalKey) int {
		return strings.Compare(string(a.what)+a.of, string(b.what)+b.of)
	})
	for _, key := range keys {
		c := r.counts[key]
		if c.n == 0 {
			continue
		}
		e := telemetry.Event{Time: r.now(), Type: key.what, Severity: c.event.Severity, UserID: c.event.UserID, Details: map[string]any{
			"count": c.n, "since": r.begin.UTC().Format(time.RFC3339), "reasons": c.reasons,
		}}
		for _, name := range []string{"address", "principal"} {
			if v, ok := c.event.Details[name]; ok && key.of != "" {
				e.Details[name] = v
			}
		}
		if key.of == "" {
			e.UserID, e.Details["address"] = "", "others"
		}
		r.write(e)
	}
	r.begin, r.counts = time.Time{}, nil
}

// openPace limits the rate of answers to requests without credentials, for each address. Its methods are safe for concurrent use.
type openPace struct {
	mu   sync.Mutex
	next map[netip.Addr]time.Time // theoretical arrival time of the next request of an address, as in the GCRA algorithm
	// swept is the time of the last removal of addresses whose whole burst is available again. A full map is swept at most once a second.
	swept time.Time
}

// wait returns how long a request of an address block has to wait. It returns false if that is longer than openWait.
func (p *openPace) wait(from netip.Addr, now time.Time) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = map[netip.Addr]time.Time{}
	}
	if _, known := p.next[from]; !known && len(p.next) >= openPaced {
		if now.Sub(p.swept) >= time.Second {
			p.swept = now
			maps.DeleteFunc(p.next, func(_ netip.Addr, next time.Time) bool { return next.Before(now) })
		}
		if len(p.next) >= openPaced {
			from = netip.Addr{}
		}
	}
	next := p.next[from]
	if next.Before(now) {
		next = now
	}
	wait := next.Sub(now) - (openBurst-1)*openEvery
	if wait > openWait {
		return 0, false
	}
	p.next[from] = next.Add(openEvery)
	return max(wait, 0), true
}

// paceOpen delays a request without credentials if its address sends many. It closes the connection if the wait would be too long or if the client
// disconnects.
func (a *API) paceOpen(ctx context.Context) {
	v := visitOf(ctx)
	wait, ok := a.pace.wait(addressBlock(v.from), time.Now())
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if wait == 0 {
		return
	}
	v.detach() // a shutdown does not wait for this request
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		panic(http.ErrAbortHandler)
	case <-a.closing.Done():
	}
}
