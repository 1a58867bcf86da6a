// Package quarantine holds back the definitions of servers until a person has approved them. A definition is what a server says about a tool or
// about itself. approval.Review decides which definitions are held back. The store keeps the approvals. An approval is signed if people have to
// confirm approvals.
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

// maxChosen is the maximum number of definitions that one signature of a security key approves.
const maxChosen = 1000

// lookForReviews is the interval at which a process checks for approvals of other processes.
const lookForReviews = 2 * time.Second

// Store stores what is known about definitions. Its methods are safe for concurrent use, and several processes may share the store.
type Store interface {
	// Review compares what a server lists with what is stored about it, and stores the list.
	Review(ctx context.Context, server string, mode approval.Quarantine, confirmed approval.Confirmed, listed []approval.Definition) (approval.Reviewed, error)
	// Reviewed reports whether anything is stored about a server.
	Reviewed(ctx context.Context, server string) (bool, error)
	// Held returns the held definitions of one server, or of all servers if server is "".
	Held(ctx context.Context, server string) ([]approval.Held, error)
	// ApproveDefinitions approves held definitions of a server by their hashes, all or none. by is who approves them.
	ApproveDefinitions(ctx context.Context, server, by string, hashes map[string]string) error
	// ApprovedDefinitions returns what people have approved of a server, the latest approval first.
	ApprovedDefinitions(ctx context.Context, server string, limit int) ([]approval.ApprovedDefinition, error)
	// LastReview returns the time at which a person last approved a definition. Each approval has a later time than those before.
	LastReview(ctx context.Context) (time.Time, error)
	// ForgetDefinitions removes what is stored about a server.
	ForgetDefinitions(ctx context.Context, server string) error
}

// Servers are the servers whose definitions are reviewed.
type Servers interface {
	Servers() []mcpclient.Status
	// Review reviews the definitions of a server again.
	Review(name string) error
}

// Options configure a Quarantine.
type Options struct {
	Mode     approval.Quarantine
	Store    func() (Store, error) // opens the store
	Presence *approval.Presence
	Audit    func(context.Context, telemetry.Event)
	Logger   *slog.Logger
}

// Quarantine holds back definitions. Its methods are safe for concurrent use.
type Quarantine struct {
	opt      Options
	servers  Servers
	deciding sync.Mutex // held during an approval, so that the confirmation of a person is read and stored as a whole

	held   chan struct{} // wakes Watch's goroutine when definitions have become held; buffered
	failed atomic.Bool   // reports whether a review has failed because the store was not available
	end    context.CancelFunc
	ended  chan struct{} // closed when Watch's goroutine has ended
}

// New returns a quarantine. The caller must call Watch once the servers are known.
func New(opt Options) *Quarantine {
	return &Quarantine{opt: opt, held: make(chan struct{}, 1), end: func() {}, ended: make(chan struct{})}
}

// off reports whether the quarantine is configured to hold back no definitions.
func (q *Quarantine) off() bool { return q.opt.Mode == approval.HoldNone }

// Reviewer returns Review for mcpclient.Options.Review, or nil if nothing is held back.
func (q *Quarantine) Reviewer() func(ctx context.Context, s mcpclient.Server) (held []string, fresh bool) {
	if q.off() {
		return nil
	}
	return q.Review
}

// Review returns the tools whose definitions differ from the approved ones. If the store is not available, it
// returns all tools. fresh reports that s is a cached list of a server about which nothing is stored. The caller
// must not use that list, and must request the list from the server.
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

// errFresh means that a list is cached and nothing is stored about its server.
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

// reviewed writes the audit event for definitions that were held back or approved.
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

// definitions returns the definitions of a server: first that of the server itself, then those of its tools.
func definitions(s mcpclient.Server) []approval.Definition {
	all := []approval.Definition{{Title: s.ServerInfo.Title, Description: s.Instructions}}
	for _, t := range s.Tools {
		d := approval.Definition{Tool: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema}
		if t.Annotations != (mcpclient.Annotations{}) {
			d.Annotations, _ = json.Marshal(t.Annotations) // strings and booleans always encode
		}
		all = append(all, d)
	}
	return all
}

// Watch starts a goroutine that reviews servers with held definitions again after each approval by a person, in this process or another one.
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
						_ = q.servers.Review(name) // the error means that the server was removed
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

// Changed tells the goroutine of Watch that s has definitions on hold; it does nothing if s has none. Call it only when the server's status already shows
// these definitions, because the goroutine finds them there.
func (q *Quarantine) Changed(s mcpclient.Server) {
	if len(s.Held) == 0 {
		return
	}
	select {
	case q.held <- struct{}{}:
	default:
	}
}

// holding returns the names of the servers with held definitions.
func (q *Quarantine) holding() (names []string) {
	for _, s := range q.servers.Servers() {
		if s.Held > 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

// Close ends the goroutine of Watch.
func (q *Quarantine) Close() {
	q.end()
	<-q.ended
}

// Held returns the held definitions of one server, or of all servers if server is "".
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

// NotHeldError is approval.ErrNotHeld for one definition. By and At say who has approved the definition, and when. By is empty if no one has
// approved it: the server has changed the definition since the person saw it.
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

// Is reports whether target is approval.ErrNotHeld.
func (e *NotHeldError) Is(target error) bool { return target == approval.ErrNotHeld }

// Approve approves held definitions of a server by their hashes, all or none. by is who approves them. sign signs for a person who has entered their
// passphrase; it may be nil if no one has to confirm. When Approve returns, the tools are offered; other processes offer them within seconds. The
// error wraps approval.ErrNotHeld, approval.ErrTooManyPins or approval.ErrUnconfirmed.
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

// Ask returns a challenge for a security key. The key's response, given to Answer, approves the held definitions of a server that have these
// hashes. The error is an approval.AskError, or wraps approval.ErrNotHeld or approval.ErrAssertion.
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

// Answer approves the definitions of a challenge that Ask has returned. batch is the challenge's Batch, and a is the response of the security key. Each
// response is accepted once. The errors are those of Approve, and approval.ErrAssertion.
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

// approve approves held definitions. It calls confirm to store that a person has confirmed them.
func (q *Quarantine) approve(ctx context.Context, server, by string, hashes map[string]string, confirm func() error) error {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	store, err := q.opt.Store()
	if err == nil {
		err = q.check(ctx, store, server, hashes)
	}
	if err == nil {
		err = confirm() // before the approval, because a process that reviews the server meanwhile ignores an approval without a confirmation
	}
	if err == nil {
		err = store.ApproveDefinitions(ctx, server, by, hashes)
	}
	if err != nil {
		return err
	}
	tools := slices.Sorted(maps.Keys(hashes))
	q.reviewed(ctx, server, "approved", by, tools)
	_ = q.servers.Review(server) // the error means that the server belongs to another process
	return nil
}

// Approved returns what people have approved of a server, the latest approval first.
func (q *Quarantine) Approved(ctx context.Context, server string, limit int) ([]approval.ApprovedDefinition, error) {
	store, err := q.opt.Store()
	if err != nil {
		return nil, err
	}
	return store.ApprovedDefinitions(ctx, server, limit)
}

// check returns a NotHeldError if one of the definitions is not held back.
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

// Forget removes what was approved of a server. The next list of a server with this name counts as its first.
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
