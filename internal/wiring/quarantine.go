package wiring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/telemetry"
)

// lookForReviews is how soon a process notices what another one has approved.
const lookForReviews = 2 * time.Second

// reviews notices that definitions which this process holds were approved.
type reviews struct {
	held   chan struct{} // holds a token when something has become held
	failed atomic.Bool   // a review has failed: the store is away
	end    context.CancelFunc
	ended  chan struct{}
}

// quarantine returns the function that holds definitions, nil if none are held.
func (h *Harness) quarantine() func(context.Context, mcpclient.Server) ([]string, bool) {
	if h.mode() == approval.HoldNone {
		return nil
	}
	h.reviews = &reviews{held: make(chan struct{}, 1), end: func() {}, ended: make(chan struct{})}
	return h.review
}

func (h *Harness) mode() approval.Quarantine {
	return cmp.Or(h.out.Quarantine, approval.Quarantine(h.cfg.QuarantineMode()))
}

// review holds what differs from the approved definitions of a server. If the store is away, it holds everything. What a server that
// is not known yet has said before is no list to trust.
func (h *Harness) review(ctx context.Context, s mcpclient.Server) (held []string, fresh bool) {
	listed := definitions(s)
	r, err := h.compare(ctx, s, listed)
	if errors.Is(err, errFresh) {
		return nil, true
	}
	if err != nil {
		r = approval.Reviewed{}
		for _, d := range listed {
			r.Held = append(r.Held, d.Tool)
		}
		if ctx.Err() == nil {
			h.reviews.failed.Store(true)
			h.out.Logger.Error("all tools of a server are held, because its definitions cannot be compared with the approved ones", "server", s.Name, "error", err)
		}
	}
	h.reviewed(ctx, s.Name, "held", "", r.New)
	h.reviewed(ctx, s.Name, "approved", "first use", r.Trusted)
	return r.Held, false
}

// errFresh reports a cached list of a server of which nothing is kept.
var errFresh = errors.New("nothing is known of the server")

func (h *Harness) compare(ctx context.Context, s mcpclient.Server, listed []approval.Definition) (none approval.Reviewed, err error) {
	store, err := h.store()
	if err != nil {
		return none, err
	}
	if s.Cached {
		known, err := store.Reviewed(ctx, s.Name)
		if err == nil && !known {
			err = errFresh
		}
		if err != nil {
			return none, err
		}
	}
	confirmed, err := h.presence.Definitions(ctx, s.Name)
	if err != nil {
		return none, err
	}
	return store.Review(ctx, s.Name, h.mode(), confirmed, listed)
}

// reviewed writes the audit event of definitions that were held or approved.
func (h *Harness) reviewed(ctx context.Context, server, change, by string, tools []string) {
	if len(tools) == 0 {
		return
	}
	details := map[string]any{"server": server, "change": change, "definitions": len(tools), "tools": tools}
	if by != "" {
		details["by"] = by
	}
	severity := telemetry.Medium
	if by == "first use" {
		severity = telemetry.Low
	}
	h.out.audit(context.WithoutCancel(ctx), telemetry.Event{Type: telemetry.ServerChange, Severity: severity, Details: details})
}

// definitions are what a server says, about itself first.
func definitions(s mcpclient.Server) []approval.Definition {
	all := []approval.Definition{{Title: s.ServerInfo.Title, Description: s.Instructions}}
	for _, t := range s.Tools {
		d := approval.Definition{Tool: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema}
		if t.Annotations != (mcpclient.Annotations{}) {
			d.Annotations, _ = json.Marshal(t.Annotations) // text and truth
		}
		all = append(all, d)
	}
	return all
}

// watchReviews reviews what is held again when a person has approved something, also in another process.
func (h *Harness) watchReviews() {
	r := h.reviews
	if r == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.end = cancel
	go func() {
		defer close(r.ended)
		var last time.Time
		for {
			select {
			case <-r.held:
			case <-ctx.Done():
				return
			}
			for names := h.holding(); len(names) > 0; names = h.holding() {
				store, err := h.store()
				var at time.Time
				if err == nil {
					at, err = store.LastReview(ctx)
				}
				if err == nil && (at.After(last) || r.failed.Swap(false)) {
					last = at
					for _, name := range names {
						_ = h.servers.Review(name) // the server may have been removed
					}
				}
				select {
				case <-time.After(lookForReviews):
				case <-ctx.Done():
					return
				}
			}
		}
	}()
}

// changed notes that a server has become one of which something is held. It is called after that can be seen: before, holding
// would find nothing.
func (r *reviews) changed(s mcpclient.Server) {
	if r == nil || len(s.Held) == 0 {
		return
	}
	select {
	case r.held <- struct{}{}:
	default:
	}
}

// holding names the servers of which something is held.
func (h *Harness) holding() (names []string) {
	for _, s := range h.servers.Servers() {
		if s.Held > 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

// stop ends the watching.
func (r *reviews) stop() {
	if r == nil {
		return
	}
	r.end()
	<-r.ended
}

// Held lists the definitions that are held, of one server or, without a name, of all.
func (h *Harness) Held(ctx context.Context, server string) ([]approval.Held, error) {
	if h.mode() == approval.HoldNone {
		return nil, nil
	}
	store, err := h.store()
	if err != nil {
		return nil, err
	}
	return store.Held(ctx, server)
}

// Approve approves definitions of a server that are held, by their hashes: all of them or none. by is who approves, and sign what their passphrase
// opens, where a person has to confirm it. The tools are offered when it returns; other processes notice it within seconds. The error wraps
// approval.ErrNotHeld, ErrTooManyPins or ErrUnconfirmed.
func (h *Harness) Approve(ctx context.Context, server, by string, hashes map[string]string, sign approval.Sign) error {
	store, err := h.store()
	if err != nil {
		return err
	}
	switch needed, err := h.presence.Required(ctx); {
	case err != nil:
		return err
	case needed && sign == nil:
		return approval.ErrUnconfirmed
	case needed:
		// First: a process that reviews the server meanwhile takes an approval without it for none.
		if err := h.presence.ConfirmDefinitions(ctx, sign, server, hashes); err != nil {
			return err
		}
	}
	if err := store.ApproveDefinitions(ctx, server, hashes); err != nil {
		return err
	}
	tools := make([]string, 0, len(hashes))
	for tool := range hashes {
		tools = append(tools, tool)
	}
	slices.Sort(tools)
	h.reviewed(ctx, server, "approved", by, tools)
	_ = h.servers.Review(server) // the server may belong to another process
	return nil
}

// ForgetServer removes what was approved of a server. The next list of a server of that name counts as its first one.
func (h *Harness) ForgetServer(ctx context.Context, server string) error {
	store, err := h.store()
	if err != nil {
		return err
	}
	return store.ForgetDefinitions(ctx, server)
}
