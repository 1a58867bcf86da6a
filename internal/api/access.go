package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// actFor returns the user that a request acts for: the user that the request names, or else the caller's user. It returns an error if the caller may
// not act for that user.
func actFor(ctx context.Context, user string) (string, error) {
	id := identity(ctx)
	if user = cmp.Or(user, id.User); user == "" && id.Principal == auth.Local().Principal { // a local caller that names no user acts for the default user, as on the command line
		user = runs.DefaultUser
	}
	if user == "" {
		return "", problem(http.StatusBadRequest, "userId is required")
	}
	if err := auth.CleanUser(user); err != nil {
		return "", problem(http.StatusBadRequest, "userId: "+err.Error())
	}
	return user, id.ActFor(user)
}

// seeUser returns the user whose entries a list shows. For a caller that may act for all users and that names no user, it returns an empty string, which
// means all users.
func seeUser(ctx context.Context, user string) (string, error) {
	id := identity(ctx)
	if user == "" {
		return id.User, nil
	}
	return user, id.ActFor(user)
}

// own converts the error of a lookup into the error that the caller may see. It returns absent(what) if nothing was found, or if the caller may not act for
// user, the owner of the thing that was found.
func own(ctx context.Context, err error, user, what string) error {
	if errors.Is(err, task.ErrNotFound) || err == nil && identity(ctx).ActFor(user) != nil {
		return absent(what)
	}
	return err
}

// admin refuses callers without the role admin.
func admin(ctx context.Context) error {
	return identity(ctx).Require(auth.Admin)
}

// ownTask returns a task that the caller may see.
func (a *API) ownTask(ctx context.Context, id string) (task.Task, error) {
	t, err := a.opt.Tasks.Task(ctx, id)
	if err := own(ctx, err, t.UserID, "task"); err != nil {
		return task.Task{}, err
	}
	visitOf(ctx).task = t.ID
	return t, nil
}

// take counts a request for work against the rate limit, and refuses it while the server is stopping.
func (a *API) take(ctx context.Context) error {
	if a.stopping.Load() {
		return stopped(ctx)
	}
	return a.count(ctx, a.opt.Limiter, identity(ctx).Caller())
}

// stopped returns the answer to a request that is not served because the server is stopping.
func stopped(ctx context.Context) *Problem {
	visitOf(ctx).answer.Header().Set("Retry-After", "5")
	return problem(http.StatusServiceUnavailable, "the server stops: try again when it is back")
}

// count counts a request of a caller against a rate limit, and sets the RateLimit header fields of the answer.
func (a *API) count(ctx context.Context, limiter *auth.Limiter, caller string) error {
	if limiter == nil {
		return nil
	}
	ok, limit, remaining, after := limiter.Allow(caller)
	seconds := wholeSeconds(after)
	h := visitOf(ctx).answer.Header()
	h.Set("RateLimit-Limit", strconv.Itoa(limit))
	h.Set("RateLimit-Remaining", strconv.Itoa(remaining))
	h.Set("RateLimit-Reset", seconds)
	if ok {
		return nil
	}
	h.Set("Retry-After", seconds)
	a.opt.Metrics.RateLimited()
	a.refusals.note(caller, a.event(ctx, telemetry.Event{UserID: identity(ctx).User, Type: telemetry.RateLimit, Severity: telemetry.Low}))
	return problem(http.StatusTooManyRequests, errTooMany(after).Error())
}

// wholeSeconds returns a wait in seconds, rounded up and at least 1.
func wholeSeconds(after time.Duration) string {
	return strconv.Itoa(max(1, int((after+time.Second-1)/time.Second)))
}

// errTooMany returns the error for a rate limit that is used up.
func errTooMany(after time.Duration) error {
	return fmt.Errorf("too many requests: try again in %s s (server.rateLimit)", wholeSeconds(after))
}
