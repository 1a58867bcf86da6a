package gate

import (
	"context"
	"encoding/json"
	"fmt"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
)

// refusal returns the error for a call that a person has denied, or that was not approved in time, whatever policy decides now. It returns nil for
// other calls.
func (t *toolCall) refusal(ctx context.Context, name string) *frame.Error {
	if !t.run.left[t.call.N] {
		return nil
	}
	last, known, err := t.run.scope.Decided.Of(ctx, t.run.scope.Run, t.call.N)
	switch {
	case err != nil:
		return t.notCalled(name, err)
	case known && last.Request.Status != approval.Approved:
		return denied(name, last.Request)
	}
	return nil
}

// approve is step 6, for a call about which policy asks a person. shown are the arguments with tokens, sent the arguments for the server. approve
// returns the id of the request by which the call is approved, or the error that answers the call.
func (t *toolCall) approve(
	ctx context.Context, tool *catalog.Tool, v policy.Verdict, shown, sent json.RawMessage,
) (request string, failed *frame.Error) {
	name, decided, id := tool.FullName(), t.run.scope.Decided, t.run.scope.Run
	key, err := t.run.gate.opt.ApprovalKey()
	if err != nil {
		return "", t.notCalled(name, err)
	}
	is := approval.Bind(key, id, t.call.N, Definition(tool), journal.Canonical(sent))
	last, known, err := decided.Of(ctx, id, t.call.N)
	if err != nil {
		return "", t.notCalled(name, err)
	}
	a := claims(tool)
	ask := approval.Call{
		Tool: name, Args: journal.Canonical(shown), Reason: v.Reason, Binding: is,
		ReadOnly: a.IsReadOnly(), Destructive: a.IsDestructive(), Idempotent: a.IsIdempotent(), OpenWorld: a.IsOpenWorld(),
	}
	for _, value := range v.Values {
		ask.Values = append(ask.Values, approval.Value{Path: value.Path, From: value.String()})
	}
	if known && last.Call.Tool == name && last.Call.Binding == is && t.seen(last.Shown, ask) {
		return last.Request.ID, nil
	}
	if request, err = decided.Remembered(ctx, id, name, is.Definition); err != nil || request != "" {
		if err != nil {
			return "", t.notCalled(name, err)
		}
		return request, nil
	}
	if t.intent != nil { // the call may have been made without this approval
		return "", t.stopped()
	}
	description, err := t.run.scope.Privacy.Hide(ctx, pii.Origin(name), tool.Description)
	if err != nil {
		return "", t.notCalled(name, err)
	}
	ask.Description = clip.Counted(description, maxShown)
	if known {
		ask.Changed = difference(last.Call, ask)
	}
	return "", t.flight.Ask(ask)
}

// seen reports whether the person who signed an approval was shown the call c. hash is the hash of what the person was shown; it is "" for an
// approval without a signature, which counts as seen. If the arguments are large, the person was shown the arguments in the journal.
func (t *toolCall) seen(hash string, c approval.Call) bool {
	if hash == "" || hash == approval.Shown(c) {
		return true
	}
	c.Args = t.call.Args
	return hash == approval.Shown(c)
}

// maxShown is the maximum number of bytes of a tool's description that people are shown.
const maxShown = 2 << 10

// Definition returns the hash of a tool's definition, as the tool's server wrote it.
func Definition(tool *catalog.Tool) string {
	annotations, _ := json.Marshal(tool.Annotations) // strings and booleans always encode
	return approval.Definition{
		Tool: tool.FullName(), Title: tool.Title, Description: tool.Description,
		InputSchema: tool.InputSchema, OutputSchema: tool.OutputSchema, Annotations: annotations, Content: tool.Content,
	}.Hash()
}

// difference returns the reason why an approval is not valid for a call.
func difference(was, is approval.Call) string {
	switch {
	case was.Tool != is.Tool:
		return fmt.Sprintf("the call was approved for the tool %s", was.Tool)
	case was.Binding == is.Binding:
		return "what a person was shown of the call was not the call"
	case was.Binding.Definition == is.Binding.Definition:
		return "the arguments that are to be sent differ from the approved ones: a token stands for another value, or the key of approvals is another one"
	case was.Description != is.Description:
		return fmt.Sprintf("the tool's definition differs from the approved one; its description was: %s", was.Description)
	case was.ReadOnly != is.ReadOnly || was.Destructive != is.Destructive || was.Idempotent != is.Idempotent || was.OpenWorld != is.OpenWorld:
		return "the tool's annotations differ from the approved ones"
	}
	return "the tool's title or schemas differ from the approved ones"
}

// denied returns the error for a call that a person has denied, or that was not approved in time.
func denied(tool string, r approval.Request) *frame.Error {
	message := fmt.Sprintf("%s was not called: it was denied", tool)
	switch {
	case r.Status == approval.Expired:
		message = fmt.Sprintf("%s was not called: nobody approved it within %s", tool, r.Expires.Sub(r.Created))
	case r.Reason != "":
		message += ": " + r.Reason
	}
	data, _ := json.Marshal(map[string]string{"approvalId": r.ID, "decision": string(r.Status), "reason": r.Reason}) // a map of strings always encodes
	return &frame.Error{Kind: frame.KindDenied, Name: "DeniedError", Tool: tool, Message: message, Data: data}
}
