import { createWorkflow, executeWorkflow, deleteWorkflow } from './servers/n8n-workflows';
const made = await createWorkflow({
  name: 'Bench of the harness', active: true, connections: { Webhook: { main: [[{ node: 'Double', type: 'main', index: 0 }]] } },
  nodes: [
    { name: 'Webhook', type: 'n8n-nodes-base.webhook', parameters: { path: 'harness-bench-' + crypto.randomUUID(), httpMethod: 'POST', responseMode: 'lastNode' } },
    { name: 'Double', type: 'n8n-nodes-base.code', parameters: { jsCode: 'return [{ json: { n: 2 * $json.body.n } }];' } },
  ],
});
try {
  return await executeWorkflow(made.id, { n: 21 });
} finally {
  await deleteWorkflow(made.id);
}
