package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// Keys manages the API keys of a server; *auth.Keys implements it. Its methods are safe for concurrent use.
type Keys interface {
	// List returns all keys, the newest first.
	List(ctx context.Context) ([]auth.Key, error)
	// Revoke revokes a key with immediate effect. The error for an unknown id wraps task.ErrNotFound.
	Revoke(ctx context.Context, id string) error
}

// KeyList is a page of API keys.
type KeyList struct {
	Keys []auth.Key `json:"keys"`
	Next string     `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one."`
}

// addKeys adds the endpoints that list and revoke keys. Keys cannot be created over HTTP, because a key that was created with a stolen credential
// would stay valid after the credential is revoked.
func (a *API) addKeys() {
	operation(a, endpoint{
		"listKeys", "GET /v1/keys", "operations", http.StatusOK, "List API keys, newest first",
		"Takes the role admin. Revoked and expired ones are among them, values are not. `harness keys create` makes one.",
	}, func(ctx context.Context, in *struct{ Paging }) (*body[KeyList], error) {
		if err := admin(ctx); err != nil {
			return nil, err
		}
		all, err := a.opt.Keys.List(ctx)
		if err != nil {
			return nil, err
		}
		if in.Cursor != "" {
			at := slices.IndexFunc(all, func(k auth.Key) bool { return k.ID == in.Cursor })
			if at < 0 {
				return nil, journal.ErrCursor
			}
			all = all[at+1:]
		}
		out := &body[KeyList]{KeyList{Keys: list(all)}}
		if limit := in.Limit; len(all) > limit {
			out.Body.Keys, out.Body.Next = all[:limit], all[limit-1].ID
		}
		return out, nil
	})

	operation(a, endpoint{
		"revokeKey", "DELETE /v1/keys/{id}", "operations", http.StatusNoContent, "End an API key at once",
		"Takes the role admin. Requests, streams and sessions of the dashboard that use it end.",
	}, func(ctx context.Context, in *ByID) (*struct{}, error) {
		if err := admin(ctx); err != nil {
			return nil, err
		}
		err := a.opt.Keys.Revoke(ctx, in.ID)
		switch {
		case errors.Is(err, task.ErrNotFound):
			return nil, problem(http.StatusNotFound, "no such API key")
		case err == nil:
			a.audit(ctx, telemetry.Event{
				UserID: identity(ctx).User, Type: telemetry.KeyChange, Severity: telemetry.Medium, Details: map[string]any{"key": in.ID, "change": "revoked"},
			})
		}
		return nil, err
	})
}
