package wiring

import (
	"context"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/telemetry"
)

// openPresence joins what asks for the confirmation of a person.
func (h *Harness) openPresence() {
	h.presence = &approval.Presence{
		Dir: h.cfg.StateDir, Records: func() (approval.Records, error) { return h.store() }, Wanted: h.cfg.Approvals.Confirm == "passphrase", Now: h.out.Now,
		Failed: func() {
			h.out.audit(context.Background(), telemetry.Event{
				Type: telemetry.AuthFailure, Severity: telemetry.Medium, Details: map[string]any{"reason": "wrong passphrase of approvals"},
			})
		},
	}
	h.out.Policy = policy.AskUntilConfirmed(h.out.Policy, h.Confirmation(), h.out.Logger)
}

// audit writes an event that is written once for all processes.
func (o *Outside) audit(ctx context.Context, e telemetry.Event) {
	if o.Reviewed != nil {
		o.Reviewed(ctx, e)
		return
	}
	o.Audit.Audit(ctx, e)
}

// Presence says which decisions a person has to confirm.
func (h *Harness) Presence() *approval.Presence { return h.presence }

// Confirmation is what a person confirms of the policy in effect.
func (h *Harness) Confirmation() policy.Confirmation {
	return policy.Confirmation{Presence: h.presence, File: h.cfg.File, Hash: h.cfg.ApprovalHash()}
}
