package telemetry

import (
	"context"
	"slices"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
)

// Decided writes an audit event about a call that policy did not allow.
func (a *Auditor) Decided(ctx context.Context, c policy.Call, v policy.Verdict) {
	details := map[string]any{"tool": c.Tool, "action": string(v.Action), "rule": v.Rule}
	for name, text := range map[string]string{"preset": v.Preset, "token": v.Token, "origin": v.Origin} {
		if text != "" {
			details[name] = text
		}
	}
	a.Audit(ctx, Event{Type: PolicyDecision, Severity: Medium, Details: details})
}

// Restored writes an audit event about a call in whose arguments tokens were replaced by values.
func (a *Auditor) Restored(ctx context.Context, tool string, tokens []pii.Token) {
	types := make([]string, len(tokens))
	for i, token := range tokens {
		types[i] = token.Type
	}
	slices.Sort(types)
	a.Audit(ctx, Event{
		Type: PIIAccess, Severity: Low,
		Details: map[string]any{"tool": tool, "tokenCount": len(tokens), "tokenTypes": slices.Compact(types)},
	})
}
