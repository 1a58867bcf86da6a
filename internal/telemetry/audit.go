package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// EventType says what an audit event is about.
type EventType string

// The types of audit events.
const (
	CodeExecution EventType = "code_execution"
	ToolCall      EventType = "tool_call"
	PIIAccess     EventType = "pii_access"
	AuthFailure   EventType = "auth_failure"
	RateLimit     EventType = "rate_limit"
	KeyChange     EventType = "key_change"
	ServerChange  EventType = "server_change"
	Approval      EventType = "approval"
	DataDeletion  EventType = "data_deletion"
)

// Severity says how much an audit event matters.
type Severity string

// The severities.
const (
	Low      Severity = "low"
	Medium   Severity = "medium"
	High     Severity = "high"
	Critical Severity = "critical"
)

// Event is something that matters to security.
type Event struct {
	Time      time.Time // zero is now
	UserID    string    // with the next, empty is that of WithUser
	SessionID string
	Type      EventType
	Severity  Severity
	// Details are names, ids and counts: texts, numbers, booleans, and lists of texts. Argument values and texts of
	// users, models and programs do not belong here.
	Details map[string]any
}

// Auditor writes audit events into the log, as the group "audit": those of low severity at the level INFO, of medium at WARN,
// and all others at ERROR. The methods of a nil Auditor do nothing. It is safe for concurrent use.
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
	switch e.Severity {
	case Medium:
		level = slog.LevelWarn
	case High, Critical:
		level = slog.LevelError
	}
	if !a.log.Enabled(ctx, level) {
		return
	}
	attrs := []any{slog.String("eventType", string(e.Type)), slog.String("severity", string(e.Severity))}
	if e.UserID != "" {
		attrs = append(attrs, slog.String("userId", clip(e.UserID)))
	}
	if e.SessionID != "" {
		attrs = append(attrs, slog.String("sessionId", clip(e.SessionID)))
	}
	if len(e.Details) > 0 {
		attrs = append(attrs, slog.Attr{Key: "details", Value: slog.GroupValue(details(e.Details)...)})
	}
	r := slog.NewRecord(e.Time, level, "audit", 0)
	r.AddAttrs(slog.Group("audit", attrs...))
	_ = a.log.Handle(ctx, r) // what the log cannot take, nothing can
}

// details keeps what may be in an audit event. Of a value of another kind only the kind is told: it could hold anything.
func details(m map[string]any) []slog.Attr {
	keys := slices.Sorted(maps.Keys(m))
	attrs := make([]slog.Attr, 0, len(keys))
	for _, k := range keys[:min(len(keys), maxDetails)] {
		a := slog.Any(k, m[k])
		switch v := a.Value.Any().(type) {
		case bool, int64, uint64, float64, time.Duration, time.Time:
		case string:
			a = slog.String(k, clip(v))
		case []string:
			list := make([]string, min(len(v), maxDetails))
			for i := range list {
				list[i] = clip(v[i])
			}
			a = slog.Any(k, list)
		default:
			a = slog.String(k, fmt.Sprintf("%T", v))
		}
		attrs = append(attrs, a)
	}
	return attrs
}

func clip(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	cut := maxDetail
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
