import { validateNode, validateWorkflow } from './servers/n8n-mcp';
const parameters = { resource: 'message', operation: 'post', select: 'channel', text: '=Payment of {{ $json.body.customer }} failed',
  channelId: { __rl: true, mode: 'name', value: '#payments' } };
const config = await validateNode({ nodeType: 'nodes-base.slack', config: parameters });
const check = await validateWorkflow({ workflow: {
  name: 'Failed payments', connections: { Webhook: { main: [[{ node: 'Slack', type: 'main', index: 0 }]] } },
  nodes: [ // it wants versions and positions
    { name: 'Webhook', type: 'n8n-nodes-base.webhook', typeVersion: 2, position: [0, 0], parameters: { path: 'payments', httpMethod: 'POST', responseMode: 'lastNode' } },
    { name: 'Slack', type: 'n8n-nodes-base.slack', typeVersion: 2.3, position: [200, 0], parameters, credentials: { slackApi: { name: 'Slack' } } },
  ],
} });
if (!config.valid || !check.valid) throw new Error('it refuses the workflow: ' + JSON.stringify([config.errors, check.errors]));
return { config: config.errors, valid: check.valid, errors: check.errors };
