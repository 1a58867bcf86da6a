package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/task"
)

type identityKey struct{}

// identity is who sent the request.
func identity(ctx context.Context) auth.Identity {
	id, _ := ctx.Value(identityKey{}).(auth.Identity)
	return id
}

// actFor is the user that a request is for: the one it names, or else the caller. The error says why the caller may not.
func actFor(ctx context.Context, user string) (string, error) {
	id := identity(ctx)
	if user == "" {
		user = id.User
	}
	if user == "" {
		return "", problem(http.StatusBadRequest, "userId is required")
	}
	if err := auth.CleanUser(user); err != nil {
		return "", problem(http.StatusBadRequest, err.Error())
	}
	return user, id.ActFor(user)
}

// seeUser is the user whose things a list shows; "" is everybody's, for callers that may act for anybody.
func seeUser(ctx context.Context, user string) (string, error) {
	id := identity(ctx)
	if user == "" {
		return id.User, nil
	}
	return user, id.ActFor(user)
}

// own hides what belongs to users that the caller may not act for: it is as if it were not there.
func own(ctx context.Context, user, what string) error {
	if identity(ctx).ActFor(user) != nil {
		return fmt.Errorf("%s: %w", what, task.ErrNotFound)
	}
	return nil
}

// admin refuses callers without the role.
func admin(ctx context.Context) error {
	return identity(ctx).Require(auth.Admin)
}

// ownTask returns a task that the caller may see.
func (a *API) ownTask(ctx context.Context, id string) (task.Task, error) {
	t, err := a.opt.Tasks.Task(ctx, id)
	if err == nil {
		err = own(ctx, t.UserID, "task "+id)
	}
	return t, err
}

// tooMany is the answer to a user who asks for work too often.
type tooMany struct {
	*Problem
	retry time.Duration
}

// GetHeaders implements huma.HeadersError.
func (t *tooMany) GetHeaders() http.Header {
	return http.Header{"Retry-After": {strconv.Itoa(max(1, int(t.retry.Round(time.Second)/time.Second)))}}
}

func (t *tooMany) Unwrap() error { return t.Problem }

// take counts a request for work of a user.
func (a *API) take(user string) error {
	if a.opt.Limiter == nil {
		return nil
	}
	ok, _, retry := a.opt.Limiter.Allow(user)
	if ok {
		return nil
	}
	a.opt.Metrics.RateLimited()
	return &tooMany{problem(http.StatusTooManyRequests, fmt.Sprintf("too many requests: try again in %s (server.rateLimit)", retry.Round(time.Second))), retry}
}
