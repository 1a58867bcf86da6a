import { validateNodeConfig } from './servers/n8n-nodes';
import { validateWorkflow } from './servers/n8n-workflows';
const parameters = { resource: 'message', operation: 'post', select: 'channel', text: '=Payment of {{ $json.body.customer }} failed',
  channelId: { __rl: true, mode: 'name', value: '#payments' } };
const config = await validateNodeConfig('n8n-nodes-base.slack', parameters);
const check = await validateWorkflow({
  name: 'Failed payments', connections: { Webhook: { main: [[{ node: 'Slack', type: 'main', index: 0 }]] } },
  nodes: [
    { name: 'Webhook', type: 'n8n-nodes-base.webhook', parameters: { path: 'payments', httpMethod: 'POST', responseMode: 'lastNode' } },
    { name: 'Slack', type: 'n8n-nodes-base.slack', parameters, credentials: { slackApi: { name: 'Slack' } } },
  ],
});
return { config: config.errors, valid: check.valid, errors: check.errors };
