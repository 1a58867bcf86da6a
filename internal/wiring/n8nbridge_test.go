package wiring_test

import (
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/n8nfake"
)

// bridged creates a workflow that is offered as a tool, and waits until the program sees the tool.
const bridged = `
await callMCPTool('n8n_create_workflow', {
  name: 'Welcome a guest', active: true, tags: ['harness-tool'], connections: { Webhook: { main: [[{ node: 'Greet', type: 'main', index: 0 }]] } },
  nodes: [
    { name: 'Webhook', type: 'n8n-nodes-base.webhook', parameters: { path: 'welcome', httpMethod: 'POST', responseMode: 'lastNode' },
      notes: 'Welcomes. {"type": "object", "properties": {"mail": {"type": "string"}}, "required": ["mail"]}' },
    { name: 'Greet', type: 'n8n-nodes-base.code', parameters: { jsCode: 'return $input.all()' } },
  ],
});
while (!(await list_mcp_tools()).includes('n8n-bridge__welcome_a_guest')) await utils.sleep(20);
`

// TestN8NBridge: a workflow that a program creates is a typed tool for the same program. Its input is checked, personal data reaches the workflow as values
// and comes back as tokens, and the policy judges the call.
func TestN8NBridge(t *testing.T) {
	t.Parallel()
	f, api := n8nHarness(t, nil)
	api.Ends(func(map[string]any) n8nfake.Outcome {
		return n8nfake.Outcome{Output: map[string]any{"sentTo": "ada@example.com"}}
	})
	var got struct {
		Wrong, Type string
		Sent        struct{ SentTo string }
		Same        bool
	}
	f.value(bridged+`
const details = await get_mcp_tool_details('n8n-bridge__welcome_a_guest');
const wrong = await tools.n8nBridge.welcomeAGuest({ mail: 7 }).catch((e) => e.message);
const sent = await tools.n8nBridge.welcomeAGuest({ mail: 'ada@example.com' });
return { wrong, sent, type: details.typescript ?? JSON.stringify(details.inputSchema), same: sent.sentTo.endsWith('.pii.invalid') };`, &got)
	if !strings.Contains(got.Wrong, "mail") || !strings.Contains(got.Type, "mail") || !got.Same {
		t.Errorf("got %+v", got)
	}
	if api.Started() != 1 {
		t.Errorf("%d executions", api.Started())
	}

	g, api := n8nHarness(t, map[string]string{"policy.preset": "guarded"})
	out := g.waits(bridged + "return await callMCPTool('n8n-bridge__welcome_a_guest', { mail: 'ada@example.com' })")
	if calls := out.Approval.Calls; len(calls) != 1 || calls[0].Tool != "n8n-bridge__welcome_a_guest" || strings.Contains(fmt.Sprint(calls[0]), "ada@example.com") || api.Started() != 0 {
		t.Errorf("asked about %+v, %d executions", calls, api.Started())
	}
}
