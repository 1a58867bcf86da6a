import { validateWorkflow } from './servers/n8n-mcp';
const workflow = {
  name: 'Failed payments', connections: { Webhook: { main: [[{ node: 'Slak', type: 'main', index: 0 }]] } },
  nodes: [
    { name: 'Webhook', type: 'n8n-nodes-base.webhook', typeVersion: 2, position: [0, 0], parameters: { path: 'payments', httpMethod: 'POST', responseMode: 'lastNode' } },
    { name: 'Slack', type: 'n8n-nodes-base.slack', typeVersion: 2.3, position: [200, 0], credentials: { slackApi: { name: 'Slack' } },
      parameters: { resource: 'message', operation: 'post', select: 'channel', channelId: { __rl: true, mode: 'name', value: '#payments' }, text: '={{ $json.body.customer' } },
  ],
};
const before = await validateWorkflow({ workflow });
workflow.connections.Webhook.main[0][0].node = 'Slack';
workflow.nodes[1].parameters.text = '={{ $json.body.customer }}';
const after = await validateWorkflow({ workflow });
if (before.valid || !after.valid) throw new Error('it does not see what was mended: ' + JSON.stringify([before.errors, after.errors]));
return { before: before.errors, after: after.errors };
