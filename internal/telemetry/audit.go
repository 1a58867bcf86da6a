package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/clip"
)

// EventType says what an audit event is about.
type EventType string

// The types of audit events.
const (
	CodeExecution EventType = "code_execution"
	ToolCall      EventType = "tool_call"
	AuthFailure   EventType = "auth_failure"
	RateLimit     EventType = "rate_limit"
	KeyChange     EventType = "key_change"
	ServerChange  EventType = "server_change"
	DataDeletion  EventType = "data_deletion"

	PolicyDecision EventType = "policy_decision"

	ApprovalRequested EventType = "approval_requested"
	ApprovalDecided   EventType = "approval_decided"
)

// Severity says how much an audit event matters.
type Severity string

// The severities.
const (
	Low    Severity = "low"
	Medium Severity = "medium"
)

// Event is something that matters to security.
type Event struct {
	Time      time.Time // zero: now
	UserID    string    // empty, like SessionID: that of WithUser
	SessionID string
	Type      EventType
	Severity  Severity
	// Details are names, ids and counts: texts, numbers, booleans, and lists of texts. Argument values and texts of
	// users, models and programs do not belong here.
	Details map[string]any
}

// Auditor writes audit events into the log, as the group "audit": those of low severity at the level INFO, all others at WARN. The
// methods of a nil Auditor do nothing. It is safe for concurrent use.
type Auditor struct {
	log slog.Handler
}

// NewAuditor returns an auditor that writes to a log.
func NewAuditor(log *slog.Logger) *Auditor { return &Auditor{log.Handler()} }

type userKey struct{}

type user struct{ id, session string }

// WithUser returns a context whose audit events are of a user, in a session if it is not empty.
func WithUser(ctx context.Context, id, session string) context.Context {
	return context.WithValue(ctx, userKey{}, user{id, session})
}

const (
	maxDetail  = 200 // bytes of a text
	maxDetails = 32  // of an event, and of a list in it
)

// Audit writes an event.
func (a *Auditor) Audit(ctx context.Context, e Event) {
	if a == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if who, ok := ctx.Value(userKey{}).(user); ok && e.UserID == "" && e.SessionID == "" {
		e.UserID, e.SessionID = who.id, who.session
	}
	level := slog.LevelInfo
	if e.Severity != Low {
		level = slog.LevelWarn
	}
	if !a.log.Enabled(ctx, level) {
		return
	}
	attrs := []any{slog.String("eventType", string(e.Type)), slog.String("severity", string(e.Severity))}
	if e.UserID != "" {
		attrs = append(attrs, slog.String("userId", clip.Text(e.UserID, maxDetail)))
	}
	if e.SessionID != "" {
		attrs = append(attrs, slog.String("sessionId", clip.Text(e.SessionID, maxDetail)))
	}
	if len(e.Details) > 0 {
		attrs = append(attrs, slog.Attr{Key: "details", Value: slog.GroupValue(details(e.Details)...)})
	}
	r := slog.NewRecord(e.Time, level, "audit", 0)
	r.AddAttrs(slog.Group("audit", attrs...))
	_ = a.log.Handle(ctx, r) // there is no other place to report it
}

// details are the values that may be in an audit event. A value of another kind is replaced by its kind.
func details(m map[string]any) []slog.Attr {
	keys := slices.Sorted(maps.Keys(m))
	attrs := make([]slog.Attr, 0, len(keys))
	for _, k := range keys[:min(len(keys), maxDetails)] {
		a := slog.Any(k, m[k])
		switch v := a.Value.Any().(type) {
		case bool, int64, uint64, float64, time.Duration, time.Time:
		case string:
			a = slog.String(k, clip.Text(v, maxDetail))
		case []string:
			list := make([]string, min(len(v), maxDetails))
			for i := range list {
				list[i] = clip.Text(v[i], maxDetail)
			}
			a = slog.Any(k, list)
		default:
			a = slog.String(k, fmt.Sprintf("%T", v))
		}
		attrs = append(attrs, a)
	}
	return attrs
}
