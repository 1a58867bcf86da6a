package gate

import (
	"context"
	"encoding/json"
	"slices"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
)

// judge returns the verdict of policy on a call: step 4.
func (r *Run) judge(ctx context.Context, tool *catalog.Tool, args json.RawMessage, tokens []pii.Token) policy.Verdict {
	c := r.policyCall(tool, args)
	c.Origin = r.originOf(ctx)
	for _, token := range tokens {
		c.Tokens = append(c.Tokens, policy.Token{Text: token.Text, Type: token.Type, Origins: token.Origins})
	}
	v := r.decide(c)
	if hook := r.gate.opt.Decided; hook != nil && v.Action != policy.Allow {
		hook(ctx, c, v)
	}
	return v
}

// within returns the error for a call whose rule has a limit that is reached, and nil for other calls. If sent is set, the call is about to be
// sent and counts.
func (t *toolCall) within(ctx context.Context, tool *catalog.Tool, args json.RawMessage, v policy.Verdict, sent bool) *frame.Error {
	r, name := t.run, tool.FullName()
	now := r.gate.opt.Now()
	count, ok := v.Count(r.scope.Run, r.scope.Task, now)
	if !ok {
		return nil
	}
	counts, err := r.gate.opt.Counts()
	if err == nil && sent {
		ok, err = counts.Count(ctx, r.scope.User, count.Key, count.Limit, now, count.Expires)
	} else if err == nil {
		ok, err = counts.Reached(ctx, r.scope.User, count.Key, count.Limit)
		ok = !ok
	}
	switch {
	case err != nil:
		return t.notCalled(name, err)
	case ok:
		return nil
	}
	exceeded := v.Exceeded(name)
	if hook := r.gate.opt.Decided; hook != nil {
		hook(ctx, r.policyCall(tool, args), exceeded)
	}
	return t.forbidden(name, exceeded)
}

func (r *Run) decide(c policy.Call) policy.Verdict {
	if r.gate.opt.Policy == nil {
		return policy.Verdict{Action: policy.Allow}
	}
	return r.gate.opt.Policy.Decide(c)
}

func (r *Run) policyCall(tool *catalog.Tool, args json.RawMessage) policy.Call {
	a := claims(tool)
	return policy.Call{
		Server: tool.Server, Tool: tool.FullName(), ReadOnly: a.IsReadOnly(), Destructive: a.IsDestructive(),
		Idempotent: a.IsIdempotent(), OpenWorld: a.IsOpenWorld(), User: r.scope.User, Roles: r.scope.Roles, Sandbox: r.scope.Tier, Args: args,
		Destinations: destinations(tool),
	}
}

// claims returns the annotations by which policy decides. The call of a skill changes nothing and sends nothing: the skill's own calls are decided each for
// itself.
func claims(tool *catalog.Tool) catalog.Annotations {
	if tool.Content != "" {
		return catalog.Annotations{ReadOnly: new(true), OpenWorld: new(false)}
	}
	return tool.Annotations
}

func destinations(tool *catalog.Tool) []destination.Destination {
	if tool.Content != "" {
		return nil
	}
	return tool.Destinations()
}

// differ reports whether policy may decide differently on a tool with another definition.
func differ(tool, other *catalog.Tool) bool {
	a, b := tool.Annotations, other.Annotations
	same := func(a, b destination.Destination) bool { return a.Path == b.Path }
	return !slices.EqualFunc(tool.Destinations(), other.Destinations(), same) ||
		a.IsReadOnly() != b.IsReadOnly() || a.IsDestructive() != b.IsDestructive() ||
		a.IsIdempotent() != b.IsIdempotent() || a.IsOpenWorld() != b.IsOpenWorld()
}

// permitted returns the error for an unknown name, without the names of tools that policy denies to the caller.
func (r *Run) permitted(unknown *catalog.UnknownError) error {
	shown := *unknown
	shown.Closest = slices.DeleteFunc(slices.Clone(unknown.Closest), func(name string) bool {
		tool, err := r.gate.opt.Catalog.Resolve(name)
		return err == nil && r.decide(r.policyCall(tool, json.RawMessage("{}"))).Action == policy.Deny
	})
	return &shown
}

// forbidden returns the error for a call that policy denies. If a dead process may have sent the call, its outcome stays unknown.
func (t *toolCall) forbidden(name string, v policy.Verdict) *frame.Error {
	if t.intent != nil {
		return t.stopped()
	}
	return &frame.Error{Kind: frame.KindDenied, Name: "DeniedError", Tool: name, Message: name + " was not called: " + v.Reason}
}
