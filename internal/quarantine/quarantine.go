// Package quarantine holds what servers say about their tools until a person has approved it. The rule is approval.Review; what is
// approved is in the store, and signed where people confirm it.
package quarantine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/telemetry"
)

// maxChosen is the most definitions that one answer of a security key approves.
const maxChosen = 1000

// lookForReviews is how soon a process notices what another one has approved.
const lookForReviews = 2 * time.Second

// Store keeps what is known of definitions. Its methods are safe for concurrent use, and others may use the same store.
type Store interface {
	// Review compares what a server lists with what is kept of it, and keeps what it lists.
	Review(ctx context.Context, server string, mode approval.Quarantine, confirmed approval.Confirmed, listed []approval.Definition) (approval.Reviewed, error)
	// Reviewed reports whether anything is kept of a server.
	Reviewed(ctx context.Context, server string) (bool, error)
	// Held lists the definitions that are held, of one server or, without a name, of all.
	Held(ctx context.Context, server string) ([]approval.Held, error)
	// ApproveDefinitions approves what is held of a server in the name of by, by hashes: all of it or nothing.
	ApproveDefinitions(ctx context.Context, server, by string, hashes map[string]string) error
	// ApprovedDefinitions lists what people have approved of a server, the latest first.
	ApprovedDefinitions(ctx context.Context, server string, limit int) ([]approval.ApprovedDefinition, error)
	// LastReview is when a person last approved a definition; each approval has a later time.
	LastReview(ctx context.Context) (time.Time, error)
	// ForgetDefinitions removes what is kept of a server.
	ForgetDefinitions(ctx context.Context, server string) error
}

// Servers are the servers whose definitions are reviewed.
type Servers interface {
	Servers() []mcpclient.Status
	// Review has the definitions of a server judged again.
	Review(name string) error
}

// Options are what a Quarantine is made of.
type Options struct {
	Mode     approval.Quarantine
	Store    func() (Store, error) // opens the store
	Presence *approval.Presence
	Audit    func(context.Context, telemetry.Event)
	Logger   *slog.Logger
}

// Quarantine holds definitions. Its methods are safe for concurrent use.
type Quarantine struct {
	opt      Options
	servers  Servers
	deciding sync.Mutex // held while something is approved: what a person has confirmed is read and kept as a whole

	held   chan struct{} // holds a token when something has become held
	failed atomic.Bool   // a review has failed: the store is away
	end    context.CancelFunc
	ended  chan struct{} // closed when Watch's goroutine has ended
}

// New returns a quarantine. Watch has to be called once the servers are known.
func New(opt Options) *Quarantine {
	return &Quarantine{opt: opt, held: make(chan struct{}, 1), end: func() {}, ended: make(chan struct{})}
}

// off reports that nothing is held.
func (q *Quarantine) off() bool { return q.opt.Mode == approval.HoldNone }

// Reviewer is Review as mcpclient.Options.Review; nil where nothing is held.
func (q *Quarantine) Reviewer() func(ctx context.Context, s mcpclient.Server) (held []string, fresh bool) {
	if q.off() {
		return nil
	}
	return q.Review
}

// Review holds what differs from the approved definitions of a server. If the store is away, it holds everything.
// What a server that is not known yet has said before is no list to trust.
func (q *Quarantine) Review(ctx context.Context, s mcpclient.Server) (held []string, fresh bool) {
	listed := definitions(s)
	r, err := q.compare(ctx, s, listed)
	if errors.Is(err, errFresh) {
		return nil, true
	}
	if err != nil {
		r = approval.Reviewed{}
		for _, d := range listed {
			r.Held = append(r.Held, d.Tool)
		}
		if ctx.Err() == nil {
			q.failed.Store(true)
			q.opt.Logger.Error("all tools of a server are held, because its definitions cannot be compared with the approved ones", "server", s.Name, "error", err)
		}
	}
	q.reviewed(ctx, s.Name, "held", "", r.New)
	q.reviewed(ctx, s.Name, "approved", "first use", r.Trusted)
	return r.Held, false
}

