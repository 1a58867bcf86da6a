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

// What the audit log gets of refused requests in a minute, so that no caller fills it: single lines for the first ones, and one line with a
// count for the others of an address or a caller. 50 lines a minute, all that there can be, are 25 MB a day.
const (
	refusalWindow  = time.Minute
	refusalSingle  = 10 // single lines of an address or a caller
	refusalSingles = 30 // single events of all addresses
	refusalCounted = 20 // addresses and callers with a count of their own; the others share one
	refusalReasons = 5  // reasons that a count names
)

// What requests without credentials get of the server. Requests with a valid one neither wait nor count.
const (
	openBurst = 200                   // requests of an address that are served at once
	openEvery = 20 * time.Millisecond // the pause between later ones
	openWait  = 30 * time.Second      // the longest wait; beyond it the connection is closed without an answer
	openPaced = 10_000                // addresses that are remembered; beyond them all others share one place
)

// refusals counts refused requests for the audit log. Its methods are safe for concurrent use.
type refusals struct {
	write func(telemetry.Event)
	now   func() time.Time

	mu     sync.Mutex
	begin  time.Time // beginning of the counted minute; zero: no refusal in it
	lines  int       // single ones that were written
	counts map[refusalKey]*refusal
	timer  *time.Timer
}

type refusalKey struct {
	what telemetry.EventType
	of   string // an address block or a caller; empty: all others
}

// refusal is what was refused of one address or caller and has no line yet.
type refusal struct {
	lines   int
	n       int64
	event   telemetry.Event // the last one
	reasons []string
}

// note writes or counts an event of an address block or a caller.
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

// flush writes the counts of the minute.
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

// openPace spaces the answers to requests without credentials, for each address. Its methods are safe for concurrent use.
type openPace struct {
	mu   sync.Mutex
	next map[netip.Addr]time.Time // time of the next request of an address that uses its burst up
	// swept is when the addresses were removed that had used nothing of their bursts; a full map is swept once a second.
	swept time.Time
}

// wait is how long a request of an address block has to wait; false if that is too long.
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

// paceOpen holds back a request without credentials whose address sends many. Where it would wait too long, or its client goes away, its
// connection is closed.
func (a *API) paceOpen(ctx context.Context) {
	v := visitOf(ctx)
	wait, ok := a.pace.wait(addressBlock(v.from), time.Now())
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if wait == 0 {
		return
	}
	v.detach() // a shutdown does not wait for it
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		panic(http.ErrAbortHandler)
	case <-a.closing.Done():
	}
}
