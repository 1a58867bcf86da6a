package api

import (
	"context"
	"errors"
	"net/http"

	"mcp-code-exec-harness/internal/approval"
)

// ApprovalList is a page of approval requests.
type ApprovalList struct {
	Approvals []approval.Request `json:"approvals"`
	Next      string             `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one."`
}

// NewDecision is the decision about an approval request.
type NewDecision struct {
	_        struct{} `additionalProperties:"true"`
	Decision string   `json:"decision" enum:"approve,deny"`
	Reason   string   `json:"reason,omitempty" maxLength:"1000" doc:"Of a denial; the program can read it."`
	Remember bool     `json:"remember,omitempty" doc:"Of an approval: later calls of the same tools in the same task, or run, are not asked about."`
}

// ownApproval returns the problem for an approval request that is absent or that was decided before. It returns other errors unchanged.
func ownApproval(err error) error {
	switch {
	case errors.Is(err, approval.ErrNotFound):
		return absent("approval")
	case errors.Is(err, approval.ErrDecided):
		return problem(http.StatusConflict, "it was decided before, or has expired")
	}
	return err
}

func (a *API) addApprovals() {
	operation(a, endpoint{
		"listApprovals", "GET /v1/approvals", "approvals", http.StatusOK, "List approval requests, newest first",
		"What runs ask before they make calls that policy puts to a person.",
	}, func(ctx context.Context, in *struct {
		UserID string `query:"userId"`
		Status string `query:"status" enum:"waiting,approved,denied,expired,closed"`
		TaskID string `query:"taskId"`
		Paging
	},
	) (*body[ApprovalList], error) {
		all, next, err := a.opt.Harness.Runs().Approvals(ctx, identity(ctx), approval.Filter{
			User: in.UserID, Status: approval.Status(in.Status), Task: in.TaskID, Limit: in.Limit, Cursor: in.Cursor,
		})
		return &body[ApprovalList]{ApprovalList{list(all), next}}, err
	})

	operation(a, endpoint{"getApproval", "GET /v1/approvals/{id}", "approvals", http.StatusOK, "An approval request", "With the places where tokens in arguments are replaced, and with how arguments change what the run has read before."}, func(ctx context.Context, in *ByID) (*body[approval.Request], error) {
		r, err := a.opt.Harness.Runs().Approval(ctx, identity(ctx), in.ID)
		if err == nil {
			r, err = a.opt.Harness.Runs().Replaced(ctx, r, owns(ctx, r.User))
		}
		if err == nil {
			r, err = a.opt.Harness.Runs().Compared(ctx, r)
		}
		return &body[approval.Request]{r}, ownApproval(err)
	})

	operation(a, endpoint{
		"decideApproval", "POST /v1/approvals/{id}", "approvals", http.StatusOK, "Approve or deny",
		"Takes the role approver. The run goes on in the background; a denied call throws a DeniedError. A key cannot approve calls of its own tasks and runs, unless it has the role admin. Where a passphrase is set up (harness approvals setup), nothing is approved here: 403, see askSecurityKey; a denial is.",
	}, func(ctx context.Context, in *struct {
		ByID
		Body NewDecision
	},
	) (*body[approval.Request], error) {
		r, err := a.opt.Harness.Runs().Decide(ctx, identity(ctx), in.ID, approval.Decision{
			Approve: in.Body.Decision == "approve", Reason: in.Body.Reason, Remember: in.Body.Remember,
		})
		if err != nil {
			return nil, ownApproval(err)
		}
		a.opt.Tasks.Decided(r.Task)
		return &body[approval.Request]{r}, nil
	})
}