// errFresh reports a cached list of a server of which nothing is kept.
var errFresh = errors.New("nothing is known of the server")

func (q *Quarantine) compare(ctx context.Context, s mcpclient.Server, listed []approval.Definition) (none approval.Reviewed, err error) {
	store, err := q.opt.Store()
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
	confirmed, err := q.opt.Presence.Definitions(ctx, s.Name)
	if err != nil {
		return none, err
	}
	return store.Review(ctx, s.Name, q.opt.Mode, confirmed, listed)
}

// reviewed writes the audit event of definitions that were held or approved.
func (q *Quarantine) reviewed(ctx context.Context, server, change, by string, tools []string) {
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
	q.opt.Audit(context.WithoutCancel(ctx), telemetry.Event{Type: telemetry.ServerChange, Severity: severity, Details: details})
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

// Watch reviews what is held again when a person has approved something, also in another process.
func (q *Quarantine) Watch(servers Servers) {
	q.servers = servers
	if q.off() {
		close(q.ended)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	q.end = cancel
	go func() {
		defer close(q.ended)
		var last time.Time
		for {
			select {
			case <-q.held:
			case <-ctx.Done():
				return
			}
			for names := q.holding(); len(names) > 0; names = q.holding() {
				store, err := q.opt.Store()
				var at time.Time
				if err == nil {
					at, err = store.LastReview(ctx)
				}
				if err == nil && (at.After(last) || q.failed.Swap(false)) {
					last = at
					for _, name := range names {
						_ = q.servers.Review(name) // the server may have been removed
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

// Changed notes that a server has become one of which something is held. It is called after that can be seen: before, holding
// would find nothing.
func (q *Quarantine) Changed(s mcpclient.Server) {
	if len(s.Held) == 0 {
		return
	}
	select {
	case q.held <- struct{}{}:
	default:
	}
}

// holding names the servers of which something is held.
func (q *Quarantine) holding() (names []string) {
	for _, s := range q.servers.Servers() {
		if s.Held > 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

// Close ends the watching.
func (q *Quarantine) Close() {
	q.end()
	<-q.ended
}

// Held lists the definitions that are held, of one server or, without a name, of all.
func (q *Quarantine) Held(ctx context.Context, server string) ([]approval.Held, error) {
	if q.off() {
		return nil, nil
	}
	store, err := q.opt.Store()
	if err != nil {
		return nil, err
	}
	return store.Held(ctx, server)
}

// NotHeldError is approval.ErrNotHeld of one definition, with who has approved it; By is empty if nobody has, because it is not what the server says now.
type NotHeldError struct{ approval.ApprovedDefinition }

func (e *NotHeldError) Error() string {
	name := "the definition of " + strconv.Quote(e.Tool)
	if e.Tool == "" {
		name = "the title and instructions of the server"
	}
	if e.By == "" {
		return name + " changed after it was shown"
	}
	return fmt.Sprintf("%s was approved by %s at %s", name, e.By, e.At.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// Is makes it an approval.ErrNotHeld.
func (e *NotHeldError) Is(target error) bool { return target == approval.ErrNotHeld }

// Approve approves definitions of a server that are held, by their hashes: all of them or none. by is who approves, and sign what their passphrase
// opens, where a person has to confirm it. The tools are offered when it returns; other processes notice it within seconds. The error wraps
// approval.ErrNotHeld, ErrTooManyPins or ErrUnconfirmed.
func (q *Quarantine) Approve(ctx context.Context, server, by string, hashes map[string]string, sign approval.Sign) error {
	switch needed, err := q.opt.Presence.Required(ctx); {
	case err != nil:
		return err
	case needed && sign == nil:
		return approval.ErrUnconfirmed
	case needed:
		return q.approve(ctx, server, by, hashes, func() error { return q.opt.Presence.ConfirmDefinitions(ctx, sign, server, hashes) })
	}
	return q.approve(ctx, server, by, hashes, func() error { return nil })
}

// Ask makes the question that a security key answers to approve definitions of a server that are held, by their hashes. The error is an approval.AskError, or wraps
// approval.ErrNotHeld or ErrAssertion.
func (q *Quarantine) Ask(ctx context.Context, server, by, origin string, hashes map[string]string) (approval.Question, error) {
	if len(hashes) == 0 || len(hashes) > maxChosen {
		return approval.Question{}, approval.AskError(fmt.Sprintf("one answer approves 1 to %d definitions", maxChosen))
	}
	store, err := q.opt.Store()
	if err == nil {
		err = q.check(ctx, store, server, hashes)
	}
	if err != nil {
		return approval.Question{}, err
	}
	return q.opt.Presence.AskDefinitions(ctx, by, origin, server, hashes)
}

// Answer approves what a security key was asked about a server. An answer is taken once. Errors are those of Approve, and approval.ErrAssertion.
func (q *Quarantine) Answer(ctx context.Context, server, by, batch string, a approval.Assertion) error {
	given, err := q.opt.Presence.AnswerDefinitions(ctx, by, server, batch, a)
	if errors.Is(err, approval.ErrAssertion) {
		q.opt.Audit(context.WithoutCancel(ctx), telemetry.Event{
			Type: telemetry.AuthFailure, Severity: telemetry.Medium, Details: map[string]any{"reason": "refused answer of a security key", "by": by, "server": server},
		})
	}
	if err != nil {
		return err
	}
	return q.approve(ctx, server, by, given.Definitions, func() error { return q.opt.Presence.KeepDefinitions(ctx, server, given) })
}

// approve approves definitions that are held. confirm keeps that a person has confirmed them.
func (q *Quarantine) approve(ctx context.Context, server, by string, hashes map[string]string, confirm func() error) error {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	store, err := q.opt.Store()
	if err == nil {
		err = q.check(ctx, store, server, hashes)
	}
	if err == nil {
		err = confirm() // First: a process that reviews the server meanwhile takes an approval without it for none.
	}
	if err == nil {
		err = store.ApproveDefinitions(ctx, server, by, hashes)
	}
	if err != nil {
		return err
	}
	tools := slices.Sorted(maps.Keys(hashes))
	q.reviewed(ctx, server, "approved", by, tools)
	_ = q.servers.Review(server) // the server may belong to another process
	return nil
}

// Approved lists what people have approved of a server, the latest first.
func (q *Quarantine) Approved(ctx context.Context, server string, limit int) ([]approval.ApprovedDefinition, error) {
	store, err := q.opt.Store()
	if err != nil {
		return nil, err
	}
	return store.ApprovedDefinitions(ctx, server, limit)
}

// check returns a NotHeldError unless all of the definitions are held.
func (q *Quarantine) check(ctx context.Context, store Store, server string, hashes map[string]string) error {
	held, err := store.Held(ctx, server)
	if err != nil {
		return err
	}
	is := map[string]string{}
	for _, h := range held {
		is[h.Seen.Tool] = h.Hash
	}
	for _, tool := range slices.Sorted(maps.Keys(hashes)) {
		if is[tool] == hashes[tool] {
			continue
		}
		before, err := store.ApprovedDefinitions(ctx, server, maxChosen)
		if err != nil {
			return err
		}
		refused := &NotHeldError{approval.ApprovedDefinition{Tool: tool, Hash: hashes[tool]}}
		for _, d := range before {
			if d.Tool == tool && d.Hash == hashes[tool] {
				refused.ApprovedDefinition = d
			}
		}
		return refused
	}
	return nil
}

// Forget removes what was approved of a server. The next list of a server of that name counts as its first one.
func (q *Quarantine) Forget(ctx context.Context, server string) error {
	store, err := q.opt.Store()
	if err != nil {
		return err
	}
	if err := q.opt.Presence.ForgetDefinitions(ctx, server); err != nil {
		return err
	}
	return store.ForgetDefinitions(ctx, server)
}
