package api

import (
	"context"
	"net/http"

	"mcp-code-exec-harness/internal/auth"
)

// PolicyRule is a rule of the policy in effect, in words.
type PolicyRule struct {
	Number int    `json:"rule" doc:"Its place in the policy, or in its preset. The first rule that fits a call decides."`
	Preset string `json:"preset,omitempty" doc:"The preset that has it; absent: the configuration itself."`
	Action string `json:"action" enum:"allow,ask,deny"`
	Text   string `json:"text"`
}

// PolicyRules are the rules in effect.
type PolicyRules struct {
	Rules []PolicyRule `json:"rules" doc:"In the order in which they are tried. A call that none fits is allowed."`
}

func (a *API) addPolicy() {
	operation(a, endpoint{
		"getPolicy", "GET /v1/policy", "operations", http.StatusOK, "The rules in effect", "Takes the role approver.",
	}, func(ctx context.Context, _ *struct{}) (*body[PolicyRules], error) {
		if err := identity(ctx).Require(auth.Approver); err != nil {
			return nil, err
		}
		return &body[PolicyRules]{PolicyRules{list(a.opt.Policy)}}, nil
	})
}
