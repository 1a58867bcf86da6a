package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/audit"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/startup"
)

// EventType is the type of an audit event.
type EventType string

// The types of audit events.
const (
	CodeExecution EventType = "code_execution"
	ToolCall      EventType = "tool_call"
	AuthFailure   EventType = "auth_failure"
	RateLimit     EventType = "rate_limit"
	KeyChange     EventType = "key_change"
	ServerChange  EventType = "server_change"
	SkillChange   EventType = "skill_change" // a person approved or refused a skill from elsewhere or of another user, or shared one
	DataDeletion  EventType = "data_deletion"
	PIIAccess     EventType = "pii_access" // tokens were replaced by their values

	PolicyDecision EventType = "policy_decision"

	ApprovalRequested EventType = "approval_requested"
	ApprovalDecided   EventType = "approval_decided"
	DoubtSettled      EventType = "doubt_settled" // a person said whether a write in doubt was done

	BackupMade     EventType = "backup_made"
	BackupRestored EventType = "backup_restored"
)

// Severity is the severity of an audit event.
type Severity string

// The severities.
const (
	Low    Severity = "low"
	Medium Severity = "medium"
)

// Event is an event that matters to security.
type Event struct {
	Time      time.Time // time of the event; zero means now
	UserID    string    // if UserID and SessionID are empty, Audit uses the values of WithUser
	SessionID string
	Type      EventType
	Severity  Severity
	// Details are names, ids and counts: texts, numbers, booleans, and lists of texts. Argument values and texts of
	// users, models and programs do not belong here.
	Details map[string]any
}

// Auditor writes audit events to the log, in the group "audit", and to a file if it has one. In the log, events of low severity have the level INFO,
// all others WARN. Hashes replace the mail addresses in users, sessions and texts. The methods of a nil Auditor do nothing. An Auditor is safe for
// concurrent use.
type Auditor struct {
	log  slog.Handler // nil if there is no log
	file AuditFile

	mu      sync.Mutex
	failing time.Time // time of the last reported failure of the file; zero if the file works
}

// AuditFile configures the file of audit events.
type AuditFile struct {
	Log      *audit.Log          // audit log in the file; nil if there is no file
	Required bool                // whether Ready fails while the file cannot be written
	Redact   func(string) string // changes every text; may be nil
	Report   *slog.Logger        // logger of failures of the file
}

// NewAuditor returns an auditor that writes to a file and, unless log is nil, to log.
func NewAuditor(log *slog.Logger, file AuditFile) *Auditor {
	a := &Auditor{file: file}
	if log != nil {
		a.log = log.Handler()
	}
	return a
}

// Ready returns an error while audit events are required in a file but cannot be written to it. Actions that need an audit event must not happen
// then.
func (a *Auditor) Ready() error {
	if a == nil || !a.file.Required || a.file.Log == nil {
		return nil
	}
	err := a.file.Log.Ready()
	a.report(err)
	return err
}

type userKey struct{}

type user struct{ id, session string }

// WithUser returns a context whose audit events are those of a user, and of a session if session is not empty.
func WithUser(ctx context.Context, id, session string) context.Context {
	return context.WithValue(ctx, userKey{}, user{id, session})
}

const (
	maxDetail  = 200 // maximum length of a text in bytes
	maxDetails = 32  // maximum number of details of an event, and of texts in a list
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
	e.UserID, e.SessionID = clip.Text(concealed(e.UserID), maxDetail), clip.Text(concealed(e.SessionID), maxDetail)
	attrs := details(e.Details)
	a.toLog(ctx, e, attrs)
	a.toFile(ctx, e, attrs)
}

func (a *Auditor) toLog(ctx context.Context, e Event, details []slog.Attr) {
	level := slog.LevelInfo
	if e.Severity != Low {
		level = slog.LevelWarn
	}
	if a.log == nil || !a.log.Enabled(ctx, level) {
		return
	}
	attrs := []any{slog.String("eventType", string(e.Type)), slog.String("severity", string(e.Severity))}
	if e.UserID != "" {
		attrs = append(attrs, slog.String("userId", e.UserID))
	}
	if e.SessionID != "" {
		attrs = append(attrs, slog.String("sessionId", e.SessionID))
	}
	if len(details) > 0 {
		attrs = append(attrs, slog.Attr{Key: "details", Value: slog.GroupValue(details...)})
	}
	r := slog.NewRecord(e.Time, level, "audit", 0)
	r.AddAttrs(slog.Group("audit", attrs...))
	_ = a.log.Handle(ctx, r) // a failure of the log itself cannot be reported
}

func (a *Auditor) toFile(ctx context.Context, e Event, details []slog.Attr) {
	if a.file.Log == nil {
		return
	}
	redact := a.file.Redact
	if redact == nil {
		redact = func(text string) string { return text }
	}
	id, _ := ctx.Value(idsKey{}).(ids)
	line := audit.Event{
		Time: e.Time, User: redact(e.UserID), Session: redact(e.SessionID), Type: string(e.Type), Severity: string(e.Severity),
		Task: string(id.task), Run: string(id.run), Details: make(map[string]any, len(details)),
	}
	for _, d := range details {
		switch v := d.Value.Any().(type) {
		case string:
			line.Details[d.Key] = redact(v)
		case []string:
			for i := range v {
				v[i] = redact(v[i])
			}
			line.Details[d.Key] = v
		default:
			line.Details[d.Key] = v
		}
	}
	a.report(a.file.Log.Append(line))
}

// report logs that the file cannot be written, at most once a minute, and that it can be written again.
func (a *Auditor) report(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil && time.Since(a.failing) > time.Minute:
		a.failing = time.Now()
		a.file.Report.Error("audit events are lost", "error", err)
	case err == nil && !a.failing.IsZero():
		a.failing = time.Time{}
		a.file.Report.Info("audit events are written again")
	}
}

// mailAddress matches a mail address.
var mailAddress = startup.Regexp(`[^\s"'<>(),;:=/]+@[^\s"'<>(),;:=/]+\.[^\s"'<>(),;:=/]+`)

// concealed replaces mail addresses by hashes. Equal addresses have equal hashes.
func concealed(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	return mailAddress().ReplaceAllStringFunc(text, func(found string) string {
		sum := sha256.Sum256([]byte(found))
		return "sha256-" + hex.EncodeToString(sum[:8])
	})
}

// details returns the details of an audit event as attributes. If the type of a value is not allowed, it replaces the value by the name of the type.
func details(m map[string]any) []slog.Attr {
	keys := slices.Sorted(maps.Keys(m))
	attrs := make([]slog.Attr, 0, len(keys))
	for _, k := range keys[:min(len(keys), maxDetails)] {
		a := slog.Any(k, m[k])
		switch v := a.Value.Any().(type) {
		case bool, int64, uint64, float64, time.Duration, time.Time:
		case string:
			a = slog.String(k, clip.Text(concealed(v), maxDetail))
		case []string:
			list := make([]string, min(len(v), maxDetails))
			for i := range list {
				list[i] = clip.Text(concealed(v[i]), maxDetail)
			}
			a = slog.Any(k, list)
		default:
			a = slog.String(k, fmt.Sprintf("%T", v))
		}
		attrs = append(attrs, a)
	}
	return attrs
}
