package gate

import (
	"encoding/json"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/policy"
)

// judge is step 4.
func (t *toolCall) judge(tool *catalog.Tool, args json.RawMessage) policy.Verdict {
	if t.run.gate.opt.Policy == nil {
		return policy.Verdict{Action: policy.Allow}
	}
	a := tool.Annotations
	return t.run.gate.opt.Policy.Decide(policy.Call{
		Server: tool.Server, Tool: tool.FullName(), ReadOnly: a.IsReadOnly(), Destructive: !a.IsReadOnly() && claim(a.Destructive),
		Idempotent: a.IsIdempotent(), OpenWorld: claim(a.OpenWorld), User: t.run.scope.User, Args: args,
	})
}

// forbidden answers a call that policy denies. If a dead process may have sent it, its outcome is as unknown as before.
func (t *toolCall) forbidden(name string, v policy.Verdict) *frame.Error {
	if t.intent != nil {
		return t.stopped()
	}
	return &frame.Error{Kind: frame.KindDenied, Name: "DeniedError", Tool: name, Message: name + " was not called: " + v.Reason}
}
