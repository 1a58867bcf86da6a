package wiring

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/gate"
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
	h.out.Policy = &confirmedPolicy{Policy: h.out.Policy, h: h}
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

// policySubject names the policy of a configuration file among what a person has confirmed.
func policySubject(cfg *config.Config) string { return "policy " + cfg.File }

// policyHash identifies everything in a configuration that says which calls a person is asked about. Any change of it has to be confirmed: whether
// one policy is weaker than another cannot be told in general.
func policyHash(cfg *config.Config) string {
	text, err := json.Marshal(struct {
		Preset     string
		Rules      []policy.Rule
		Quarantine string
		Confirm    string
		Expire     time.Duration
		Forms      bool
		Privacy    bool
		Types      []string
		Custom     map[string]string
	}{
		cfg.Policy.Preset, cfg.Policy.Rules, cfg.QuarantineMode(), cfg.Approvals.Confirm, cfg.Approvals.ExpireAfter, cfg.MCP.Forms,
		cfg.PII.Enabled, cfg.PII.Types, cfg.PII.Custom,
	})
	if err != nil {
		panic("wiring: " + err.Error()) // texts, numbers and truths
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ConfirmPolicy keeps that a person has confirmed the policy in effect.
func (h *Harness) ConfirmPolicy(ctx context.Context, sign approval.Sign) error {
	return h.presence.Confirm(ctx, sign, policySubject(h.cfg), policyHash(h.cfg))
}

// PolicyConfirmed reports whether a person has confirmed the policy in effect, where that has to be.
func (h *Harness) PolicyConfirmed(ctx context.Context) (bool, error) {
	return h.presence.Confirmed(ctx, policySubject(h.cfg), policyHash(h.cfg))
}

// UnconfirmedPolicy is the reason why a call that the policy allows asks: the policy is not confirmed.
const UnconfirmedPolicy = "no person has confirmed the policy as it is now, so every call asks"

// lookForPolicy is how soon a process notices that its policy was confirmed.
const lookForPolicy = 2 * time.Second

// confirmedPolicy puts every call that the policy allows to a person while the policy is not confirmed.
type confirmedPolicy struct {
	gate.Policy
	h *Harness

	mu        sync.Mutex
	looked    time.Time
	confirmed bool
	told      bool
}

// Decide implements gate.Policy.
func (p *confirmedPolicy) Decide(c policy.Call) policy.Verdict {
	v := p.Policy.Decide(c)
	if v.Action == policy.Allow && !p.isConfirmed() {
		v.Action, v.Reason = policy.Ask, UnconfirmedPolicy
	}
	return v
}

func (p *confirmedPolicy) isConfirmed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.looked.IsZero() || now.Sub(p.looked) >= lookForPolicy {
		confirmed, err := p.h.PolicyConfirmed(context.Background())
		p.confirmed, p.looked = confirmed && err == nil, now
		if !p.confirmed && !p.told {
			p.told = true
			p.h.out.Logger.Warn("every call asks a person, because the policy has changed since one confirmed it; harness doctor says what to do",
				"file", p.h.cfg.File, "error", err)
		}
	}
	return p.confirmed
}
