package api

import (
	"context"
	"net/http"
	"time"

	"mcp-code-exec-harness/internal/usage"
)

func (a *API) addUsage() {
	operation(a, endpoint{
		"getUsage", "GET /v1/usage", "operations", http.StatusOK, "What was used",
		"Runs, calls, tasks, tokens and cost of the caller's user, or of all users for a caller who may act for all. What has not ended is not counted.",
	}, func(ctx context.Context, in *struct {
		UserID string    `query:"userId" doc:"Only of this user."`
		Since  time.Time `query:"since" doc:"Beginning of the window, which ends now; by default a day ago. Figures are kept for 90 days, or as long as runs if that is shorter."`
		By     usage.By  `query:"by" enum:"user,tool,server,model" default:"tool" doc:"What the rows are about."`
	},
	) (*body[*usage.Report], error) {
		r, err := a.opt.Harness.Runs().Usage(ctx, identity(ctx), usage.Query{User: in.UserID, Since: in.Since, By: in.By})
		return &body[*usage.Report]{r}, err
	})
}
