package task

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/pii"
)

// Limits of a request.
const (
	maxText    = 10_000 // characters of a task
	maxSession = 100    // bytes
	maxModel   = 200    // bytes of a model's name
	maxContext = 1 << 20
	maxAhead   = 366 * 24 * time.Hour // furthest runAt

	sessionCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
)

// Request asks for a task.
type Request struct {
	UserID    string
	Principal string
	Roles     []auth.Role // roles of the principal; nil if unknown
	Task      string
	From      pii.Origin // origin of Task and Context; FromTask if empty
	SessionID string     // if empty, the task gets a new session
	Context   json.RawMessage
	Model     string
	Callback  string     // URL of the webhook
	Reveal    bool       // the caller acts for this user alone, and so may read the values of the user's personal data
	RunAt     *time.Time // earliest start
	Trace     string     // the span of the request, as a traceparent
	Budget    Budget
	// IdempotencyKey makes a repeated request return the task of the first one; BodyHash identifies the request.
	IdempotencyKey string
	BodyHash       string
	// CacheFor is the maximum age of an answer that the task may reuse: the answer of an equal task of the same user; 0 means none. A task that names
	// a session is never equal to another.
	CacheFor time.Duration
	// Own reserves the task for this process, which works it with Do.
	Own      bool
	schedule string
}

// check checks a request; the error wraps ErrInvalidInput.
func (s *Service) check(r *Request) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalidInput, fmt.Sprintf(format, args...))
	}
	switch {
	case r.UserID == "" || strings.TrimSpace(r.Task) == "":
		return wrong("userId and task are required")
	case utf8.RuneCountInString(r.Task) > maxText:
		return wrong("task has more than %d characters", maxText)
	case len(r.Model) > maxModel:
		return wrong("model has more than %d bytes", maxModel)
	case len(r.Context) > maxContext:
		return wrong("context has more than %d bytes", maxContext)
	case len(r.Context) > 0 && !json.Valid(r.Context):
		return wrong("context is not JSON")
	}
	if err := checkUser(r.UserID); err != nil {
		return err
	}
	if err := checkSession(r.SessionID); r.SessionID != "" && err != nil {
		return err
	}
	if r.RunAt != nil && r.RunAt.After(s.opt.Now().Add(maxAhead)) {
		return wrong("runAt is more than %d days ahead", maxAhead/(24*time.Hour))
	}
	if r.Callback != "" {
		if err := s.opt.Webhooks.Check(r.Callback); err != nil {
			return wrong("callbackUrl: %v", err)
		}
	}
	if b := r.Budget; b.Turns < 0 || b.Runs < 0 || b.Tokens < 0 || b.Cost < 0 || b.Wall < 0 {
		return wrong("budget has negative bounds")
	}
	if s.opt.Admit != nil {
		if err := s.opt.Admit(*r); err != nil {
			return wrong("%v", err)
		}
	}
	return nil
}

// checkUser checks the id of a user; the error wraps ErrInvalidInput.
func checkUser(id string) error {
	if err := auth.CleanUser(id); err != nil {
		return fmt.Errorf("%w: userId: %w", ErrInvalidInput, err)
	}
	return nil
}

// checkSession checks the id of a session; the error wraps ErrInvalidInput.
func checkSession(id string) error {
	if id == "" || len(id) > maxSession {
		return fmt.Errorf("%w: a session id has 1 to %d characters", ErrInvalidInput, maxSession)
	}
	if strings.Trim(id, ".") == "" {
		return fmt.Errorf("%w: a session id is more than dots", ErrInvalidInput)
	}
	if strings.Trim(id, sessionCharacters) != "" {
		return fmt.Errorf("%w: a session id has letters, digits, '-', '_' and '.' only", ErrInvalidInput)
	}
	return nil
}

// cacheKey returns the same key for requests that may share an answer, and "" for a request that may not share one.
func (r *Request) cacheKey() string {
	if r.CacheFor <= 0 || r.SessionID != "" {
		return ""
	}
	text, _ := json.Marshal([]any{r.Task, r.Context, r.Model}) // never fails for strings and valid JSON
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
