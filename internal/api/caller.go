package api

import (
	"context"
	"net/http"

	"mcp-code-exec-harness/internal/auth"
)

// Caller describes the caller that a credential stands for.
type Caller struct {
	Principal string      `json:"principal" example:"key_1" doc:"The id of the key, oidc: and the subject of a token, or local."`
	UserID    string      `json:"userId,omitempty" doc:"The user that the caller acts for; absent: any user."`
	Roles     []auth.Role `json:"roles" enum:"user,approver,admin"`
}

func (a *API) addCaller() {
	operation(a, endpoint{"getCaller", "GET /v1/me", "operations", http.StatusOK, "Who the credential stands for", ""}, func(ctx context.Context, _ *struct{}) (*body[Caller], error) {
		who := identity(ctx)
		return &body[Caller]{Caller{who.Principal, who.User, list(who.Roles)}}, nil
	})
}
