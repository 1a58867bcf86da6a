package gate

import (
	"context"
	"encoding/json"

	"mcp-code-exec-harness/internal/answers"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/policy"
)

// find returns the kept answer of an earlier call. known reports that there is one; otherwise a is what keep needs, or nil if the answer of this call may
// not be kept. If kept answers cannot be read, the call is made.
func (t *toolCall) find(ctx context.Context, tool *catalog.Tool, verdict policy.Verdict, args json.RawMessage) (a *answers.Answer, known bool) {
	cache := t.run.gate.opt.Answers
	if cache == nil || verdict.Keep() == 0 || t.method != nil || !tool.Annotations.IsReadOnly() || t.run.gate.opt.Servers.Stateful(tool.Server) {
		return nil, false
	}
	found, err := cache.Find(ctx, t.run.scope.User, answers.Tool{Server: tool.Server, Name: tool.Name, Definition: tool.Digest()}, args, verdict.Keep())
	if err != nil {
		return nil, false
	}
	return &found, found.Result != nil
}

// keep keeps the result of a call. If it cannot be kept, later calls are made.
func (t *toolCall) keep(ctx context.Context, a *answers.Answer, result *mcpclient.Result) {
	_ = t.run.gate.opt.Answers.Keep(context.WithoutCancel(ctx), *a, result.Raw)
}

// changes makes sure that no answer is found that was kept before the end of a call that may change something. The caller calls done when the call has
// ended. A call whose change could not be announced is not made.
func (t *toolCall) changes(ctx context.Context, tool *catalog.Tool) (done func(), failed *frame.Error) {
	cache := t.run.gate.opt.Answers
	if cache == nil {
		return func() {}, nil
	}
	if err := cache.Changed(ctx, tool.Server); err != nil {
		return nil, t.notCalled(t.name, err)
	}
	return func() { _ = cache.Changed(context.WithoutCancel(ctx), tool.Server) }, nil
}
